"""The documentation as a whole: every page is found, every link leads somewhere, and what is made
by a script is what the script makes. None of this builds the site."""

from __future__ import annotations

import doctest
import posixpath
import re
from functools import cache

import pytest
import yaml

from scripts import docs_site, docstrings, picture, reference
from scripts.docs_site import AT_THE_ROOT, DOCS, MADE, ROOT, links, pages, resolved

README = ROOT / "README.md"
EVERY = [*pages(), "README.md"]


class Loader(yaml.SafeLoader):
    """Reads mkdocs.yml without building what its tags name."""


Loader.add_multi_constructor("tag:yaml.org,2002:python/", lambda loader, tag, node: tag)


@cache
def settings():
    return yaml.load((ROOT / "mkdocs.yml").read_text(), Loader)


@cache
def anchors(path):
    """The places in a page that a link can name."""
    text = docs_site.FENCED.sub("", (ROOT / path).read_text())
    found = set(re.findall(r'<a id="([^"]+)"', text))
    for heading in re.findall(r"^#+ (.+)$", text, re.M):
        plain = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").lower()
        found.add(re.sub(r"[^\w\- ]", "", plain).strip().replace(" ", "-"))
    return found


def test_every_page_is_in_the_navigation_once_and_nothing_else_is():
    written = {path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")}
    whole = docs_site.completed(settings()["nav"], sorted(written))
    listed = list(docs_site.named(whole))
    assert sorted(listed) == sorted(written | set(AT_THE_ROOT.values()) | set(MADE))


@pytest.mark.parametrize("page", EVERY)
def test_every_relative_link_of_a_page_leads_to_something(page):
    for target, anchor in links((ROOT / page).read_text()):
        path = resolved(target, page)
        assert (ROOT / path).exists(), f"{target} is not there"
        if anchor and path.endswith(".md"):
            assert anchor[1:] in anchors(path), f"{path} has no section {anchor}"
    for anchor in re.findall(r"\]\(#([^)]+)\)", (ROOT / page).read_text()):
        assert anchor in anchors(page), f"{page} has no section #{anchor}"


@pytest.mark.parametrize("page", pages())
def test_links_lead_to_the_same_place_on_the_site(page):
    here = posixpath.dirname(docs_site.place_of(page))
    moved = list(links(docs_site.relinked((ROOT / page).read_text(), page)))
    for (before, anchor), (after, same) in zip(
        links((ROOT / page).read_text()), moved, strict=True
    ):
        there = posixpath.normpath(posixpath.join(here, after))
        assert (there, same) == (docs_site.place_of(resolved(before, page)), anchor)


def test_the_index_links_to_every_page_of_its_folder():
    linked = {target for target, _ in links((DOCS / "README.md").read_text())}
    assert {path.name for path in DOCS.glob("*.md")} - {"README.md"} <= linked


def test_the_picture_is_what_its_script_makes():
    assert picture.PICTURE.read_text() == picture.picture()


def test_what_the_picture_shows_is_said_where_it_is_shown():
    told = picture.told()
    for page in (README, DOCS / "README.md"):
        assert f"![{told}](" in page.read_text(), told


def test_the_front_page_opens_with_the_picture_and_the_two_commands_and_is_short():
    text = README.read_text()
    assert text.count("\n") <= 120
    assert text.index("pipeline.svg") < text.index("make demo") < text.index("make test")
    assert text.index("make test") < text.index("## What it is for")


@pytest.mark.parametrize("module", [docs_site, docstrings, reference])
def test_the_examples_of_a_script_hold(module):
    assert doctest.testmod(module).failed == 0


def test_the_reference_has_every_command_and_every_public_name():
    import typer

    import colonnade
    from colonnade.cli import app

    commands, names = reference.command_line(), reference.api()
    for command in typer.main.get_command(app).commands:
        assert f"## colonnade {command}\n" in commands
    for name in colonnade.__all__:
        assert names.count(f"heading: {name}\n") == 1


def test_the_site_asks_no_other_host_for_anything():
    theme, extra = settings()["theme"], settings()["extra"]
    assert theme["font"] is False and set(extra) == {"generator", "polyfills"}
    loaded = settings()["extra_css"] + settings()["extra_javascript"] + extra["polyfills"]
    assert [path for path in loaded if not (DOCS / path).is_file()] == []
    assert "repo_url" not in settings()
