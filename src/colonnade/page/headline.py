"""What a person wants to know first: what was reached, how fast, with how many bytes, and against
what. Where there is nothing to compare with, or not fairly, that is what it says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from colonnade.page.levels import TARGET, Row
from colonnade.page.words import named
from colonnade.units import show_bytes, show_seconds

BASELINE = "fedsgd"
_UNTUNED = (
    "Every method has the learning rates of its own job file, and nobody tuned them for this "
    "comparison: colonnade race compares each method at its best rate."
)
_ALONE = (
    "There is no baseline in this report: add a run of fedsgd, or the folder of a race, to see "
    "what the method gains."
)


def headline(groups: Sequence[Row], rows: Sequence[Row], metric: str | None,
             level: tuple[float | None, str], race: Mapping[str, Any] | None) -> Row:  # fmt: skip
    """Title, lead, figures and remarks of a report."""
    if race is not None:
        return _raced(race)
    runs = [run for group in groups for run in group["runs"]]
    if len(runs) == 1 or len(groups) == 1:
        return _alone(groups[0], rows[0], metric, level[1])
    return _compared(groups, rows, metric, level)


def times(ratio: float) -> str:
    """How many times more or less, in three figures.

    >>> times(3.4567), times(12.3), times(0.5)
    ('3.46×', '12.3×', '0.5×')
    """
    return f"{ratio:.3g}×"


def share(ratio: float) -> str:
    """A part of something, or a multiple of it.

    >>> share(0.4741), share(2.5)
    ('47 %', '2.5 times')
    """
    return f"{ratio:.0%}".replace("%", " %") if ratio < 1.995 else f"{ratio:.2g} times"


def figure(value: float | None) -> str:
    """A metric's value.

    >>> figure(0.93456), figure(None), figure(1234.5)
    ('0.935', '–', '1,234')
    """
    if value is None:
        return "–"
    return f"{value:.3f}" if abs(value) < 100 else f"{value:,.0f}"


def _took(seconds: float | None, clock: str) -> str:
    if not seconds:
        return "no time" if clock == "virtual" else "–"
    return show_seconds(seconds)


def _alone(group: Row, row: Row, metric: str | None, level: str) -> Row:
    """One method: what it reached, and at what cost; `level` is what its row was compared to."""
    run, runs = group["runs"][0], group["runs"]
    # Of runs that diverged or failed there are no means, and yet they took time and sent bytes.
    time_s = run["time_s"] if row["time_s"] is None else row["time_s"]
    sent = row["bytes"] or run["bytes"].get("total") or 0
    seeds = f", the mean of {len(runs)} seeds" if len(runs) > 1 else ""
    on_test = row["test"] is not None and metric is not None
    value = row["test"] if on_test else row["best"]
    chosen = run["metric"]["chosen_on"] or "validation"
    rows_ = "test rows" if on_test else f"{chosen} rows"
    state = _state_words(runs)
    if value is not None:
        title = f"{group['label']} reaches {metric} {figure(value)} on the {rows_}"
    elif run["state"] == "failed":
        title = f"{group['label']} failed"
    elif run["status"] == "diverged":
        title = f"{group['label']} diverged after {run['rounds']:,} rounds"
    else:
        title = f"{group['label']}, {run['rounds']:,} rounds"
    where = f" on {run['job']}" if run["job"] else ""
    epochs = f"{run['epochs']:,.3g} epochs, " if run["epochs"] else ""
    virtual = " of virtual time" if run["clock"] == "virtual" and run["time_s"] else ""
    lead = (
        f"Trained{where} for {epochs}{run['rounds']:,} rounds in "
        f"{_took(time_s, run['clock'])}{virtual}, with "
        f"{show_bytes(sent)} of training traffic{seeds}."
    )
    if not run["bytes"]:
        lead = f"Trained{where} for {epochs}{run['rounds']:,} rounds."
    notes = [*state, _target_words(run, row, metric, level), "" if group["is_baseline"] else _ALONE]
    if group["is_baseline"]:
        notes.append("This is plain split training, the baseline of other methods.")
    if run["one_party"]:
        notes.append(
            f"This is the folder of {run['one_party']}, which knows its own part of the run."
            + ("" if value is not None else " What was measured, the active party knows.")
        )
    boxes = [
        _box(f"{metric or 'metric'}, {rows_}", figure(value), "mean over seeds" if seeds else ""),
        _box("time", _took(time_s, run["clock"]), _clock_words(run)),
        _box("training bytes", show_bytes(sent) if run["bytes"] else "–",
             _both_ways(run)),
        _box("rounds", f"{run['rounds']:,}", f"{run['epochs']:.3g} epochs" if run["epochs"]
             else ""),
    ]  # fmt: skip
    return {"title": title, "lead": lead, "figures": boxes, "notes": [n for n in notes if n]}


def _box(label: str, value: str, note: str) -> dict[str, str]:
    return {"label": label, "value": value, "note": note}


def _clock_words(run: Mapping[str, Any]) -> str:
    if run["clock"] == "virtual":
        return "virtual" if run["time_s"] else "no [network] and [compute] in the job"
    return "wall clock"


def _both_ways(run: Mapping[str, Any]) -> str:
    up, down = run["bytes"].get("up"), run["bytes"].get("down")
    if up is None or down is None:
        return ""
    return f"{show_bytes(up)} up, {show_bytes(down)} down"


def _target_words(run: Mapping[str, Any], row: Row, metric: str | None, level: str) -> str:
    if run["target"] is None or metric is None:
        return ""
    # Where no run reached the target, its row was compared to the best that there was.
    if (
        level == TARGET
        and row["reached"]
        and row["to_time_s"] is not None
        and row["to_bytes"] is not None
    ):
        many = f" in {row['reached']} of {row['runs']} runs" if row["runs"] > 1 else ""
        return (
            f"The target, {metric} {run['target']:g}, is reached{many} after "
            f"{_took(row['to_time_s'], run['clock'])}, {row['to_rounds']:,.0f} rounds and "
            f"{show_bytes(row['to_bytes'])}."
        )
    return f"The target, {metric or 'metric'} {run['target']:g}, is not reached."


def _state_words(runs: Sequence[Mapping[str, Any]]) -> list[str]:
    """What has to be said of runs that are not at a good end."""
    said = []
    for run in runs:
        what = f"{run['method'] or run['folder']}, seed {run['seed']}"
        if run["state"] == "running":
            said.append(f"{what} is still running: the figures are those so far.")
        elif run["state"] == "interrupted":
            said.append(f"{what} was interrupted after {run['rounds']:,} rounds.")
        elif run["status"] == "diverged":
            said.append(f"{what} diverged after {run['rounds']:,} rounds.")
        elif run["state"] == "failed":
            why = f": {run['error']}" if run["error"] else "."
            said.append(f"{what} failed{why}")
    return said


def _compared(groups: Sequence[Row], rows: Sequence[Row], metric: str | None,
              level: tuple[float | None, str]) -> Row:  # fmt: skip
    runs = [run for group in groups for run in group["runs"]]
    base = next((row for row in rows if row["is_baseline"]), None)
    there = [row for row in rows if row["to_time_s"] is not None]
    clock = "virtual" if runs[0]["clock"] == "virtual" else "wall"
    notes = [*_state_words(runs)]
    value, what = level
    if value is None or not there or metric is None:
        title = f"{len(groups)} methods side by side"
        lead = f"{named([row['label'] for row in rows[:8]])}: no level that all can be compared at."
        return {"title": title, "lead": lead, "figures": _bests(rows, metric), "notes": notes}
    seeds = max(row["runs"] for row in rows)
    over = f" Means over up to {seeds} seeds." if seeds > 1 else ""
    fastest = min(there, key=lambda row: (row["to_time_s"], row["to_bytes"] or 0))
    others = [row for row in there if not row["is_baseline"]]
    if base is None:
        title = f"{fastest['label']} is the first to reach {metric} {figure(value)}"
        lead = f"It takes {_took(fastest['to_time_s'], clock)}; {what} is the level.{over}"
        notes.append("None of these runs is fedsgd, so there is no baseline to hold them against.")
    elif base["to_time_s"] is None:
        title = f"{fastest['label']} reaches {metric} {figure(value)}; fedsgd does not"
        virtual = " of virtual time" if clock == "virtual" else ""
        lead = f"It takes {_took(fastest['to_time_s'], clock)}{virtual} to {what}.{over}"
        notes.append(_UNTUNED)
    elif not others or fastest["is_baseline"]:
        title = f"fedsgd itself is the fastest to {metric} {figure(value)}"
        lead = f"No other method gets to {what} sooner than in {_took(base['to_time_s'], clock)}."
        notes.append(_UNTUNED)
    else:
        title, lead = _faster(fastest, base, metric, value, what, clock)
        lead += over
        notes.append(_UNTUNED)
    return {"title": title, "lead": lead, "figures": _level_boxes(fastest, base, clock, metric),
            "notes": notes}  # fmt: skip


def _faster(
    best: Row, base: Row, metric: str, value: float, what: str, clock: str
) -> tuple[str, str]:
    ratio, sizes = best["speed_up"], best["bytes_ratio"]
    in_ = f" in {_took(best['to_time_s'], clock)},"
    gain = f"{in_} {times(ratio)} as fast as fedsgd" if ratio else " sooner than fedsgd"
    virtual = " of virtual time" if clock == "virtual" else ""
    lead = (
        f"{_took(best['to_time_s'], clock)} against {_took(base['to_time_s'], clock)}{virtual} to "
        f"{what}" + (f", with {share(sizes)} of the bytes." if sizes else ".")
    )
    return f"{best['label']} reaches {metric} {figure(value)}{gain}", lead


def _level_boxes(best: Row, base: Row | None, clock: str, metric: str) -> list[dict[str, str]]:
    none = "fedsgd misses it" if base else "no baseline"
    against = f"fedsgd {_took(base['to_time_s'], clock)}" if base and base["to_time_s"] else none
    sizes = show_bytes(best["to_bytes"]) if best["to_bytes"] is not None else "–"
    against_bytes = f"fedsgd {show_bytes(base['to_bytes'])}" if base and base["to_bytes"] else none
    rounds = f"{best['to_rounds']:,.0f}" if best["to_rounds"] is not None else "–"
    against_rounds = f"fedsgd {base['to_rounds']:,.0f}" if base and base["to_rounds"] else none
    tested = best["test"] if best["test"] is not None else best["best"]
    where = "test rows" if best["test"] is not None else "best"
    against_test = f"fedsgd {figure(base['test'])}" if base and base["test"] is not None else ""
    return [
        _box("time to level", _took(best["to_time_s"], clock), against),
        _box("bytes to level", sizes, against_bytes),
        _box("rounds to level", rounds, against_rounds),
        _box(f"{metric}, {where}", figure(tested), against_test),
    ]


def _bests(rows: Sequence[Row], metric: str | None) -> list[dict[str, str]]:
    return [_box(row["label"], figure(row["best"]), metric or "") for row in rows[:4]]


def _raced(race: Mapping[str, Any]) -> Row:
    """A race: every method at its best, beside FedSGD at its own best rate."""
    told = race.get("methods")
    rows = [row for row in (told if isinstance(told, list) else []) if isinstance(row, dict)]
    metric, target = str(race.get("metric", "metric")), race.get("target")
    base = rows[0] if rows else {}
    raced = [row for row in rows[1:] if _float(row.get("speed_up"))]
    said = race.get("notes")
    notes = [
        note.removeprefix("* ")
        for note in (said if isinstance(said, list) else [])
        if isinstance(note, str)
    ]
    if not raced:
        who = named([str(row.get("method")) for row in rows]) or "no method"
        lead = f"Raced were {who}; no speed-up over FedSGD can be told."
        held = [str(row.get("method")) for row in rows if row.get("reached")]
        level = f"{metric} {figure(_float(target))}"
        title = f"{named(held)} holds {level}" if held else f"No method holds {level}"
        return {"title": title, "lead": lead,
                "figures": [], "notes": notes}  # fmt: skip
    best = max(raced, key=lambda row: float(row["speed_up"]))
    gain, least, most = (_float(best.get(key)) for key in
                         ("speed_up", "speed_up_min", "speed_up_max"))  # fmt: skip
    assert gain is not None
    span = f" ({times(least)} to {times(most)} over seeds)" if least and most else ""
    sizes = _float(best.get("bytes_ratio"))
    carried = f", with {share(sizes)} of the bytes" if sizes else ""
    took = show_seconds(_float(best.get("time_s_mean")) or 0)
    title = (
        f"{best.get('method')} reaches {metric} {figure(_float(target))} in {took}, {times(gain)} "
        "as fast as FedSGD at its best rate"
    )
    lead = (
        f"{took} against "
        f"{show_seconds(_float(base.get('time_s_mean')) or 0)}{span}{carried}. Both at the "
        "learning rate that is best for each, chosen on validation rows with other seeds."
    )
    boxes = [
        _box("time to target", show_seconds(_float(best.get("time_s_mean")) or 0),
             f"FedSGD {show_seconds(_float(base.get('time_s_mean')) or 0)}"),
        _box("bytes to target", show_bytes(_float(best.get("bytes_mean")) or 0),
             f"FedSGD {show_bytes(_float(base.get('bytes_mean')) or 0)}"),
        _box(f"{metric}, test rows", figure(_float(best.get("test_mean"))),
             f"FedSGD {figure(_float(base.get('test_mean')))}"),
        _box("learning rate", str(best.get("rate", "–"))[:24],
             f"FedSGD {str(base.get('rate', '–'))[:24]}"),
    ]  # fmt: skip
    return {"title": title, "lead": lead, "figures": boxes, "notes": notes}


def _float(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) else None
