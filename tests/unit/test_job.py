"""Job files: TOML ⇄ records ⇄ Python, `--set`, and sentences for what is wrong."""

from __future__ import annotations

import tomllib

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from colonnade import Compute, Costs, Job, JobError, Link, Network, Party, Top, Train
from colonnade.job.files import (
    apply_sets,
    builtin_names,
    builtin_text,
    dumps,
    from_tables,
    load,
    loads,
    to_tables,
)
from colonnade.job.ids import Ids
from colonnade.job.records import Limits, Recovery, Timeouts
from colonnade.units import duration_ns, rate_bits, show_bytes, show_seconds


@pytest.mark.parametrize("name", builtin_names())
def test_builtin_jobs_survive_the_round_trip(name):
    job = load(name)
    assert loads(dumps(job)) == job
    assert from_tables(to_tables(job)) == job
    assert builtin_text(name).startswith("# ")


durations = st.integers(0, 10**6).map(lambda n: f"{n}ms")
steps = st.one_of(
    durations,
    st.lists(durations, min_size=1, max_size=3).map(
        lambda values: [(f"{i}s", value) for i, value in enumerate(values)]
    ),
)
links = st.builds(Link, latency=steps, bandwidth=st.sampled_from(["1mbit", "2.5gbit"]))
costs = st.builds(Costs, forward=steps, backward=st.just("measured"), top=durations)
parties = st.builds(
    Party,
    columns=st.lists(st.text(max_size=8), max_size=3),
    model=st.fixed_dictionaries({"name": st.just("mlp"), "embedding": st.integers(1, 64)}),
    seed=st.none() | st.integers(0, 99),
    width=st.none() | st.integers(1, 99),
)


@st.composite
def jobs(draw):
    made = {f"p{i}": draw(parties) for i in range(draw(st.integers(2, 4)))}
    made["p0"] = msgspec.structs.replace(made["p0"], role="active")
    return Job(
        name=draw(st.from_regex(r"[^\W_][\w .+-]{0,9}", fullmatch=True)),
        seed=draw(st.integers(0, 2**31)),
        parties=made,
        train=draw(
            st.builds(
                Train,
                rounds=st.none() | st.integers(1, 9),
                target=st.none() | st.floats(0, 1),
                class_weights=st.just("balanced") | st.lists(st.floats(0, 9), max_size=3),
            )
        ),
        network=Network(link=draw(links), overrides={"p1": draw(links)}),
        compute=Compute(costs=draw(costs), overrides={"p0": draw(costs)}),
        top=draw(st.builds(Top, hidden=st.lists(st.integers(1, 9), max_size=2))),
        limits=draw(st.builds(Limits, queue_bytes=st.integers(1024, 2**40))),
        timeouts=draw(st.builds(Timeouts, silence=st.sampled_from(["20s", "1.5s", "299s"]))),
        recovery=draw(
            st.builds(
                Recovery,
                keep=st.integers(2, 9),
                on_stop=st.sampled_from(["wait", "stop"]),
                on_disk_fault=st.sampled_from(["go_on", "stop"]),
                restarts=st.integers(0, 9),
            )
        ),
    )


