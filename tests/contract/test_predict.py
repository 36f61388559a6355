"""Prediction as a program: right scores, no score for a row that somebody lacks, and nothing for
a party that deviates."""

from __future__ import annotations

import shutil

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import colonnade as cn
from colonnade.align.group import batch as points_of
from colonnade.align.idset import digests_of
from colonnade.align.workers import Threads
from colonnade.errors import BreachError, ColonnadeError
from colonnade.job.policy import Policy
from colonnade.predict.quota import Quota
from colonnade.predict.tags import TagBook, TagIndex
from colonnade.record.events import Recorded
from colonnade.sim.world import SimulatedWorld
from colonnade.wire.messages import (
    Answer,
    BlindedIds,
    Buffer,
    Declined,
    Embedding,
    EvaluatedIds,
    Finish,
    Packed,
    Query,
)
from tests.aligning import drawn
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

ALL = [f"c{number:05d}" for number in range(ROWS)]


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A job whose model lies in a folder."""
    folder = tmp_path_factory.mktemp("trained")
    job = tables(folder)
    run = cn.simulate(job)
    run.save(folder / "run")
    return job, folder, run


def scores(parties, pieces, mean=False, **more):
    active = next(party for party in parties.values() if party.leads)
    source, found = batch_of(active, pieces, mean)
    simulator = simulated(parties, source, **more)
    return found, simulator


def kinds(simulator, name):
    return {entry["kind"] for entry in simulator.worlds[name].ledger.entries()}


def test_by_place_and_by_id_the_scores_are_those_of_the_training(trained, tmp_path):
    job, folder, _ = trained
    (by_place,), simulator = scores(
        parties_of(job, folder / "run", tmp_path), at_places(range(ROWS))
    )
    assert not by_place.lacking and np.isfinite(by_place.scores).all()
    assert kinds(simulator, "telco") == {"Hello", "Welcome", "Query", "Answer", "Finish"}
    # The ids of the training are in ascending order, so these are the same rows.
    (by_id,), simulator = scores(parties_of(job, folder / "run", tmp_path), [piece_of(ALL)])
    assert np.array_equal(by_id.scores, by_place.scores)
    assert "BlindedIds" not in kinds(simulator, "telco")


def test_tables_that_grew_give_the_same_scores_by_tag(trained, tmp_path):
    job, folder, _ = trained
    (known,), _ = scores(parties_of(job, folder / "run", tmp_path / "a"), [piece_of(ALL[:50])])
    grown = job
    for name in job.parties:
        table = pq.read_table(folder / f"{name}.parquet")
        more = table.slice(0, 1).set_column(0, "id", pa.array([f"only-{name}"]))
        pq.write_table(pa.concat_tables([more, table]), tmp_path / f"{name}.parquet")
        grown = with_table(grown, name, tmp_path / f"{name}.parquet")
    parties = parties_of(grown, folder / "run", tmp_path / "b")
    asked = [*ALL[:50], "only-bank", "only-telco", "nobody"]
    (found,), simulator = scores(parties, [piece_of(asked)])
    # In a block of another size sums may come out in another order.
    assert found.scores[:50] == pytest.approx(known.scores, abs=1e-6)
    assert np.isnan(found.scores[50:]).all()
    lacking = {name: np.flatnonzero(rows).tolist() for name, rows in found.lacking.items()}
    assert lacking == {"bank": [51, 52], "telco": [50, 52], "shop": [50, 51, 52]}
    assert {"BlindedIds", "EvaluatedIds"} <= kinds(simulator, "telco")


def test_the_mean_stands_for_a_row_only_where_that_is_asked_for(trained, tmp_path):
    job, folder, _ = trained
    few = pq.read_table(folder / "telco.parquet").slice(0, ROWS - 10)
    pq.write_table(few, tmp_path / "few.parquet")
    job = with_table(job, "telco", tmp_path / "few.parquet")
    (plain,), _ = scores(parties_of(job, folder / "run", tmp_path / "a"), [piece_of(ALL)])
    (mean,), _ = scores(parties_of(job, folder / "run", tmp_path / "b"), [piece_of(ALL)], mean=True)
    lacking = plain.lacking["telco"]
    assert lacking.sum() == 10 and np.array_equal(lacking, mean.lacking["telco"])
    assert np.isnan(plain.scores[lacking]).all() and np.isfinite(mean.scores).all()
    assert np.array_equal(plain.scores[~lacking], mean.scores[~lacking])


@settings(
    max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    asked=st.lists(st.sampled_from([*ALL[:30], "x1", "x2"]), min_size=1, max_size=12),
    cut=st.integers(1, 5),
    window=st.integers(1, 3),
)
def test_every_row_gets_its_own_score_whatever_it_is_asked_with(
    trained, tmp_path, asked, cut, window
):
    job, folder, _ = trained
    (whole,), _ = scores(parties_of(job, folder / "run", tmp_path), [piece_of(ALL)])
    pieces = [piece_of(asked[at : at + cut]) for at in range(0, len(asked), cut)]
    parties = parties_of(job, folder / "run", tmp_path)
    found, _ = scores(parties, pieces, window=window)
    assert [len(each.scores) for each in found] == [piece.shown.num_rows for piece in pieces]
    flat = np.concatenate([each.scores for each in found])
    for name, score in zip(asked, flat, strict=True):
        if name.startswith("x"):
            assert np.isnan(score).all()
        else:
            assert score == pytest.approx(whole.scores[ALL.index(name)], abs=1e-5)


class Odd:
    """A program that does something else than it should, after the handshake."""

    def __init__(self, program, act):
        self._program, self._act = program, act

    def __getattr__(self, name):
        return getattr(self._program, name)

    def begin(self, world, welcome):
        self.start = 0
        self._program.begin(world, welcome)

    start = 0

    async def run(self, world):
        return await self._act(world)


def plain_answer(number, rows, width=16, lacking=b""):
    data = np.zeros((rows, width), np.float32).tobytes()
    tensor = Packed("plain", "float32", (rows, width), Buffer(memoryview(data)))
    return Answer(number, tensor, Buffer(memoryview(lacking or bytes(-(-rows // 8)))))


def query(places, tags=b"", model=None, number=0):
    packed = np.asarray(places, dtype="<i8").tobytes()
    return Query(number, model, Buffer(memoryview(packed)), Buffer(memoryview(tags)), False, 0)


WRONG_ANSWERS = {
    "another question": lambda width: plain_answer(7, 3, width),
    "too few rows": lambda width: plain_answer(0, 2, width),
    "another width": lambda width: plain_answer(0, 3, width + 1),
    "too many bits": lambda width: plain_answer(0, 3, width, lacking=bytes(2)),
    "points that nobody asked for": lambda width: EvaluatedIds(0, Buffer(memoryview(bytes(96)))),
    "a kind that is not due": lambda width: Embedding(0, plain_answer(0, 3, width).tensor),
    "no finite numbers": lambda width: Answer(
        0,
        Packed(
            "plain",
            "float32",
            (3, width),
            Buffer(memoryview(np.full((3, width), np.nan, np.float32).tobytes())),
        ),
        Buffer(memoryview(bytes(1))),
    ),
}


@pytest.mark.parametrize("wrong", WRONG_ANSWERS.values(), ids=WRONG_ANSWERS.keys())
def test_a_passive_party_that_answers_wrongly_is_named(trained, tmp_path, wrong):
    job, folder, run = trained
    parties = parties_of(job, folder / "run", tmp_path)
    width = run.parties["telco"].card.width

    async def act(world):
        await world.receive()
        await world.send("bank", wrong(width))
        return await world.receive()

    changed = {"telco": Odd(parties["telco"].program(), act)}
    with pytest.raises(ColonnadeError, match="telco"):
        scores(parties, at_places([0, 1, 2]), changed=changed)


WRONG_QUESTIONS = {
    "no rows": lambda model: query([], model=model),
    "too many rows": lambda model: query(np.zeros(4097), model=model),
    "places below zero": lambda model: query([-2], model=model),
    "more tags than it says": lambda model: query([0], bytes(16), model=model),
    "fewer tags than it says": lambda model: query([-1], model=model),
    "another model": lambda model: query([0], model="other-1"),
    "half a place": lambda model: Query(
        0, model, Buffer(memoryview(bytes(9))), Buffer(memoryview(b"")), False, 0
    ),
    "half a point": lambda model: BlindedIds(0, Buffer(memoryview(bytes(33)))),
    "no points": lambda model: BlindedIds(0, Buffer(memoryview(b""))),
    "too many points": lambda model: BlindedIds(0, Buffer(memoryview(bytes(32 * 4097)))),
    "the identity": lambda model: BlindedIds(0, Buffer(memoryview(bytes(32)))),
    "no point": lambda model: BlindedIds(0, Buffer(memoryview(b"\xff" * 32))),
    "an answer": lambda model: plain_answer(0, 1),
}


@pytest.mark.parametrize("wrong", WRONG_QUESTIONS.values(), ids=WRONG_QUESTIONS.keys())
def test_an_active_party_that_asks_wrongly_gets_nothing(trained, tmp_path, wrong):
    job, folder, _ = trained
    parties = parties_of(job, folder / "run", tmp_path)
    model = next(iter(parties["bank"].models))
    source, _ = batch_of(parties["bank"], [])
    got = []

    async def act(world):
        await world.send("telco", wrong(model))
        while True:
            got.append(await world.receive())

    changed = {"bank": Odd(parties["bank"].program(source), act)}
    with pytest.raises(BreachError, match="bank"):
        simulated(parties, source, changed)
    assert not got


def test_places_beyond_the_training_and_unknown_tags_are_lacking_not_a_fault(trained, tmp_path):
    job, folder, _ = trained
    parties = parties_of(job, folder / "run", tmp_path)
    model = next(iter(parties["bank"].models))
    source, _ = batch_of(parties["bank"], [])
    got = []

    async def act(world):
        for peer in world.peers:
            await world.send(peer, query([5 * ROWS, -1], bytes(16), model=model))
            got.append((await world.receive())[1])
            await world.send(peer, Finish(0, -1, "end"))

    simulated(parties, source, {"bank": Odd(parties["bank"].program(source), act)})
    for answer in got:
        assert answer.lacking.view.tobytes() == b"\x03"
        assert not np.frombuffer(answer.tensor.data.view, np.float32).any()


def test_a_table_that_changed_is_not_asked_by_place(trained, tmp_path):
    """Places of another table would be other people: the party that holds them says no."""
    job, folder, _ = trained
    table = pq.read_table(folder / "telco.parquet")
    pq.write_table(table.slice(1), tmp_path / "less.parquet")
    parties = parties_of(
        with_table(job, "telco", tmp_path / "less.parquet"), folder / "run", tmp_path
    )
    model = next(iter(parties["bank"].models))
    source, _ = batch_of(parties["bank"], [])

    async def act(world):
        await world.send("telco", query([0], model=model))
        await world.receive()

    with pytest.raises(BreachError, match="a table that has changed"):
        simulated(parties, source, {"bank": Odd(parties["bank"].program(source), act)})


def test_a_policy_limits_rows_and_lets_nothing_more_leave(trained, tmp_path):
    job, folder, _ = trained
    policies = {"telco": Policy(predict_rows_max=100)}
    parties = parties_of(job, folder / "run", tmp_path, policies)
    found, simulator = scores(parties, at_places(range(60)) + at_places(range(60)), window=1)
    assert not found[0].declined and "predict_rows_max is 100" in found[1].declined["telco"]
    assert np.isnan(found[1].scores).all()
    sent = {e["kind"]: e["messages"] for e in simulator.worlds["telco"].ledger.entries()
            if e["direction"] == "sent"}  # fmt: skip
    assert sent["Answer"] == sent["Declined"] == 1
    # A process that starts again does not begin to count anew.
    again = parties_of(job, folder / "run", tmp_path, policies)
    found, _ = scores(again, at_places(range(60)))
    assert "telco" in found[0].declined


def test_rows_that_are_not_listed_are_as_if_they_were_not_there(trained, tmp_path):
    job, folder, _ = trained
    (tmp_path / "ids.txt").write_text("c00001\n c00003 \n")
    policies = {"telco": Policy(predict_ids=str(tmp_path / "ids.txt"))}
    parties = parties_of(job, folder / "run", tmp_path, policies)
    (found,), _ = scores(parties, [piece_of(ALL[:5])])
    assert np.flatnonzero(~found.lacking["telco"]).tolist() == [1, 3]


def test_a_process_that_ends_in_order_keeps_its_count_and_one_that_is_killed_counts_ahead(tmp_path):
    policy = Policy(predict_rows_max=1000)
    killed = Quota(policy, tmp_path)
    assert killed.refuse(5, 0) is None
    after = Quota(policy, tmp_path)
    assert after.refuse(986, 0) is not None and after.refuse(5, 0) is None
    after.settle()
    last = Quota(policy, tmp_path)
    assert last.refuse(981, 0) is not None and last.refuse(980, 0) is None


def test_a_rate_is_kept_to_and_recovers():
    quota = Quota(Policy(predict_rows_per_minute=10))
    assert quota.refuse(8, 0) is None and quota.refuse(3, 1) is not None
    assert quota.refuse(2, 2) is None
    assert quota.refuse(10, 60 * 10**9 + 1) is not None
    assert quota.refuse(10, 61 * 10**9) is None


def test_who_scores_learns_from_points_only_whether_an_id_is_there(tmp_path):
    """Tags are right, points of the same id never look alike, and another key gives other tags."""
    ids = pa.array(["a", "b", "c"], pa.large_string())
    rule = cn.Job(parties={"x": cn.Party(role="active"), "y": cn.Party()}).ids
    workers = Threads(1)
    index = TagIndex(ids, rule, tmp_path / "one", workers, drawn("one"))
    other = TagIndex(ids, rule, tmp_path / "two", workers, drawn("two"))
    book = TagBook(workers, drawn("bank"))
    book.begin(index.mark)
    asked = digests_of(["c", "z", "a"], rule)
    first, second = book.ask(0, asked), book.ask(1, asked)
    assert not {p.tobytes() for p in points_of(first)} & {p.tobytes() for p in points_of(second)}
    book.learn(0, index.evaluate(first))
    assert index.rows(book.tags(asked)).tolist() == [2, -1, 0]
    assert other.rows(book.tags(asked)).tolist() == [-1, -1, -1]
    # A party that lost its key is found out: what was known of its tags does not count any more.
    assert not book.unknown(asked)
    book.begin(other.mark)
    assert book.unknown(asked) == asked


def test_key_and_tags_are_kept_for_their_owner_only(trained, tmp_path):
    job, _, _ = trained
    ids = pa.array(ALL, pa.large_string())
    index = TagIndex(ids, job.ids, tmp_path / "rows", Threads(1), drawn("x"))
    assert not index.is_built and len(index.lookup._order) == ROWS
    for path in (tmp_path / "rows").iterdir():
        assert path.stat().st_mode & 0o077 == 0
        assert b"c00001" not in path.read_bytes()
    again = TagIndex(ids, job.ids, tmp_path / "rows", Threads(1), drawn("another"))
    assert again.mark == index.mark
    # Of other rows the kept tags are not believed.
    fewer = TagIndex(ids[:3], job.ids, tmp_path / "rows", Threads(1), drawn("x"))
    assert len(fewer.lookup._order) == 3
    shutil.rmtree(tmp_path / "rows")
    assert TagIndex(ids, job.ids, tmp_path / "rows", Threads(1), drawn("y")).mark != index.mark


def test_models_of_two_runs_do_not_mix(trained, tmp_path):
    job, folder, _ = trained
    job2 = cn.Job(name=job.name, seed=1, parties=job.parties, train=job.train)
    cn.simulate(job2).save(tmp_path / "run")
    mine = parties_of(job, folder / "run", tmp_path / "a")
    theirs = parties_of(job, tmp_path / "run", tmp_path / "b")
    source, _ = batch_of(mine["bank"], at_places([0]))
    with pytest.raises(ColonnadeError, match="models is"):
        simulated({**mine, "telco": theirs["telco"]}, source)


def test_late_answers_are_dropped_and_the_late_party_is_named(trained, tmp_path):
    job, folder, _ = trained
    parties = parties_of(job, folder / "run", tmp_path)
    active = parties["bank"]
    model, found = next(iter(active.models)), []

    class Two:
        rows = 0

        def __init__(self):
            self.left = [50_000_000, None]
            self.over = False

        def take(self):
            if not self.left:
                self.over = True
                return None
            deadline = self.left.pop(0)
            return active.by_id.request(ALL[:3], model, found.append, deadline_ns=deadline)

        def bind(self, interrupt):
            pass

    slow = parties["telco"].program()

    async def act(world):
        await world.sleep(100_000_000)
        return await slow.run(world)

    simulated(parties, Two(), {"telco": Odd(slow, act)}, window=2)
    assert [each.late for each in found] == [("telco",), ()]
    assert np.isnan(found[0].scores).all() and np.isfinite(found[1].scores).all()


def test_a_passive_party_drops_what_is_too_late(trained, tmp_path):
    job, folder, _ = trained
    parties = parties_of(job, folder / "run", tmp_path)
    model, got = next(iter(parties["bank"].models)), []
    source, _ = batch_of(parties["bank"], [])

    async def act(world):
        packed = np.zeros(1, "<i8").tobytes()
        for peer in world.peers:
            slow = Query(0, model, Buffer(memoryview(packed)), Buffer(memoryview(b"")), False, 1)
            await world.send(peer, slow)
            got.append((await world.receive())[1])
            await world.send(peer, Finish(0, -1, "end"))

    late = parties["telco"].program()

    async def sleepy(world):
        loop = late._answering
        loop._came.append((-(10**9), (await world.receive())[1]))
        return await loop.run()

    changed = {"bank": Odd(parties["bank"].program(source), act), "telco": Odd(late, sleepy)}
    simulated(parties, source, changed)
    assert isinstance(got[0], Declined) and isinstance(got[1], Answer)


def test_what_a_party_says_when_it_declines_is_cut_escaped_and_recorded_once(
    trained, tmp_path, monkeypatch
):
    job, folder, _ = trained
    parties = parties_of(job, folder / "run", tmp_path)
    source, found = batch_of(parties["bank"], at_places(range(4)) + at_places(range(4)))
    told, tell = [], SimulatedWorld.tell
    monkeypatch.setattr(
        SimulatedWorld, "tell", lambda self, event: (told.append(event), tell(self, event))[1]
    )

    async def act(world):
        while isinstance((came := await world.receive())[1], Query):
            await world.send("bank", Declined(came[1].number, "no \x1b[2J" + "x" * 50_000))

    simulated(parties, source, {"telco": Odd(parties["telco"].program(), act)}, window=1)
    for each in found:
        said = each.declined["telco"]
        assert said.isprintable() and said.startswith("no \\x1b[2J") and len(said) <= 300
    noted = [event.text for event in told if isinstance(event, Recorded)]
    assert noted == [f"telco declined a question: {found[0].declined['telco']}"]
