"""The public checks find what does not hold, and say it; and every policy of ours passes."""

from __future__ import annotations

import subprocess
import sys

import pytest

from colonnade import fedbcd
from colonnade.methods.method import AXES
from colonnade.policies.parse import constructors, parse
from colonnade.sim.kernel import Simulator
from colonnade.testing import check_encoding, check_method, check_model, check_policy, check_world
from tests.faulty import Loose, faulty

POLICIES = {
    "exchange": ["gradients", "snapshot"],
    "window": ["lockstep", "pipelined:3", "fixed:4", "bandwidth_delay:8", "bandwidth_delay:9:0.5"],
    "quorum": ["everyone", "anyone", "anyone:upload"],
    "local": [
        *("once", "repeat:3", "workset:5:5", "workset:3:4:overlap=false", "while_waiting:4"),
        *("until:100ms", "agreed:100ms:min", "agreed:100ms:max", "deadline:4"),
    ],
    "version": ["stash", "recompute"],
    "weight": ["uniform", "cosine:0.5", "cosine_fresh", "cosine_fresh:0.5"],
    "rate": [
        *("constant", "inverse", "inverse_sqrt:true", "speed_adaptive", "speed_adaptive:3"),
        *("stale", "stale:3"),
    ],
    "momentum": ["kept", "shared"],
    "step": ["plain_step", "proximal:0.3", "local_momentum:0.9"],
    "order": ["parallel", "sequential", "sequential:last"],
    "average": ["none", "ema:0.999"],
}


@pytest.mark.parametrize("axis", POLICIES)
def test_every_policy_keeps_the_contract_of_its_axis(axis):
    for text in POLICIES[axis]:
        check_policy(axis, parse(axis, text))
    assert {text.partition(":")[0] for text in POLICIES[axis]} == set(constructors(axis))


def test_every_axis_is_among_them():
    assert {*POLICIES, "compress", "protect"} == set(AXES)


@pytest.mark.parametrize(
    ("name", "options", "words"),
    [
        ("whim", {}, "in two ways to one view|two runs of .* differ"),
        ("hurried", {}, "says that it does not go by the clock"),
        ("loose", {}, "no frozen dataclass"),
        ("backwards", {"equals": [({"updates": 1}, "fedsgd")]}, "does not learn the same as"),
    ],
)
def test_a_method_that_does_not_hold_is_found(name, options, words):
    with pytest.raises(AssertionError, match=words):
        check_method(f"tests.faulty:{name}", settings=(), **options)


def test_a_method_that_does_not_learn_is_found():
    with pytest.raises(AssertionError, match="does not learn: its loss goes from"):
        check_method("fedsgd", settings=[(2, "split", False)], lr=0.0)


def test_a_function_is_checked_under_the_name_that_a_job_gives_it():
    check_method(fedbcd, settings=())


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("careless", "writes nan instead of refusing it"),
        ("random", "writes other details with the same key and round"),
        ("remembers", "writes something else after a checkpoint"),
        ("long", "bytes for .* in round 0, not"),
        ("trusting", "makes .*float32.* of .*float64|breaks on bytes from a partner"),
    ],
)
def test_an_encoding_that_does_not_hold_is_found(fault, words):
    for given in (f"tests.faulty:faulty:{fault}", faulty(fault)):
        with pytest.raises(AssertionError, match=words):
            check_encoding(given)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"lossless": True}, "scalar:3 loses something"),
        ({"error": 1e-3}, "scalar:3 has an error of"),
        ({"unbiased": True}, "not zero in the mean"),
    ],
)
def test_a_promise_that_an_encoding_does_not_keep_is_found(options, words):
    with pytest.raises(AssertionError, match=words):
        check_encoding("scalar:3", **options)


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("centred", "lets rows see each other"),
        ("unused", "no gradient reaches spare"),
        ("hidden", "weights that are not in its state_dict"),
        ("cube", r"gives \(4, 2, 2\)"),
    ],
)
def test_a_model_that_does_not_hold_is_found(fault, words):
    with pytest.raises(AssertionError, match=words):
        check_model({"name": "tests.faulty:model", "fault": fault}, (5,))


def test_a_policy_that_does_not_hold_is_found():
    with pytest.raises(AssertionError, match="no frozen dataclass"):
        check_policy("local", Loose())
    with pytest.raises(AssertionError, match="there is no axis 'locale'"):
        check_policy("locale", Loose())


def test_a_world_that_does_not_hold_is_found():
    def reordered(job, programs):
        """Whoever receives gets the newest message first."""
        simulator = Simulator(job)
        for world in simulator.worlds.values():
            world.take = lambda sender, frame, w=world: (
                w.inbox.appendleft((sender, frame, w.now())),
                w.waiting is not None and simulator.wake_at(simulator.now_ns, w),
            )
        worlds = simulator.worlds
        return simulator.run({name: programs[name](worlds[name]) for name in worlds}), worlds

    with pytest.raises(AssertionError, match="otherwise than once and in order"):
        check_world(reordered)


def test_no_test_runner_is_needed_to_import_the_checks():
    script = "import sys, colonnade.testing; print({'pytest', 'hypothesis'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout == "set()\n", done.stderr