@given(jobs())
def test_any_job_survives_the_round_trip(job):
    assert loads(dumps(job)) == job


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("train.epoch=3", "did you mean 'epochs'"),
        ("trian.epochs=3", "did you mean 'train'"),
        ("train.batch_size=many", r"train\.batch_size: expected int"),
        ("train.batch_size=0", "must be 1 or more"),
        ("train.shuffle=always", r"train\.shuffle"),
        ("train.evaluate_every=often", "write '1 epoch'"),
        ("train.stop=target", None),
        ("train.test=1.5", "share from 0"),
        ("train.clip_norm=-1", "must be positive"),
        ("network.latency=-5ms", "negative duration"),
        ("network.latency=5 parsecs", "not a duration"),
        ("network.latency=[]", "empty list"),
        ("network.latency=[['1s', '5ms']]", "begin its list at '0s'"),
        ("network.latency=[['0s', '5ms'], ['0s', '6ms']]", "must grow"),
        ("network.bandwidth=0mbit", "carries nothing"),
        ("network.latncy=5ms", "did you mean 'latency'"),
        ("network.nobody.latency=5ms", "names no party"),
        ("network.clinic.latency=5ms", "belongs to the passive party"),
        ("network.latency=50", "write a quantity with its unit"),
        ("network.lab.latncy=5ms", "did you mean 'latency'"),
        ("compute.forwards=5ms", "did you mean 'forward'"),
        ("compute.forward=soon", "not a duration"),
        ("parties.lab.colums=[]", "did you mean 'columns'"),
        ("parties.lab.role=active", "exactly one active party, this one has 2"),
        ("parties.clinic.role=passive", "exactly one active party, this one has 0"),
        ("parties.lab.label=y", "lab is passive and cannot have a label"),
        ("parties.labb.view=left", "names no party of the job: did you mean 'lab'"),
        ("top.kind=sum", r"top\.kind"),
        ("top.module=a:b", r"set top\.kind = 'module'"),
        ("top.kind=dot", r"top\.hidden has no effect with top\.kind = 'dot'"),
        ("limits.message_bytes=1", "at least 1024"),
        ("limits.queue_bytes=1", "at least 1024"),
        ("parties.lab.width=0", r"parties\.lab\.width is 0: it must be 1 or more"),
        ("parties.clinic.width=-1", "must be 0 or more"),
        ("timeouts.join=0s", r"timeouts\.join is 0"),
        ("timeouts.join=soon", r"timeouts\.join: 'soon' is not a duration"),
        ("timeouts.stall=5", r"timeouts\.stall: .*write a quantity with its unit"),
        ("timeouts.silence=5min", "make absence the longer one"),
        ("timeouts.slience=5s", "did you mean 'silence'"),
        ("recovery.keep=1", "must be 2 or more"),
        ("recovery.restarts=-1", "must be 0 or more"),
        ("recovery.on_stop=sulk", r"recovery\.on_stop"),
        ("recovery.on_disk_fault=wait", r"recovery\.on_disk_fault"),
        ("seed", "write --set table.key=value"),
        ("name.x=1", "reaches nothing"),
    ],
)
def test_wrong_settings_get_a_sentence(setting, words):
    if words is None:
        assert load("digits", [setting]).train.stop == "target"
        return
    with pytest.raises(JobError, match=words) as error:
        load("digits", [setting])
    assert "\n" not in str(error.value)


def test_set_reaches_timeouts_recovery_and_limits():
    sets = ["timeouts.silence=5s", "recovery.on_stop=stop", "limits.queue_bytes=4096"]
    job = load("digits", [*sets, "parties.clinic.width=0"])
    assert (job.timeouts.ns("silence"), job.timeouts.ns("absence")) == (5 * 10**9, 300 * 10**9)
    assert (job.recovery.on_stop, job.limits.queue_bytes) == ("stop", 4096)
    assert job.parties["clinic"].width == 0
    assert loads(dumps(job)) == job


def test_stop_needs_a_target():
    with pytest.raises(JobError, match=r"there is no train\.target"):
        Train(stop="target")


@pytest.mark.parametrize(
    "setting",
    [
        {"patience": 3},
        {"target": 0.9, "stop": "target"},
        {"full_loss": True},
        {"extra_metrics": ["accuracy"]},
    ],
)
def test_what_is_about_evaluations_needs_some(setting):
    Train(**setting)
    with pytest.raises(JobError, match=r"has no effect .* 'never': leave it out, or evaluate"):
        Train(**setting, evaluate_every="never")


@pytest.mark.parametrize(
    "setting", [{"hidden": [64]}, {"hidden": [8, 8]}, {"dropout": 0.5}, {"bias": False}]
)
def test_the_layers_of_a_top_model_that_has_none_are_refused(setting):
    Top(**setting)
    (field,) = setting
    for kind in ("agg", "dot", "module"):
        if kind == "agg" and field == "hidden":
            assert Top(kind=kind, **setting).layers == setting["hidden"]
            continue
        with pytest.raises(
            JobError, match=rf"top\.{field} has no effect with top\.kind = '{kind}'"
        ):
            Top(kind=kind, **setting)
        assert Top(kind=kind).layers == Top(kind=kind, hidden=[]).layers == []
    assert (Top().layers, Top(hidden=[8]).layers, Top(hidden=[]).layers) == ([64], [8], [])
    assert Top(kind="agg", hidden=[8], dropout=0.5, bias=False).layers == [8]


