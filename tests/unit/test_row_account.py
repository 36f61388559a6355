"""What rows have spent by being scored: never less than what left, whatever becomes of the process
and of the table."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from colonnade.errors import RequestError
from colonnade.job.ids import Ids
from colonnade.predict.account import SPENT, RowAccount, names_of
from colonnade.predict.rows import LACKING, PartyRows
from colonnade.protect.accountant import epsilon_of, mu, spent
from colonnade.protect.embedding import gauss
from colonnade.run.budget import Budget, Trained, keep, spent_together, trainings_of

ONCE = 0.25


def rows_of(ids):
    return PartyRows(len(ids), {}, pa.array(ids, pa.large_string()))


def account(folder, ids, most=np.inf, rule=None, columns="id"):
    return RowAccount(folder, *names_of(rows_of(ids), rule or Ids(), columns), ONCE, most, "no")


def spend(own, *rows, **more):
    return own.refuse(np.array(rows, dtype=np.int64), **more)


def test_a_row_spends_each_time_also_within_one_question(tmp_path):
    own = account(tmp_path, ["a", "b", "c"], most=3 * ONCE)
    assert spend(own, 0, 0, LACKING, 1) is None and own.highest == 2 * ONCE
    assert spend(own, 0, 0) == "no", "together they would be too much"
    assert own.highest == 2 * ONCE, "what does not leave is not spent"
    assert spend(own, 0) is None and spend(own, 0) == "no" and spend(own, 2, 0) == "no"
    assert spend(own, 2) is None and spend(own, LACKING, LACKING) is None


def test_many_rows_once_each_are_one_release_of_each(tmp_path):
    own = account(tmp_path, [str(row) for row in range(10_000)], most=ONCE)
    assert own.refuse(np.arange(10_000)) is None
    assert own.highest == ONCE
    assert (tmp_path / SPENT).stat().st_size < 24 * 10_000 + 100
    assert (tmp_path / SPENT).stat().st_mode & 0o777 == 0o600


def test_what_has_left_is_on_record_when_the_process_is_killed(tmp_path):
    program = f"""
