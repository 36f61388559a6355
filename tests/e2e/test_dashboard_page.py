"""The dashboard in a real browser: list, filters, comparing, and a run whose curve grows."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
from contextlib import closing
from urllib.request import urlopen

import pytest

from colonnade.dashboard import starting
from colonnade.dashboard.plans import builtin_text
from tests.browser import (
    SCHEMES,
    SIZES,
    WAIT_MS,
    browser,
    faults,
    opened,
    reachable,
    shot,
    tabbed,
    why_not,
)
from tests.dashboards import going, rounds, served, train
from tests.pages import MARKUP, hostile, trained
from tests.processes import begin
from tests.warm import python

pytestmark = [
    pytest.mark.skipif(bool(why_not()), reason=why_not() or "none"),
    pytest.mark.xdist_group("browser"),
]
LISTED, DRAWN = ".runs tbody tr", "[data-ready]"
NAMES = "() => [...document.querySelectorAll('.runs tbody tr td.name a')].map(a => a.textContent)"
POINTS = """() => echarts.getInstanceByDom(document.querySelector('#curves .chart')).getOption()
    .series.filter(each => each.type === 'line').map(each => each.data.length)"""
OUTER = "node => node.outerHTML.slice(0, 200)"
WIDE = "() => document.documentElement.scrollWidth - innerWidth"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Runs of two methods and two jobs, one that was cut off, one hostile, and one damaged."""
    root = tmp_path_factory.mktemp("all") / "runs"
    trained(root / "fedsgd-0", "fedsgd")
    trained(root / "study" / "fedsgd-1", "fedsgd", 1)
    trained(root / "pasta-0", "pasta")
    train(root / "other", "breast-cancer")
    hostile(root / "pasta-0", root / "hostile")
    live = going(root / "cut", "fedbcd:updates=5")
    for event in rounds(0, 9):
        live(event)
    live.close(done=False)
    (root / "damaged").mkdir()
    (root / "damaged" / "summary.json").write_text("{")
    return root


@pytest.fixture(scope="module")
def chromium():
    with browser() as started:
        yield started


@pytest.fixture(scope="module")
def address(folder):
    with served(folder) as place:
        yield place


def run_page(address, name):
    """The address of the page of a run."""
    with urlopen(f"{address}/api/runs") as reply:
        rows = json.load(reply)["rows"]
    return f"{address}/run/{next(row['id'] for row in rows if row['name'] == name)}"


def until(page, expression, value):
    """Wait for what an expression gives. Playwright's own way is to let the page evaluate a text,
    which its content-security policy forbids."""
    for _ in range(1200):
        if page.evaluate(expression) == value:
            return
        page.wait_for_timeout(50)
    assert page.evaluate(expression) == value


def usable(page, size):
    """Nothing sticks out, axe-core finds no serious fault, and the Tab key goes everywhere."""
    assert page.evaluate(WIDE) <= 0
    assert faults(page) == []
    if size == "desktop":
        reached = set(tabbed(page))
        unreached = set(reachable(page)) - reached
        assert not [page.locator(f"[data-mark='{mark}']").evaluate(OUTER) for mark in unreached]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("scheme", SCHEMES)
def test_the_list_shows_every_run_at_any_size_in_any_light(chromium, address, size, scheme):
    with opened(chromium, f"{address}/", size=size, scheme=scheme, ready=LISTED) as page:
        until(page, "() => document.querySelector('.root').textContent", "in runs")
        assert len(page.evaluate(NAMES)) == 7
        text = page.inner_text("main")
        for said in ("7 runs", "fedbcd:updates=5", "interrupted", "cannot be read", "is damaged"):
            assert said in text
        shot(page, f"dashboard-list-{size}-{scheme}")
        usable(page, size)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_run_has_the_charts_of_its_report(chromium, address, size, scheme):
    url = run_page(address, "pasta-0")
    with opened(chromium, url, size=size, scheme=scheme, ready=DRAWN) as page:
        page.wait_for_selector("#timeline [data-detail]", state="attached")
        assert page.evaluate(POINTS)[0] > 5
        assert page.title() == "pasta-0 – Colonnade"
        box = page.locator("#curves .chart").bounding_box()
        page.locator("#curves .chart").scroll_into_view_if_needed()
        page.locator("#curves .chart").hover(position={"x": box["width"] / 2, "y": 150})
        page.wait_for_selector("#curves .tip")
        shot(page, f"dashboard-run-{size}-{scheme}")
        usable(page, size)


def test_filters_leave_what_is_asked_for_and_the_address_keeps_them(chromium, address):
    with opened(chromium, f"{address}/", ready=LISTED) as page:
        page.fill("#q", "fedsgd seed 1")
        assert page.evaluate(NAMES) == ["study/fedsgd-1"]
        assert "1 of 7 runs" in page.inner_text(".count")
        page.fill("#q", "")
        page.select_option("#method", "pasta")
        assert page.evaluate(NAMES) == ["pasta-0"]
        page.select_option("#method", "")
        page.select_option("#status", "interrupted")
        assert page.evaluate(NAMES) == ["cut"]
        page.reload()
        page.wait_for_selector(LISTED)
        assert page.evaluate(NAMES) == ["cut"]
        page.fill("#q", "nothing like this")
        assert page.is_visible("text=No run passes the filters.")


