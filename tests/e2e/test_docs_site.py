"""The documentation's site, built as `make docs` builds it and opened in a real browser."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from scripts.docs_site import ROOT

pytestmark = pytest.mark.slow
CHROMIUM = Path("/usr/bin/chromium")
SIZES = {"wide": (1440, 900), "phone": (390, 844)}
LOOKED_AT = ("index", "quick-start", "comparison", "command-line", "api", "methods/fullpipe")
SERIOUS = ("serious", "critical")


class Quiet(SimpleHTTPRequestHandler):
    """Serves files and says nothing."""

    def log_message(self, *args):
        pass


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The folder of the built site; a warning is an error."""
    folder = tmp_path_factory.mktemp("site")
    built = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)],
        cwd=ROOT,
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode == 0, built.stderr
    assert "WARNING" not in built.stderr and "ERROR" not in built.stderr
    return folder


@pytest.fixture(scope="module")
def address(site):
    """Where the site is served, on this host."""
    handler = partial(Quiet, directory=str(site))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.fixture(scope="module")
def browser():
    playwright = pytest.importorskip("playwright.sync_api")
    if not CHROMIUM.exists():
        pytest.skip("Debian's chromium is not installed")
    with playwright.sync_playwright() as started:
        found = started.chromium.launch(executable_path=str(CHROMIUM), args=["--no-sandbox"])
        yield found
        found.close()


@pytest.fixture
def tab(browser, request):
    """Opens a page; what goes wrong in it is in its list `faults`."""
    opened = []

    def tab_of(base, size="wide", scheme="light"):
        width, height = SIZES[size]
        context = browser.new_context(
            viewport={"width": width, "height": height}, color_scheme=scheme
        )
        opened.append(context)
        page = context.new_page()
        page.faults = []
        page.on("pageerror", lambda error: page.faults.append(str(error)))
        page.on(
            "console",
            lambda said: page.faults.append(said.text) if said.type in ("error", "warning") else 0,
        )
        page.on(
            "request",
            lambda sent: None if sent.url.startswith(base) else page.faults.append(sent.url),
        )
        return page

    yield tab_of
    for context in opened:
        context.close()


def pages_of(site):
    return sorted(path.relative_to(site).as_posix() for path in site.rglob("*.html"))


def test_every_page_loads_without_a_fault_or_a_request_to_another_host(site, address, tab):
    page = tab(address)
    for name in pages_of(site):
        page.goto(f"{address}/{name}")
        assert page.locator("h1").first.is_visible(), name
        assert page.faults == [], name


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", SIZES)
def test_a_page_is_accessible_and_fits_at_each_size_in_each_scheme(address, tab, size, scheme):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    page = tab(address, size, scheme)
    for name in LOOKED_AT:
        page.goto(f"{address}/{name}.html")
        page.wait_for_load_state("networkidle")
        found = axe.run(page).response["violations"]
        serious = [(fault["id"], fault["nodes"][0]["html"]) for fault in found
                   if fault["impact"] in SERIOUS]  # fmt: skip
        assert serious == [], name
        wider = page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
        assert wider <= 0, f"{name} is {wider} pixels too wide"
        assert page.faults == []


def search(page, words, leads_to):
    """Search with the keyboard, wait until all words count, and follow the result."""
    page.keyboard.press("/")
    page.keyboard.type(words)
    found = page.locator(f'.md-search-result__item a[href*="{leads_to}"]').first
    found.wait_for(state="visible")
    found.focus()
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/{leads_to}*")


def test_a_search_by_keyboard_finds_the_page(address, tab):
    page = tab(address)
    page.goto(f"{address}/index.html")
    page.wait_for_load_state("networkidle")
    search(page, "randomised response", "privacy.html")
    assert page.faults == []


def test_a_sentence_that_the_program_said_is_found(address, tab):
    page = tab(address)
    page.goto(f"{address}/index.html")
    page.wait_for_load_state("networkidle")
    search(page, "is connected already, from another process", "troubleshooting.html")


def test_the_site_and_its_search_work_without_a_server(site, tab):
    page = tab("file://")
    page.goto((site / "index.html").as_uri())
    page.wait_for_load_state("networkidle")
    search(page, "staleness", "fullpipe.html")
    assert page.faults == []


def test_the_keyboard_reaches_the_content_and_the_sections(address, tab):
    page = tab(address)
    page.goto(f"{address}/quick-start.html")
    page.keyboard.press("Tab")
    assert page.locator(".md-skip").evaluate("link => link === document.activeElement")
    reached = set()
    for _ in range(40):
        page.keyboard.press("Tab")
        reached.add(page.evaluate("document.activeElement.textContent.trim()"))
    assert {"Guides", "Methods", "Reference", "Project", "Installing"} <= reached


def test_dark_and_light_can_be_chosen_and_are_remembered(address, tab):
    page = tab(address)
    page.goto(f"{address}/index.html")
    assert page.evaluate("document.body.dataset.mdColorScheme") == "default"
    page.get_by_title("Switch to dark mode").click()
    assert page.evaluate("document.body.dataset.mdColorScheme") == "slate"
    page.goto(f"{address}/faq.html")
    assert page.evaluate("document.body.dataset.mdColorScheme") == "slate"


def test_the_picture_is_on_the_front_page_and_in_words(address, tab):
    page = tab(address, "phone")
    page.goto(f"{address}/index.html")
    picture = page.get_by_role("img", name="One second of virtual time")
    assert picture.evaluate("img => img.complete && img.naturalWidth") > 0
