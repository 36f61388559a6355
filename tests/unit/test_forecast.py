"""The forecast of a job against what the job then does."""

import json

import msgspec
import pytest

from colonnade.cli import main
from colonnade.cli.dry_run import Line, look_ahead, show_dry_run
from colonnade.cli.options import read_job
from colonnade.errors import RequestError
from colonnade.job.party_file import PartyFile, Tls, own_job
from colonnade.job.policy import Policy
from colonnade.net.link import Emulation
from colonnade.run import forecast as module
from colonnade.run.forecast import assumed_objective, forecast
from colonnade.run.setup import participant
from colonnade.run.simulate import simulate
from colonnade.tls.authority import create_authority, issue

WIDTHS = ["parties.clinic.width=16", "parties.lab.width=16", "parties.insurer.width=16"]
LATER = ("Evaluate", "Finish")
"""These carry the number of the best round, which is known only later."""


def digits(*sets, method=None):
    return read_job("digits", ["train.rounds=30", "train.batch_size=100", *sets], method)


def seen_by(job, name):
    """The forecast of a party that knows its own part, and of the others what is public."""
    return forecast(participant(own_job(job, name, None), name, Policy(shares_labels=True)))


LOCK_STEP = {
    "fedsgd": (),
    "fedbcd:updates=3": ("train.evaluate_every=7 rounds", "train.drop_last=true"),
    "fedbcd:order=sequential": ("train.full_loss=true", "train.checkpoint_every=10"),
    "fedbcd": ("train.evaluate_every=never", "train.class_weights=balanced"),
    "cvfl": ("train.labels=shared", "train.dtype=float64"),
    "cvfl:compressor=half": ("train.labels=shared", "top.kind=agg", "top.hidden=[]",
                             "parties.*.width=10", "parties.*.model.embedding=10"),
}  # fmt: skip
ENCODINGS = ["topk:0.25", "lattice:3", "scalar:4:minmax", "ef+topk:0.1", "diminishing+scalar:2"]


def check(job):
    run = simulate(job)
    for name, party in run.parties.items():
        found = seen_by(job, name)
        assert found.entries == party.ledger
        assert (found.rounds, found.about, found.sampled) == (30, False, None)


@pytest.mark.parametrize("method", LOCK_STEP)
def test_it_is_the_ledger_of_the_run(method):
    check(digits(*WIDTHS, *LOCK_STEP[method], method=method))


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_compressed_tensors_are_as_long_as_forecast(encoding):
    sets = (f"method.compress.embedding={encoding}", "parties.lab.compress.gradient=half")
    check(digits(*WIDTHS, *sets))


def test_a_passive_party_needs_to_know_nothing_of_the_others():
    job = digits("parties.insurer.model.embedding=5", "parties.clinic.model.embedding=3")
    run = simulate(job)
    for name in job.passives:
        assert seen_by(job, name).entries == run.parties[name].ledger


def test_what_is_known_only_later_is_forecast_as_long_as_it_can_be():
    job = digits("train.rounds=400", "train.evaluate_every=10 rounds", "parties.*.optimizer.lr=1")
    party = simulate(job).parties["lab"]
    found = seen_by(job, "lab").entries
    for entry, expected in zip(party.ledger, found, strict=True):
        margin = 2 * entry["messages"] if entry["kind"] in LATER else 0
        assert expected["messages"] == entry["messages"]
        assert entry["bytes"] <= expected["bytes"] <= entry["bytes"] + margin


@pytest.mark.parametrize("method", ["pasta", "celu", "vafl", "flexvfl"])
def test_a_method_that_goes_by_the_clock_is_forecast_about(method):
    job = digits("train.labels=shared", method=method)
    party = simulate(job).parties["lab"]
    found = seen_by(job, "lab")
    assert found.about
    actual, expected = (
        {(e["direction"], e["kind"]): e["messages"] for e in entries}
        for entries in (party.ledger, found.entries)
    )
    assert actual.keys() == expected.keys()
    for key, messages in actual.items():
        assert expected[key] == pytest.approx(messages, abs=2)


