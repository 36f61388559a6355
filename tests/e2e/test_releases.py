"""However often the parties are made to begin again, no more leaves than a policy allows."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from colonnade.cli.dry_run import Line, look_ahead
from colonnade.compress import plain
from colonnade.errors import PartyError, RequestError
from colonnade.job import load
from colonnade.job.party_file import PartyFile
from colonnade.job.policy import Policy
from colonnade.party.world import Regrouped
from colonnade.record.chain import verify
from colonnade.run.ceiling import ceiling
from colonnade.run.releases import Allowance, Counter, allowance
from colonnade.run.setup import participant, prepare
from colonnade.run.surroundings import PartyWorld
from colonnade.wire.messages import Embedding, EvaluationEmbedding
from tests import loop
from tests.alliance import ACTIVE, Alliance, new_keys, until
from tests.scene import case, scene


def greedy(training, *rounds):
    """An active party that has everybody begin again when it has the embeddings of a round: the
    first of these, then the next, and so on from the start."""
    build, training.restarts, due = training.build, 10**6, list(rounds)

    def built(world, welcome):
        program = build(world, welcome)
        reply = program._reply

        async def once_more(exchange):
            if exchange.round == due[0]:
                due.append(due.pop(0))
                world.roster._begin_again("once more")
                raise Regrouped("once more")
            await reply(exchange)

        program._reply = once_more
        return program

    training.build = built
    return training


def test_an_active_party_that_begins_again_and_again_gets_no_more_than_releases_max(monkeypatch):
    monkeypatch.setattr("tests.scene.NetworkWorld", PartyWorld)
    party = prepare((c := case()).job, c.data, c.modules)["p2"]
    allowed = allowance(replace(party, policy=Policy(releases_max=20)))

    async def whole():
        async with scene(c) as s:
            active = await s.start("p1", greedy(s.training("p1"), 4))
            victim = await s.start("p2")
            victim.world.releases = Counter(allowed)
            other = await s.start("p0")
            error = await victim.end()
            assert isinstance(error, PartyError)
            assert "policy.releases_max is 20, and so many batches of embeddings" in str(error)
            assert victim.world.releases.count == 20
            for party in (active, other):
                error = await party.end()
                assert "p2 failed: policy.releases_max is 20" in str(error)

    loop.run(whole())


def curious(training, victim, seen):
    """An active party that has everybody begin again whenever a victim has answered an evaluation,
    which a checkpoint just before it makes cheap: a batch of embeddings each time."""
    build, training.restarts = training.build, 10**6

    def built(world, welcome):
        program = build(world, welcome)
        accept = program.evaluations.accept

        def once_more(sender, message):
            accept(sender, message)
            if sender == victim:
                seen.append(message.round)
                world.roster._begin_again("once more")
                raise Regrouped("once more")

        program._handlers[EvaluationEmbedding] = once_more
        return program

    training.build = built
    return training


def test_evaluations_that_are_asked_again_and_again_are_bounded_over_all_attempts(monkeypatch):
    monkeypatch.setattr("tests.scene.NetworkWorld", PartyWorld)
    c = case(evaluate_every="6 rounds")
    party = prepare(c.job, c.data, c.modules)["p2"]
    allowed, seen = allowance(party), []
    assert (allowed.needed, allowed.most, allowed.returns) == (12, 30, 3)

    async def whole():
        async with scene(c) as s:
            active = await s.start("p1", curious(s.training("p1"), "p2", seen))
            victim = await s.start("p2")
            victim.world.releases = Counter(allowed)
            await s.start("p0")
            error = await victim.end()
            assert isinstance(error, PartyError)
            assert len(seen) <= 8, "planned are 2, and a return repeats both at the most"
            assert "policy.releases_max is 30, which lets 8 messages of evaluation" in str(error)
            assert "p2 failed: policy.releases_max is 30" in str(await active.end())

    loop.run(whole())


def test_evaluations_have_a_bound_of_their_own():
    embedding = Embedding(0, plain().encode(torch.ones(1)))
    answer = EvaluationEmbedding(0, "test", 0, plain().encode(torch.ones(1)))
    allowed = Allowance(most=120, needed=60, repeated=11, evaluations=4, reevaluated=2)
    counter = Counter(allowed, {"Embedding": 100, "EvaluationEmbedding": 13, "Hello": 7})
    for _ in range(20):
        counter.release(embedding)
    counter.release(answer)
    with pytest.raises(PartyError, match="lets 14 messages of evaluation embeddings leave, and so"):
        counter.release(answer)
    with pytest.raises(PartyError, match="is 120, and so many batches of embeddings have left"):
        counter.release(embedding)


def test_the_schedule_is_what_evaluations_are_counted_against():
    job = load("digits", ["train.rounds=60", "train.checkpoint_every=10", "train.full_loss=true"])
    me = participant(job, "lab")
    assert allowance(me).evaluations == ceiling(me)["EvaluationEmbedding"][0] == 3 * 2 + 1
    never = participant(load("digits", ["train.rounds=60", "train.evaluate_every=never"]), "lab")
    assert allowance(never).evaluations_most == 0


def test_the_default_leaves_room_for_returns_and_the_dry_run_says_so():
    job = load("digits", ["train.rounds=60", "train.checkpoint_every=10"])
    report = look_ahead(job, "lab", PartyFile(), Line())
    assert report["policy"]["releases_max"] == {"says": 120, "job": 60}
    assert any("room for 5 returns to a checkpoint" in note for note in report["notes"])
    told = "and 19 messages of evaluation embeddings, where it sends 4"
    assert any(told in note for note in report["notes"]), report["notes"]
    without = look_ahead(load("digits", ["train.rounds=60"]), "lab", PartyFile(), Line())
    assert without["policy"]["releases_max"] == {"says": 240, "job": 60}
    assert any("room for 3 returns" in note for note in without["notes"])
    assert "releases_max" not in look_ahead(job, "clinic", PartyFile(), Line())["policy"]


def test_a_job_that_needs_more_is_refused_beforehand():
    job = load("digits", ["train.rounds=60"])
    with pytest.raises(RequestError, match="releases_max is 59 and the job needs 60 batches"):
        participant(job, "lab", Policy(releases_max=59))


def test_what_left_before_a_restart_is_counted(tmp_path):
    keys = new_keys(tmp_path / "alliance")
    with Alliance(tmp_path / "run", "train.rounds=60", emulate="latency=5ms", keys=keys) as run:
        (run.folder / "party.toml").write_text("[policy]\nreleases_max = 60\n")
        run.start()
        chain = run.run_folder("lab") / "ledger.chain"
        far = '"kind":"Embedding","round":25'
        until(lambda: chain.exists() and far in chain.read_text(), 40, "round 25")
        run.kill(ACTIVE)
        run.start(ACTIVE)
        assert run.codes(60) == dict.fromkeys(run.processes, 1), run.said()
        assert "policy.releases_max is 60, and so many" in run.output("lab") + run.output("insurer")
        for name in ("lab", "insurer"):
            totals = verify(run.run_folder(name) / "ledger.chain").totals
            assert totals[ACTIVE, "sent", "Embedding"][0] <= 60
        stopped = next(n for n in ("lab", "insurer") if "colonnade: policy" in run.output(n))
        run.start(stopped)
        assert run.codes_of(stopped, 30) == 1
        assert run.output(stopped).splitlines()[-1].startswith("colonnade: policy.releases_max")