def test_both_ends_are_refused_and_set_replaces_one_by_the_other():
    with pytest.raises(JobError, match="both epochs and rounds"):
        Train(epochs=1, rounds=1)
    job = load("digits", ["train.rounds=7"])
    assert (job.train.epochs, job.train.rounds) == (None, 7)


@pytest.mark.parametrize(
    ("text", "words"),
    [("name = ", "not valid TOML"), (None, "there is no job file"), (b"\xff", "cannot be read")],
)
def test_unreadable_files(tmp_path, text, words):
    path = tmp_path / "job.toml"
    if isinstance(text, bytes):
        path.write_bytes(text)
    elif text is not None:
        path.write_text(text)
    with pytest.raises(JobError, match=words):
        load(path)


def test_an_unknown_job_name_offers_the_nearest():
    with pytest.raises(JobError, match="did you mean 'digits'"):
        load("digit")


def test_set_reaches_every_party_with_a_star():
    job = load("digits", ["parties.*.optimizer.lr=0.5", "parties.lab.device=cuda:1"])
    assert {party.optimizer["lr"] for party in job.parties.values()} == {0.5}
    assert job.parties["lab"].device == "cuda:1"


def test_set_changes_a_part_of_what_the_file_leaves_out():
    text = "[parties.a]\nrole = 'active'\n[parties.b]\n"
    tables = tomllib.loads(text)
    apply_sets(tables, ["parties.*.optimizer.weight_decay=0.1", "parties.b.model.embedding=3"])
    job = from_tables(tables)
    assert job.parties["a"].optimizer == Party().optimizer | {"weight_decay": 0.1}
    assert job.parties["b"].model == {"name": "mlp", "embedding": 3}


def test_a_partys_name_is_plain():
    with pytest.raises(JobError, match="cannot be a party's name"):
        Job(parties={"a b": Party(role="active"), "c": Party()})


def test_an_override_keeps_what_it_does_not_name():
    job = load("digits", ["network.lab.latency=7ms"])
    assert job.network.of("lab").latency == "7ms"
    assert job.network.of("lab").bandwidth == job.network.of("insurer").bandwidth


def test_method_option_drops_the_options_of_the_files_method():
    job = load("digits", method="fedbcd", seed=9)
    assert (job.method, job.seed) == ({"name": "fedbcd"}, 9)


def test_paths_are_relative_to_the_job_file(tmp_path):
    path = tmp_path / "job.toml"
    path.write_text(
        "[parties.a]\nrole = 'active'\ntable = 'a.csv'\nlabel = 'y'\n[parties.b]\ntable = 'b.npy'\n"
    )
    job = load(path)
    assert job.parties["a"].table == str(tmp_path / "a.csv")
    assert job.parties["a"].label == "y"
    assert job.parties["b"].table == str(tmp_path / "b.npy")


@given(st.integers(0, 10**15))
def test_durations_are_exact(ns):
    assert duration_ns(f"{ns}ns") == ns
    assert duration_ns(f"{ns / 1000:.3f}us") == pytest.approx(ns, abs=1)


def test_units_read_and_show():
    assert duration_ns("1.5s") == 1_500_000_000
    assert duration_ns(" 2 MIN ") == 120 * 10**9
    assert rate_bits("1.5gbit") == 1_500_000_000
    assert show_seconds(90) == "90 s"
    assert show_seconds(1200) == "20 min"
    assert show_bytes(2_000_000_000) == "2 GB"


def test_every_field_of_a_job_survives_its_file():
    """A field that the writer of job files forgets is lost under --set, and in every run folder."""
    other = {
        "parties": {"a": Party(role="active"), "b": Party(width=3)},
        "name": "other",
        "seed": 3,
        "data": "digits",
        "method": {"name": "fedbcd", "updates": 3},
        "train": Train(epochs=3),
        "network": Network(link=Link(latency="3ms")),
        "compute": Compute(costs=Costs(forward="3ms")),
        "top": Top(hidden=[3]),
        "limits": Limits(queue_messages=33),
        "timeouts": Timeouts(join="33s"),
        "recovery": Recovery(keep=33),
        "ids": Ids(case="lower"),
        "alignment": "private",
    }
    job = Job(**other)
    assert set(other) == set(Job.__struct_fields__)
    assert loads(dumps(job)) == job
