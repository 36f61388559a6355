"""A launch that is recorded: every party has its own recording, and is audited by it alone."""

from __future__ import annotations

import json

import pytest

from colonnade.cli import main
from colonnade.privacy.recorded import read_recording


@pytest.mark.usefixtures("stood_in")
def test_a_launched_party_audits_its_own_traffic(tmp_path, capfd):
    out = tmp_path / "run"
    words = ["--set", "train.epochs=2", "--record", "10", "--out", str(out), "--quiet"]
    assert main(["launch", "breast-cancer", *words]) == 0
    for name in ("hospital", "lab"):
        folder = out / "parties" / name
        recording = read_recording(name, folder)
        assert recording is not None and recording.rounds == 10
        card = json.loads((folder / "model.json").read_text())
        assert card["recorded"]["rounds"] == 10 and card["recorded"]["whole"]
        for path in (folder / "traffic").iterdir():
            assert path.stat().st_mode & 0o777 == 0o600
    capfd.readouterr()
    hospital = out / "parties" / "hospital"
    assert main(["privacy", str(hospital), "--known", "40", "--json"]) == 0
    found = json.loads(capfd.readouterr().out)
    spectral = next(each for each in found["findings"] if each["attack"] == "spectral")
    assert spectral["to"] == "lab" and spectral["pooled"]["accuracy"] > 0.9
    assert (hospital / "privacy.json").exists()


def test_sums_of_a_launch_are_attacked_and_alone_a_party_says_that_it_does_not_know_them(
    tmp_path, capfd
):
    out = tmp_path / "run"
    sets = ["train.rounds=4", "top.kind=agg", "method.protect.sum=pairwise:32:20"]
    words = [word for each in sets for word in ("--set", each)]
    assert main(["launch", "digits", *words, "--record", "9", "--out", str(out), "--quiet"]) == 0
    capfd.readouterr()
    for place, source in ((out, "sum"), (out / "parties" / "lab", "summand")):
        assert main(["privacy", str(place), "--known", "50", "--party", "lab", "--json"]) == 0
        findings = json.loads(capfd.readouterr().out)["findings"]
        assert {(each["party"], each["to"], each["source"]) for each in findings} == {
            ("lab", "clinic", source)
        }
        assert {each["split"] for each in findings} == {"train", "validation", "test"}
