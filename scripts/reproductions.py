"""Puts what experiments have found into the documentation.

    python -m scripts.reproductions runs/reproduce/pasta-latency runs/reproduce/celu-rounds …

takes the tables, pictures and claims that `colonnade reproduce` has left in these folders into
`docs/reproductions/`, and makes the table at the top of `docs/reproductions.md` anew from the
claims of all experiments. No figure in it is typed; a test holds the table against the claims.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
INDEX = ROOT / "docs" / "reproductions.md"
PAGES = ROOT / "docs" / "reproductions"
RESULTS = PAGES / "results"
PICTURES = PAGES / "pictures"
BEGIN, END = "<!-- made by scripts/reproductions.py -->", "<!-- end of what is made -->"
RULES = ("paper", "fair")
COLUMNS = ("experiment", "claim", "paper", "by the paper's rule", "by the fair rule")
NONE = "–"


class UnfitError(Exception):
    """A folder that cannot be put into the documentation, and why."""


def known() -> dict[str, Mapping[str, Any]]:
    """What every experiment has found, by name."""
    return {path.stem: json.loads(path.read_text()) for path in sorted(RESULTS.glob("*.json"))}


def headline(found: Mapping[str, Mapping[str, Any]]) -> str:
    """All claims, with what came of each by either rule.

    >>> claim = {"claim": "faster", "paper": "4.6", "ours": "4.4", "verdict": "reproduced"}
    >>> print(headline({"pasta": {"claims": [claim | {"rule": "fair"}]}}))
    | experiment | claim | paper | by the paper's rule | by the fair rule |
    |---|---|---|---|---|
    | [pasta](reproductions/pasta.md) | faster | 4.6 | – | 4.4, **reproduced** |
    """
    lines = [COLUMNS, tuple("---" for _ in COLUMNS), *rows(found)]
    text = ["| " + " | ".join(line) + " |" for line in lines]
    text[1] = text[1].replace(" ", "")
    return "\n".join(text)


def rows(found: Mapping[str, Mapping[str, Any]]) -> Iterator[tuple[str, ...]]:
    """A row for every claim; those of both rules stand side by side."""
    for name, told in found.items():
        page = f"[{name}](reproductions/{name}.md)"
        for text in dict.fromkeys(claim["claim"] for claim in told["claims"]):
            own = {claim["rule"]: claim for claim in told["claims"] if claim["claim"] == text}
            paper = next((claim["paper"] for claim in own.values()), NONE)
            yield (page, text, paper, *(_cell(own.get(rule)) for rule in RULES))
            page = ""


def _cell(claim: Mapping[str, str] | None) -> str:
    if claim is None:
        return NONE
    if claim["ours"] == NONE:
        return claim["verdict"]
    return f"{claim['ours']}, **{claim['verdict']}**"


def replaced(page: str, made: str) -> str:
    """A page with what stands between the marks made anew.

    >>> replaced(f"a\\n{BEGIN}\\nold\\n{END}\\nb", "new").split("\\n")[2:4]
    ['', 'new']
    """
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise UnfitError(f"the page has no '{BEGIN}' and '{END}'")
    return f"{before}{BEGIN}\n\n{made.strip()}\n\n{END}{after}"


def publish(folder: Path) -> None:
    """Put one experiment's findings into the documentation."""
    name = folder.name
    try:
        told = json.loads((folder / "claims.json").read_text())
        page = (folder / "page.md").read_text()
    except OSError as fault:
        raise UnfitError(f"{folder} is no finished experiment: {fault.strerror}") from None
    if not told["claims"]:
        raise UnfitError(f"{folder} has no claims: only the full form has, not the quick one")
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"{name}.json").write_text(json.dumps(told, indent=1, ensure_ascii=False) + "\n")
    for picture in sorted(folder.glob("*.svg")):
        PICTURES.mkdir(exist_ok=True)
        (PICTURES / f"{name}-{picture.name}").write_text(picture.read_text())
        page = page.replace(f"]({picture.name})", f"](pictures/{name}-{picture.name})")
    place = PAGES / f"{name}.md"
    known_page = place.read_text() if place.exists() else f"# {name}\n\n{BEGIN}\n{END}\n"
    place.write_text(replaced(known_page, page))


def main() -> None:
    """Put the named folders into the documentation, and make the table anew."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folders", nargs="*", type=Path, help="of `colonnade reproduce NAME`")
    try:
        for folder in parser.parse_args().folders:
            publish(folder.resolve())
        INDEX.write_text(replaced(INDEX.read_text(), headline(known())))
    except UnfitError as fault:
        sys.exit(str(fault))


if __name__ == "__main__":
    main()
