"""An alignment finds exactly the common ids, in either world, and shows nobody more than agreed."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from colonnade.align.group import batch, multiply, scalars_from
from colonnade.align.plan import Plan
from colonnade.errors import BreachError, PartyError, RequestError
from colonnade.job.policy import Policy
from colonnade.party.session import run_session
from colonnade.tls.signature import Credentials
from colonnade.wire.codec import Codec
from colonnade.wire.messages import (
    ALIGNMENT,
    BlindedPoints,
    CommonTags,
    EvaluatedPoints,
    Introduction,
    MaskTable,
)
from tests.aligning import check_exact, job_of, party, programs, simulated
from tests.netrun import identities, run_programs

NAMES = ("bank", "telco", "shop", "clinic", "port")
IDS = st.text(st.characters(codec="utf-8", exclude_categories=["Cs", "Cc", "Zs", "Zl", "Zp"]),
              min_size=1, max_size=6)  # fmt: skip


def stripped(sets):
    """The same sets without ids that the rule takes for one another."""
    import unicodedata

    return [sorted({unicodedata.normalize("NFC", text) for text in texts}) for texts in sets]


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.sets(IDS, max_size=12), min_size=2, max_size=5),
    st.sets(IDS, max_size=6),
    st.integers(0, 4),
)
@example([set(), {"a"}], set(), 0)
@example([set(), set(), set()], set(), 1)
@example([{"a"}, {"a"}], set(), 1)
@example([{"a"}, {"b"}, {"a", "b"}], set(), 2)
@example([{"Ä", "ä", "0", "00"}, {"ä", "00"}], {"猫"}, 0)
def test_the_common_ids_are_found_exactly_whoever_is_active(own, common, active):
    sets = dict(zip(NAMES, stripped([texts | common for texts in own]), strict=False))
    names = list(sets)
    job = job_of(sets, active=names[active % len(names)])
    with tempfile.TemporaryDirectory() as folder:
        found, _ = simulated(job, programs(job, sets, Path(folder)))
    check_exact(sets, found)


def drawn(sizes, overlap, seed=0):
    """Sets of these sizes that have so many ids in common, and nothing else."""
    rng = np.random.default_rng(seed)
    sets = {}
    for number, (name, size) in enumerate(zip(NAMES, sizes, strict=False)):
        own = [f"{number}-{each}" for each in range(size - overlap)]
        texts = [f"all-{each}" for each in range(overlap)] + own
        sets[name] = [texts[place] for place in rng.permutation(size)]
    return sets


@pytest.mark.parametrize("parties", [2, 3])
def test_many_ids_of_several_rounds_and_tables(tmp_path, parties, monkeypatch):
    monkeypatch.setattr("colonnade.align.plan.CHUNK", 100)
    monkeypatch.setattr("colonnade.align.garbled.BUCKET", 150)
    sets = drawn((950, 700, 1200)[:parties], 260)
    job = job_of(sets)
    plan = Plan({name: len(texts) for name, texts in sets.items()})
    assert plan.rounds == 8 if parties == 3 else plan.rounds == 7
    found, _ = simulated(job, programs(job, sets, tmp_path))
    check_exact(sets, found)


@pytest.mark.slow
def test_a_hundred_thousand_ids(tmp_path):
    sets = drawn((100_000, 90_000), 40_000)
    job = job_of(sets)
    found, _ = simulated(job, programs(job, sets, tmp_path))
    check_exact(sets, found)


def over_mtls(job, parties, subscribers=()):
    """As `simulated`, with certificates and signatures."""
    started = {name: (lambda world, own=own: run_session(world, [own])) for name, own in
               parties.items()}  # fmt: skip
    outcomes, worlds = run_programs(job, started, subscribers=subscribers)
    return {name: outcome[0] for name, outcome in outcomes.items()}, worlds


def signed(sets):
    return {name: Credentials(identity) for name, identity in identities(tuple(sets)).items()}


def test_over_mtls_as_in_the_simulator(tmp_path, monkeypatch):
    """The same letters, but for the signatures: the ledgers of both worlds are alike."""
    monkeypatch.setattr("colonnade.align.plan.CHUNK", 40)
    sets = drawn((150, 90, 200), 30)
    job = job_of(sets)
    keys = signed(sets)
    parties = {name: party(job, name, sets[name], tmp_path / "net", credentials=keys[name])
               for name in sets}  # fmt: skip
    found, worlds = over_mtls(job, parties)
    check_exact(sets, found)
    alone, simulated_worlds = simulated(job, programs(job, sets, tmp_path / "sim"))
    for name in sets:
        assert sorted(found[name].rows) == sorted(alone[name].rows)
        for letters in ("BlindedPoints", "EvaluatedPoints", "MaskTable", "CommonTags"):
            counts = [
                [(e["peer"], e["direction"], e["messages"], e["bytes"])
                 for e in world.ledger.entries() if e["kind"] == letters]
                for world in (worlds[name], simulated_worlds[name])
            ]  # fmt: skip
            assert counts[0] == counts[1]


class Tapped:
    """Notes the kind and the size of every message that a world sends."""

    def __init__(self, world):
        self.seen = []
        send, encode = world.send, Codec().encode

        async def tapped(to, message):
            self.seen.append((to, type(message).__name__, len(encode(message))))
            await send(to, message)

        world.send = tapped


def transcript(sets, folder):
    from colonnade.sim.kernel import Simulator

    job = job_of(sets)
    simulator = Simulator(job)
    taps = {name: Tapped(world) for name, world in simulator.worlds.items()}
    found, _ = simulated(job, programs(job, sets, folder), simulator)
    check_exact(sets, found)
    return {name: tap.seen for name, tap in taps.items()}


def test_what_crosses_has_the_same_lengths_whatever_two_of_the_parties_share(tmp_path, monkeypatch):
    """Sizes and the number of common ids are all that shows: not that all of telco's customers are
    the bank's."""
    monkeypatch.setattr("colonnade.align.plan.CHUNK", 64)
    monkeypatch.setattr("colonnade.align.garbled.BUCKET", 128)
    disjoint = drawn((300, 250, 200), 50)
    alike = {
        "bank": [f"all-{n}" for n in range(50)] + [f"bank-{n}" for n in range(250)],
        "telco": [f"all-{n}" for n in range(50)] + [f"bank-{n}" for n in range(200)],
        "shop": [f"all-{n}" for n in range(50)] + [f"shop-{n}" for n in range(150)],
    }
    first, second = transcript(disjoint, tmp_path / "a"), transcript(alike, tmp_path / "b")
    assert first == second and len(first["bank"]) > 20


