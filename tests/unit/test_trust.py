"""A job file from a partner: which code it may name, and what of a party's own it may decide."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import colonnade as cn
from colonnade.cli import main
from colonnade.job.files import modules
from colonnade.job.party_file import PartyFile
from colonnade.job.trust import taken_from_job
from colonnade.models import build as build_model
from colonnade.models.top import build_top
from colonnade.plugins import extension, import_function
from colonnade.run.launch import COMMAND
from colonnade.run.provision import provide
from colonnade.tls.authority import make_folder

JOB = """
name = "offer"
data = "digits"

[method]
{method}

[train]
rounds = 4

[parties.clinic]
role = "active"
view = "left"
model = {{ name = "{model}", embedding = 8 }}

[parties.lab]
view = "right"
{lab}

[top]
{top}
"""
CODE = """
from pathlib import Path
import torch
from torch import nn
import colonnade as cn
from colonnade.compress import parse

Path("imported").touch()

@cn.extension("method")
def plain():
    return cn.fedsgd()

@cn.extension("model")
def tower(row_shape, embedding=8):
    return nn.Sequential(nn.Flatten(), nn.Linear(32, embedding))

@cn.extension("top")
def head(widths, outputs):
    class Head(nn.Linear):
        def forward(self, embeddings):
            return super().forward(torch.cat(embeddings, dim=1))
    return Head(sum(widths), outputs)

@cn.extension("encoding")
def whole():
    return parse("half")

def undeclared():
    Path("called").touch()
