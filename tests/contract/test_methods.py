"""Every method passes the public checks, as a new file in methods/ does; and what ours promise."""

from __future__ import annotations

import inspect
import re
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from colonnade import methods, simulate
from colonnade.methods.method import AXES
from colonnade.policies.parse import constructors
from colonnade.testing.methods import SETTINGS, as_table, check_method, check_training
from tests.contract.test_two_worlds import NAMED, OPTIONS
from tests.small import small, with_network

ROOT = Path(__file__).parents[2]
METHODS = methods.known()
GRADIENT = {"name": "fedsgd"}
each_method = pytest.mark.parametrize("name", METHODS)


def train(name, latency="5ms", **options):
    case = small(3, method={"name": name}, rounds=20, evaluate_every="10 rounds",
                 labels="shared", **options)  # fmt: skip
    return simulate(with_network(case.job, latency=latency), case.data, case.modules)


CASES = NAMED | OPTIONS
EQUAL = {
    "fedbcd": [({"updates": 1}, "fedsgd")],
    "celu": [({"r": 1}, "fedsgd"), ({"w": 1, "overlap": False, "weigh": False}, "fedbcd")],
    "pasta": [({"b_max": 1, "s_max": 0}, "fedsgd")],
    "flexvfl": [({"timeout": "0s"}, "pbcd")],
    "efvfl": [({"compressor": "plain"}, "fedsgd")],
    "fullpipe": [({"most": 1, "decay": 0.0}, "fedsgd")],
    "flexvfl_s": [({"most": 0}, "fedsgd")],
}
"""Degenerate cases of a method, and the simpler one."""
FEWER = ((2, "split", False), (3, "agg", True))
"""Each number of parties but the largest, each top and each kind of active party once."""


@pytest.mark.parametrize("page", ["docs/architecture.md", "docs/composition.md"])
def test_every_axis_is_in_the_table_of(page):
    """With its constructors, those of `compress` and `protect` apart: they have their own pages."""
    text = (ROOT / page).read_text().partition("| axis |")[2].partition("\n\n")[0]
    rows = {row.split("`")[1]: row for row in text.splitlines() if row.startswith("| `")}
    assert sorted(rows) == sorted(AXES)
    for axis in set(AXES) - set(methods.TABLES):
        for constructor in constructors(axis):
            assert f"`{constructor}" in rows[axis], constructor


@each_method
def test_it_is_documented(name):
    """The paper, the equations, the options, the difference, an example."""
    text = inspect.getdoc(METHODS[name])
    assert text is not None
    assert re.search(r"\b20\d\d\b", text), "no paper"
    assert "←" in text or "Eq." in text, "no equation"
    assert ">>>" in text, "no example"
    for option in inspect.signature(METHODS[name]).parameters:
        assert re.search(rf"^\s*{option}: ", text, re.MULTILINE), f"{option} is not explained"


# The others are compared with their equations, and in all worlds, anyway.
QUICK = (*METHODS, "cvfl, lattice", "cvfl, feedback")


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * (name not in QUICK)) for name in CASES]
)
def test_it_keeps_the_contract_of_a_method(name):
    settings = {"fedsgd": SETTINGS}.get(name, FEWER) if name in METHODS else FEWER[:1]
    check_method(CASES[name], equals=EQUAL.get(name, ()), settings=settings)


REST = [each for each in product((2, 3, 5), ("split", "agg"), (False, True))
        if each not in FEWER]  # fmt: skip


@pytest.mark.slow
@each_method
@pytest.mark.parametrize("parties, top, label_only", REST)
def test_it_trains_any_number_of_parties(name, parties, top, label_only):
    check_training(name, parties, top, label_only)


@each_method
def test_its_name_leads_to_its_function(name):
    assert methods.build({"name": name}) == METHODS[name]()
    assert as_table(METHODS[name]) == {"name": name}


