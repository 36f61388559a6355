"""Whatever a job file holds, it gives a job or a sentence, soon and in little memory."""

from __future__ import annotations

import json
import time
import tomllib
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import colonnade as cn
from colonnade import models
from colonnade.cli import main
from colonnade.errors import nearest
from colonnade.job.files import builtin_names, builtin_text, loads
from colonnade.job.party_file import load_party
from colonnade.job.reading import FILE_BYTES_MAX
from colonnade.models.top import build_top
from colonnade.record.party_folder import PartyFolder

NAMES = ["../../x", "/tmp/x", "..", ".hidden", "a\x00b", "a\x1b[2J", "a\nb", "a" * 65, "", "a/b",
         "a\\b", "-x"]  # fmt: skip
DEEP = {
    "dotted keys": ".".join(["a"] * 20_000) + " = 1",
    "dotted keys with spaces": " . ".join(["a"] * 20_000) + " = 1",
    "dotted keys in quotes": ".".join(['"=\\""', "'[,'"] * 10_000) + " = 1",
    "dotted header": "[" + ".".join(["a"] * 20_000) + "]",
    "lists": "a = " + "[" * 3_000 + "]" * 3_000,
    "lists that just parse": "a = " + "[" * 200 + "]" * 200,
    "tables": "a = " + "{a = " * 3_000 + "1" + "}" * 3_000,
}


def refused(text: str, folder: Path) -> str:
    """How a text is refused as a job file; it must not take long."""
    path = folder / "job.toml"
    path.write_text(text)
    began = time.process_time()
    with pytest.raises(cn.JobError) as error:
        cn.load(path)
    assert time.process_time() - began < 5
    return str(error.value)


@pytest.mark.parametrize("text", DEEP.values(), ids=DEEP)
def test_a_file_that_is_nested_too_deep_is_refused_at_once(text, tmp_path):
    assert "more than 32 deep" in refused(text, tmp_path)
    (tmp_path / "party.toml").write_text(text)
    with pytest.raises(cn.JobError, match="more than 32 deep"):
        load_party(tmp_path / "party.toml")


def test_a_file_that_is_too_large_is_not_read_whole(tmp_path):
    assert "larger than 1 MB" in refused("#" * (FILE_BYTES_MAX + 1), tmp_path)
    assert "larger than 1 MB" in refused("a = '" + "x" * (1 << 24) + "'", tmp_path)
    with pytest.raises(cn.JobError, match="larger than 1 MB"):
        load_party(Path("/dev/zero"))


def test_a_long_list_of_numbers_is_no_deep_key(tmp_path):
    numbers = ", ".join(f"{each / 7:.3f}" for each in range(2_000))
    assert "unknown key 'a'" in refused(f"a = [{numbers}]", tmp_path)


@pytest.mark.parametrize(
    "text", ["seed = 1" + "0" * 5_000, "name = 'a", "a = 2020-01-01T00:00:00Z"]
)
def test_values_that_are_none_are_refused(text, tmp_path):
    assert refused(text, tmp_path)


@pytest.mark.parametrize("name", NAMES, ids=ascii)
def test_a_job_s_name_cannot_lead_out_of_the_run_folder(name, tmp_path):
    parties = {"bank": cn.Party(role="active"), "telco": cn.Party()}
    with pytest.raises(cn.JobError, match="cannot be a job's name"):
        cn.Job(parties=parties, name=name)
    text = f"name = {json.dumps(name)}\n" + builtin_text("digits").replace('name = "digits"\n', "")
    assert tomllib.loads(text)["name"] == name
    assert "name" in refused(text, tmp_path) or "control characters" in refused(text, tmp_path)


@pytest.mark.parametrize("name", ["Crédit 2024", "a.b_c+d-e", "9"])
def test_other_names_of_jobs_are_as_good_as_any(name):
    assert cn.load("digits", [f"name={json.dumps(name)}"]).name == name


@pytest.mark.parametrize(
    "text",
    [
        'data = "a\\u001b[2J"',
        '"a\\u0000b" = 1',
        '[parties."a\\u009bb"]',
        "[parties.a]\nview = '''a\nb'''",
        '[parties.a]\ncolumns = ["\\u2028"]',
    ],
)
def test_control_characters_in_a_job_file_are_refused(text, tmp_path):
    sentence = refused(text, tmp_path)
    assert "control characters" in sentence
    assert sentence.isprintable()


def test_what_is_shown_does_nothing_to_a_terminal(capsys):
    from rich.table import Table

    from colonnade.cli import screen

    table = Table("a\x1b[31m")
    table.add_row("\x1b]0;title\x07 \x9b2J")
    screen.show(table)
    screen.show("one\x1b[2J\ntwo\x00")
    screen.stderr().print("three\x1b[2J")
    shown = capsys.readouterr()
    assert "one?[2J\ntwo?\n" in shown.out and "three?[2J\n" in shown.err
    assert all(line.isprintable() for line in (shown.out + shown.err).splitlines())


