"""Who may ask the dashboard for what, and what a browser is told to make of it."""

from __future__ import annotations

import asyncio
import json
import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from colonnade.dashboard import streams
from colonnade.dashboard.guard import POLICY, Guard, Names
from colonnade.dashboard.threads import BusyError, Workers
from tests.dashboards import House, going, rounds, train
from tests.loop import run

TOKEN = b"0123456789abcdef"
PATHS = ("/", "/run/0123456789abcdef", "/compare", "/plan", "/api/runs", "/static/page.css",
         "/static/echarts.min.js", "/nowhere", "/api/report")  # fmt: skip


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    root = tmp_path_factory.mktemp("runs")
    train(root / "first")
    train(root / "second", method="pasta")
    train(root / "other", "breast-cancer")
    return root


@pytest.fixture(scope="module")
def house(runs):
    return House(runs)


@pytest.mark.parametrize("path", PATHS)
def test_every_answer_is_sealed(path, house):
    headers = house.get(path).headers
    assert headers["content-security-policy"] == POLICY
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["cross-origin-resource-policy"] == "same-origin"
    assert not [name for name in headers if name.startswith("access-control")]


def test_the_policy_lets_no_script_in_but_our_own():
    rules = dict(rule.strip().split(" ", 1) for rule in POLICY.split(";"))
    assert rules["default-src"] == "'none'"
    assert rules["script-src"] == rules["style-src"] == rules["connect-src"] == "'self'"
    assert rules["frame-ancestors"] == rules["base-uri"] == rules["form-action"] == "'none'"
    assert "unsafe" not in POLICY


def test_no_page_has_a_script_or_a_style_within(house):
    for path in ("/", "/plan"):
        text = house.get(path).text
        assert not any(part in text for part in ("<style", " style=", " onclick", "javascript:"))
        for script in text.split("<script")[1:]:
            assert script.split("</script>")[0].endswith(">")


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "HEAD", "TRACE"])
def test_nothing_can_be_changed(method, house):
    reply = house.get("/api/runs", method)
    assert reply.status_code == 405
    assert reply.headers["allow"] == "GET"


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8090", "localhost.evil.example", "127.0.0.1.nip.io", "",
             "10.0.0.1", "[::2]", "localhost:8090@evil", "[::1", "127.0.0.1:a"],
)  # fmt: skip
def test_a_name_that_is_not_ours_is_refused(host, house):
    reply = house.get("/api/runs", headers={"host": host})
    assert reply.status_code == 421
    assert "rows" not in reply.text


@pytest.mark.parametrize(
    "host", ["localhost", "localhost:1", "127.0.0.1:9", "[::1]:8090", "LocalHost"]
)
def test_this_machine_may_call_itself_by_any_of_its_names(host, house):
    assert house.get("/api/runs", headers={"host": host}).status_code == 200


def test_elsewhere_addresses_and_named_hosts_are_ours():
    names = Names(local=False, more=["Runs.Bank.example"])
    assert names.admit("10.1.2.3:80") and names.admit("runs.bank.example")
    assert names.admit("[fe80::1]:80") and not names.admit("evil.example")


def test_no_other_page_may_ask(house):
    for site in ("cross-site", "same-site"):
        asked = {"sec-fetch-site": site, "sec-fetch-mode": "no-cors"}
        assert house.get("/api/runs", headers=asked).status_code == 403
    followed = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}
    assert house.get("/", headers=followed).status_code == 200


@pytest.mark.parametrize(
    "path",
    ["/static/../app.py", "/static/%2e%2e/app.py", "/static/..%2fapp.py", "/static/login.html",
     "/run/../../etc/passwd", "/api/report?run=../first", "/api/report?run=/etc",
     "/api/live?run=..%2f..%2fetc%2fpasswd", "/api/plan?job=../../etc/passwd"],
)  # fmt: skip
def test_no_path_leads_out(path, house):
    reply = house.get(path)
    assert "root:" not in reply.text and "import " not in reply.text
    assert reply.status_code in (200, 404, 422)
    if reply.status_code == 200:
        assert "<title>" in reply.text