def test_no_file_of_a_party_holds_an_id_or_digest_of_another(tmp_path):
    from colonnade.align.idset import IdSet

    sets = drawn((40, 60, 50), 10)
    job = job_of(sets)
    parties = programs(job, sets, tmp_path)
    simulated(job, parties)
    own = {name: IdSet(tmp_path / name / "ids.bin") for name in sets}
    digests = {name: set(ids.digests(0, len(ids))) for name, ids in own.items()}
    for name in sets:
        held = b"".join(path.read_bytes() for path in (tmp_path / name).iterdir())
        strange = set().union(*digests.values()) - digests[name]
        assert strange and not any(digest in held for digest in strange)
        for other in set(sets) - {name}:
            assert not any(text.encode() in held for text in sets[other])
        assert all(digest in held for digest in digests[name])
        for path in (tmp_path / name).iterdir():
            assert path.stat().st_mode & 0o077 == 0, path


@pytest.mark.parametrize("parties", [2, 3])
def test_three_parties_cannot_be_told_apart_by_pairwise_tables(tmp_path, parties):
    """What the leading party finds for an id that only one of the others has is as random as for
    one that nobody has."""
    sets = {
        "bank": [f"n{n}" for n in range(100)],
        "telco": [f"n{n}" for n in range(50, 200)],
        "shop": [f"n{n}" for n in range(80, 230)],
    }
    sets = dict(list(sets.items())[:parties])
    job = job_of(sets)
    own = programs(job, sets, tmp_path)
    simulated(job, own)
    lead = own["bank"].role
    from colonnade.align.garbled import look_up
    from colonnade.align.lead import read_table
    from colonnade.align.work import words

    known = lead._outputs["telco"][0].read(0, 100)
    table, attempt = read_table(lead._tables["telco"][0])
    value = look_up(table, words(known[:, 32:48]), attempt) ^ words(known[:, 0:16])
    rows = lead.place.ids.rows(np.arange(100))
    shared = np.isin(rows, np.arange(50, 100))
    if parties == 2:
        assert not value[shared].any() and value[~shared].all()
    else:
        assert value.all(), "what telco alone has cannot be told from what it has not"