def test_a_click_on_a_head_sorts_and_another_turns_it_round(chromium, address):
    with opened(chromium, f"{address}/?q=seed", ready=LISTED) as page:
        page.click("button:has-text('Run')")
        assert page.evaluate(NAMES) == sorted(page.evaluate(NAMES))
        page.click("button:has-text('Run')")
        assert page.evaluate(NAMES) == sorted(page.evaluate(NAMES), reverse=True)
        page.click("button:has-text('Rounds')")
        sizes = page.evaluate(
            "() => [...document.querySelectorAll('.runs td[data-label=Rounds]')].map(td => "
            "td.textContent === '–' ? -1 : Number(td.textContent.replaceAll(',', '')))"
        )
        assert sizes == sorted(sizes, reverse=True)
        assert page.get_attribute("th:has-text('Rounds')", "aria-sort") == "descending"


def test_runs_are_chosen_with_the_keyboard_and_drawn_together(chromium, address):
    with opened(chromium, f"{address}/", ready=LISTED) as page:
        for name in ("fedsgd-0", "pasta-0"):
            page.focus(f"[aria-label='Choose {name}']")
            page.keyboard.press("Space")
        assert page.inner_text(".above button") == "Compare 2 runs"
        page.focus(".above button")
        page.keyboard.press("Enter")
        page.wait_for_selector(DRAWN, state="attached")
        assert len(page.evaluate(POINTS)) == 2
        assert min(page.evaluate(POINTS)) > 5
        assert page.is_visible("#comparison table")
        shot(page, "dashboard-compare-desktop-light")
        assert faults(page) == []


def test_runs_of_different_jobs_are_shown_with_a_sentence(chromium, address):
    ids = [run_page(address, name).rpartition("/")[2] for name in ("fedsgd-0", "other")]
    url = f"{address}/compare?run={ids[0]}&run={ids[1]}"
    with opened(chromium, url, ready=DRAWN) as page:
        assert "runs of different jobs" in page.inner_text("h1")
        assert len(page.evaluate(POINTS)) == 2


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("scheme", SCHEMES)
def test_the_curve_of_a_live_run_grows_until_it_ends(chromium, size, scheme, tmp_path):
    root = tmp_path / "runs"
    live = going(root / "live")
    for event in rounds(0, 4):
        live(event)
    finished = train(tmp_path / "done", method="pasta", seed=3)
    with served(root) as address:
        url = run_page(address, "live")
        with opened(chromium, url, size=size, scheme=scheme, ready=DRAWN) as page:
            page.wait_for_selector("text=Round 4 of 100")
            until(page, POINTS, [4])
            for event in rounds(4, 9):
                live(event)
            until(page, POINTS, [9])
            assert "Round 9 of 100" in page.inner_text(".live")
            assert "pasta on digits, seed 3" in page.inner_text(".live")
            shot(page, f"dashboard-live-{size}-{scheme}")
            usable(page, size)
            # It ends: its files are there, and say more than the events did.
            shutil.copytree(finished, root / "live", dirs_exist_ok=True)
            live.close(done=True)
            page.wait_for_selector("h1:has-text('pasta reaches')")
            assert page.evaluate(POINTS) == [4]
            assert not page.is_visible(".live progress")


def test_the_list_grows_by_itself(chromium, tmp_path):
    root = tmp_path / "runs"
    root.mkdir()
    with served(root) as address, opened(chromium, f"{address}/") as page:
        page.wait_for_selector("text=There is no run in this folder yet.")
        live = going(root / "new")
        for event in rounds(0, 2):
            live(event)
        page.wait_for_selector(LISTED)
        assert "running" in page.inner_text(LISTED)
        live.close(done=False)
        page.wait_for_selector(".runs .status.cut")


def test_markup_in_a_folder_stays_text(chromium, address, tmp_path):
    root = tmp_path / "runs"
    live = going(root / MARKUP.replace("/", ""), MARKUP)
    for event in rounds(0, 3):
        live(event)
    with live.path.open("a") as file:
        said = {"type": "Notice", "party": MARKUP, "time_ns": 1, "text": MARKUP}
        file.write(json.dumps(said) + "\n")
        said = {"type": "Waiting", "party": "lab", "time_ns": 1, "what": MARKUP}
        file.write(json.dumps(said) + "\n")
        measured = {MARKUP: 1, "__proto__": 2, "round": 3}
        said = {
            "type": "Evaluated",
            "party": "lab",
            "time_ns": "x",
            "round": [],
            "measured": measured,
        }
        file.write(json.dumps(said | {"measured": measured}) + "\n{]\n")
    with served(root) as place:
        with urlopen(f"{place}/api/runs") as reply:
            id_ = json.load(reply)["rows"][0]["id"]
        pages = {f"{place}/": LISTED, f"{place}/run/{id_}": ".live article"}
        pages |= {run_page(address, "hostile"): DRAWN, f"{address}/": LISTED}
        for url, ready in pages.items():
            with opened(chromium, url, ready=ready) as page:
                until(page, "() => document.body.innerText.includes('onerror')", True)
                assert page.evaluate("window.hacked") is None
                assert page.query_selector("#page img, #page script, #page svg") is None
    live.close(done=False)


