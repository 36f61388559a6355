"""How the active party scores a round, and at the end looks at the test rows."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from colonnade.party.evaluation import Evaluation, blame
from colonnade.party.world import Work
from colonnade.record.events import Evaluated, Tested

if TYPE_CHECKING:
    from colonnade.party.active import Active


async def ask_test(program: Active) -> None:
    """Everything is chosen: look at the test rows, once, with the weights of the best round."""
    with program.world.off_clock():
        models = await program.world.compute(program.learner.recall, Work.EVALUATE)
        questions = program.evaluations.ask_test(models, program.view.answered)
        for peer, question in questions.items():
            await program.world.send(peer, question)


async def score(program: Active, evaluation: Evaluation) -> None:
    """All answers to an evaluation are here: measure, and perhaps end the run."""
    world, measured = program.world, dict[str, float]()
    with program.world.off_clock():
        for split, pieces in evaluation.pieces.items():
            asked = evaluation.models, split, pieces, evaluation.round
            measure = partial(program.learner.score, *asked)
            measured |= await program.world.compute(measure, Work.EVALUATE, evaluation.round)
    if evaluation.is_test:
        program.evaluations.close(evaluation)
        program.tell(Tested(world.me, world.now(), program.evaluations.best, measured))
        return
    reason = program.evaluations.close_scored(evaluation, measured)
    program.learner.prune(program.evaluations.best, program.evaluations.scored)
    is_best = program.evaluations.best == evaluation.round
    scored = Evaluated(
        world.me,
        world.now(),
        evaluation.round,
        measured,
        is_best,
        evaluation.bytes_up,
        evaluation.bytes_down,
    )
    program.tell(scored)
    if reason == "diverged" and program.reason is None:
        program.diverge(await program.world.compute(partial(blame, evaluation), Work.EVALUATE))
    program.reason = program.reason or reason