def deviating(parties, name, kind, change):
    """Let one party change what it writes, before it is sealed."""
    program = parties[name]
    meet = program.meet

    def meeting(said):
        role = meet(said)
        for channel in role.place.channels.values():
            seal = channel.seal

            def sealing(sort, number, content, seal=seal):
                if sort is kind:
                    content = change(bytearray(content), number)
                return seal(sort, number, bytes(content))

            channel.seal = sealing
        return role

    program.meet = meeting


def flip(content, number):
    content[31] ^= 0x80
    return content


def identity_point(content, number):
    content[:32] = bytes(32) if number == 0 else content[:32]
    return content


def no_point(content, number):
    content[:32] = b"\xff" * 31 + b"\x7f" if number == 0 else content[:32]
    return content


def twice(content, number):
    content[32:64] = content[:32]
    return content


def surplus(content, number):
    return content + content[:32]


def short(content, number):
    return content[:-32]


def same_again(content, number):
    """In the second round the points of the first, in another order."""
    same_again.first = getattr(same_again, "first", None) if number else bytes(content)
    return bytearray(same_again.first[32:] + same_again.first[:32]) if number else content


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (flip, "points that are none"),
        (identity_point, "points that are none"),
        (no_point, "points that are none"),
        (twice, "the same point twice"),
        (same_again, "the same point twice"),
        (surplus, "sent 41 points in round 1, and 40 are due"),
        (short, "sent 39 points in round 1, and 40 are due"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
@pytest.mark.parametrize("guilty", ["bank", "telco"])
@pytest.mark.parametrize("active", ["bank", "telco", "shop"])
def test_whoever_sends_what_is_no_point_is_named(tmp_path, monkeypatch, guilty, active, change,
                                                 fault):  # fmt: skip
    """The bank leads, telco follows; either may be the active party, or both behind it."""
    monkeypatch.setattr("colonnade.align.plan.CHUNK", 40)
    sets = drawn((80, 150, 90), 20)
    job = job_of(sets, active=active)
    parties = programs(job, sets, tmp_path)
    kind = BlindedPoints if guilty == "bank" else EvaluatedPoints
    deviating(parties, guilty, kind, change)
    with pytest.raises(BreachError, match=fault) as caught:
        simulated(job, parties)
    assert caught.value.peer == guilty


def alien_tag(content, number):
    content[-16:] = bytes(16)
    return content


def repeated_tag(content, number):
    content[-16:] = content[-32:-16]
    return content


def more_than_announced(content, number):
    return content + bytes(16)


def fewer_than_announced(content, number):
    return content[:-16]


def more_than_there_are(content, number):
    content[:8] = (10**9).to_bytes(8, "little")
    return content


@pytest.mark.parametrize(
    "change",
    [alien_tag, repeated_tag, more_than_announced, fewer_than_announced, more_than_there_are],
)
def test_a_leading_party_cannot_name_rows_that_are_not_there(tmp_path, change):
    sets = drawn((40, 90, 60), 20)
    job = job_of(sets, active="shop")
    parties = programs(job, sets, tmp_path)
    deviating(parties, "bank", CommonTags, change)
    with pytest.raises(BreachError, match=r"bank (named|announced)"):
        simulated(job, parties)


def test_a_table_of_another_size_is_refused(tmp_path):
    sets = drawn((40, 90), 20)
    job = job_of(sets)
    parties = programs(job, sets, tmp_path)
    deviating(parties, "telco", MaskTable, lambda content, number: content[:-16])
    with pytest.raises(BreachError, match="telco sent a MaskTable numbered 0, which is not due"):
        simulated(job, parties)


def tampering(worlds, name, tamper):
    """Let the active party change what it hands on."""
    world = worlds[name]
    send = world.send

    async def sending(to, message):
        for each in tamper(to, message):
            await send(to, each)

    world.send = sending


def test_the_active_party_cannot_read_or_change_the_letters_of_others(tmp_path):
    import msgspec

    from colonnade.sim.kernel import Simulator
    from colonnade.wire.messages import Buffer

    sets = drawn((40, 90, 60), 20)
    job = job_of(sets, active="shop")
    for number, tamper in enumerate((
        lambda to, message: [
            msgspec.structs.replace(message, content=Buffer(memoryview(bytes(
                len(message.content.view)))))
        ],
        lambda to, message: [message, message],
        lambda to, message: [msgspec.structs.replace(message, sender="shop")],
    )):  # fmt: skip
        simulator = Simulator(job)
        tampering(
            simulator.worlds,
            "shop",
            lambda to, message, tamper=tamper: (
                tamper(to, message)
                if isinstance(message, BlindedPoints) and message.sender == "bank"
                else [message]
            ),
        )
        parties = programs(job, sets, tmp_path / str(number))
        with pytest.raises(BreachError, match=r"not sealed for|not due"):
            simulated(job, parties, simulator)


def test_the_active_party_cannot_introduce_a_key_of_its_own_as_anothers(tmp_path):
    """It would read all letters between the others; certificates are what keeps it from that."""
    import msgspec

    sets = drawn((40, 90, 60), 20)
    job = job_of(sets, active="shop")
    keys = signed(sets)
    parties = {name: party(job, name, sets[name], tmp_path, credentials=keys[name])
               for name in sets}  # fmt: skip
    run = parties["shop"].run

    def running(world):
        send = world.send

        async def sending(to, message):
            if isinstance(message, Introduction) and message.party == "bank":
                message = msgspec.structs.replace(message, key=parties["shop"].mine.key)
            await send(to, message)

        world.send = sending
        return run(world)

    parties["shop"].run = running
    with pytest.raises(
        PartyError, match=r"bank, through shop, introduces itself wrongly: the signature is not"
    ):
        over_mtls(job, parties)


def test_a_passive_party_cannot_introduce_itself_as_another(tmp_path):
    sets = drawn((40, 90, 60), 20)
    job = job_of(sets, active="shop")
    keys = signed(sets)
    parties = {name: party(job, name, sets[name], tmp_path, credentials=keys[name])
               for name in sets}  # fmt: skip
    parties["telco"]._credentials = keys["bank"]
    with pytest.raises(PartyError, match="names somebody else"):
        over_mtls(job, parties)


@pytest.mark.parametrize(
    ("policy", "fault"),
    [
        (Policy(peer_ids_min=50), "peer_ids_min is 50 and bank brings 40 ids"),
        (Policy(peer_ids_max=30), "peer_ids_max is 30 and bank brings 40 ids"),
        (Policy(peer_ids_ratio=0.4), "peer_ids_ratio is 0.4, which is 36 ids here, and bank"),
    ],
)
def test_a_party_refuses_sets_that_its_policy_forbids(tmp_path, policy, fault):
    sets = drawn((40, 90), 20)
    job = job_of(sets)
    parties = programs(job, sets, tmp_path)
    parties["telco"] = party(job, "telco", sets["telco"], tmp_path, policy=policy)
    with pytest.raises(RequestError, match=fault):
        simulated(job, parties)


def test_a_party_that_asks_again_must_ask_the_same(tmp_path):
    """Points that come again after a restart are the same, or there would be more evaluations than
    ids."""
    sets = drawn((40, 90), 20)
    job = job_of(sets)
    parties = programs(job, sets, tmp_path)
    simulated(job, parties)
    follower = parties["telco"].role
    other = multiply(batch(_points(parties)), scalars_from(bytes(32), 9, 1)).tobytes()
    with pytest.raises(BreachError, match="bank asks for other points in round 1 than it did"):
        follower._check_asked(0, other)
    follower._check_asked(0, _points(parties))


def _points(parties) -> bytes:
    from colonnade.align.work import blind_all

    place = parties["bank"].role.place
    ids = place.ids.digests(0, len(place.ids))
    return blind_all(place.workers, ids, place.secrets.blinds, 0)


def test_kinds_are_those_of_an_alignment_and_no_others(tmp_path):
    sets = drawn((4, 4), 2)
    job = job_of(sets)
    own = party(job, "bank", sets["bank"], tmp_path)
    assert own.kinds.sends == own.kinds.accepts == ALIGNMENT


def test_who_comes_back_with_another_key_or_more_ids_is_refused(tmp_path):
    """A leading party that has seen what its ids gave must not go on with others."""
    import msgspec

    sets = drawn((40, 90), 20)
    job = job_of(sets)
    parties = programs(job, sets, tmp_path)
    simulated(job, parties)
    follower = parties["telco"]
    said = dict(follower.introductions)
    follower.meet(said)
    for more in ({"size": 41}, {"key": bytes(32)}):
        with pytest.raises(PartyError, match="bank has lost its key of this alignment, or has"):
            follower.meet(said | {"bank": msgspec.structs.replace(said["bank"], **more)})
