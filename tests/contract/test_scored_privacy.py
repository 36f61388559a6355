"""Rows that are scored with noise: an active party that asks again and again, under every name that
a row has, gets no more of it than the passive party's ε allows, training included."""

from __future__ import annotations

import msgspec
import numpy as np
import pyarrow.parquet as pq
import pytest

import colonnade as cn
from colonnade.align.idset import digests_of
from colonnade.align.workers import Threads
from colonnade.errors import RequestError
from colonnade.job.policy import Policy
from colonnade.predict.account import SPENT
from colonnade.predict.tags import TagBook
from colonnade.protect.accountant import epsilon_of, mu, spent
from colonnade.protect.embedding import gauss
from colonnade.run.predict import forecast
from colonnade.run.predict_party import read_models
from colonnade.wire.messages import Answer, Declined, Finish
from tests.aligning import drawn
from tests.contract.test_predict import ALL, Odd, query, scores
from tests.predicting import (
    ROWS,
    at_places,
    batch_of,
    parties_of,
    piece_of,
    simulated,
    tables,
    with_table,
)

NOISE = gauss(1, 8)
EPOCHS = 2


def noisy(job, text="gauss:1:8"):
    return msgspec.structs.replace(job, method={"name": "fedsgd", "protect": {"embedding": text}})


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A job with noise, whose model lies in a folder: every row of it has left twice."""
    folder = tmp_path_factory.mktemp("noisy")
    job = noisy(tables(folder))
    run = cn.simulate(job)
    run.save(folder / "run")
    assert run.parties["telco"].card.spent.releases == EPOCHS
    return job, folder


def limited(scorings):
    """A policy under which a row of that training may be scored so often."""
    return {"telco": Policy(epsilon_max=epsilon_of(mu(NOISE, EPOCHS + scorings)) + 1e-6)}


def asking(parties, *questions):
    """What telco says to questions of an active party's own: places, tags, and whether a mean may
    stand for a row."""
    model = next(iter(parties["bank"].models))
    source, _ = batch_of(parties["bank"], [])
    got = []

    async def act(world):
        for number, (places, tags, mean) in enumerate(questions):
            asked = query(places, tags, model=model, number=number)
            await world.send("telco", msgspec.structs.replace(asked, mean=mean))
            got.append((await world.receive())[1])
        for peer in world.peers:
            await world.send(peer, Finish(0, -1, "end"))

    simulated(parties, source, {"bank": Odd(parties["bank"].program(source), act)})
    return got


def at(*places):
    return places, b"", False


def tags_of(party, ids):
    book, index = TagBook(Threads(1), drawn("bank")), party.ready.index
    book.begin(index.mark)
    digests = digests_of(ids, party.job.ids)
    book.learn(0, index.evaluate(book.ask(0, digests)))
    return book.tags(digests)


def kinds(answers):
    return [type(answer) for answer in answers]


def test_a_row_is_answered_for_as_often_as_epsilon_max_allows_and_no_more(trained, tmp_path):
    job, folder = trained
    parties = parties_of(job, folder / "run", tmp_path, limited(3))
    got = asking(parties, at(7), at(7, 8), at(7), at(7), at(7, 9), at(8, 9), at(8), at(8))
    assert kinds(got) == [Answer] * 3 + [Declined] * 2 + [Answer] * 2 + [Declined]
    assert "policy.epsilon_max is" in got[3].reason and "ask for other rows" in got[3].reason
    # What left has fresh noise each time, else it would be one release.
    first, second = (np.frombuffer(a.tensor.data.view, np.float32) for a in (got[0], got[2]))
    assert (first != second).all()
    # Who starts the party again does not begin anew.
    parties["telco"].settle()
    again = parties_of(job, folder / "run", tmp_path, limited(3))
    assert kinds(asking(again, at(7), at(9), at(9), at(9))) == [Declined] + [Answer] * 2 + [
        Declined
    ]
    assert again["telco"].privacy()["epsilon"] == pytest.approx(epsilon_of(mu(NOISE, 5)))


def test_one_row_under_two_names_and_twice_in_one_question_is_one_row(trained, tmp_path):
    job, folder = trained
    # The ids of the training are in ascending order.
    parties = parties_of(job, folder / "run", tmp_path, limited(3))
    tags = tags_of(parties["telco"], [ALL[7]])
    got = asking(
        parties,
        ((7, -1), tags, False),  # by place and by tag at once
        ((-1, -1), tags + tags, False),  # by tag, twice: that would be four
        ((-1,), tags, False),
        at(7),
        ((-1,), tags, False),
    )
    assert kinds(got) == [Answer, Declined, Answer, Declined, Declined]
    assert parties["telco"].ready.account.highest == pytest.approx(3 * spent(NOISE))


def test_every_row_once_is_one_release_of_each(trained, tmp_path):
    job, folder = trained
    parties = parties_of(job, folder / "run", tmp_path, limited(1))
    (found,), _ = scores(parties, at_places(range(ROWS)))
    assert not found.declined and np.isfinite(found.scores).all()
    again, _ = scores(parties, at_places([3]))
    assert "policy.epsilon_max" in again[0].declined["telco"]


def test_a_table_that_grew_does_not_forget_and_rows_that_were_never_scored_are_free(
    trained, tmp_path
):
    job, folder = trained
    parties = parties_of(job, folder / "run", tmp_path, limited(1))
    scores(parties, [piece_of(ALL[:5])])
    table = pq.read_table(folder / "telco.parquet")
    order = np.random.default_rng(1).permutation(ROWS)[: ROWS - 50]
    kept = set(table["id"].take(order).to_pylist())
    pq.write_table(table.take(order), tmp_path / "less.parquet")
    other = with_table(job, "telco", tmp_path / "less.parquet")
    parties = parties_of(other, folder / "run", tmp_path, limited(1))
    asked = sorted(kept & set(ALL[:5])), sorted(kept - set(ALL[:5]))[:20]
    (spoilt,), _ = scores(parties, [piece_of(asked[0])])
    (free,), _ = scores(
        parties_of(other, folder / "run", tmp_path, limited(1)), [piece_of(asked[1])]
    )
    assert spoilt.declined and not free.declined


def test_rows_that_are_not_there_cost_nothing_and_a_mean_costs_its_share(trained, tmp_path):
    job, folder = trained
    parties = parties_of(job, folder / "run", tmp_path, limited(1))
    account = parties["telco"].ready.account
    got = asking(parties, at(5 * ROWS, 5 * ROWS + 1), ((5 * ROWS,), b"", True))
    assert kinds(got) == [Answer] * 2
    assert account.highest == pytest.approx(spent(NOISE) / ROWS**2)
    # A table of one row: its mean is that row.
    few = pq.read_table(folder / "telco.parquet").slice(0, 1)
    pq.write_table(few, tmp_path / "one.parquet")
    single = parties_of(
        with_table(job, "telco", tmp_path / "one.parquet"), folder / "run", tmp_path / "one",
        limited(2),
    )  # fmt: skip
    unknown = ((-1,), bytes(16), True)
    assert kinds(asking(single, unknown, unknown, unknown)) == [Answer, Answer, Declined]


def test_no_row_has_a_larger_share_in_a_mean_than_the_clip_allows(trained, tmp_path):
    job, folder = trained
    part = parties_of(job, folder / "run", tmp_path)["telco"].ready.part
    (model,) = part._bottoms
    features = part.rows.features[model]
    features[0] *= 1e6
    embedded = part._bottoms[model].embed(features)
    assert embedded.norm(dim=1).max() > 100
    mean, _ = part.embed(model, np.array([-1]), mean=True)
    assert mean.norm() <= 1.0
    features[0] *= -1
    part._means.clear()
    moved, _ = part.embed(model, np.array([-1]), mean=True)
    assert (mean - moved).norm() <= 2 / ROWS + 1e-6


def test_a_second_model_of_the_same_rows_adds_up_with_the_first(trained, tmp_path):
    """Also where only one of them is scored with at a time, and by another process."""
    job, folder = trained
    other = cn.simulate(msgspec.structs.replace(job, seed=5))
    other.save(tmp_path / "other")
    parties = parties_of(job, folder / "run", tmp_path, limited(EPOCHS + 1))
    parties["telco"].remember()
    scores(parties, at_places([0]))
    second = parties_of(job, tmp_path / "other", tmp_path, limited(EPOCHS + 1))
    assert second["telco"].budget.trained == pytest.approx(spent(NOISE, 2 * EPOCHS))
    answers = asking(second, at(0), at(1), at(1))
    assert kinds(answers) == [Declined, Answer, Declined]
    # One that goes on from another has what both have spent, and nothing is counted twice.
    after = cn.simulate(job, start=folder / "run")
    after.save(tmp_path / "after")
    third = parties_of(job, tmp_path / "after", tmp_path / "third")["telco"]
    assert third.budget.trained == pytest.approx(spent(NOISE, 2 * EPOCHS))
    third.models = read_models([folder / "run", tmp_path / "after"], "telco")
    del third.trainings, third.budget
    assert third.budget.trained == pytest.approx(spent(NOISE, 2 * EPOCHS))


def test_what_no_noise_bounds_is_not_scored_under_an_epsilon(trained, tmp_path):
    job, folder = trained
    plain = msgspec.structs.replace(job, method={"name": "fedsgd"})
    cn.simulate(plain).save(tmp_path / "plain")
    policy = {"telco": Policy(epsilon_max=1e6)}
    bare = parties_of(plain, tmp_path / "plain", tmp_path / "a", policy)["telco"]
    with pytest.raises(
        RequestError, match=r"epsilon_max is 1e\+06, and rows that are scored leave w"
    ):
        bare.program()
    # A job with noise for a model that was trained without.
    late = parties_of(job, tmp_path / "plain", tmp_path / "b", policy)["telco"]
    with pytest.raises(RequestError, match="left without noise in its training"):
        late.program()
    # Who scored without noise in this folder before cannot have a bound now.
    parties_of(plain, tmp_path / "plain", tmp_path / "c")["telco"].remember()
    after = parties_of(job, folder / "run", tmp_path / "c", policy)["telco"]
    with pytest.raises(RequestError, match="left without noise in its training"):
        after.program()
    # A job with less noise than the model was trained with.
    less = parties_of(noisy(job, "gauss:1:0.1"), folder / "run", tmp_path / "d")["telco"]
    with pytest.raises(RequestError, match=r"was trained with method\.protect\.embedding"):
        less.program()
    with pytest.raises(RequestError, match="if it is scored once: raise it, or leave it out"):
        parties_of(job, folder / "run", tmp_path / "e", limited(0))["telco"].program()


def test_the_active_party_s_own_rows_stay_where_they_are(trained, tmp_path):
    job, folder = trained
    policies = {"bank": Policy(epsilon_max=0.001)}
    parties = parties_of(job, folder / "run", tmp_path, policies)
    (found,), _ = scores(parties, at_places([0, 1]))
    assert not found.declined and parties["bank"].privacy() is None


def test_the_dry_run_says_what_it_costs_and_spends_nothing(trained, tmp_path):
    job, folder = trained
    party = parties_of(job, folder / "run", tmp_path, limited(3))["telco"]
    said = forecast(party, None, None)
    cost = said["epsilon"]
    assert cost["before"] == pytest.approx(epsilon_of(mu(NOISE, 2)))
    assert cost["epsilon"] == pytest.approx(epsilon_of(mu(NOISE, 3))) and cost["more"] == 3
    words = "\n".join(said["says"])
    assert f"has cost ε = {cost['before']:.4g} at δ = 1e-05 by training and scoring" in words
    assert "lets it be scored 3 times more" in words and "a row, with gauss:1:8" in words
    assert not (party.folder / SPENT).exists() and not (party.folder / "trained.json").exists()
    scores(parties_of(job, folder / "run", tmp_path, limited(3)), at_places([0]))
    assert (
        forecast(parties_of(job, folder / "run", tmp_path, limited(3))["telco"], None, None)[
            "epsilon"
        ]["more"]
        == 2
    )
    free = forecast(parties_of(job, folder / "run", tmp_path)["telco"], None, None)
    assert free["epsilon"]["more"] is None
    assert "not limited by the party file: policy.epsilon_max" in free["says"]