@settings(max_examples=20)
@given(st.text(max_size=40))
def test_any_id_is_of_a_run_or_of_none(text):
    assert ONE.get("/api/report", params={"run": text}).status_code == 404


@pytest.fixture(scope="module", autouse=True)
def one(house):
    global ONE
    ONE = house


def test_without_the_token_there_is_a_form_and_nothing_else(runs):
    house = House(runs, token=TOKEN, local=False)
    page = house.get("/")
    assert page.status_code == 401
    assert 'id="token"' in page.text
    assert page.headers["content-security-policy"] == POLICY
    for path in ("/api/runs", "/api/changes", "/api/live", "/api/report", "/api/plan", "/api/jobs"):
        reply = house.get(path)
        assert reply.status_code == 401
        assert "first" not in reply.text
    assert house.get("/static/login.js").status_code == 200


def test_the_token_opens_and_is_traded_for_a_cookie_that_no_script_reads(runs):
    house = House(runs, token=TOKEN, local=False)
    bearer = {"authorization": "Bearer 0123456789abcdef"}
    assert house.get("/api/runs", headers=bearer).status_code == 200
    reply = house.get("/session", headers=bearer)
    cookie = reply.headers["set-cookie"]
    assert "HttpOnly" in cookie and "SameSite=Strict" in cookie
    assert TOKEN.decode() not in cookie
    pair = cookie.split(";")[0]
    assert house.get("/api/runs", headers={"cookie": pair}).status_code == 200
    other = House(runs, token=TOKEN, local=False)
    assert other.get("/api/runs", headers={"cookie": pair}).status_code == 401


@pytest.mark.parametrize(
    "said", [b"Bearer 0123456789abcdeF", b"Bearer ", b"0123456789abcdef", b"Bearer \xff", b""]
)
def test_what_is_not_the_token_opens_nothing(said, runs):
    house = House(runs, token=TOKEN, local=False)
    for path in ("/session", "/api/runs"):
        reply = house.get(path, headers={b"authorization": said})
        assert reply.status_code == 401
        assert "set-cookie" not in reply.headers


def test_a_mistake_of_ours_is_told_here_and_not_there(runs):
    house = House(runs)

    async def fails(scope, receive, send):
        raise KeyError("a secret")

    house.app = Guard(fails, Names(local=True), None, b"", house.told.append)
    reply = house.get("/api/runs")
    assert reply.status_code == 500
    assert "secret" not in reply.text
    assert "KeyError" in house.told[0]


def test_runs_side_by_side_are_the_report_of_them(house):
    reply = house.get("/api/report", params={"run": [house.id("first"), house.id("second")]}).json()
    assert reply["ids"] == [house.id("first"), house.id("second")]
    assert [run["method"] for run in reply["runs"]] == ["fedsgd", "pasta"]
    assert reply["comparable"]
    assert len(reply["runs"][0]["history"]["accuracy"]) == 4


def test_runs_of_different_jobs_are_shown_with_a_sentence(house):
    reply = house.get("/api/report", params={"run": [house.id("first"), house.id("other")]}).json()
    assert not reply["comparable"]
    assert "jobs" in reply["headline"]["lead"]
    assert len(reply["runs"]) == 2


def test_a_run_that_cannot_be_read_is_a_sentence_beside_the_others(runs, tmp_path):
    train(tmp_path / "good")
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "summary.json").symlink_to(tmp_path / "good" / "summary.json")
    (tmp_path / "bad" / "party.json").write_text("{}")
    house = House(tmp_path)
    reply = house.get("/api/report", params={"run": [house.id("good"), house.id("bad")]}).json()
    told = [fault["name"] for fault in reply["faults"]]
    told += [run["folder"] for run in reply["runs"] if run["problems"]]
    assert told == ["bad"]
    assert str(tmp_path) not in json.dumps(reply)


def test_no_runs_and_too_many_runs_are_refused(house):
    assert house.get("/api/report").status_code == 400
    many = [f"{count:016x}" for count in range(13)]
    assert house.get("/api/report", params={"run": many}).status_code == 400


