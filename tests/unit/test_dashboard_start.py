"""Runs that are started from the dashboard: what is started, and who may."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from contextlib import closing
from typing import ClassVar

import pytest

from colonnade.cli import main
from colonnade.dashboard import plans, starting
from colonnade.dashboard.starting import Offer, Starter, Wish
from colonnade.errors import RequestError
from tests.dashboards import House
from tests.warm import python

TOKEN = b"0123456789abcdef"
KNOWS = {"authorization": f"Bearer {TOKEN.decode()}", "x-colonnade-start": "yes"}
SHORT = plans.builtin_text("digits").replace("epochs = 80", "rounds = 3")
PATIENCE_S = 120


@pytest.fixture
def starter(tmp_path, monkeypatch):
    monkeypatch.setattr(starting, "COMMAND", (python(), "-P", "-m", "colonnade"))
    with closing(Starter(tmp_path.resolve())) as made:
        yield made


@pytest.fixture
def house(tmp_path, starter):
    return House(tmp_path, starter, token=TOKEN)


class Recorded:
    """In the place of a process: what it was started with."""

    all: ClassVar[list[Recorded]] = []

    def __init__(self, words, **options):
        self.words, self.options, self.code = words, options, None
        self.all.append(self)

    def poll(self):
        return self.code

    def send_signal(self, number):
        self.code = -number

    def wait(self, limit_s=None):
        return self.code


@pytest.fixture
def recorded(monkeypatch):
    monkeypatch.setattr(Recorded, "all", [])
    monkeypatch.setattr(subprocess, "Popen", Recorded)
    return Recorded.all


def wish(job="builtin:digits", method="fedsgd"):
    return json.dumps({"job": job, "method": method})


def post(house, content, path="/api/start", **headers):
    return house.get(path, "POST", content=content, headers=KNOWS | headers)


def planned(house, job="builtin:digits"):
    reply = house.get("/api/plan", params={"job": job, "rows": "500"}, headers=KNOWS)
    assert reply.status_code == 200, reply.text
    return reply.json()


def test_without_leave_nothing_is_started(tmp_path):
    house = House(tmp_path, token=TOKEN)
    assert planned(house)["starts"] is False
    assert post(house, wish()).status_code == 405
    assert house.get("/api/start", headers=KNOWS).status_code == 404
    assert house.get("/api/started", headers=KNOWS).status_code == 404


@pytest.mark.parametrize(
    "status, headers",
    [
        (401, {"authorization": ""}),
        (401, {"authorization": "Bearer 0123456789abcdeg"}),
        (403, {"x-colonnade-start": ""}),
        (403, {"sec-fetch-site": "cross-site", "sec-fetch-mode": "cors"}),
        (403, {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}),
        (403, {"sec-fetch-site": "same-site", "sec-fetch-mode": "cors"}),
        (421, {"host": "evil.example"}),
    ],
)
def test_nobody_else_starts_anything(house, recorded, status, headers):
    planned(house)
    # A form of another page sends no header of its own choice.
    if headers.get("sec-fetch-mode") == "navigate":
        headers = headers | {"x-colonnade-start": ""}
    assert post(house, wish(), **headers).status_code == status
    assert not recorded


def test_only_what_was_planned_is_started(house, recorded, tmp_path):
    assert "plan the job first" in post(house, wish()).json()["error"]
    assert planned(house)["starts"] is True
    for method in ("os:getcwd", "fedsgd --allow os", "", "--help", "fedbcd:updates=99"):
        assert post(house, wish(method=method)).status_code == 422
    assert post(house, wish(job="../../etc/passwd")).status_code == 422
    assert not recorded
    assert post(house, wish(method="pasta")).json() == {"name": "digits-pasta"}
    (process,) = recorded
    out = str(tmp_path.resolve() / "digits-pasta")
    own = ["simulate", "digits", "--method", "pasta", "--out", out, "-q"]
    assert process.words == [*starting.COMMAND, *own]
    assert "-P" in process.words, "no module is looked for among the runs"
    assert process.options["stdin"] == subprocess.DEVNULL


@pytest.mark.parametrize(
    "content, status",
    [(b"", 422), (b"[]", 422), (b'{"job": 1, "method": 2}', 422), (b"\xff", 422),
     (b'{"job": "a", "method": "b", "set": "c"}', 422), (b"[" * 4000, 422), (b"a" * 5000, 413)],
)  # fmt: skip
def test_what_is_no_wish_is_refused_with_a_sentence(house, recorded, content, status):
    reply = post(house, content)
    assert reply.status_code == status and reply.json()["error"]
    assert not recorded


def test_the_method_of_a_job_is_left_to_the_job(starter, recorded):
    offer = Offer(
        "cr/ed it", "/runs/credit.toml", "fedbcd:updates=3", frozenset({"fedbcd:updates=3"})
    )
    starter.offer("1", offer)
    assert starter.start(Wish("1", "fedbcd:updates=3")) == "cr-ed-it-fedbcd"
    assert "--method" not in recorded[0].words


def test_two_at_once_each_in_a_folder_of_its_own(starter, recorded, tmp_path):
    starter.offer("1", Offer("digits", "digits", "pasta", frozenset({"fedsgd"})))
    (tmp_path / "digits-fedsgd").mkdir()
    names = [starter.start(Wish("1", "fedsgd")) for _ in range(2)]
    assert names == ["digits-fedsgd-2", "digits-fedsgd-3"]
    with pytest.raises(RequestError, match="wait until one has ended"):
        starter.start(Wish("1", "fedsgd"))
    recorded[0].code = 0
    assert starter.start(Wish("1", "fedsgd")) == "digits-fedsgd-4"
    states = [run["state"] for run in starter.told()]
    assert states == ["running", "running", "ended"]
    starter.close()
    assert recorded[1].code == recorded[2].code == -signal.SIGINT


def test_offers_and_runs_are_remembered_within_bounds(starter, recorded, monkeypatch):
    for number in range(starting.OFFERS_MAX + 5):
        starter.offer(str(number), Offer("digits", "digits", "pasta", frozenset({"fedsgd"})))
    with pytest.raises(RequestError, match="plan the job first"):
        starter.start(Wish("4", "fedsgd"))
    for _ in range(starting.REMEMBERED + 5):
        starter.start(Wish("5", "fedsgd"))
        recorded[-1].code = 0
    assert len(starter.told()) <= starting.REMEMBERED + 1


def until(starter, state):
    end = time.monotonic() + PATIENCE_S
    while (told := starter.told()[0])["state"] != state:
        assert time.monotonic() < end, told
        time.sleep(0.05)
    return told


def test_a_run_is_trained_and_one_that_fails_says_why(house, starter, tmp_path):
    (tmp_path / "short.toml").write_text(SHORT)
    (tmp_path / "lost.toml").write_text(SHORT.replace('data = "digits"', 'data = "nowhere"'))
    jobs = house.get("/api/jobs", headers=KNOWS).json()["jobs"]
    ids = {job["name"]: job["id"] for job in jobs}
    planned(house, ids["short.toml"])
    assert post(house, wish(ids["short.toml"])).json() == {"name": "digits-fedsgd"}
    until(starter, "ended")
    # The list may be a moment old.
    end = time.monotonic() + PATIENCE_S
    while not (rows := house.get("/api/runs", headers=KNOWS).json()["rows"]):
        assert time.monotonic() < end
        time.sleep(0.1)
    (row,) = rows
    (told,) = house.get("/api/started", headers=KNOWS).json()["runs"]
    assert (row["name"], row["rounds"], row["status"]) == ("digits-fedsgd", 3, "end")
    assert told["id"] == row["id"]
    planned(house, ids["lost.toml"])
    assert post(house, wish(ids["lost.toml"])).json() == {"name": "digits-fedsgd-2"}
    said = until(starter, "failed")["said"]
    assert said.startswith("colonnade: ") and "nowhere" in said


def test_what_goes_on_ends_with_the_dashboard(starter):
    starter.offer("1", Offer("digits", "digits", "pasta", frozenset({"fedsgd"})))
    starter.start(Wish("1", "fedsgd"))
    (run,) = starter._runs
    assert run.process.poll() is None
    starter.close()
    assert run.process.poll() is not None
    assert starter.told()[0]["state"] == "ended"


def test_starting_needs_a_token(tmp_path, capsys):
    assert main(["dashboard", str(tmp_path), "--start"]) == 2
    assert "--start needs --token-file" in capsys.readouterr().err