@pytest.mark.parametrize(
    "sets",
    [
        ("train.epochs=40",),
        ("train.epochs=40", "train.full_loss=true", "network.bandwidth=1mbit"),
        ("train.rounds=900", "train.evaluate_every=100 rounds", "train.test=0.5"),
    ],
)
def test_a_long_job_is_worked_out_from_its_first_rounds(monkeypatch, sets):
    job = digits(*sets)
    whole = seen_by(job, "lab")
    monkeypatch.setattr(module, "WHOLE_NS", 50_000_000)
    monkeypatch.setattr(module, "EVALUATED_MAX", 100)
    found = seen_by(job, "lab")
    assert whole.sampled is None and found.about
    assert 0 < found.sampled < found.rounds / 2
    assert found.time_s == pytest.approx(whole.time_s, rel=0.02)
    for entry, expected in zip(whole.entries, found.entries, strict=True):
        several = entry["kind"] == "EvaluationEmbedding"
        assert several or entry["messages"] == expected["messages"]
        assert expected["bytes"] == pytest.approx(
            entry["bytes"], rel=0.02, abs=12 * entry["messages"]
        )


def test_the_time_is_that_of_the_link():
    """A greeting there and back, every round there and back, and the last word."""
    sets = ("compute.forward=0ms", "compute.backward=0ms", "compute.aggregate=0ms")
    job = digits("network.bandwidth=100gbit", "train.evaluate_every=never", *sets)
    assert seen_by(job, "lab").time_s == pytest.approx(31.5 * 0.2, rel=1e-3)
    me = participant(job, "lab")
    # The insurer's link is as the job states it.
    assert forecast(me, Emulation(latency_ns=10**9)).time_s == pytest.approx(31.5 * 2, rel=1e-3)
    assert forecast(me, Emulation(latency_ns=1000)).time_s == pytest.approx(31.5 * 0.2, rel=1e-3)
    slow = forecast(me, Emulation(rate_bits=8_000))
    size = sum(entry["bytes"] for entry in slow.entries)
    assert slow.time_s == pytest.approx(size / 1000, rel=0.05)


def test_evaluation_takes_its_time_on_the_link():
    without = seen_by(digits("network.bandwidth=1mbit", "train.evaluate_every=never"), "lab")
    job = digits("network.bandwidth=1mbit", "train.evaluate_every=1 round")
    found = seen_by(job, "lab")
    (size,) = (e["bytes"] for e in found.entries if e["kind"] == "EvaluationEmbedding")
    assert found.time_s - without.time_s == pytest.approx(size * 8 / 1e6, rel=0.1)


def test_without_a_link_there_is_no_time():
    job = msgspec.structs.replace(digits(), network=type(digits().network)())
    assert seen_by(job, "lab").time_s is None
    assert look_ahead(job, "lab", PartyFile(), Line())["link"] is None


def test_a_target_may_end_the_job_earlier():
    report = look_ahead(digits("train.stop=target"), "lab", PartyFile(), Line())
    assert report["rounds"] == 30
    assert any("may end earlier" in note for note in report["notes"])


@pytest.mark.parametrize(
    "metric, task",
    [("rmse", "regression"), ("r2", "regression"), ("mae", "regression"), ("pr_auc", "binary"),
     ("auc", "binary"), ("log_loss", "multiclass"), ("top5", "multiclass")],
)  # fmt: skip
def test_a_passive_party_concludes_the_task_from_the_metric(metric, task):
    job = read_job("digits", [f"train.metric={metric}"])
    assert assumed_objective(participant(job, "lab")).task == task


def test_what_is_assumed_is_said():
    job = digits("train.labels=shared", method="cvfl")
    notes = look_ahead(own_job(job, "lab", None), "lab", PartyFile(), Line())["notes"]
    assert any("embedding of clinic or insurer" in note for note in notes)
    assert any("10 classes are assumed" in note for note in notes)
    known = digits(*WIDTHS, "train.labels=shared", method="cvfl")
    file = PartyFile(policy=Policy(shares_labels=True))
    notes = look_ahead(own_job(known, "clinic", file), "clinic", file, Line())["notes"]
    assert not any("assumed" in note for note in notes)