def test_a_job_is_planned_and_the_command_to_start_it_shown(chromium, address):
    with opened(chromium, f"{address}/plan", ready="#job option") as page:
        page.select_option("#job", "builtin:digits")
        page.fill("#rows", "1000")
        page.click("text=Predict")
        page.wait_for_selector(".plan tbody tr")
        command = page.inner_text(".command code")
        assert re.match(r"colonnade simulate digits --method \w+ --out runs/digits-", command)
        page.check("label:has-text('pasta')")
        assert "--method pasta" in page.inner_text(".command code")
        shot(page, "dashboard-plan-desktop-light")
        page.reload()
        page.wait_for_selector(".plan tbody tr")
        usable(page, "desktop")
        page.set_viewport_size({"width": 390, "height": 844})
        assert page.evaluate(WIDE) <= 0
        shot(page, "dashboard-plan-phone-light")


def test_a_run_is_started_from_its_plan_and_looked_at(chromium, tmp_path, monkeypatch):
    monkeypatch.setattr(starting, "COMMAND", (python(), "-P", "-m", "colonnade"))
    text = builtin_text("digits").replace("epochs = 80", "rounds = 40")
    (tmp_path / "short.toml").write_text(text)
    token = b"0123456789abcdef"
    with (
        closing(starting.Starter(tmp_path.resolve())) as starter,
        served(tmp_path, token, starter) as address,
    ):
        context = chromium.new_context(viewport={"width": 1440, "height": 900})
        page = context.new_page()
        page.set_default_timeout(WAIT_MS)
        page.goto(f"{address}/#token={token.decode()}")
        page.wait_for_selector(".root")
        page.goto(f"{address}/plan")
        page.wait_for_selector("#job option", state="attached")
        page.select_option("#job", label="short.toml")
        page.fill("#rows", "1000")
        page.click("text=Predict")
        page.wait_for_selector(".plan tbody tr")
        page.check("label:has-text('fedbcd')")
        page.get_by_role("button", name="Start").click()
        page.wait_for_selector(".started a")
        page.wait_for_selector("text=has ended.")
        shot(page, "dashboard-started-desktop-light")
        assert faults(page) == []
        page.set_viewport_size({"width": 390, "height": 844})
        assert page.evaluate(WIDE) <= 0
        shot(page, "dashboard-started-phone-light")
        page.click(".started a")
        page.wait_for_selector(DRAWN)
        assert "fedbcd" in page.inner_text("main")
        context.close()


def test_a_run_that_is_not_there_is_said(chromium, address):
    context = chromium.new_context()
    page = context.new_page()
    page.goto(f"{address}/run/0123456789abcdef")
    page.wait_for_selector("text=there is no such run")
    context.close()


def test_the_token_is_asked_for_and_kept_out_of_the_address(chromium, folder):
    with served(folder, b"0123456789abcdef") as address:
        context = chromium.new_context()
        page = context.new_page()
        page.goto(f"{address}/")
        assert faults(page) == []
        page.fill("#token", "wrong-wrong-wrong")
        page.keyboard.press("Enter")
        page.wait_for_selector("text=This is not the token.")
        page.fill("#token", "0123456789abcdef")
        page.click("text=Show the runs")
        page.wait_for_selector(LISTED)
        assert page.evaluate("document.cookie") == ""
        context.close()
        context = chromium.new_context()
        page = context.new_page()
        page.goto(f"{address}/#token=0123456789abcdef")
        page.wait_for_selector(LISTED)
        assert page.url == f"{address}/"
        # A second time, when the cookie lets the browser in before anybody asks for the token.
        page.goto("about:blank")
        page.goto(f"{address}/#token=0123456789abcdef")
        page.wait_for_selector(LISTED)
        assert page.url == f"{address}/"
        context.close()


def test_the_command_answers_until_ctrl_c_also_while_a_page_follows(tmp_path):
    live = going(tmp_path / "runs" / "live")
    command = [python(), "-m", "colonnade", "dashboard", str(tmp_path / "runs")]
    process = begin([*command, "--http", "127.0.0.1:0"])
    try:
        address = re.search(r"http://127\.0\.0\.1:\d+", process.stderr.readline())[0]
        with urlopen(f"{address}/api/changes") as stream:
            assert stream.readline() == b"retry: 2000\n"
            os.kill(process.pid, signal.SIGINT)
            assert process.wait(120) == 0
    finally:
        process.kill()
        process.communicate()
        live.close(done=True)
