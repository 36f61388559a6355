"""`join --metrics` and `join --track` over real mTLS: what Prometheus and TensorBoard see of a
party while others come, go and come back."""

from __future__ import annotations

from contextlib import closing

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

import colonnade as cn
from colonnade.run.processes import free_port
from tests.alliance import ACTIVE, Alliance, has_traceback, until


class Scraped:
    """The figures at a port, as Prometheus reads them."""

    def __init__(self, port):
        self.client = httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=100)
        self.last = {}

    def figures(self):
        try:
            answer = self.client.get("/metrics")
        except httpx.TransportError:
            return {}
        assert answer.status_code == 200, answer.text
        self.last = {
            (sample.name, *sorted(sample.labels.items())): sample.value
            for family in text_string_to_metric_families(answer.text)
            for sample in family.samples
        }
        return self.last

    def close(self):
        self.client.close()

    def value(self, name, **labels):
        return self.figures().get((f"colonnade_{name}", *sorted(labels.items())), -1)


def test_a_party_shows_its_figures_while_others_come_and_go(tmp_path):
    rounds = ("train.rounds=60", "train.checkpoint_every=10")
    with (
        Alliance(tmp_path, *rounds, emulate="latency=10ms") as alliance,
        closing(Scraped(port := free_port())) as scraped,
    ):
        alliance.more = ("--metrics", str(port), "--track", "tensorboard")
        alliance.start(ACTIVE)
        until(lambda: scraped.value("party_connected", party="lab") == 0, 60, "the first figures")
        assert scraped.value("finished") == 0
        alliance.more = ()
        alliance.start("lab", "insurer")
        until(lambda: scraped.value("checkpoint_round") >= 10, 60, "a checkpoint")
        assert scraped.value("party_connected", party="insurer") == 1
        # Not later: while the parties meet again, the count goes back to that of the checkpoint.
        assert scraped.value("bytes_total", party="lab", direction="received", kind="Embedding") > 0
        alliance.kill("insurer")
        until(lambda: scraped.value("party_connected", party="insurer") == 0, 60, "the loss")
        until(lambda: scraped.value("waiting_seconds", party="insurer") > 0, 60, "the wait")
        alliance.start("insurer")
        until(lambda: scraped.value("resumes_total") == 1, 60, "the return")
        alliance.complete()
        clinic, said = alliance.run_folder(ACTIVE), alliance.output(ACTIVE)
    seen = scraped.last
    assert seen["colonnade_rounds",] == 60 and seen["colonnade_loss",] > 0
    assert f"figures are at http://127.0.0.1:{port}/metrics" in said.replace("\n", "")
    assert not has_traceback(said)
    found = EventAccumulator(str(clinic / "tensorboard"), size_guidance={"scalars": 0})
    found.Reload()
    # What was repeated after the crash is there once.
    assert [each.step for each in found.Scalars("train/loss")] == list(range(1, 61))
    assert found.Scalars("final/rounds")[-1].value == 60


@pytest.mark.parametrize("wrong", ["99999", "http://x", ":", "²", ""])
def test_what_is_no_port_is_refused(wrong, capsys, tmp_path):
    from colonnade.cli import main

    words = ["join", "digits", "--me", "clinic", "--listen", ":7443", "--out", str(tmp_path / "o")]
    assert main([*words, "--trust-job", "--metrics", wrong]) == 2
    assert "is no port: write one of up to 65535" in " ".join(capsys.readouterr().err.split())


def test_a_launch_is_followed_from_outside(tmp_path, stood_in):
    job = cn.load("digits", ["train.rounds=6", "train.evaluate_every=2 rounds"])
    run = cn.launch(job, out=tmp_path / "run", track="tensorboard")
    found = EventAccumulator(str(tmp_path / "run" / "tensorboard"), size_guidance={"scalars": 0})
    found.Reload()
    assert [each.step for each in found.Scalars("evaluation/accuracy")] == [2, 4, 6]
    assert found.Scalars("final/bytes.total")[-1].value == run.bytes()["total"]
    # A run that is complete is read, and not followed once more.
    cn.launch(job, out=tmp_path / "run", track="tensorboard")
    assert len(list((tmp_path / "run" / "tensorboard").iterdir())) == 1
