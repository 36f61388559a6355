"""Protections in processes of their own: keys, fresh noise, and the account of it."""

import json
import stat

import pytest
from safetensors.torch import load_file

from colonnade.cli import main
from colonnade.protect.accountant import epsilon_of, mu
from colonnade.protect.embedding import gauss

WORDS = [
    *("launch", "breast-cancer", "--quiet", "--set", "train.epochs=2"),
    *("--set", "method.protect.labels=flip:2", "--set", "method.protect.embedding=gauss:2:0.5"),
]


@pytest.mark.usefixtures("stood_in")
def test_launched_parties_draw_labels_and_noise_and_account_for_them(tmp_path):
    for name in ("one", "other"):
        assert main([*WORDS, "--out", str(tmp_path / name)]) == 0
    own = tmp_path / "one" / "parties"
    facts = json.loads((own / "lab" / "party.json").read_text())["privacy"]
    expected = epsilon_of(mu(gauss(2, 0.5), 2))
    assert facts == {"releases": 2, "epsilon": expected, "delta": 1e-5}
    assert "its rows left up to 2 times with gauss:2:0.5" in (own / "lab" / "log.txt").read_text()
    assert "privacy" not in json.loads((own / "hospital" / "party.json").read_text())
    key = own / "hospital" / "labels.key"
    assert stat.S_IMODE(key.stat().st_mode) == 0o600 and len(key.read_bytes()) == 32
    assert not (own / "lab" / "labels.key").exists()
    # The seeds are the same, the noise and the labels are not.
    one, other = (
        load_file(tmp_path / name / "parties" / "lab" / "last.safetensors")
        for name in ("one", "other")
    )
    assert any((one[name] != other[name]).any() for name in one)
    assert key.read_bytes() != (tmp_path / "other/parties/hospital/labels.key").read_bytes()