def test_a_live_run_is_told_from_its_beginning_and_as_it_goes_on(tmp_path):
    live = going(tmp_path / "live")
    for event in rounds(0, 3):
        live(event)
    house = House(tmp_path)
    path = f"/api/live?run={house.id('live')}"
    told = []

    def act(heard):
        # What comes after the first message was written after it.
        if len(heard) == 2:
            for event in rounds(3, 5):
                live(event)
        told[:] = heard

    heard = house.hear(path, act, count=3)
    first, state, more = (said for _, said in heard)
    assert first["anew"]
    assert first["events"][0]["type"] == "Opened"
    assert [e["round"] for e in first["events"] if e["type"] == "Evaluated"] == [0, 1, 2]
    assert state["goes_on"] is True
    assert [e["round"] for e in more["events"] if e["type"] == "Evaluated"] == [3, 4]
    assert not more["anew"]
    # Whoever comes again hears only what is new.
    last = heard[0][0]
    again = house.hear(path, count=1, last=last)[0][1]
    assert not again["anew"]
    assert [e["round"] for e in again["events"] if e["type"] == "Evaluated"] == [3, 4]
    by_query = house.hear(f"{path}&from={last}", count=1)[0][1]
    assert by_query == again
    live.close(done=False)


@pytest.mark.parametrize("last", ["nonsense", "a:b", ":", "9" * 5000, "\x7f", "0:1-99999999999"])
def test_a_place_that_was_never_told_is_the_beginning(last, tmp_path):
    live = going(tmp_path / "live")
    live(rounds(0, 1)[1])
    house = House(tmp_path)
    heard = house.hear(f"/api/live?run={house.id('live')}", last=last)
    assert heard[0][1]["anew"]
    live.close(done=False)


def test_that_a_run_has_ended_is_told(tmp_path):
    live = going(tmp_path / "live")
    house = House(tmp_path)
    path = f"/api/live?run={house.id('live')}"
    heard = house.hear(path, lambda heard: len(heard) == 2 and live.close(done=True), count=3)
    assert heard[-1][1]["goes_on"] is False
    assert heard[-1][1]["kept"] is False


def test_the_list_tells_what_changes(tmp_path):
    live = going(tmp_path / "live")
    house = House(tmp_path)

    def act(heard):
        if len(heard) == 1:
            live(rounds(6, 7)[0])

    first, second = (said for _, said in house.hear("/api/changes", act, count=2))
    assert [row["name"] for row in first["rows"]] == ["live"]
    assert [row["rounds"] for row in second["rows"]] == [7]
    live.close(done=True)


def test_as_many_streams_are_open_as_may_be(tmp_path, monkeypatch):
    monkeypatch.setattr(streams, "STREAMS_MAX", 0)
    live = going(tmp_path / "live")
    house = House(tmp_path)
    reply = house.get("/api/changes")
    assert reply.status_code == 503
    assert reply.headers["retry-after"] == "5"
    live.close(done=True)


def test_a_stream_that_is_silent_has_a_heartbeat(tmp_path, monkeypatch):
    monkeypatch.setattr(streams, "HEARTBEAT_S", 0.0)
    monkeypatch.setattr(streams, "LOOK_S", 0.001)
    house = House(tmp_path)

    async def first():
        found = []
        async for piece in house.dashboard.streams._follow([], {}):
            found.append(piece)
            if len(found) == 2:
                house.dashboard.streams.stopping.set()
        return found

    assert run(first()) == [b": still here\n\n"] * 2


def test_so_much_waits_and_no_more():
    workers, go, begun = Workers(1, waiting_max=1), threading.Event(), threading.Event()

    def slow():
        begun.set()
        go.wait(20)
        return 7

    async def whole():
        under_way = asyncio.ensure_future(workers.run(slow))
        waiting = asyncio.ensure_future(workers.run(lambda: 8))
        await asyncio.sleep(0)
        with pytest.raises(BusyError):
            await workers.run(lambda: 9)
        # The loop goes on meanwhile.
        await asyncio.to_thread(begun.wait, 20)
        assert not under_way.done()
        go.set()
        assert (await under_way, await waiting) == (7, 8)
        with pytest.raises(KeyError):
            await workers.run(lambda: {}[1])
        return await workers.run(lambda: 10)

    assert run(whole()) == 10