"""
OUTSIDE = {
    "method.name": {"method": 'name = "foreign.code:plain"'},
    "top.module": {"top": 'kind = "module"\nmodule = "foreign.code:head"'},
    "parties.clinic.model.name": {"model": "foreign.code:tower"},
    "method.compress.embedding": {
        "method": 'compress = { embedding = "steps:0=ef+foreign.code:whole,2=half:bfloat16" }'
    },
    "parties.lab.compress.gradient": {"lab": 'compress = { gradient = "foreign.code:whole" }'},
}


def write_job(folder: Path, **parts: str) -> str:
    defaults = {"method": 'name = "fedsgd"', "model": "linear", "lab": "", "top": ""}
    (folder / "job.toml").write_text(JOB.format(**defaults | parts))
    return str(folder / "job.toml")


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder with a module in it, of which nobody knows yet."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "foreign").mkdir()
    (tmp_path / "foreign" / "code.py").write_text(CODE)
    yield tmp_path
    for name in ("foreign", "foreign.code"):
        sys.modules.pop(name, None)


def said(capsys) -> str:
    return capsys.readouterr().err


@pytest.mark.parametrize("field", OUTSIDE)
def test_code_that_a_job_file_names_is_not_imported_unless_allowed(here, field, capsys):
    job = write_job(here, **OUTSIDE[field])
    for words in (
        ["simulate", job],
        ["launch", job],
        ["sweep", job, "--grid", "seed_not=1"],
        ["join", job, "--me", "clinic", "--dry-run", "--trust-job"],
    ):
        assert main(words) == 2
        assert f"{field} of the job file is code from outside" in said(capsys), words
    with pytest.raises(cn.JobError, match=r"--allow foreign\.code"):
        cn.load(job, allow=["foreign_code", "foreig", "foreign.codes"])
    assert not (here / "imported").exists()
    assert main(["simulate", job, "--quiet", "--allow", "foreign"]) == 0
    assert (here / "imported").exists()


def test_every_encoding_that_a_text_names_must_be_allowed(here):
    text = "steps:0=foreign.code:whole,1=ef+os:system,2=plain"
    job = write_job(here, method=f'compress = {{ embedding = "{text}" }}')
    with pytest.raises(cn.JobError, match=r"embedding \(2\) of the job file .* --allow os"):
        cn.load(job, allow=["foreign"])
    assert not (here / "imported").exists()
    assert modules(cn.load(job, allow=["foreign", "os"])) == ["foreign.code", "os"]


def test_an_encoding_from_outside_is_found_by_its_name_in_a_job():
    short, name = ["train.rounds=4"], "tests.outside:rotated"
    moved = cn.simulate(cn.load("digits", [*short, f"method.compress.embedding={name}:by=7"]))
    usual = cn.simulate(cn.load("digits", short))
    assert moved.composition == {"compress": f"compress(embedding={name}:7)"}
    assert moved.history[-1]["loss"] == usual.history[-1]["loss"]


def test_what_the_user_names_needs_no_leave(here, capsys):
    job = write_job(here)
    model = "parties.*.model.name=foreign.code:tower"
    words = [job, "--method", "foreign.code:plain", "--set", model]
    assert main(["simulate", "--quiet", *words]) == 0
    given = cn.load(job, [model], method={"name": "foreign.code:plain"})
    assert cn.simulate(given).composition == {}
    # What the user puts in the place of the file's name counts, and the file's does not.
    cn.load(write_job(here, method='name = "os:system"'), ["method.name=fedsgd"])
    cn.load(write_job(here, method='name = "os:system"'), method="fedsgd")


def test_a_comparison_leaves_the_method_of_the_job_alone(here, capsys):
    job = write_job(here, method='name = "os:system"')
    assert main(["compare", job, "--methods", "fedsgd", "--seeds", "0", "--quiet"]) == 0


def test_the_models_of_others_are_not_looked_at_by_join(here, capsys):
    job = write_job(here, model="foreign.code:tower")
    own = ["--party", str(here / "lab.toml"), "--dry-run"]
    (here / "lab.toml").write_text('data = "digits"\nview = "right"\n')
    assert main(["join", job, "--me", "lab", *own]) == 0
    assert not (here / "imported").exists()


def test_no_arbitrary_function_is_called_however_it_is_named(here, capsys):
    job = write_job(here, method='name = "subprocess:getoutput"\ncmd = "touch called"')
    assert main(["join", job, "--me", "lab", "--dry-run", "--trust-job"]) == 2
    assert "--allow subprocess" in said(capsys)
    for words in (
        ["join", job, "--me", "lab", "--dry-run", "--trust-job", "--allow", "subprocess"],
        ["simulate", job, "--allow", "subprocess"],
        ["simulate", job, "--method", "foreign.code:undeclared"],
        ["simulate", job, "--method", "foreign.code:tower"],
    ):
        assert main(words) == 2
        assert "does not say that it is a method" in said(capsys), words
    for kind, call in {
        "model": lambda: build_model({"name": "foreign.code:undeclared"}, (4,), "here"),
        "top": lambda: build_top(cn.Top(kind="module", module="foreign.code:undeclared"), {}, 1),
    }.items():
        with pytest.raises(cn.JobError, match=f'extension."{kind}"'):
            call()
    assert not (here / "called").exists()


def test_a_declaration_is_not_inherited():
    @extension("model")
    class Base: ...

    class Other(Base): ...

    sys.modules["declared_here"] = type(sys)("declared_here")
    vars(sys.modules["declared_here"]).update(Base=Base, Other=Other)
    try:
        assert import_function("declared_here:Base", "model") is Base
        with pytest.raises(cn.JobError, match="does not say"):
            import_function("declared_here:Other", "model")
    finally:
        del sys.modules["declared_here"]
    with pytest.raises(cn.JobError, match="no kind of extension"):
        extension("metric")


@pytest.mark.parametrize("name", [":x", "os:", "a..b:c", "os:path.join", ".os:x", "o s:x"])
def test_a_name_that_is_none_is_refused(name):
    with pytest.raises(cn.JobError, match=r"write 'package\.module:function'"):
        import_function(name, "method")
    with pytest.raises(cn.RequestError, match="names no module"):
        cn.load("digits", allow=[name])


def test_a_launched_party_runs_what_the_launcher_allowed(here, capsys):
    parts = OUTSIDE["method.name"] | OUTSIDE["top.module"]
    job = cn.load(write_job(here, **parts), allow=["foreign"])
    make_folder(here / "private")
    given = provide(job, {}, here / "private", here / "keys")
    assert sorted(given) == ["clinic", "lab"]
    for words in given.values():
        options = words[: words.index("--keys")] + words[words.index("--keys") + 2 :]
        assert main(["join", *options, "--dry-run"]) == 0, said(capsys)
    without = [word for word in given["lab"] if word not in ("--allow", "foreign.code")]
    assert main(["join", *without, "--dry-run"]) == 2


def test_files_of_the_current_folder_take_no_place_of_libraries(here):
    for name in ("typer", "torch", "rich", "json"):
        (here / f"{name}.py").write_text("from pathlib import Path\nPath('called').touch()\n")
    subprocess.run([*COMMAND, "join", "--help"], capture_output=True, check=True)
    assert not (here / "called").exists()


def test_the_path_is_left_alone_unless_the_module_is_in_the_current_folder(here):
    before = list(sys.path)
    for name in ("json:dumps", "nowhere_at_all:f"):
        with pytest.raises(cn.JobError):
            import_function(name, "method")
    assert sys.path == before
    import_function("foreign.code:plain", "method")
    assert sys.path == [*before, str(here)]


def test_the_settings_of_a_saved_sweep_are_a_file_too(here):
    row = {"settings": {"parties.*.model": {"name": "os:system"}}, "method": {}, "composition": {}}
    tables = {"job": "offer", "reused": 0, "points": [row | {"runs": {}}]}
    (here / "sweep.json").write_text(json.dumps(tables))
    with pytest.raises(cn.JobError, match=r"parties\.\*\.model\.name"):
        cn.Sweep.load(here)
    assert cn.Sweep.load(here, allow=["os"]).points
    for damaged in ({}, {"points": [3]}, {"points": [{}]}, tables | {"points": [row]}):
        (here / "sweep.json").write_text(json.dumps(damaged))
        with pytest.raises(cn.RequestError, match=r"sweep\.json is damaged"):
            cn.Sweep.load(here)


def test_a_job_may_not_set_the_secret_seed_of_a_party(here, capsys):
    job = write_job(here, lab="seed = 42")
    for more in ([], ["--trust-job"], ["--set", "parties.lab.seed=1"]):
        assert main(["join", job, "--me", "lab", "--dry-run", *more]) == 2
        assert "take parties.lab.seed out of the job file" in said(capsys)
    # The seed of another is of no account here, and a simulation has all of them.
    assert main(["join", job, "--me", "clinic", "--dry-run", "--trust-job"]) == 0
    assert main(["simulate", job, "--quiet"]) == 0


def test_what_is_a_party_s_own_counts_in_a_job_file_only_if_it_is_trusted(here, capsys):
    job = write_job(here, lab='model = { name = "linear", embedding = 4 }\ndevice = "cpu"')
    words = ["join", job, "--me", "lab", "--dry-run", "--json"]
    assert main(words) == 2
    assert "own business of lab (data, view, model, device)" in said(capsys)
    assert main([*words, "--trust-job"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["width"] == 4
    assert report["trusted"]["parties.lab.model"] == {"name": "linear", "embedding": 4}
    assert [note for note in report["notes"] if "--trust-job" in note] == [
        'taken from the job file (--trust-job): data = "digits"',
        'taken from the job file (--trust-job): parties.lab.view = "right"',
        'taken from the job file (--trust-job): parties.lab.model = {"name":"linear",'
        '"embedding":4}',
        'taken from the job file (--trust-job): parties.lab.device = "cpu"',
    ]
    (here / "lab.toml").write_text(
        'data = "digits"\nview = "right"\ndevice = "cpu"\nmodel = { name = "mlp", embedding = 3 }\n'
    )
    assert main(words) == 0, "what the party file says needs no trust"
    report = json.loads(capsys.readouterr().out)
    assert (report["width"], report["trusted"]) == (3, {})


def test_what_the_command_line_sets_is_the_party_s_own(here):
    tables = {"parties": {"lab": {"view": "left", "model": {"name": "mlp"}, "width": 3}}}
    sets = ["parties.*.view=right", "parties.lab.model.hidden=[3]"]
    assert taken_from_job(tables, "lab", PartyFile(), sets) == {
        "parties.lab.model": {"name": "mlp"}
    }
    assert taken_from_job(tables, "clinic", PartyFile(), []) == {}


def test_a_job_that_comes_with_the_package_is_trusted(capsys):
    assert main(["join", "digits", "--me", "lab", "--dry-run", "--set", "train.rounds=2"]) == 0
    assert "--trust-job" not in capsys.readouterr().out
