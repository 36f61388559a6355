"""What a run is: its checkpoints never mix with another's, and nobody can make others lose them."""

from __future__ import annotations

import shutil

import pytest

from colonnade.errors import RefusedError
from colonnade.testing.stores import MemoryStore
from tests import loop
from tests.alliance import ACTIVE, Alliance, new_keys
from tests.scene import scene
from tests.small import small

ROUNDS = 150


@pytest.fixture(scope="module")
def keys(tmp_path_factory):
    return new_keys(tmp_path_factory.mktemp("keys") / "alliance")


async def trained(s):
    """Start everybody, and let p2 crash when all have a checkpoint; the others."""
    others = [await s.start("p1"), await s.start("p0")]
    last = await s.start("p2")
    await s.until(lambda: all(store.marks() for store in s.stores.values()))
    await last.crash()
    await s.until(lambda: others[0].said("the connection with p2 is lost"))
    # What p2 had agreed to before it crashed may still be being saved, and at one party only.
    await s.until(lambda: s.stores["p0"].marks().keys() == s.stores["p1"].marks().keys())
    return others


def play(scenario):
    async def whole():
        async with scene(small(3, rounds=ROUNDS, checkpoint_every=5)) as s:
            others = await trained(s)
            await scenario(s, others)

    loop.run(whole())


def test_a_party_from_an_empty_folder_is_sent_away_and_the_others_lose_nothing():
    async def run(s, others):
        right, s.stores["p2"] = s.stores["p2"], MemoryStore()
        before = {name: s.stores[name].marks() for name in ("p0", "p1")}
        error = await (await s.start("p2")).end()
        assert isinstance(error, RefusedError)
        assert "p2 comes from a folder without the run" in str(error)
        assert "--out folder of that run, or begin anew at all parties, each with" in str(error)
        assert others[0].said("refused p2: p2 comes from a folder without the run")
        # What all had agreed on before p2 crashed may have been saved in the meantime.
        assert all(
            marks.items() <= s.stores[name].marks().items() for name, marks in before.items()
        )
        s.stores["p2"] = right
        back = await s.start("p2")
        s.unharmed({party.name: await party.end() for party in (*others, back)})

    play(run)


def test_a_party_of_another_run_of_the_same_job_is_sent_away():
    async def run(s, others):
        right, s.stores["p2"] = s.stores["p2"], MemoryStore()
        s.stores["p2"].begin("f" * 32, "e" * 32, 0)
        s.stores["p2"].save(5, right.load(min(right.marks())))
        error = await (await s.start("p2")).end()
        assert isinstance(error, RefusedError)
        assert "p2 has checkpoints of another run, ffffffffffff, up to round 5" in str(error)
        s.stores["p2"] = right
        back = await s.start("p2")
        s.unharmed({party.name: await party.end() for party in (*others, back)})

    play(run)


def test_who_claims_to_have_no_checkpoint_of_the_run_makes_nobody_delete_theirs():
    async def run(s, others):
        run, store, seen = s.stores["p2"].run, s.stores["p0"], []
        begin = store.begin

        def watched(run, attempt, start):
            before = store.marks()
            begin(run, attempt, start)
            seen.append((start, before, store.marks()))

        store.begin = watched
        liar = s.stores["p2"] = MemoryStore()
        liar.begin(run, "", 0)
        back = await s.start("p2")
        await s.until(lambda: seen)
        start, before, after = seen[0]
        assert start == 0 and before and after == before
        s.unharmed({party.name: await party.end() for party in (*others, back)})

    play(run)


def files(alliance, *names):
    """Of these parties' checkpoints; what is being written has a hidden name until it is whole."""
    folders = {name: alliance.run_folder(name) / "checkpoints" for name in names}
    return {
        (name, path.name)
        for name, folder in folders.items()
        for path in folder.iterdir()
        if not path.name.startswith(".")
    }


def test_a_wrong_out_folder_costs_nothing_at_any_party(tmp_path, keys):
    rounds = ("train.rounds=60", "train.checkpoint_every=20")
    with Alliance(tmp_path, *rounds, emulate="latency=5ms", keys=keys) as alliance:
        alliance.start()
        alliance.wait_for("lab", "saved the checkpoint of round 20")
        alliance.wait_for_round(20)
        for name, others in (("lab", (ACTIVE, "insurer")), (ACTIVE, ("lab", "insurer"))):
            alliance.kill(name)
            right = alliance.run_folder(name)
            right.rename(tmp_path / "elsewhere")
            before = files(alliance, *others)
            alliance.start(name)
            assert alliance.codes_of(name, 30) == 2, alliance.said()
            last = alliance.output(name).splitlines()[-1]
            assert f"{name} comes from a folder without the run" in last
            assert files(alliance, *others) >= before
            assert not any(alliance.ended(other) for other in others)
            shutil.rmtree(right)
            (tmp_path / "elsewhere").rename(right)
            alliance.start(name)
            alliance.wait_for(name, "goes on from the end of round")
        alliance.complete()


def test_a_run_begins_anew_when_all_are_told_to(tmp_path, keys):
    with Alliance(tmp_path, "train.rounds=20", emulate=None, keys=keys) as alliance:
        alliance.start()
        alliance.complete()
        run = (alliance.run_folder("lab") / "checkpoints" / "run.json").read_text()
        alliance.more = ("--restart",)
        alliance.start()
        alliance.complete()
        assert (alliance.run_folder("lab") / "checkpoints" / "run.json").read_text() != run
        assert (tmp_path / "lab.before-1" / "complete").exists()
        assert "begins anew; what" in alliance.output("lab")


def test_a_party_that_misses_at_most_the_goodbye_has_its_result_and_ends_well(tmp_path, keys):
    quick = ("train.rounds=10", "timeouts.finish=1s")
    with Alliance(tmp_path, *quick, emulate=None, keys=keys) as run:
        run.start()
        run.complete()
        run.start("lab")
        assert run.codes_of("lab", 30) == 0, run.output("lab")
        assert "complete after 10 rounds" in run.output("lab")
        (run.run_folder("lab") / "complete").unlink()  # as if killed before it heard the goodbye
        run.start("lab")
        assert run.codes_of("lab", 30) == 0, run.output("lab")
        said = run.output("lab")
        assert "the result of this party was kept before, and only a goodbye is missing" in said
        assert "done after 10 rounds" in said
