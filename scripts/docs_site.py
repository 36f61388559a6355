"""What makes a site of the pages that are written for the repository's own web view.

Pages link to files of the repository, relative to themselves, as that view wants it. A page at the
root (the changelog, the contributing guide) becomes a page of the site; a source file that a page
links to becomes a page that shows it; the reference of commands and of the Python interface is
made from the code. mkdocs calls the functions that begin with `on_`.
"""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
AT_THE_ROOT = {
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "reporting-a-vulnerability.md",
}
"""Pages at the root of the repository, and what they are called on the site."""
HOME = {"README.md": "README.md", "docs": "README.md"}
"""The repository's front page has the site's in its place."""
MADE = ("command-line.md", "api.md")
"""Pages that are made from the code."""
SECTIONS = {"guides": "Guides", "methods": "Methods", "reproductions": "Results"}
"""Where in the navigation a new page of a folder goes; all others are how-tos."""
LINK = re.compile(r"(?<=\]\()(?P<target>[^()\s#]+)(?P<anchor>#[^()\s]*)?(?=\))")
FENCED = re.compile(r"^```.*?^```$", re.M | re.S)
LANGUAGES = {".py": "python", ".toml": "toml", ".yml": "yaml"}
SHOWN_BYTES = 200_000


def links(markdown: str) -> Iterator[tuple[str, str]]:
    """The relative links of a page, outside its blocks of code: target and anchor.

    >>> list(links("[one](a.md#b), [two](https://example.org), `[x](y)`"))
    [('a.md', '#b')]
    """
    prose = re.sub(r"`[^`\n]*`", "", FENCED.sub("", markdown))
    for match in LINK.finditer(prose):
        if ":" not in match["target"]:
            yield match["target"], match["anchor"] or ""


def resolved(target: str, page: str) -> str:
    """The file of the repository that a page means.

    >>> resolved("../job-files.md", "docs/guides/credit.md")
    'docs/job-files.md'
    """
    return posixpath.normpath(posixpath.join(posixpath.dirname(page), target))


def place_of(path: str) -> str:
    """Where a file of the repository is on the site.

    >>> place_of("docs/methods/pasta.md"), place_of("examples/my_method.py")
    ('methods/pasta.md', 'files/examples/my_method.py.md')
    """
    if path in AT_THE_ROOT or path in HOME:
        return AT_THE_ROOT.get(path) or HOME[path]
    if path.startswith("docs/"):
        return path.removeprefix("docs/")
    return f"files/{path}" if path.endswith(".ipynb") else f"files/{path}.md"


def in_repository(place: str) -> str:
    """The file of the repository that a page of the site was made from."""
    names = {there: here for here, there in AT_THE_ROOT.items()}
    return names.get(place, f"docs/{place}")


def relinked(markdown: str, page: str) -> str:
    """A page with its links as the site needs them.

    >>> relinked("[tables](docs/tables.md#files)", "CONTRIBUTING.md")
    '[tables](tables.md#files)'
    """
    here = posixpath.dirname(place_of(page))

    def moved(match: re.Match[str]) -> str:
        path = resolved(match["target"], page)
        if ":" in match["target"] or not (ROOT / path).exists():
            return match[0]
        return posixpath.relpath(place_of(path), here or ".") + (match["anchor"] or "")

    parts, place = [], 0
    for block in FENCED.finditer(markdown):
        parts += [LINK.sub(moved, markdown[place : block.start()]), block[0]]
        place = block.end()
    return "".join([*parts, LINK.sub(moved, markdown[place:])])


def pages() -> list[str]:
    """Every page of the repository that the site shows."""
    written = [path.relative_to(ROOT).as_posix() for path in sorted(DOCS.rglob("*.md"))]
    return [*written, *AT_THE_ROOT]


def shown_files() -> list[str]:
    """The files outside of the documentation that its pages link to."""
    found = set()
    for page in pages():
        for target, _ in links((ROOT / page).read_text()):
            path = resolved(target, page)
            if not path.startswith("docs") and path not in (*AT_THE_ROOT, *HOME):
                found.add(path)
    return sorted(path for path in found if (ROOT / path).exists())


def shown(path: str) -> str:
    """A page that shows a source file, or all those of a folder."""
    place = ROOT / path
    files = [place] if place.is_file() else [p for p in sorted(place.rglob("*")) if p.is_file()]
    files = [file for file in files if "__pycache__" not in file.parts]
    blocks = []
    for file in files:
        assert file.stat().st_size <= SHOWN_BYTES, f"{file} is too long to show"
        name = file.relative_to(ROOT).as_posix()
        code = file.read_text().rstrip().replace("```", "'''")
        blocks.append(f"## {name}\n\n```{LANGUAGES.get(file.suffix, 'text')}\n{code}\n```\n")
    return f"# {path}\n\n" + "\n".join(blocks)


def named(entries: list[Any]) -> Iterator[str]:
    """The pages that a part of the navigation names.

    >>> list(named(["a.md", {"More": ["b.md", {"C": "c.md"}]}]))
    ['a.md', 'b.md', 'c.md']
    """
    for entry in entries:
        if isinstance(entry, str):
            yield entry
        else:
            for inner in entry.values():
                yield from [inner] if isinstance(inner, str) else named(inner)


def completed(nav: list[Any], places: list[str]) -> list[Any]:
    """The navigation, with every page that it does not name in the section of its folder.

    >>> completed([{"Guides": []}, {"How-tos": ["data.md"]}], ["guides/new.md", "data.md"])
    [{'Guides': ['guides/new.md']}, {'How-tos': ['data.md']}]
    """
    known = set(named(nav))
    added: dict[str, list[str]] = {}
    for place in places:
        if place not in known:
            section = SECTIONS.get(place.rpartition("/")[0], "How-tos")
            added.setdefault(section, []).append(place)
    return [
        {title: [*inner, *added.get(title, [])] if isinstance(inner, list) else inner}
        for entry in nav
        for title, inner in entry.items()
    ]


def on_config(config: Any) -> Any:
    """Find a place for pages that are new."""
    config.nav = completed(config.nav, [place_of(page) for page in pages()])
    return config


def on_files(files: Any, config: Any) -> Any:
    """Add what is not in the folder of the documentation."""
    from mkdocs.structure.files import File

    from scripts.reference import api, command_line

    made = {"command-line.md": command_line(), "api.md": api()}
    made |= {there: (ROOT / here).read_text() for here, there in AT_THE_ROOT.items()}
    for path in shown_files():
        text = (ROOT / path).read_text() if path.endswith(".ipynb") else shown(path)
        made[place_of(path)] = text
    for place, text in made.items():
        files.append(File.generated(config, place, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Let links lead to where things are on the site."""
    place = page.file.src_uri
    if place == "README.md":
        # It is the only page of its section, and has its own index.
        page.meta["hide"] = ["navigation"]
    return markdown if place in MADE else relinked(markdown, in_repository(place))


def on_post_page(output: str, page: Any, config: Any) -> str:
    """Give the dialogue of the search a name, for who hears the page."""
    named = 'data-md-component="search" role="dialog"'
    return output.replace(named, f'{named} aria-label="Search"')


def on_startup(command: str, dirty: bool) -> None:
    """Keep help texts as wide whatever the terminal."""
    os.environ["COLUMNS"] = "100"
