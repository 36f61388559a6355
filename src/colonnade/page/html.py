"""One HTML file that needs nothing else: facts, charts, styles and the chart library inside it.

The file's content-security policy allows the scripts that it was written with, by their hashes, its
own style, and no connection of any kind. The facts are JSON in an element of their own, where no
markup can end it; the scripts turn texts into text nodes only.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
from functools import cache
from importlib import resources
from typing import Any

SCRIPTS = ("dom.js", "timeline.js", "charts.js")
"""The scripts of every page, in this order, after the chart library."""
LIBRARY = "echarts.min.js"


@cache
def static(name: str) -> str:
    """A script or style of the package.

    >>> static("page.css").startswith(":root")
    True
    """
    return (resources.files("colonnade.page") / "static" / name).read_text("utf-8")


@cache
def library() -> str:
    """The chart library."""
    return (resources.files("colonnade.page") / "vendor" / LIBRARY).read_text("utf-8")


def sources(last: str = "report.js") -> list[str]:
    """The scripts of a page in the order in which they run; none of them can end its element.

    >>> [len(each) > 0 for each in sources()]
    [True, True, True, True, True]
    """
    texts = [library(), *map(static, SCRIPTS), static(last)]
    for text in texts:
        assert "</script" not in text.lower() and "<!--" not in text
    return texts


def source_hash(text: str) -> str:
    """As a content-security policy names a script or a style."""
    digest = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


def as_json(facts: Any) -> str:
    """Facts as JSON that no HTML parser takes for markup.

    >>> as_json({"name": "</script><!--"})
    '{"name":"\\\\u003c/script>\\\\u003c!--"}'
    """
    text = json.dumps(facts, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c")


def report_html(facts: dict[str, Any]) -> str:
    """The page of a report.

    >>> page = report_html({"headline": {"title": "<b>", "lead": ""}, "version": "1", "runs": []})
    >>> "<b>" in page, "&lt;b&gt;" in page
    (False, True)
    """
    scripts, style = sources(), static("page.css")
    policy = (
        "default-src 'none'; "
        f"script-src {' '.join(map(source_hash, scripts))}; "
        f"style-src {source_hash(style)}; "
        "base-uri 'none'; form-action 'none'"
    )
    title = html.escape(facts["headline"]["title"])
    lead = html.escape(facts["headline"]["lead"])
    made = html.escape(f"Made by colonnade {facts['version']}")
    parts = [
        "<!doctype html>",
        '<html lang="en">',
        '<head><meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        '<meta name="referrer" content="no-referrer">',
        f"<title>{title} · Colonnade report</title>",
        f"<style>{style}</style></head>",
        "<body>",
        f'<div id="page"><noscript><main><h1>{title}</h1><p>{lead}</p><p>The charts need '
        "JavaScript, which this browser does not run.</p></main></noscript></div>",
        f"<footer>{made}. Charts by Apache ECharts, which is in this file under the Apache License "
        "2.0. This file connects to nothing.</footer>",
        f'<script type="application/json" id="facts">{as_json(facts)}</script>',
        *(f"<script>{text}</script>" for text in scripts),
        "</body></html>",
    ]
    return "\n".join(parts) + "\n"