@pytest.mark.parametrize("name", ["pasta", "vafl"])
def test_embeddings_under_way_at_the_end_are_counted_and_not_used(name):
    """Who runs ahead has sent batches that are never answered."""
    goal = {"metric": "accuracy", "target": 0.1, "stop": "target"}
    run = train(name, "300ms", **goal)
    (sent,) = [e for e in run.parties["p0"].ledger if e["kind"] == "Embedding"]
    (received,) = [e for e in run.parties["p1"].ledger
                   if (e["peer"], e["kind"]) == ("p0", "Embedding")]  # fmt: skip
    assert sent["messages"] == received["messages"] > run.parties["p0"].fresh


@pytest.mark.parametrize(
    ("table", "composition"),
    [
        ({"name": "fedsgd", "local": "repeat:3"}, {"local": "repeat(updates=3)"}),
        (
            {"name": "celu", "window": "pipelined:3", "compress": {"embedding": "lattice:4"}},
            {"window", "local", "weight", "compress"},
        ),
        ({"name": "fedbcd", "updates": 1, "weight": "uniform"}, {}),
    ],
)
def test_axes_can_be_set_by_text(table, composition):
    made = methods.build(table).composition()
    assert (made if isinstance(composition, dict) else set(made)) == composition


def test_celu_with_a_lattice_and_a_pipeline_trains():
    table = {"name": "celu", "window": "pipelined:3", "compress": {"embedding": "lattice:4"}}
    case = small(3, method=table, rounds=60, full_loss=True, evaluate_every="20 rounds",
                 optimizer={"name": "sgd", "lr": 0.2})  # fmt: skip
    run = simulate(with_network(case.job, latency="300ms"), case.data, case.modules)
    assert run.history[-1]["full_loss"] < run.history[0]["full_loss"]
    assert max(run.summary()["max_in_flight"].values()) == 3


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ({"name": "fedsdg"}, "did you mean 'fedsgd'"),
        ({"name": "vafl", "start": "ones"}, "choose zeros or upload"),
        ({"name": "vafl", "exchange": "snapshot"}, "choose exchange=gradients"),
        ({"name": "vafl", "window": "pipelined:3", "local": "repeat:2"}, "nothing to pipeline"),
        ({"name": "fedsgd", "window": "pipelined:3"}, "one exchange would be in flight"),
        ({"name": "pasta", "s_max": 0}, "one exchange would be in flight"),
        ({"name": "fedbcd", "updates": 1, "window": "pipelined:2"}, "leave out method.window"),
        ({"name": "celu", "r": 1, "window": "pipelined:2"}, "leave out method.window"),
        ({"name": "pbcd", "window": "pipelined:2"}, "leave out method.window"),
        ({"name": "fedsgd", "step": "proximal:0.3"}, "leave out method.step"),
        ({"name": "fedbcd", "updates": 1, "mu": 0.1}, "leave out method.step"),
        ({"name": "flexvfl", "timeout": "0s", "momentum": 0.9}, "leave out method.step"),
        ({"name": "flexvfl", "first": 3.0}, "set adaptive=true"),
        ({"name": "cvfl", "both": True}, "choose exchange=gradients"),
        ({"name": "efvfl", "both": True, "exchange": "snapshot"}, "choose exchange=gradients"),
        ({"name": "efvfl", "compressor": "ef+scalar:2"}, "two memories"),
        ({"name": "fedsgd", "local": "agreed:1s:mean"}, "the min or the max"),
        ({"name": "flexvfl_s", "most": -1}, "0 or more"),
        ({"name": "flexvfl", "adaptive": True, "first": -1.0}, "0 to measure"),
        ({"name": "fedbcd", "update": 2}, "did you mean 'updates'"),
        ({"name": "fedbcd", "updates": "two"}, "must be of type int"),
        ({"name": "fedbcd", "updates": True}, "must be of type int"),
        ({"name": "fedbcd", "updates": 0}, "at least 1"),
        ({"name": "fedbcd", "mu": -1}, "0 or more"),
        ({"name": "fedbcd", "order": "random"}, "choose parallel or sequential"),
        ({"name": "fedbcd", "reply": "last"}, "needs order='sequential'"),
        ({"name": "fedsgd", "updates": 2}, "it has none"),
        ({"name": 7}, "must be text"),
        ({"name": "fedsgd", "window": "pipeline:3"}, "did you mean 'pipelined'"),
        ({"name": "fedsgd", "window": "pipelined"}, "lacks an argument: give most"),
        ({"name": "fedsgd", "window": "pipelined:x"}, "must be of type int"),
        ({"name": "fedsgd", "window": "pipelined:0"}, "lets nothing be sent"),
        ({"name": "fedsgd", "window": 3}, "write it as text"),
        ({"name": "fedsgd", "weight": "cosine:0.5"}, "no local updates to weigh"),
        ({"name": "fedsgd", "local": "workset:5:5:later=1"}, "an argument it does not know"),
        ({"name": "fedsgd", "local": "workset:0:5"}, "holds nothing"),
        ({"name": "celu", "threshold": 1.5}, "a cosine from 0"),
        ({"name": "pasta", "s_max": -1}, "give 0 or more"),
        ({"name": "flexvfl", "timeout": "soon"}, "not a duration"),
        ({"name": "flexvfl", "momentum": 1.0}, "0 to below 1"),
        ({"name": "cvfl", "compressor": "scaler:4"}, "did you mean 'scalar'"),
        ({"name": "pbcd", "local": "repeat:3", "weight": "cosine:0.5"}, "none come"),
        ({"name": "pbcd", "order": "sequential"}, "at the same time"),
        ({"name": "cvfl", "compress": {"gradient": "half"}}, "no gradients cross"),
        ({"name": "fedsgd", "compress": {"top": "half"}}, "crosses only in snapshots"),
        ({"name": "fedsgd", "compress": "half"}, "say for which tensors"),
        ({"name": "fedsgd", "compress": {"embeding": "half"}}, "did you mean 'embedding'"),
        ({"name": "fedsgd", "compress": {"embedding": 4}}, "write it as text"),
        (GRADIENT | {"compress": {"gradient": "topk:4:importance"}}, "known of embeddings only"),
        (GRADIENT | {"compress": {"gradient": "ef+topk:4:importance"}}, "compress.gradient would"),
        (
            GRADIENT | {"compress": {"gradient": "steps:0=half,9=topk:4:importance"}},
            "of embeddings",
        ),
        ({"name": "pbcd", "compress": {"top": "topk:4:importance"}}, "compress.top would have no"),
        (
            {
                "name": "cvfl",
                "compressor": "topk:4:importance",
                "both": True,
                "exchange": "gradients",
            },
            "compress.gradient would have no effect",
        ),
        ({"name": "celu", "weigh": False, "threshold": 0.7}, "leave out one of the two"),
        ({"name": "fedsgd", "rate": "speed_adaptive"}, "here each does one"),
        ({"name": "flexvfl", "timeout": "0s", "adaptive": True}, "here each does one"),
        ({"name": "fedsgd", "version": "recompute"}, "no update comes between"),
        ({"name": "fedbcd", "version": "recompute"}, "no update comes between"),
        ({"name": "fedsgd", "order": "sequential:first"}, "after the last update, or"),
        ({"name": "fedbcd", "mu": float("nan")}, "mu is nan"),
        ({"name": "fedbcd", "mu": float("inf")}, "mu is inf"),
        ({"name": "flexvfl", "adaptive": True, "first": float("nan")}, "first is nan"),
        ({"name": "no.such:thing"}, "cannot be imported"),
        ({"name": "math:nothing"}, "no function 'nothing'"),
        ({"name": "math:pi"}, "does not say that it is a method"),
        ({"name": "builtins:dict"}, "does not say that it is a method"),
        ({"name": "math:gcd"}, "does not say that it is a method"),
    ],
)
def test_wrong_methods_get_a_sentence(table, words):
    from colonnade import RequestError

    with pytest.raises(RequestError, match=words):
        methods.build(table)


