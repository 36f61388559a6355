"""Where the best point of a sweep lies at the edge of its grid, so that a better may lie beyond."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from colonnade.record.table import toml_text


def edges(best: Mapping[str, Any], tried: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The fields whose best value is the smallest or the largest that was tried.

    Only fields of numbers have such an edge, and only where more than one was tried.

    >>> edges({"lr": 0.1}, [{"lr": 0.01}, {"lr": 0.1}])
    [{'field': 'lr', 'value': 0.1, 'edge': 'largest'}]
    """
    found = []
    for field, value in best.items():
        values = [settings.get(field) for settings in tried]
        numbers = [
            each for each in values if isinstance(each, int | float) and not isinstance(each, bool)
        ]
        if len(numbers) < len(values) or len(set(numbers)) < 2:
            continue
        for edge, extreme in (("smallest", min(numbers)), ("largest", max(numbers))):
            if value == extreme:
                found.append({"field": field, "value": value, "edge": edge})
    return found


def edge_text(edge: Mapping[str, Any]) -> str:
    """The sentence for one of them.

    >>> edge_text({"field": "lr", "value": 0.1, "edge": "largest"})
    'lr = 0.1 is the largest of the grid: the best may lie beyond'
    """
    shown = f"{edge['field']} = {toml_text(edge['value'])}"
    return f"{shown} is the {edge['edge']} of the grid: the best may lie beyond"
