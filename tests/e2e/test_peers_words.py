"""Words of a peer are cut, recorded in the ledger, and shown without anything that moves a
terminal, whichever way they come."""

from __future__ import annotations

import msgspec
import pytest

from colonnade.errors import ColonnadeError, PartyError
from colonnade.job.policy import Policy
from colonnade.job.terms import SENTENCE_CHARS_MAX
from colonnade.net.session import PROTOCOL, TEXT_BYTES_MAX, Kind, Segment
from colonnade.record.chain import NOTE_LETTERS_MAX, Chain, verify
from colonnade.record.events import Finished
from colonnade.wire.fault import Fault
from colonnade.wire.messages import (
    Barrier,
    Embedding,
    Failure,
    Finish,
    Gradient,
    Hello,
    Leave,
    Snapshot,
    Welcome,
)
from tests import loop
from tests.e2e.test_excess import overheard
from tests.scene import case, scene, speak

MARK = "so they say"
EVIL = f"{MARK} \x1b[2J\x1b]0;owned\x07\r\n" + "x" * 50_000
SEGMENT = EVIL.encode()[: TEXT_BYTES_MAX - 1]
MOST = max(SENTENCE_CHARS_MAX, TEXT_BYTES_MAX) + 200


def noted(taker, path):
    """Give a party a ledger on disk."""
    taker.world.detector._chain = Chain.open(path, taker.name, "job", 0)


def check(taker, path, ended):
    """All that a party tells, and how it ends, is short and harmless; the ledger has the words."""
    said = [str(ended)] if isinstance(ended, ColonnadeError) else []
    if getattr(ended, "fault", None) is not None:
        said.append(str(ended.fault))
        assert ended.fault.sender == "", "it is no party"
        taker.world.tell(Finished(taker.name, 0, ended.reason, str(ended.fault)))
    for sentence in (*said, *taker.report.events):
        assert sentence.isprintable() and len(sentence) <= MOST, sentence
    notes = [line.note for line in verify(path).notes]
    assert any(MARK in note for note in notes), notes
    for note in notes:
        assert note.isprintable() and len(note) <= NOTE_LETTERS_MAX


def instead(kind, made, after=0):
    """Says something else in the place of a message of some kind."""

    def change(message):
        late = isinstance(message, kind) and getattr(message, "round", 0) >= after
        return made(message) if late else message

    return change


TO_PASSIVE = {
    "Failure": instead(Gradient, lambda _: Failure(EVIL), 3),
    "Finish": instead(
        Finish, lambda m: Finish(m.round, m.best, "diverged", Fault(EVIL, "\x1b[2J" + "y" * 9000))
    ),
    "Failure of a handshake": instead(Welcome, lambda _: Failure(EVIL)),
}
TO_ACTIVE = {
    "Failure": instead(Embedding, lambda _: Failure(EVIL), 3),
    "Leave": instead(Embedding, lambda m: Leave(m.round, EVIL), 3),
    "Failure of a handshake": instead(Hello, lambda _: Failure(EVIL)),
}


@pytest.mark.parametrize("kind", TO_PASSIVE)
def test_an_active_partys_words(tmp_path, kind):
    path = tmp_path / "ledger.chain"

    async def whole():
        async with scene(case()) as s:
            active = await s.start("p1", s.training("p1"))
            said = active.world.send

            async def other(to, message):
                await said(to, TO_PASSIVE[kind](message) if to == "p2" else message)

            active.world.send = other
            victim = await s.start("p2")
            noted(victim, path)
            await s.start("p0")
            check(victim, path, await victim.end())

    loop.run(whole())


@pytest.mark.parametrize("kind", TO_ACTIVE)
def test_a_passive_partys_words(tmp_path, kind):
    path = tmp_path / "ledger.chain"

    def changed(bad):
        said = bad.world.send

        async def other(to, message):
            await said(to, TO_ACTIVE[kind](message))

        bad.world.send = other

    async def whole():
        async with scene(case()) as s:
            active = await s.start("p1")
            noted(active, path)
            await s.start("p0")
            await s.start("p2", before=changed)
            await s.until(lambda: MARK in path.read_text() or active.task.done())
            ended = await active.end() if active.task.done() else None
            check(active, path, ended)

    loop.run(whole())


@pytest.mark.parametrize("kind", [Kind.LEAVE, Kind.FAIL])
def test_the_last_words_of_a_link_to_the_active_party(tmp_path, kind):
    path = tmp_path / "ledger.chain"

    async def whole():
        async with scene(case()) as s:
            active = await s.start("p1")
            noted(active, path)
            join = Segment(Kind.JOIN, 0, 77, flags=PROTOCOL)
            await speak(s.address, s.known["p2"], "p1", join, Segment(kind, data=SEGMENT), wait_s=1)
            await s.until(lambda: MARK in path.read_text())
            check(active, path, None)

    loop.run(whole())


@pytest.mark.parametrize("kind", [Kind.REFUSE, Kind.FAIL])
def test_the_last_words_of_a_link_to_a_passive_party(tmp_path, kind):
    path = tmp_path / "ledger.chain"

    async def whole():
        async with scene(case()) as s:
            active, victim = await s.start("p1"), await s.start("p2")
            noted(victim, path)
            await s.until(lambda: "p2" in active.world.connections)
            active.world.connections["p2"].send_urgent(Segment(kind, data=SEGMENT))
            ended = await victim.end()
            assert isinstance(ended, ColonnadeError) and MARK in str(ended)
            check(victim, path, ended)

    loop.run(whole())


def test_names_that_are_no_party_are_not_shown():
    """A barrier because of somebody, a snapshot of somebody: names come from the wire too."""

    async def whole(train, change, said):
        async with scene(case(**train)) as s:
            labels = Policy(shares_labels=True)
            await s.start("p1", overheard(s.training("p1"), change), policy=labels)
            await s.start("p0")
            ended = await (await s.start("p2")).end()
            assert isinstance(ended, PartyError) and said in str(ended)
            assert str(ended).isprintable() and len(str(ended)) < 1000

    barrier = instead(Gradient, lambda m: Barrier(m.round + 5, EVIL), 3)
    loop.run(whole({}, barrier, "p1 calls to a barrier because of somebody who is no party"))
    shared = {"method": {"name": "fedsgd", "exchange": "snapshot"}, "labels": "shared"}
    renamed = instead(Snapshot, lambda m: msgspec.structs.replace(m, parties=(EVIL, "p0")), 3)
    loop.run(whole(shared, renamed, "p1 sent a snapshot of so they say"))