import os, signal, sys
from pathlib import Path
from tests.unit.test_row_account import account, spend
own = account(Path({str(tmp_path)!r}), ["a", "b"])
spend(own, 1); spend(own, 1, 0)
os.kill(os.getpid(), signal.SIGKILL)
"""
    done = subprocess.run([sys.executable, "-c", program], check=False)
    assert done.returncode == -9
    again = account(tmp_path, ["a", "b"], most=2 * ONCE)
    assert again.highest == 2 * ONCE and spend(again, 1) == "no" and spend(again, 0) is None


NAMES = [f"c{number}" for number in range(6)]
STEP = st.one_of(
    st.tuples(st.just("ask"), st.lists(st.sampled_from(NAMES), min_size=1, max_size=4)),
    st.tuples(st.just("table"), st.permutations(NAMES).map(lambda names: names[:4])),
    st.tuples(st.just("restart"), st.none()),
)


@given(st.lists(STEP, max_size=12))
@settings(max_examples=60, deadline=None)
def test_whatever_the_table_and_the_process_no_row_leaves_more_often_than_it_may(
    tmp_path_factory, steps
):
    folder = tmp_path_factory.mktemp("account")
    left, table, most = Counter(), NAMES[:4], 3
    own = account(folder, table, most=most * ONCE)
    for kind, what in steps:
        if kind == "ask":
            known = [table.index(name) if name in table else LACKING for name in what]
            asked = Counter(name for name in what if name in table)
            fits = all(left[name] + times <= most for name, times in asked.items())
            assert (spend(own, *known) is None) == fits
            left += asked if fits else Counter()
        else:
            table = table if what is None else what
            own = account(folder, table, most=most * ONCE)
        assert own.highest == ONCE * max((left[name] for name in table), default=0)


def test_where_ids_are_compared_otherwise_all_have_spent_what_any_has(tmp_path):
    """A job that came since may say what of an id counts: nobody can begin anew by it."""
    own = account(tmp_path, ["a", "b"])
    spend(own, 0, 0)
    other = account(tmp_path, ["a", "b"], most=2 * ONCE, rule=Ids(case="lower"))
    assert other.highest == 2 * ONCE and spend(other, 1) == "no"
    assert account(tmp_path, ["a", "b"]).highest == 2 * ONCE, "nothing was written yet"
    renamed = account(tmp_path, ["x", "y"], most=3 * ONCE, columns="phone")
    assert spend(renamed, 1) is None and renamed.highest == 3 * ONCE
    back = account(tmp_path, ["a", "new"], most=4 * ONCE)
    assert back.highest == 3 * ONCE and spend(back, 1) is None and spend(back, 1) == "no"


def test_rows_without_ids_are_known_by_their_places(tmp_path):
    names, rule = names_of(PartyRows(300, {}), Ids(), None)
    own = RowAccount(tmp_path, names, rule, ONCE)
    spend(own, 257)
    again = RowAccount(tmp_path, names, rule, ONCE, ONCE, "no")
    assert spend(again, 1) is None and spend(again, 257) == "no"


def test_a_mean_costs_every_row_its_share(tmp_path):
    """Of one row it is that row; of many, each moves it by so much less, and noise is as large."""
    single = account(tmp_path / "one", ["a"], most=2 * ONCE)
    assert spend(single, LACKING, LACKING, means=2, sample=1) is None
    assert spend(single, LACKING, means=1, sample=1) == "no" and spend(single, 0) == "no"
    many = account(tmp_path / "many", NAMES)
    assert spend(many, LACKING, 2, means=1, sample=6) is None
    assert many.highest == pytest.approx(ONCE + ONCE / 36)
    again = account(tmp_path / "many", NAMES, most=1.01 * ONCE)
    assert spend(again, 0) == "no", "it had a share in the mean"


def test_a_file_that_is_damaged_is_not_taken_for_an_empty_one(tmp_path):
    spend(account(tmp_path, ["a", "b"]), 0)
    whole = (tmp_path / SPENT).read_bytes()
    wrong = whole[:-8] + np.array([-1.0]).tobytes()
    for content in (whole[:-1], whole + b"x", b"", b"x" * len(whole), wrong):
        (tmp_path / SPENT).write_bytes(content)
        with pytest.raises(RequestError, match=r"spent is damaged, .*: put it back"):
            account(tmp_path, ["a", "b"])


NOISE = gauss(1, 8)


def test_a_budget_is_what_the_trainings_have_left():
    trained = spent(NOISE, 20)
    limit = epsilon_of(mu(NOISE, 23)) + 1e-6
    budget = Budget(NOISE, trained, limit)
    assert budget.refuse() is None and budget.more(0.0) == 3
    assert budget.most == pytest.approx(3 * budget.once, rel=1e-3)
    assert budget.epsilon(budget.once) == pytest.approx(epsilon_of(mu(NOISE, 21)))
    assert Budget(NOISE, trained).more(5.0) is None
    used = Budget(NOISE, trained, epsilon_of(mu(NOISE, 20)) + 1e-6)
    assert "if it is scored once: raise it" in used.refuse()
    assert "left without noise" in Budget(NOISE, np.inf, limit).refuse()


def test_trainings_are_remembered_and_add_up(tmp_path):
    """Whoever scored with a model that was trained on the same rows has not forgotten it."""
    first = {"a-1": Trained(1.0)}
    keep(first, tmp_path)
    assert (tmp_path / "trained.json").stat().st_mode & 0o777 == 0o600
    assert trainings_of({}, tmp_path) == first
    keep(first | {"b-1": Trained(2.0), "c-9": Trained(4.0, parent="b-1")}, tmp_path)
    assert spent_together(trainings_of({}, tmp_path)) == 5.0
    keep(first | {"d-1": Trained(None)}, tmp_path)
    assert spent_together(trainings_of({}, tmp_path)) == np.inf
    (tmp_path / "trained.json").write_text("{")
    with pytest.raises(RequestError, match=r"trained.json is damaged"):
        trainings_of({}, tmp_path)
