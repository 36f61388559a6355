"""Virtual time is called virtual, and where nothing takes any time none is shown."""

import json

import numpy as np
import pytest

import colonnade as cn
from colonnade.cli import main

SHORT = ["--set", "train.rounds=2", "--set", "train.evaluate_every=1 round"]


@pytest.fixture
def still(tmp_path):
    """A job without network or costs."""
    rng = np.random.default_rng(0)
    for name, array in {"a": rng.normal(size=(60, 3)), "b": rng.normal(size=(60, 2))}.items():
        np.save(tmp_path / f"{name}.npy", array)
    np.save(tmp_path / "y.npy", rng.integers(0, 2, 60))
    path = tmp_path / "still.toml"
    path.write_text(
        "name = 'still'\n[train]\nbatch_size = 20\nmetric = 'accuracy'\ntarget = 0.0\n"
        "[parties.a]\nrole = 'active'\ntable = 'a.npy'\nlabel = 'y.npy'\n"
        "[parties.b]\ntable = 'b.npy'\n"
    )
    return str(path)


def test_without_a_network_no_time_is_shown(still, capsys):
    assert main(["simulate", still, *SHORT]) == 0
    out, err = capsys.readouterr()
    assert "0 us" not in out + err
    assert "no time without [network] and [compute], 2 rounds" in out
    assert (
        main(["compare", still, *SHORT, "--methods", "fedsgd", "--seeds", "0", "--workers", "1"])
        == 0
    )
    out, err = capsys.readouterr()
    assert "0 us" not in out + err and "–" in out


def test_virtual_time_is_called_virtual(capsys):
    assert main(["simulate", "digits", *SHORT]) == 0
    out, err = capsys.readouterr()
    assert "of virtual time, 2 rounds" in out
    assert "ms of virtual time, loss" in err
    words = ["--methods", "fedsgd", "--seeds", "0", "--workers", "1", "--set", "train.target=0"]
    assert main(["compare", "digits", *SHORT, *words]) == 0
    out, err = capsys.readouterr()
    assert "virtual time" in out and "of virtual time to target" in err
    assert main(["simulate", "digits", *SHORT, "--json", "--quiet"]) == 0
    assert json.loads(capsys.readouterr().out)["clock"] == "virtual"


def test_a_comparison_names_the_method_that_it_refuses(capsys):
    words = ["--methods", "fedsgd,cvfl:q=2", "--seeds", "0", "--workers", "1"]
    assert main(["compare", "digits", *SHORT, *words]) == 2
    assert "cvfl:q=2 shows the labels to passive parties" in capsys.readouterr().err
    run = cn.simulate(cn.load("digits", ["train.rounds=1"], method="pasta"))
    with pytest.raises(cn.JobError, match="what pasta learns depends on how long things take"):
        cn.reclock(run, cn.with_sets(run.job, "network.latency=1s"))