def test_the_command_shows_it(capsys):
    words = ["join", "digits", "--me", "lab", "--dry-run", "--set", "train.rounds=30"]
    assert main(words) == 0
    shown = capsys.readouterr().out
    for text in ("dials clinic", "to clinic", "Embedding", "the job's", "nothing was sent",
                 "1,294 for training, 144 for validation", "at most"):  # fmt: skip
        assert text in shown
    assert main([*words, "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["rows"] == 1294 and report["certificate"] is None
    sent = [row for row in report["traffic"] if row["direction"] == "sent"]
    assert [row["kind"] for row in sent] == ["Embedding", "EvaluationEmbedding", "Finish", "Hello"]
    assert sent[0]["round_messages"] == 1 and sent[1]["round_messages"] is None
    assert report["totals"]["sent"]["all"] == sum(row["bytes"] for row in sent)
    assert report["most"] == {row["kind"]: [row["messages"], row["bytes"]] for row in sent[:2]}


def test_what_the_policy_refuses_is_shown_and_refused(capsys):
    file = PartyFile(policy=Policy(batch_min=100))
    with pytest.raises(RequestError, match="last batch of an epoch has 94 rows"):
        show_dry_run(digits(), "lab", file, as_json=False)
    assert "EvaluationEmbedding" in capsys.readouterr().out
    # Kinds are known without the data, and come first.
    file = PartyFile(policy=Policy(kinds=frozenset({"Embedding"}), batch_min=100))
    with pytest.raises(RequestError, match=r"policy\.kinds does not list EvaluationEmbedding"):
        show_dry_run(digits(), "lab", file, as_json=True)
    report = json.loads(capsys.readouterr().out)
    assert report["policy"]["kinds"] == {
        "says": ["Embedding"],
        "job": ["Embedding", "EvaluationEmbedding"],
    }
    assert report["policy"]["width_max"]["says"] is None
    assert "does not list" in report["refusal"]


def test_the_certificate_is_looked_at(tmp_path, capsys):
    create_authority(tmp_path / "alliance")
    issue(tmp_path / "alliance", ["lab", "insurer"])
    line = Line(
        connect="clinic.example:7443", keys=tmp_path / "alliance" / "lab", emulate="latency=1s"
    )
    show_dry_run(digits(), "lab", PartyFile(), False, line)
    shown = capsys.readouterr().out
    for text in (
        "at clinic.example:7443",
        "lab, until ",
        "364 days left",
        "latency=1s (--emulate)",
    ):
        assert text in shown
    folder = tmp_path / "alliance" / "insurer"
    files = {"certificate": "cert.pem", "key": "key.pem", "authority": "ca.pem"}
    tls = Tls(**{field: str(folder / name) for field, name in files.items()})
    with pytest.raises(RequestError, match="was issued for insurer and not for lab"):
        show_dry_run(digits(), "lab", PartyFile(tls=tls), as_json=False)
    assert "nothing was sent" in capsys.readouterr().out


def test_a_key_for_masks_is_counted_with_the_certificate_that_it_carries(tmp_path):
    create_authority(tmp_path / "alliance")
    issue(tmp_path / "alliance", ["lab", "insurer"])
    job = digits("top.kind=agg", "top.hidden=[16]", "method.protect.sum=pairwise:32")

    def of_keys(**line):
        report = look_ahead(job, "lab", PartyFile(), Line(**line))
        (size,) = (row["bytes"] for row in report["traffic"]
                   if (row["kind"], row["direction"]) == ("MaskKey", "sent"))  # fmt: skip
        assert any("for a certificate that is not known yet" in note for note in report["notes"])
        return size

    shown = len((tmp_path / "alliance" / "lab" / "cert.pem").read_bytes())
    assert shown < of_keys(keys=tmp_path / "alliance" / "lab") < shown + 250
    assert of_keys() > 4096
    # That a certificate is somebody else's is said as ever.
    assert of_keys(keys=tmp_path / "alliance" / "insurer") > 4096
    notes = look_ahead(digits(), "lab", PartyFile(), Line())["notes"]
    assert not any("masks" in note for note in notes)


def test_the_most_that_can_leave_is_worked_out_without_counting_to_it():
    from colonnade.run.ceiling import ceiling

    most = ceiling(
        participant(
            digits(f"train.rounds={10**12}", "train.labels=shared", method="sync_min"), "lab"
        )
    )
    assert most["Embedding"][0] == most["Status"][0] == 10**12
    assert most["EvaluationEmbedding"][0] > 10**10