ENDLESS = 10**20
"""More than any machine could do."""


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ({"name": "fedsgd", "local": f"repeat:{ENDLESS}"}, "at most 100,000 updates"),
        ({"name": "fedbcd", "updates": 100_001}, "at most 100,000 updates"),
        ({"name": "cvfl", "q": 10**12}, "at most 100,000 updates"),
        ({"name": "celu", "r": 10**12}, "at most 100,000 updates"),
        ({"name": "celu", "w": 10**12}, "10,000 or less"),
        ({"name": "celu", "r": 10**12, "w": 1, "overlap": False}, "at most 100,000 updates"),
        ({"name": "pasta", "s_max": 10**12}, "at most 100,000 updates"),
        ({"name": "pasta", "b_max": 10**12}, "1,000 or less"),
        ({"name": "flexvfl_s", "most": 10**12}, "at most 100,000 updates"),
        ({"name": "fedsgd", "local": f"workset:5:{ENDLESS}"}, "at most 100,000 updates"),
        ({"name": "fedsgd", "local": f"while_waiting:{ENDLESS}"}, "at most 100,000 updates"),
        ({"name": "fedsgd", "local": f"deadline:{ENDLESS}"}, "at most 100,000 updates"),
        ({"name": "flexvfl", "timeout": "25h"}, "at most 24h"),
        ({"name": "sync_max", "timeout": "25h"}, "at most 24h"),
        ({"name": "flexvfl", "timeout": f"{ENDLESS}s"}, "too long a duration"),
        ({"name": "fedsgd", "compress": {"embedding": "scalar:" + "9" * 5_000}}, "whole number"),
        ({"name": "fedsgd", "compress": {"embedding": "topk:" + "9" * 5_000}}, "whole number"),
        ({"name": "fedsgd", "compress": {"embedding": f"steps:0=half,{ENDLESS}=plain"}}, "whole"),
    ],
    ids=lambda value: None if isinstance(value, str) else str(value)[:60],
)
def test_a_count_that_would_keep_a_party_busy_for_ever_is_refused(table, words):
    from colonnade import RequestError

    with pytest.raises(RequestError, match=words) as refusal:
        methods.build(table)
    assert len(str(refusal.value)) < 300


