"""A party's figures for Prometheus: what events become, and who may read them."""

from __future__ import annotations

import socket
import sys

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from colonnade.cli.metrics import check_metrics, place_of
from colonnade.errors import RequestError
from colonnade.job import load
from colonnade.record import events
from colonnade.record.events import (
    Connected,
    Disconnected,
    Evaluated,
    Finished,
    Notice,
    PeerLeft,
    Refused,
    Resumed,
    RoundDone,
    Saved,
    Started,
    Waiting,
)
from colonnade.serve.exposed import application, exposed
from colonnade.serve.listening import Listener
from colonnade.serve.training import MEASURED_MAX, TrainingMetrics
from tests.loop import run

JOB = load("digits")


@pytest.fixture
def metrics():
    return TrainingMetrics(JOB, "clinic")


def read(metrics):
    return {
        (sample.name.removeprefix("colonnade_"), *sorted(sample.labels.values())): sample.value
        for family in text_string_to_metric_families(metrics.text().decode())
        for sample in family.samples
    }


def test_events_become_figures(metrics):
    for event in (
        Started("clinic", 0, again=True), Connected("clinic", 1, "lab"),
        Connected("clinic", 1, "insurer"), Disconnected("clinic", 2, "insurer"),
        Resumed("clinic", 2, 10), Refused("clinic", 2, "lab", "late"), Saved("clinic", 3, 20),
        RoundDone("clinic", 5 * 10**9, 20, 60, 0.25, window=3, in_flight=2, staleness=1, fresh=21,
                  local=42, bytes_up=7, bytes_down=8),
        Evaluated("clinic", 6, 20, {"accuracy": 0.5}, True, 70, 80),
        events.Tested("clinic", 7, 20, {"accuracy": 0.4}), Finished("clinic", 8, "end"),
        Notice("clinic", 9, "a word"),
    ):  # fmt: skip
        metrics(event)
    found = read(metrics)
    expected = {
        "round": 21, "rounds": 60, "loss": 0.25, "job_seconds": 5, "window": 3, "in_flight": 2,
        "staleness": 1, "updates_fresh": 21, "updates_local": 42, "bytes_up": 70, "bytes_down": 80,
        "checkpoint_round": 20, "checkpoints_total": 1, "restarts_total": 1, "resumes_total": 1,
        "refusals_total": 1, "rounds_done_total": 1, "finished": 1,
    }  # fmt: skip
    assert {name: found[name,] for name in expected} == expected
    assert found["party_connected", "lab"] == 1 and found["party_connected", "insurer"] == 0
    assert found["metric", "accuracy", "evaluation"] == 0.5
    assert found["metric", "accuracy", "test"] == 0.4
    assert found["party_info", "active", "clinic", "digits", "fedsgd"] == 1


def test_a_wait_has_a_name_and_grows_and_ends(metrics):
    metrics(Waiting("clinic", 0, "waiting for lab: its embedding", "lab", 7 * 10**9))
    first, second = (read(metrics)["waiting_seconds", "lab"] for _ in range(2))
    assert 7 <= first <= second and read(metrics)["waiting_seconds", "insurer"] == 0
    metrics(Waiting("clinic", 1, None))
    assert read(metrics)["waiting_seconds", "lab"] == 0


def test_what_crossed_is_read_from_the_ledger_when_somebody_asks(metrics):
    counts = []
    metrics.counted = lambda: counts
    assert not [key for key in read(metrics) if key[0] == "bytes_total"]
    entry = {"peer": "lab", "direction": "sent", "kind": "Gradient", "messages": 2, "bytes": 90}
    counts.append(entry | {"purpose": "training"})
    assert read(metrics)["bytes_total", "Gradient", "lab", "sent"] == 90
    assert read(metrics)["messages_total", "Gradient", "lab", "sent"] == 2


def test_labels_do_not_grow_with_what_others_say(metrics):
    before = None
    for number in range(1000):
        name = f"stranger-{number}"
        metrics(Connected("clinic", 0, name))
        metrics(PeerLeft("clinic", 0, name, "x"))
        metrics(Waiting("clinic", 0, "waiting", name, 1))
        metrics(Evaluated("clinic", 0, 1, {f"metric-{number}": 0.5}, True, 0, 0))
        metrics(RoundDone(name, 0, number, 9, 0.5))
        if number == MEASURED_MAX:
            before = len(read(metrics))
    assert len(read(metrics)) == before and read(metrics)["rounds_done_total",] == 0


def test_no_figure_says_a_seed_or_a_path(metrics):
    text = metrics.text().decode()
    assert "seed" not in text and "/" not in text.replace("1/", "")


ASKED = [
    ("GET", "/metrics", "localhost:9100", 200),
    ("HEAD", "/metrics", "127.0.0.1:9100", 200),
    ("GET", "/metrics", "[::1]:9100", 200),
    ("GET", "/metrics", "evil.example:9100", 403),
    ("GET", "/metrics", "127.0.0.1.evil.example", 403),
    ("POST", "/metrics", "localhost", 405),
    ("GET", "/", "localhost", 404),
    ("GET", "/metrics/../x", "localhost", 404),
]


@pytest.mark.parametrize(("method", "path", "host", "status"), ASKED)
def test_only_the_figures_are_answered_and_only_to_this_computer(method, path, host, status):
    async def ask():
        transport = httpx.ASGITransport(app=application(lambda: b"figures 1\n", True))
        async with httpx.AsyncClient(transport=transport, base_url="http://x") as client:
            return await client.request(method, path, headers={"host": host})

    answer = run(ask())
    assert answer.status_code == status
    assert (answer.text == "figures 1\n") == (status == 200 and method == "GET")
    assert answer.headers["x-content-type-options"] == "nosniff"


def test_a_port_that_others_reach_answers_under_any_name():
    async def ask():
        transport = httpx.ASGITransport(app=application(lambda: b"figures 1\n", False))
        async with httpx.AsyncClient(transport=transport, base_url="http://bank.example") as client:
            return await client.get("/metrics")

    assert run(ask()).status_code == 200


def test_figures_are_shown_as_long_as_the_party_runs_and_the_port_is_free_again(metrics):
    told = []
    for _ in range(2):
        listener = Listener("127.0.0.1", 0, "--metrics")
        with exposed(listener, metrics.text, told.append):
            answer = httpx.get(f"http://{listener.place}/metrics", timeout=60)
            assert "colonnade_round 0.0" in answer.text
            assert answer.headers["content-type"].startswith("text/plain")
        with pytest.raises(httpx.TransportError):
            httpx.get(f"http://{listener.place}/metrics", timeout=60)
    assert not told


def test_a_port_in_use_is_refused_with_the_option():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(RequestError, match=f"cannot listen at --metrics 127.0.0.1:{port}"):
            Listener("127.0.0.1", port, "--metrics")


def test_without_a_host_only_this_computer_reaches_it():
    assert place_of("9100") == ("127.0.0.1", 9100)
    assert place_of("0.0.0.0:9100") == ("0.0.0.0", 9100)
    with pytest.raises(RequestError, match="is no port"):
        place_of("70000")


def test_missing_packages_are_one_sentence(monkeypatch):
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(RequestError, match=r"pip install 'colonnade\[serve\]'"):
        check_metrics("9100")
    check_metrics(None)
