"""What the parties of a job must agree on, and how a difference is told."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from colonnade import Job, Party, Train
from colonnade.job.files import builtin_names, dumps, load, loads
from colonnade.job.party_file import PartyFile, own_job, public_job
from colonnade.job.terms import differences, digest, identity, terms


def of(*sets, composition=None):
    return terms(load("digits", sets), composition or {})


@pytest.mark.parametrize(
    ("setting", "field"),
    [
        ("train.batch_size=7", "train.batch_size"),
        ("train.checkpoint_every=5", "train.checkpoint_every"),
        ("train.class_weights=[1.0, 2.0]", "train.class_weights"),
        ("top.hidden=[3]", "top.hidden"),
        ("seed=4", "seed"),
        ("parties.lab.width=16", "parties.lab.width"),
        ("parties.lab.step=proximal:0.1", "parties.lab.step"),
        ("parties.lab.compress.embedding=half", "parties.lab.compress.embedding"),
        ("timeouts.absence=1min", "timeouts.absence"),
        ("recovery.on_stop=stop", "recovery.on_stop"),
    ],
)
def test_what_is_agreed_on_is_in_the_terms(setting, field):
    plain, changed = of(), of(setting)
    assert digest(changed) != digest(plain)
    assert {key for key in plain.keys() | changed.keys() if plain.get(key) != changed.get(key)} == {
        field
    }
    (line,) = differences(plain, changed, "bank", "telco")
    assert line.startswith(f"{field} is ")


@pytest.mark.parametrize(
    "setting",
    [
        "parties.lab.optimizer.lr=9",
        "parties.lab.view=left",
        "parties.lab.columns=['a']",
        "parties.lab.table='a.csv'",
        "parties.lab.model.hidden=[9]",
        "parties.lab.seed=4",
        "parties.lab.device=cuda",
        "network.latency=1s",
        "compute.forward=1s",
        "name=other",
        "data=credit",
        "limits.queue_messages=7",
        "top.optimizer={name='sgd', lr=3}",
    ],
)
def test_what_is_a_partys_own_is_not_in_the_terms(setting):
    assert of(setting) == of()


@pytest.mark.parametrize(
    ("setting", "same"),
    [
        ("timeouts.absence=1min", True),
        ("recovery.on_stop=stop", True),
        ("limits.queue_messages=7", True),
        ("seed=4", False),
        ("train.checkpoint_every=5", False),
        ("parties.lab.width=16", False),
        ("top.hidden=[3]", False),
    ],
)
def test_a_run_stays_the_same_when_only_its_timeouts_change(setting, same):
    assert (identity(of(setting)) == identity(of())) is same
    assert identity(of(composition={"local": "once()"})) != identity(of())


def test_the_method_is_in_the_terms_as_it_is_composed():
    assert of(composition={"local": "repeat(updates=2)"})["method.local"] == '"repeat(updates=2)"'


def test_the_order_of_the_parties_matters():
    one = Job(parties={"a": Party(role="active"), "b": Party(), "c": Party()})
    other = Job(parties={"a": Party(role="active"), "c": Party(), "b": Party()})
    assert differences(terms(one, {}), terms(other, {}), "a", "b") == [
        'parties is ["a","b","c"] at a and ["a","c","b"] at b'
    ]


def test_a_job_built_in_python_has_the_terms_of_its_file():
    parties = {"a": Party(role="active"), "b": Party(width=3)}
    job = Job(parties=parties, train=Train(target=1, class_weights=[1, 2], clip_norm=2))
    assert terms(job, {}) == terms(loads(dumps(job)), {})
    assert terms(job, {})["train.target"] == "1.0"


@pytest.mark.parametrize("name", builtin_names())
def test_every_party_sees_the_same_terms(name):
    job = load(name, ["parties.*.compress.embedding=half", "parties.*.width=16"])
    common = digest(terms(job, {}))
    assert digest(terms(public_job(job), {})) == common
    for me in job.parties:
        own = PartyFile(table="mine.csv", columns=["x"], device="cuda:0", seed=5)
        assert digest(terms(own_job(job, me, own), {})) == common


texts = st.text(max_size=200)


@given(st.dictionaries(texts, texts), st.dictionaries(texts, texts, max_size=40))
def test_differences_are_told_in_few_short_printable_lines(mine, theirs):
    lines = differences(mine, theirs, "bank", "telco")
    assert (lines == []) == (mine == theirs)
    assert len(lines) <= 13
    for line in lines:
        assert line.isprintable()
        assert len(line) <= 240


def test_what_only_one_side_has_is_said():
    assert differences({}, {"method.local": '"x"'}, "bank", "telco") == [
        'method.local is not set at bank and "x" at telco'
    ]
    many = {f"f{i:02}": "1" for i in range(40)}
    lines = differences(many, {}, "bank", "telco")
    assert lines[0] == "f00 is 1 at bank and not set at telco"
    assert lines[-1] == "and 28 more fields differ"


def test_hostile_values_are_cut_and_escaped():
    hostile = {"seed": "\x1b[31mred\n" * 1000}
    (line,) = differences({"seed": "0"}, hostile, "bank", "telco")
    assert line.startswith(r"seed is 0 at bank and \x1b[31mred\n")
    assert len(line) < 120


def test_the_digest_does_not_depend_on_the_order_of_fields():
    found = of()
    backwards = dict(reversed(found.items()))
    assert digest(backwards) == digest(found)
    assert msgspec.json.decode(found["train.batch_size"]) == 64
