"""Whatever takes long is done in the compute thread, so that a party goes on being heard."""

from __future__ import annotations

import threading

import pytest

from colonnade import Job, Party
from colonnade.job.records import Timeouts
from colonnade.net.detector import FailureDetector
from colonnade.net.world import NetworkWorld
from colonnade.party.world import LONG, Work
from tests import loop
from tests.scene import case, scene

SLOW = {
    "p1": ("capture", "keep", "score", "state", "restore", "weights"),
    "p2": ("keep", "evaluate", "state", "restore", "weights"),
}
"""What a learner is asked for that is not part of an update."""


def listen_in(training, where, name):
    """Note for all slow work of a party in which thread it is done."""

    def noted(what, call):
        def wrapped(*args, **named):
            where.setdefault(f"{name} {what}", set()).add(threading.current_thread().name)
            return call(*args, **named)

        return wrapped

    build = training.build

    def built(world, welcome):
        program = build(world, welcome)
        for what in SLOW[name]:
            setattr(program.learner, what, noted(what, getattr(program.learner, what)))
        return program

    training.build = noted("build", built)
    training.keep = noted("keep", training.keep)
    for what in ("begin", "marks", "save", "load"):
        setattr(training.store, what, noted(what, getattr(training.store, what)))
    return training


def hold_back(training):
    """Let a party be busy with its second evaluation until it is told to go on."""
    asked, go_on, times = threading.Event(), threading.Event(), []
    build = training.build

    def built(world, welcome):
        program = build(world, welcome)
        evaluate = program.learner.evaluate

        def slowly(*args, **named):
            times.append(args)
            if len(times) == 2:
                asked.set()
                go_on.wait()
            return evaluate(*args, **named)

        program.learner.evaluate = slowly
        return program

    training.build = built
    return asked, go_on


def test_evaluating_scoring_and_saving_never_run_on_the_event_loop():
    async def whole():
        async with scene(case(evaluate_every="4 rounds")) as s:
            where = {}
            trainings = {name: listen_in(s.training(name), where, name) for name in SLOW}
            asked, go_on = hold_back(trainings["p2"])
            active, _ = await s.start("p1", trainings["p1"]), await s.start("p0")
            first = await s.start("p2", trainings["p2"])
            await s.until(asked.is_set)
            await first.crash()
            go_on.set()
            again = await s.start("p2", listen_in(s.training("p2"), where, "p2"))
            s.unharmed({party.name: await party.end() for party in (active, again)})
        wanted = {f"{name} {what}" for name, slow in SLOW.items() for what in slow}
        wanted |= {f"{name} {what}" for name in SLOW for what in ("build", "keep", "save")}
        assert wanted <= where.keys()
        assert {what: threads for what, threads in where.items() if threads != {"compute_0"}} == {}

    loop.run(whole())


@pytest.mark.parametrize("kind", list(Work))
def test_work_runs_on_the_event_loop_only_while_all_of_its_kind_was_short(kind):
    job = Job(parties={"a": Party(role="active"), "b": Party()})
    clock = [0]

    def work(ms):
        clock[0] += ms * 10**6
        return threading.current_thread() is threading.main_thread()

    async def whole():
        detector = FailureDetector(Timeouts(), "a")
        detector.now = lambda: clock[0]
        world = NetworkWorld(job, "a", detector, incarnation=1)
        on_loop = [await world.compute(lambda ms=ms: work(ms), kind) for ms in (0, 0, 0, 900, 0)]
        world.close()
        may = kind not in LONG
        assert on_loop == [False, may, may, may, False], "one that was long is not averaged away"

    loop.run(whole())
