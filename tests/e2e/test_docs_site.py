"""The documentation's site, built as `make docs` builds it and opened in a real browser."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import pytest

from scripts.docs_site import ROOT
from tests import browser as real
from tests.browser import SCHEMES, SIZES, faults, opened, shot

pytestmark = [
    pytest.mark.slow,
    pytest.mark.xdist_group("browser"),
    pytest.mark.skipif(bool(real.why_not()), reason=real.why_not() or "a browser is there"),
]
LOOKED_AT = ("index", "quick-start", "comparison", "command-line", "api", "methods/fullpipe")


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
def chromium():
    with real.browser() as started:
        yield started


def test_every_page_loads_without_a_fault_or_a_request_to_another_host(site, address, chromium):
    names = sorted(path.relative_to(site).as_posix() for path in site.rglob("*.html"))
    assert len(names) > 60
    with opened(chromium, f"{address}/index.html") as page:
        for name in names:
            page.goto(f"{address}/{name}")
            assert page.locator("h1").first.is_visible(), name


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("size", SIZES)
def test_a_page_is_accessible_and_fits_at_each_size_in_each_scheme(address, chromium, size, scheme):
    with opened(chromium, f"{address}/index.html", size=size, scheme=scheme) as page:
        for name in LOOKED_AT:
            page.goto(f"{address}/{name}.html")
            page.wait_for_load_state("networkidle")
            shot(page, f"docs-{name.replace('/', '-')}-{size}-{scheme}")
            assert faults(page) == [], name
            wider = page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
            assert wider <= 0, f"{name} is {wider} pixels too wide"


def search(page, words, leads_to):
    """Search with the keyboard, wait until all words count, and follow the result."""
    page.wait_for_load_state("networkidle")
    page.keyboard.press("/")
    page.keyboard.type(words)
    found = page.locator(f'.md-search-result__item a[href*="{leads_to}"]').first
    found.wait_for(state="visible")
    found.focus()
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/{leads_to}*")


@pytest.mark.parametrize(
    ("words", "leads_to"),
    [
        ("randomised response", "privacy.html"),
        ("is connected already, from another process", "troubleshooting.html"),
        ("VerticalClassifier", "api.html"),
    ],
)
def test_a_search_by_keyboard_finds_the_page(address, chromium, words, leads_to):
    with opened(chromium, f"{address}/index.html") as page:
        search(page, words, leads_to)


def test_the_site_and_its_search_work_without_a_server(site, chromium):
    asked = []
    context = chromium.new_context()
    page = context.new_page()
    page.on("request", lambda request: asked.append(request.url))
    page.goto((site / "index.html").as_uri())
    search(page, "staleness", "fullpipe.html")
    context.close()
    assert [url for url in asked if not url.startswith(site.as_uri())] == []


def test_the_keyboard_reaches_the_content_and_the_sections(address, chromium):
    with opened(chromium, f"{address}/quick-start.html") as page:
        page.keyboard.press("Tab")
        assert page.locator(".md-skip").evaluate("link => link === document.activeElement")
        reached = set()
        for _ in range(40):
            page.keyboard.press("Tab")
            reached.add(page.evaluate("document.activeElement.textContent.trim()"))
    assert {"Guides", "Methods", "Reference", "Project", "Installing"} <= reached


def test_dark_and_light_can_be_chosen_and_are_remembered(address, chromium):
    with opened(chromium, f"{address}/index.html") as page:
        assert page.evaluate("document.body.dataset.mdColorScheme") == "default"
        page.get_by_title("Switch to dark mode").click()
        assert page.evaluate("document.body.dataset.mdColorScheme") == "slate"
        page.goto(f"{address}/faq.html")
        assert page.evaluate("document.body.dataset.mdColorScheme") == "slate"


def test_the_picture_is_on_the_front_page_and_in_words(address, chromium):
    with opened(chromium, f"{address}/index.html", size="phone") as page:
        picture = page.get_by_role("img", name="One second of virtual time")
        assert picture.evaluate("img => img.complete && img.naturalWidth") > 0