def test_a_party_may_report_as_many_updates_as_it_may_do():
    """The limit stands in two rooms that import nobody."""
    from colonnade.policies import local
    from colonnade.wire import messages

    assert messages.UPDATES_MAX == local.UPDATES_MAX


def test_flex_vfl_stops_at_so_many_updates_however_short_they_are():
    from colonnade.policies.local import UPDATES_MAX, until
    from colonnade.policies.view import Exchange, Role, View

    view = View(Role.PASSIVE, 9, 9, 2, update_ns=1)
    for updates, goes_on in ((UPDATES_MAX - 1, True), (UPDATES_MAX, False)):
        exchange = Exchange(0, np.arange(3), updates=updates)
        view.kept.clear()
        view.kept.append(exchange)
        assert (until("24h").next(view) is exchange) is goes_on


@pytest.mark.parametrize("version", ["celu", "pasta"])
def test_recompute_is_for_methods_in_which_updates_come_between(version):
    assert methods.build({"name": version, "version": "recompute"}).version.recomputes()


def test_cvfl_sends_the_top_model_as_it_is_where_columns_go_by_importance():
    made = methods.build({"name": "cvfl", "compressor": "topk:4:importance"})
    assert "top=" not in made.composition()["compress"]
    assert "embedding=topk:4:importance" in made.composition()["compress"]


def test_an_active_party_s_own_embedding_is_compressed_only_where_it_crosses():
    from colonnade import JobError, load
    from colonnade.run.naming import check_names

    sets = ["train.labels=shared", "parties.clinic.compress.embedding=half"]
    assert check_names(load("digits", sets, method="pbcd"))
    with pytest.raises(JobError, match="cross only in snapshots"):
        check_names(load("digits", sets, method="fedsgd"))
