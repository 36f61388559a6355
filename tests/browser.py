"""Pages in a real browser: Debian's chromium, driven by Playwright, without a network.

    with browser() as chromium, opened(chromium, file.as_uri(), size="phone") as page:
        assert not faults(page)

A page that asks for anything but itself, or writes an error to its console, fails the test. Where
`COLONNADE_SHOTS` names a folder, `shot` keeps pictures there, to be looked at.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

CHROMIUM = Path("/usr/bin/chromium")
SIZES = {"phone": (390, 844), "desktop": (1440, 900)}
SCHEMES = ("light", "dark")
SERIOUS = ("serious", "critical")
WAIT_MS = 120_000


def why_not() -> str:
    """Why no page can be tried here; empty where one can."""
    if not CHROMIUM.exists():
        return f"there is no {CHROMIUM}: apt-get install chromium, or make test as root"
    missing = [name for name in ("axe_playwright_python", "playwright") if not find_spec(name)]
    return f"{missing[0]} is missing: pip install -e '.[dev]'" if missing else ""


@contextmanager
def browser() -> Iterator[Any]:
    """Chromium, for a whole module of tests: to start it takes longer than to open a page."""
    from playwright.sync_api import sync_playwright

    # Root has no sandbox, and a container little shared memory.
    options = ["--disable-dev-shm-usage", *(["--no-sandbox"] if os.getuid() == 0 else [])]
    with sync_playwright() as player:
        chromium = player.chromium.launch(executable_path=CHROMIUM, args=options)
        try:
            yield chromium
        finally:
            chromium.close()


@contextmanager
def opened(
    chromium: Any, url: str, *, size: str = "desktop", scheme: str = "light", ready: str = ""
) -> Iterator[Any]:
    """A page at a size and in a colour scheme; it may ask for its own host only, if it has one.

    `ready` is a selector to wait for before the page is handed over.
    """
    width, height = SIZES[size]
    context = chromium.new_context(
        viewport={"width": width, "height": height}, color_scheme=scheme, accept_downloads=True
    )
    page = context.new_page()
    said: list[str] = []
    page.on("console", lambda message: _hear(said, message))
    page.on("pageerror", lambda error: said.append(f"error: {error}"))
    page.on("request", lambda request: _look(said, request.url, url))
    page.set_default_timeout(WAIT_MS)
    try:
        page.goto(url)
        if ready:
            page.wait_for_selector(ready, state="attached")
        yield page
        assert not said, said
    finally:
        context.close()


def _hear(said: list[str], message: Any) -> None:
    if message.type in ("error", "warning"):
        said.append(f"{message.type}: {message.text}")


def _look(said: list[str], asked: str, url: str) -> None:
    """Note what a page asks for, unless it is itself or of its own host."""
    own = url.split("/", 3)[:3] if url.startswith("http://127.0.0.1:") else None
    local = asked.startswith(("data:", "blob:", "about:")) or asked.split("#")[0] == url
    if not local and (own is None or asked.split("/", 3)[:3] != own):
        said.append(f"asked for {asked}")


def faults(page: Any) -> list[str]:
    """What axe-core finds seriously wrong for people who do not see, hear or point well."""
    from axe_playwright_python.sync_playwright import Axe

    found = Axe().run(page).response["violations"]
    return [
        f"{fault['id']}: {fault['help']}: {node['target']}: {node.get('failureSummary', '')}"
        for fault in found
        if fault["impact"] in SERIOUS
        for node in fault["nodes"][:3]
    ]


def tabbed(page: Any, most: int = 300) -> list[str]:
    """What the Tab key reaches, one after the other, until it has been round once; each element
    gets a mark of its own."""
    page.evaluate(
        "() => { document.activeElement && document.activeElement.blur(); let n = 0;"
        " for (const each of document.querySelectorAll('*')) each.dataset.mark = n++; }"
    )
    found: list[str] = []
    for _ in range(most):
        page.keyboard.press("Tab")
        mark = page.evaluate(
            "() => document.activeElement === document.body ? null "
            ": document.activeElement.dataset.mark"
        )
        if mark is None or mark in found:
            break
        found.append(mark)
    return found


def reachable(page: Any) -> dict[str, str]:
    """What a keyboard has to reach, by the marks of `tabbed`; of a group of radio buttons that is
    the one which is checked."""
    return dict(
        page.evaluate(
            """() => [...document.querySelectorAll(
                 'a[href], button, select, input, textarea, summary, [tabindex="0"]')]
               .filter(each => !each.disabled)
               .filter(each => each.checkVisibility({contentVisibilityAuto: true}))
               .filter(each => each.type !== 'radio' || each.checked)
               .map(each => [each.dataset.mark, each.outerHTML.slice(0, 200)])"""
        )
    )


def shot(page: Any, name: str) -> None:
    """Keep a picture of the whole page, where somebody wants to look at it."""
    folder = os.environ.get("COLONNADE_SHOTS")
    if folder:
        Path(folder).mkdir(parents=True, exist_ok=True)
        page.screenshot(path=Path(folder) / f"{name}.png", full_page=True)
