"""An update finds what an alignment of everything would, and shows nobody more."""

from __future__ import annotations

import tempfile
from itertools import pairwise
from pathlib import Path

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from colonnade.align.desk import Desk
from colonnade.align.evaluations import Evaluations
from colonnade.align.garbled import look_up
from colonnade.align.lead import read_table
from colonnade.align.work import words
from colonnade.errors import BreachError, PartyError, RefusedError, RequestError
from colonnade.job.policy import Policy
from colonnade.testing.stores import MemoryStore
from colonnade.wire.messages import BlindedPoints, CommonTags
from tests.aligning import check_exact, job_of, party, simulated
from tests.contract.test_alignment import NAMES, alien_tag, deviating, surplus


def stepped(job, sets, folder, step, names=None, **more):
    """Programs of the parties for a step."""
    return {name: party(job, name, sets[name], folder, step=step, **more)
            for name in names or sets}  # fmt: skip


def settle(parties):
    for name, own in parties.items():
        own._desk.settle(own.step)
        assert Desk(own._desk.folder).generations(own.step), name


def go(job, sets, folder, step, **more):
    """One step to its end, as the command would have it."""
    parties = stepped(job, sets, folder, step, **more)
    found, worlds = simulated(job, parties)
    settle(parties)
    return found, parties, worlds


GROWTH = st.lists(
    st.lists(st.sets(st.integers(0, 30), max_size=8), min_size=5, max_size=5), min_size=1,
    max_size=4,
)  # fmt: skip


@settings(max_examples=40, deadline=None)
@given(GROWTH, st.integers(2, 5), st.integers(0, 4), st.randoms(use_true_random=False))
def test_updates_find_what_an_alignment_of_everything_would(growth, count, active, rng):
    """Whoever adds what, in whatever order, and wherever in the table."""
    names = NAMES[:count]
    sets = {name: [] for name in names}
    job = job_of(sets, active=names[active % count])
    before: list[str] = []
    commons = set()
    with tempfile.TemporaryDirectory() as folder:
        for step, added in enumerate(growth):
            for name, more in zip(names, added, strict=False):
                sets[name] += [f"n{n}" for n in more if f"n{n}" not in sets[name]]
                rng.shuffle(sets[name])
            found, _, _ = go(job, sets, Path(folder), step)
            check_exact(sets, found)
            order = [sets["bank"][row] for row in found["bank"].rows]
            assert order[: len(before)] == before, "what was common keeps its order"
            before = order
            commons.add(found["bank"].common)
    assert len(commons) == len(growth), "each result has a name of its own"


