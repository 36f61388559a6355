"""The account of rows that are scored, between real processes over mTLS: it goes on over `predict`,
`serve` and a process that is killed."""

from __future__ import annotations

import json
import os
import signal

import pytest

from colonnade.protect.accountant import epsilon_of, mu
from colonnade.protect.embedding import gauss
from tests.e2e.test_align import House, keys  # noqa: F401 - a fixture
from tests.e2e.test_predict import RUNS, score
from tests.e2e.test_serve import PATIENCE_S, Served
from tests.warm import behind

NOISE = gauss(1, 8)
METHOD = '[method]\nname = "fedsgd"\n[method.protect]\nembedding = "gauss:1:8"\n'


def epsilon(releases):
    return epsilon_of(mu(NOISE, releases))


@pytest.fixture
def house(tmp_path, keys):  # noqa: F811 - the fixture
    """Two parties that have trained with noise for an epoch; the telco lets a row leave three times
    in all."""
    made = House(tmp_path, keys, more=METHOD)
    made.party("telco", f'id = "id"\n[policy]\nepsilon_max = {epsilon(3) + 1e-6!r}\n')
    with made.stack:
        for command in ("align", "join"):
            ends = made.both(command)
            assert [code for code, _, _ in ends.values()] == [0, 0], ends
        yield made


def test_an_epsilon_holds_over_training_predictions_services_and_crashes(house):
    card = json.loads((house.folder / RUNS["telco"] / "model.json").read_text())
    assert card["spent"] == {"releases": 1, "mu": mu(NOISE, 1)}
    dry = house.end(house.start("telco", "predict", "--run", RUNS["telco"], "--dry-run"))
    assert dry[0] == 0 and dry[1]["epsilon"]["more"] == 2, dry
    assert dry[1]["epsilon"]["before"] == pytest.approx(epsilon(1))

    ends = score(house, "--rows", "all", "--to", "all.parquet")
    assert [code for code, _, _ in ends.values()] == [0, 0], ends
    told = ends["telco"][1]["epsilon"]
    assert told["before"] == pytest.approx(epsilon(1)) and told["epsilon"] == pytest.approx(
        epsilon(2)
    )
    assert "epsilon" not in ends["bank"][1], "the bank's rows stay where they are"
    place = house.folder / "predictions/credit-telco"
    said = f"has cost ε = {epsilon(2):.4g} at δ = 1e-05 by training and scoring; it was"
    assert said in (place / "log.txt").read_text()
    assert {path.name for path in place.iterdir()} >= {"spent", "trained.json"}
    for path in place.rglob("*"):
        assert not path.is_file() or path.stat().st_mode & 0o077 == 0, path

    served = Served(house)
    served.start("bank", "--deadline", "5s")
    telco = served.start("telco")
    served.until(200)
    assert served.ask("c00310").status_code == 200
    refused = served.ask("c00310")
    assert refused.status_code == 403, refused.json()
    assert "policy.epsilon_max" in refused.json()["declined"]["telco"]
    os.kill(behind(telco.pid), signal.SIGKILL)
    telco.wait(PATIENCE_S)
    telco = served.start("telco")
    served.until(200)
    assert served.ask("c00310").status_code == 403, "a new process does not begin anew"
    assert served.ask("c00311").status_code == 200, "another row has its own"
    telco.send_signal(signal.SIGTERM)
    assert telco.wait(PATIENCE_S) == 0
    assert f"has cost ε = {epsilon(3):.4g}" in served.log("telco")
