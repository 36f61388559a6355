"""Going on from an earlier run over the network, with the command, in processes of their own."""

from __future__ import annotations

import json
import shutil

import pytest
from safetensors.torch import load_file

from colonnade.cli import main
from tests.alliance import ACTIVE, PARTIES, Alliance, has_traceback

SHORT = ("train.rounds=20", "train.checkpoint_every=10")
STILL = ("train.rounds=20", *(f"parties.{name}.optimizer.lr=0" for name in PARTIES))


def model(alliance, name):
    return json.loads((alliance.run_folder(name) / "model.json").read_text())


def going_on(folder, first, *sets):
    """The same parties, each of which begins with its own folder of the first run."""
    after = Alliance(folder, *sets, keys=first._keys)
    words = after._words
    after._words = lambda name, more: [  # type: ignore[method-assign]
        *words(name, more),
        *(["--from", str(first.run_folder(name))] if name not in after.fresh else []),
    ]
    after.fresh = set()
    return after


def test_all_parties_go_on_from_one_version_or_none_does(tmp_path):
    with Alliance(tmp_path / "first", *SHORT) as first:
        first.start()
        first.complete()
    version = f"{model(first, ACTIVE)['run'][:12]}-{model(first, ACTIVE)['round'] + 1}"
    with going_on(tmp_path / "second", first, *STILL) as second:
        # Who would begin from nothing is refused, and may come again as it should.
        second.fresh = {"lab"}
        second.start()
        assert second.codes_of("lab", 60) == 2
        assert f'from is not set at lab and "{version}" at {ACTIVE}' in second.output("lab")
        # Its folder has the ledger of another job now: it is another one without --from.
        second.fresh = set()
        shutil.rmtree(second.run_folder("lab"))
        second.start("lab")
        assert second.codes(90)[ACTIVE] == 0, second.said()
        for name in PARTIES:
            card = model(second, name)
            assert card["parent"] == version and card["run"] != model(first, name)["run"]
            before = load_file(first.run_folder(name) / "best.safetensors")
            after = load_file(second.run_folder(name) / "best.safetensors")
            assert all((before[key] == after[key]).all() for key in before)
            assert f"goes on from the model {version}" in second.log(name)
        said = {each: model(each, ACTIVE)["measured"]["test"] for each in (first, second)}
        assert said[first] == said[second]
        assert not has_traceback(second.said())


@pytest.mark.usefixtures("stood_in")
def test_launched_parties_go_on_as_simulated_ones_do(tmp_path, capsys):
    words = ["breast-cancer", "--set", "train.rounds=8", "--quiet"]
    first = str(tmp_path / "first")
    assert main(["simulate", *words, "--out", first]) == 0
    for how in ("simulate", "launch"):
        assert main([how, *words, "--from", first, "--out", str(tmp_path / how)]) == 0
    for name in ("hospital", "lab"):
        one, other = (
            load_file(tmp_path / how / "parties" / name / "last.safetensors")
            for how in ("simulate", "launch")
        )
        assert all((one[key] == other[key]).all() for key in one)
    capsys.readouterr()
    assert main(["launch", *words, "--out", str(tmp_path / "launch")]) == 2
    assert "began with another model, or with none: choose another" in capsys.readouterr().err


def test_a_run_is_not_written_over_the_one_that_it_goes_on_from(tmp_path, capsys):
    words = ["join", "digits", "--me", "lab", "--connect", "localhost:1", "--out", str(tmp_path)]
    words += ["--keys", str(tmp_path)]
    assert main([*words, "--from", str(tmp_path)]) == 2
    assert "--from and --out are the same folder" in capsys.readouterr().err
    assert main([*words, "--from", str(tmp_path / "nothing")]) == 2
    simulate = ["simulate", "digits", "--from", str(tmp_path), "--out", str(tmp_path)]
    assert main(simulate) == 2
    assert main(["launch", *simulate[1:]]) == 2