def grown(count=300, more=3):
    """Sets of three parties, and the same with some ids more."""
    sets = {
        "bank": [f"c{n}" for n in range(count)],
        "telco": [f"c{n}" for n in range(count // 2, 2 * count)],
        "shop": [f"c{n}" for n in range(0, count, 2)] + [f"s{n}" for n in range(count)],
    }
    added = {
        "bank": [f"d{n}" for n in range(more)],
        "telco": [f"d{n}" for n in range(more)] + ["c0", "c1"],
        "shop": [f"d{n}" for n in range(more)],
    }
    return sets, {name: [*added[name], *sets[name]] for name in sets}


def test_only_what_is_new_is_evaluated_and_the_same_party_leads(tmp_path, monkeypatch):
    monkeypatch.setattr("colonnade.align.plan.CHUNK", 50)
    monkeypatch.setattr("colonnade.align.garbled.BUCKET", 100)
    calls = {"evaluated": 0, "own_outputs": 0, "blinded": 0}
    for name in calls:
        from colonnade.align import work

        original = getattr(work, name)

        def counting(first, *rest, name=name, original=original):
            calls[name] += len(first) // 32 if name == "evaluated" else len(first)
            return original(first, *rest)

        monkeypatch.setattr(work, name, counting)
    sets, more = grown()
    job = job_of(sets, active="shop")
    _, parties, _ = go(job, sets, tmp_path, 0)
    assert parties["bank"].role.place.plan.lead == "bank"
    assert calls == {"evaluated": 600, "own_outputs": 450 + 450, "blinded": 300}
    calls |= dict.fromkeys(calls, 0)
    more["bank"] += [f"b{n}" for n in range(1000)]  # telco and shop have fewer now
    found, parties, _ = go(job, more, tmp_path, 1)
    check_exact(more, found)
    assert {own.role.place.plan.lead for own in parties.values()} == {"bank"}
    assert calls == {"evaluated": 2 * 1003, "own_outputs": 5 + 3, "blinded": 1003}


@pytest.mark.parametrize("victim", ["bank", "telco", "shop"])
def test_an_id_that_was_removed_is_refused_with_the_cure(tmp_path, victim):
    sets, more = grown()
    job = job_of(sets)
    go(job, sets, tmp_path, 0)
    more[victim] = more[victim][:-2]
    with pytest.raises(
        RequestError, match=rf"2 ids of {victim} that were aligned.*--restart at al"
    ):
        go(job, more, tmp_path, 1)


def test_tables_of_two_steps_have_nothing_in_common(tmp_path):
    """Not the slots, not what is in them: neither for who knows a follower's function of an id, nor
    for anybody else."""
    sets, more = grown()
    job = job_of(sets)
    seen = []
    for step, now in enumerate((sets, more, more)):
        parties = stepped(job, now, tmp_path, step)
        simulated(job, parties)
        lead = parties["bank"].role
        table, attempt = read_table(lead._tables["telco"][0])
        known = lead._outputs["telco"][0].read(0, 300)
        # With the masks and marks of the first step, or with those of this one.
        first = look_up(table, words(known[:, 32:48]), attempt) ^ words(known[:, :16])
        seen.append((table, first))
        settle(parties)
    for (table, _), (other, _) in pairwise(seen):
        rows = min(len(table), len(other))
        assert not (table[:rows] == other[:rows]).any()
    values = np.concatenate([first for _, first in seen])
    assert values.all(), "with a third party a share is never zero"
    assert len(np.unique(values, axis=0)) == len(values), "and never the same again"


def test_a_share_is_another_one_in_each_step(tmp_path):
    """Else the leading party would see, id by id, which follower has added what was missing."""
    sets, more = grown()
    job = job_of(sets)
    shares = []
    for step, now in enumerate((sets, more)):
        parties = stepped(job, now, tmp_path, step)
        simulated(job, parties)
        lead = parties["bank"].role
        from colonnade.align.work import relabelled

        known = lead._outputs["telco"][0].read(0, 300)
        masks, marks = relabelled(known[:, :16], known[:, 32:48], lead.place.secrets.label)
        table, attempt = read_table(lead._tables["telco"][0])
        shares.append(look_up(table, marks, attempt) ^ masks)
        settle(parties)
    assert (shares[0] != shares[1]).any(axis=1).all()


def test_the_points_of_two_steps_have_no_blind_in_common(tmp_path):
    sets, more = grown()
    job = job_of(sets)
    _, first, _ = go(job, sets, tmp_path, 0)
    _, second, _ = go(job, more, tmp_path, 1)
    secrets = [parties["bank"].role.place.secrets for parties in (first, second)]
    assert secrets[0].key == secrets[1].key and secrets[0].letters == secrets[1].letters
    for name in ("blinds", "filling", "order"):
        assert getattr(secrets[0], name) != getattr(secrets[1], name)


@pytest.mark.parametrize("change", [surplus, alien_tag], ids=lambda change: change.__name__)
def test_a_leading_party_gets_no_more_evaluations_than_it_has_added(tmp_path, change):
    """One point more than announced; or a name in the result that is not there."""
    sets, more = grown()
    job = job_of(sets)
    go(job, sets, tmp_path, 0)
    parties = stepped(job, more, tmp_path, 1)
    deviating(parties, "bank", BlindedPoints if change is surplus else CommonTags, change)
    with pytest.raises(BreachError, match=r"sent 4 points in round 1, and 3 are|named ids in") as e:
        simulated(job, parties)
    assert e.value.peer == "bank"


def test_a_leading_party_cannot_name_what_was_common_before(tmp_path):
    """It would move rows that others have already trained on."""
    sets, more = grown()
    job = job_of(sets)
    _, parties, _ = go(job, sets, tmp_path, 0)
    old = parties["telco"].role
    row = words(old._own[0].part(slice(16, 32)))
    digests = old.place.generations[0].words(0, 450)
    common = Desk(tmp_path / "telco").common(0)
    at = int(np.flatnonzero((digests == common[0]).all(axis=1))[0])
    parties = stepped(job, more, tmp_path, 1)
    deviating(parties, "bank", CommonTags,
              lambda content, number: content[:-16] + row[at].tobytes())  # fmt: skip
    # Only telco knows this name.
    with pytest.raises(BreachError, match=r"named an id in the result twice|does not have"):
        simulated(job, parties)


def test_who_comes_to_an_update_with_fewer_ids_or_another_key_is_refused(tmp_path):
    sets, more = grown()
    job = job_of(sets)
    go(job, sets, tmp_path, 0)
    _, parties, _ = go(job, more, tmp_path, 1)
    follower, said = parties["telco"], dict(parties["telco"].introductions)
    for changed, fault in ((more["bank"][:-5], "bank has 298 ids and had 303"),):
        after = party(job, "telco", more["telco"], tmp_path, step=2)
        _ = after.hello
        after._secrets = follower._desk.secrets("ab" * 16, lambda size: bytes(size), 2)
        fewer = msgspec.structs.replace(said["bank"], size=len(changed))
        with pytest.raises(PartyError, match=fault):
            after.meet(said | {"bank": fewer})


def test_parties_that_are_not_at_the_same_step_do_not_begin(tmp_path):
    sets, more = grown()
    job = job_of(sets)
    go(job, sets, tmp_path, 0)
    parties = stepped(job, more, tmp_path, 1, names=["bank", "telco"])
    go(job, sets, tmp_path / "elsewhere", 0)
    parties |= stepped(job, sets, tmp_path / "elsewhere", 0, names=["shop"])
    with pytest.raises(RefusedError, match="update is not set at shop and 1 at bank"):
        simulated(job, parties)


def test_a_table_that_changed_in_the_middle_of_an_update_is_refused(tmp_path):
    """Tables of one step with different ids would give them away."""
    sets, more = grown()
    job = job_of(sets)
    go(job, sets, tmp_path, 0)
    parties = stepped(job, more, tmp_path, 1)
    simulated(job, parties)
    run = parties["telco"]._secrets.run
    again = party(job, "telco", [*more["telco"], "another"], tmp_path, step=1)
    _ = again.hello
    with pytest.raises(RequestError, match="the table has changed since this alignment began"):
        again._desk.secrets(run, lambda size: bytes(size), 1)
    with pytest.raises(PartyError, match="the others begin another alignment"):
        again._desk.secrets("ff" * 16, lambda size: bytes(size), 1)
    with pytest.raises(RequestError, match="is not of the alignment that is to be updated"):
        again._desk.secrets(run, lambda size: bytes(size), 3)
    with pytest.raises(RequestError, match="is not of the alignment that is to be updated"):
        again._desk.secrets(run, lambda size: bytes(size), 0)


def test_what_an_update_needs_and_is_gone_is_said(tmp_path):
    sets, more = grown()
    job = job_of(sets)
    go(job, sets, tmp_path, 0)
    for name, file in (("bank", "outputs-telco-0.bin"), ("telco", "own-0.bin"),
                       ("shop", "common-0.bin"), ("shop", "ids-0.bin")):  # fmt: skip
        path = tmp_path / name / file
        kept = path.read_bytes()
        path.unlink()
        with pytest.raises(RequestError, match=rf"{file} is gone.*begin anew at all parties"):
            simulated(job, stepped(job, more, tmp_path, 1))
        path.write_bytes(kept)
        for desk in tmp_path.iterdir():
            for left in desk.glob("*-1.bin"):
                left.unlink()


def test_a_party_stops_at_the_most_evaluations_over_all_steps(tmp_path):
    sets, more = grown()
    job = job_of(sets)
    policy = Policy(oprf_evaluations_max=302)
    go(job, sets, tmp_path, 0, policy=policy)
    assert Evaluations(tmp_path / "telco").count == 300
    assert Evaluations(tmp_path / "telco").path.stat().st_mode & 0o777 == 0o600
    with pytest.raises(RequestError, match=r"oprf_evaluations_max is 302, and bank asks for 3 poi"):
        go(job, more, tmp_path, 1, policy=policy)
    again = stepped(job, more, tmp_path, 1, policy=Policy(oprf_evaluations_max=303))
    simulated(job, again)
    assert Evaluations(tmp_path / "shop").count == 303


def test_points_that_come_again_after_a_crash_are_counted_once(tmp_path):
    sets, _ = grown()
    job = job_of(sets)
    stores = {name: MemoryStore() for name in sets}
    for _ in range(2):
        parties = {name: party(job, name, sets[name], tmp_path, store=stores[name],
                               policy=Policy(oprf_evaluations_max=300))
                   for name in sets}  # fmt: skip
        simulated(job, parties)
    assert Evaluations(tmp_path / "telco").count == 300
