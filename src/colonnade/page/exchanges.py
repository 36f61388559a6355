"""Windows, staleness and weights over time, from `exchanges.parquet`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from colonnade.page.curves import plain
from colonnade.page.lanes import Spans
from colonnade.page.reading import Floats, Names

POINTS = 240
"""As many points of each party's curve are kept."""
TEMPLATE = {"party": "name", "round": "int", "sent_ns": "int", "replied_ns": "int",
            "used_ns": "int", "window": "float", "in_flight": "float", "staleness": "float",
            "updates": "float", "weight_p10": "float", "weight_p50": "float",
            "weight_p90": "float"}  # fmt: skip
MEANS = ("in_flight", "staleness", "updates", "weight_p10", "weight_p50", "weight_p90")


def exchanges_of(columns: Mapping[str, Any]) -> list[dict[str, Any]]:
    """For each party its rounds in time: window (the largest of each stretch), means of the rest,
    the largest staleness, and how long a reply took.

    >>> names = Names(np.zeros(1, np.int32), ["telco"])
    >>> rounds = {"round": np.ones(1, np.int64), "used_ns": np.ones(1, np.int64) * 10**9}
    >>> exchanges_of({"party": names, **rounds, "window": np.array([3.0])})[0]["window"]
    [3.0]
    """
    found = []
    party: Names = columns["party"]
    for code, name in enumerate(party.names):
        own = np.flatnonzero(party.codes == code)
        if not len(own):
            continue
        order = own[np.argsort(columns["used_ns"][own], kind="stable")]
        found.append({"party": name, "rounds": len(own), **_curves(columns, order)})
    return found


def _curves(columns: Mapping[str, Any], order: Any) -> dict[str, Any]:
    count = len(order)
    edges = np.unique(np.linspace(0, count, min(count, POINTS) + 1).astype(np.int64))
    starts = edges[:-1]
    found = {
        "time_s": plain(np.maximum.reduceat(columns["used_ns"][order], starts) / 1e9),
        "round": plain(np.maximum.reduceat(columns["round"][order], starts).astype(np.float64)),
    }
    if "window" in columns:
        found["window"] = plain(np.maximum.reduceat(columns["window"][order], starts))
    if "staleness" in columns:
        found["staleness_max"] = plain(np.maximum.reduceat(columns["staleness"][order], starts))
    for name in MEANS:
        if name in columns:
            values = _means(columns[name][order], edges)
            if np.isfinite(values).any():
                found[name] = plain(values)
    if {"sent_ns", "replied_ns"} <= columns.keys():
        took = (columns["replied_ns"] - columns["sent_ns"])[order] / 1e9
        found["reply_s"] = plain(_means(took, edges))
    return found


def _means(values: Floats, edges: Any) -> Floats:
    """The mean of each stretch, over what is known in it."""
    known = np.isfinite(values)
    sums = np.add.reduceat(np.where(known, values, 0.0), edges[:-1])
    counts = np.add.reduceat(known.astype(np.float64), edges[:-1])
    return np.divide(sums, counts, out=np.full(len(counts), np.nan), where=counts > 0)


def with_staleness(spans: Spans, columns: Mapping[str, Any] | None) -> Spans:
    """The spans, each with one more than the staleness of its party's round where that is known."""
    if columns is None or "staleness" not in columns or not len(columns["round"]):
        return spans
    names = {name: code for code, name in enumerate(columns["party"].names)}
    own = np.array([names.get(name, -1) for name in spans.party.names] or [-1])[spans.party.codes]
    rounds = columns["round"]
    most = int(min(max(rounds.max(), spans.round.max(initial=0)), 2**40)) + 1
    key = columns["party"].codes.astype(np.int64) * most + np.clip(rounds, 0, most - 1)
    order = np.argsort(key, kind="stable")
    wanted = own.astype(np.int64) * most + np.clip(spans.round, 0, most - 1)
    place = np.minimum(np.searchsorted(key[order], wanted), len(order) - 1)
    there = (key[order][place] == wanted) & (own >= 0) & (spans.round > 0)
    known = np.nan_to_num(columns["staleness"][order][place], nan=-1.0).astype(np.int64) + 1
    spans.staleness = np.where(there, np.maximum(known, 0), 0)
    return spans
