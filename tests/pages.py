"""Run folders for tests of pages: real ones, and one in which every text is hostile."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

import colonnade as cn
from colonnade.page.reading import NAME_MAX

MARKUP = "<img src=x onerror=window.hacked=1><script>window.hacked=1</script>"
"""What would set `hacked`, were it ever taken for markup."""
ENDS = "</script></style>--><svg onload=window.hacked=1>"
"""What would end the element that carries the facts."""
FORMULA = '=HYPERLINK("http://example.invalid")'
SHORT = ["train.epochs=4", "train.evaluate_every=5 rounds", "train.target=0.1"]


def trained(out: Path, method: str, seed: int = 0) -> Path:
    """A short simulation of three parties, saved."""
    return cn.simulate(cn.load("digits", SHORT, method=method, seed=seed)).save(out)


def hostile(run: Path, out: Path) -> Path:
    """A copy of a run folder in which names and sentences try to be markup."""
    shutil.copytree(run, out)
    _rename(out / "timeline.parquet", ("party", "kind", "peer", "message"))
    _rename(out / "exchanges.parquet", ("party",))
    summary = json.loads((out / "summary.json").read_text())
    summary |= {"job": MARKUP, "positive": ENDS, "status": "end", "error": MARKUP}
    summary["method"] = {"name": MARKUP, "option": ENDS}
    summary["composition"] = {MARKUP: ENDS}
    summary["metric"]["chosen_on"] = MARKUP
    for table in ("updates", "busy_s", "idle_s", "max_in_flight"):
        summary[table][ENDS] = next(iter(summary[table].values()))
    (out / "summary.json").write_text(json.dumps(summary))
    ledger = json.loads((out / "ledger.json").read_text())
    entry = {"peer": ENDS, "direction": "sent", "kind": MARKUP, "purpose": FORMULA}
    ledger[MARKUP] = [{**entry, "messages": 3, "bytes": 9_000_000}]
    (out / "ledger.json").write_text(json.dumps(ledger))
    finding = {"party": MARKUP, "of": ENDS, "to": "*", "attack": MARKUP, "needs": ENDS}
    audit = {"known": 1, "findings": [finding], "verdict": [MARKUP], "not_tested": [ENDS]}
    (out / "privacy.json").write_text(json.dumps(audit))
    history = pq.read_table(out / "history.parquet")
    names = [MARKUP if name == "validation_loss" else name for name in history.column_names]
    pq.write_table(history.rename_columns(names), out / "history.parquet")
    # A job file that names code of its own is not read, and the page says so.
    job = (out / "job.toml").read_text()
    (out / "job.toml").write_text(job.replace('name = "pasta"', 'name = "hostile.code:method"'))
    for card in out.glob("parties/*/model.json"):
        told = json.loads(card.read_text())
        told |= {"columns": [MARKUP, ENDS], "environment": {MARKUP: ENDS}, "job": MARKUP}
        told["classes"] = [MARKUP, *told.get("classes", [])[1:]]
        card.write_text(json.dumps(told))
    return out


def _rename(path: Path, columns: tuple[str, ...]) -> None:
    """Put markup in front of every name of some columns."""
    table = pq.read_table(path)
    for name in columns:
        values = [value and f"{MARKUP}{value}"[:NAME_MAX] for value in table[name].to_pylist()]
        # Kinds of messages have to stay what they are, or nothing would be drawn of them.
        kept = [value.replace(MARKUP, "") if value.endswith(("send", "receive")) else value
                for value in values]  # fmt: skip
        column = pa.array(kept).dictionary_encode()
        table = table.set_column(table.column_names.index(name), name, column)
    pq.write_table(table, path)