SIZES = {
    "top.hidden=[1000000000000]": "top.hidden",
    "top.hidden=[0]": "top.hidden",
    f"top.hidden={[2] * 101}": "top.hidden",
    "top.hidden=[1000000, 1000000]": "parameters is more than",
    "parties.lab.model.hidden=[1000000000000]": "parties.lab.model",
    "parties.lab.model.hidden=[300000, 300000]": "parameters is more than",
    f"parties.lab.model.hidden={[2] * 101}": "parties.lab.model.hidden",
    "parties.lab.width=1000000000000": "parties.lab.width",
    "seed=-5": "seed is -5: it must be from 0",
    "seed=9223372036854775808": "9223372036854775808 is too large a number",
    "parties.lab.optimizer.momentum=100000000000000000000": "is too large a number",
    "parties.lab.model.dropout=-1": "parties.lab.model: no such model can be built",
    "parties.lab.seed=-1": "parties.lab.seed is -1",
    "train.split_seed=-1": "train.split_seed is -1",
    "train.epochs=1000000000000000": "train.epochs",
    "train.rounds=1000000000000000": "train.rounds",
    f"train.evaluate_every={'9' * 5_000} rounds": "train.evaluate_every",
    f"network.latency={'9' * 5_000}s": "too long a duration",
    f"compute.forward={'9' * 30}s": "too long a duration",
    "timeouts.stall=20000h": "too long a duration",
    f"network.bandwidth={'9' * 5_000}gbit": "too high a data rate",
    "limits.message_bytes=4611686018427387904": "limits.message_bytes",
    "limits.queue_messages=4611686018427387904": "limits.queue_messages",
    "recovery.keep=1000000000000": "recovery.keep is 1000000000000: it must be from 2",
    "recovery.restarts=1000000000000": "recovery.restarts is 1000000000000: it must be from 0",
}


@pytest.mark.parametrize("setting", SIZES)
def test_a_size_that_no_machine_has_is_refused_before_it_is_allocated(setting, capsys):
    assert main(["simulate", "digits", "--set", setting]) == 2
    assert SIZES[setting] in capsys.readouterr().err


def test_measuring_a_model_changes_no_random_number():
    import torch

    torch.manual_seed(3)
    expected = torch.nn.Linear(4, 2).weight.clone()
    torch.manual_seed(3)
    assert torch.equal(
        models.build({"name": "linear", "embedding": 2}, (4,), "x")[1].weight, expected
    )
    torch.manual_seed(3)
    assert torch.equal(build_top(cn.Top(hidden=[]), {"a": 4}, 2).network[0].weight, expected)


@pytest.mark.parametrize("name", sorted(models.known()))
def test_every_model_can_be_measured(name):
    for shape in ((12,), (1, 32, 32), (3, 32, 32), (4, 6)):
        try:
            models.build({"name": name}, shape, "x")
        except cn.JobError as error:
            assert "no such model" not in str(error)


def test_a_page_of_text_is_compared_with_nothing():
    began = time.process_time()
    assert nearest("x" * 1_000_000, ["y" * 1_000] * 20).startswith("known are")
    assert time.process_time() - began < 1


def test_a_damaged_start_is_a_sentence(tmp_path):
    folder = PartyFolder(tmp_path)
    for text in ("", "[]", '{"seed": "x"}', "{"):
        (tmp_path / "start.json").write_text(text)
        with pytest.raises(cn.RequestError, match=r"start.json is damaged"):
            folder.remember("seed", 3)
    (tmp_path / "start.json").unlink()
    assert folder.remember("seed", 3) == folder.remember("seed", 4) == 3
    folder.close()


def test_a_folder_that_cannot_be_written_at_the_end_is_a_sentence(tmp_path, monkeypatch, capsys):
    from colonnade.record import run

    def refuse(path: Path) -> Path:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(run, "private_file", refuse)
    words = ["simulate", "digits", "--set", "train.rounds=2", "--out", str(tmp_path / "out"), "-q"]
    assert main(words) == 2
    shown = capsys.readouterr()
    assert "accuracy" in shown.out, "the result is shown all the same"
    assert shown.err.splitlines()[-1].endswith("permission denied")


KEYS = st.sampled_from(
    ["name", "seed", "data", "method", "train", "parties", "top", "role", "model", "optimizer",
     "hidden", "network", "compute", "latency", "bank", "limits", "timeouts", "recovery", "width",
     "epochs", "columns", "kind", "module", "compress", "forward", "target"]
)  # fmt: skip
VALUES = st.recursive(
    st.integers() | st.floats() | st.text() | st.booleans() | st.sampled_from(["active", "1s"]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(KEYS | st.text(), inner, max_size=4)
    ),
    max_leaves=12,
)


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.dictionaries(KEYS, VALUES, max_size=6), st.sampled_from(builtin_names()))
def test_any_tables_give_a_job_or_a_sentence(tables, name):
    import tomli_w

    job = tomllib.loads(builtin_text(name)) | tables
    try:
        text = tomli_w.dumps(job)
    except (UnicodeEncodeError, ValueError):
        return
    try:
        assert isinstance(loads(text), cn.Job)
    except cn.JobError as error:
        assert str(error)


@settings(max_examples=80, deadline=None)
@given(st.text(alphabet="ab.=[]{}\"'\\\n #0123,-", max_size=300))
def test_any_text_gives_a_job_or_a_sentence(text):
    with pytest.raises(cn.JobError):
        loads(text)
