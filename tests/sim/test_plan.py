"""A plan against the simulator, over random networks and speeds."""

import msgspec
import pytest

import colonnade as cn
from colonnade import methods
from colonnade.job.records import Link, Network
from colonnade.planning.frames import frames
from colonnade.planning.workload import Workload
from tests.planned import REGIMES, Scene, scene

EXACT = [
    *("fedsgd", "fedbcd", "cvfl", "efvfl", "flexvfl", "flexvfl_s", "pbcd", "sync_min", "sync_max"),
    "fedbcd:order=sequential",
    "fedbcd:order=sequential:reply=last",
    "celu:overlap=false:w=1",
    "cvfl:exchange=gradients:both=true",
    "flexvfl:adaptive=true",
]
FOLLOWED = [
    *("celu", "pasta", "vafl", "vafl:local=repeat:3", "pasta:b_max=1", "pasta:decay=false"),
    *("pasta:b_max=8:s_max=8", "celu:w=2:r=9", "celu:window=pipelined:3", "vafl:local=workset:3:3"),
    "pasta:version=recompute",
    "pasta:version=recompute:idle",
    "vafl:start=upload",
    "fullpipe:share=1.0",
    "fullpipe:most=4:share=1.0",
    "auto:share=1.0",
    "fedsgd:window=fixed:5",
    "fedsgd:window=fixed:8:2",
]
OWN = [{"name": "tests.planned:full", "most": most, "eager": eager, "updates": updates}
       for most, eager, updates in ((2, False, 2), (5, True, 1), (20, False, 1))]  # fmt: skip


def off(planned: Scene) -> float:
    """By how much a plan misses the simulator's seconds, as a share."""
    return planned.predicted().total_ns / 1e9 / planned.simulated().time_s - 1


def test_every_method_is_here():
    tested = {text.partition(":")[0] for text in (*EXACT, *FOLLOWED)}
    assert tested == set(methods.known())


@pytest.mark.parametrize("text", EXACT)
def test_lock_step_is_exact(text):
    for seed, regime in enumerate(REGIMES):
        planned = scene(seed, cn.load("digits", method=text).method, regime, epochs=2)
        assert planned.predicted().exact
        assert abs(off(planned)) < 1e-5


@pytest.mark.parametrize("text", FOLLOWED)
def test_other_methods_are_within_a_tenth(text):
    for seed, regime in enumerate(REGIMES):
        planned = scene(seed, cn.load("digits", method=text).method, regime, epochs=3)
        assert not planned.predicted().exact
        assert abs(off(planned)) < 0.1


@pytest.mark.parametrize("table", OWN, ids=str)
def test_windows_that_nobody_steers(table):
    for regime in REGIMES:
        assert abs(off(scene(3, table, regime))) < 0.1


@pytest.mark.slow
@pytest.mark.parametrize("text", [*EXACT, *FOLLOWED])
def test_a_hundred_networks(text):
    table = cn.load("digits", method=text).method
    worst = max(abs(off(scene(seed, table, regime))) for seed in range(25) for regime in REGIMES)
    assert worst < (1e-5 if text in EXACT else 0.1)


@pytest.mark.parametrize("text", ["fedsgd", "fedbcd", "pasta", "celu", "vafl"])
def test_jitter_counts_by_its_mean(text):
    """The latest of several messages is later than each on average, which lock-step allows for."""
    exact = text.startswith("fed")
    table = cn.load("digits", method=text).method
    planned = scene(1, table, "latency", jitter=1 if exact else 0.2, epochs=20)
    assert abs(off(planned)) < (0.02 if exact else 0.1)


@pytest.mark.parametrize("text", [*EXACT, "pasta", "celu"])
def test_bytes_are_those_of_the_simulator(text):
    planned = scene(2, cn.load("digits", method=text).method, "mixed", epochs=2)
    found, run = planned.predicted(), planned.simulated()
    crossed = {"received": 0, "sent": 0}
    for entry in run.parties["a"].ledger:
        if entry["kind"] in ("Embedding", "Status", "Gradient", "Snapshot"):
            crossed[entry["direction"]] += entry["bytes"]
    assert sum(found.up.values()) * found.epochs == pytest.approx(crossed["received"], rel=1e-12)
    assert sum(found.down.values()) * found.epochs == pytest.approx(crossed["sent"], rel=1e-12)


def test_encodings_that_change_count_by_their_mean():
    table = {"name": "cvfl", "q": 2, "compressor": "diminishing+scalar:2"}
    planned = scene(4, table, "bandwidth")
    assert abs(off(planned)) < 0.02


def test_a_partys_own_compression_counts():
    planned = scene(2, {"name": "fedsgd"}, "mixed")
    party = msgspec.structs.replace(planned.job.parties["p0"], compress={"embedding": "scalar:4"})
    job = msgspec.structs.replace(planned.job, parties=planned.job.parties | {"p0": party})
    own = Scene(job, planned.rows, planned.widths)
    workload = Workload.of(job, planned.rows, planned.widths)
    assert frames(methods.build(job.method), workload)["p0"].full.up < 64 * 128 * 4 / 6
    assert abs(off(own)) < 1e-5


def test_a_steadier_line_never_costs_time():
    """More bandwidth or less latency makes no plan slower, in lock-step."""
    planned = scene(5, {"name": "fedbcd"}, "bandwidth")
    before = planned.predicted().epoch_s
    for better in (Link(latency="0ms", bandwidth="1gbit"), Link(latency="1ms")):
        job = msgspec.structs.replace(planned.job, network=Network(link=better))
        assert Scene(job, planned.rows, planned.widths).predicted().epoch_s <= before
