"""`colonnade demo`: what three methods cost between real processes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from colonnade.cli import screen
from colonnade.cli.launch import parties_shown, stopping
from colonnade.cli.options import Json, Out, Quiet, check_out, read_job
from colonnade.job.texts import parse_method
from colonnade.record.table import plain

if TYPE_CHECKING:
    from colonnade.run.compare import Comparison

DEMO_METHODS = ("fedsgd", "fedbcd:updates=5", "pasta")
DEMO_SETS = [
    # One rate for all, with which each method reaches the target on each of the seeds 0 to 4.
    "parties.*.optimizer.lr=0.1",
    "train.target=0.9",
    "train.stop=target",
    "train.epochs=100",
]
DEMO_LINE = "latency=10ms"


def demo(out: Out = None, as_json: Json = False, quiet: Quiet = False) -> None:
    """See what the methods cost: three processes learn digits over slow lines, in a minute or so.

    Example: colonnade demo
    """
    check_out(out)
    if not as_json and not quiet:
        screen.show(
            "Three parties hold three strips of each handwritten digit, and one the labels. They\n"
            "train one network until it knows 90 % of the digits it has not seen.\n\n"
            "Real: each party is a process of its own; TLS with a certificate for each; the bytes\n"
            "that cross; the time on the wall, from when all are there. Emulated: the line. Every\n"
            "message is held back for 10 ms, so waiting costs most. FedSGD updates once for each\n"
            "exchange, FedBCD five times, PASTA keeps several exchanges under way. One seed.\n"
        )
    result = _compare(out, quiet)
    if as_json:
        screen.show_json(result.to_dict())
        return
    screen.show(result.table(screen.stdout().width))
    screen.show(
        f"\nOne run by itself:     colonnade launch digits --emulate {DEMO_LINE}"
        "\nIn virtual time:       colonnade simulate digits --set network.latency=1s"
        "\nA job of your own:     colonnade jobs digits > mine.toml"
    )


def _compare(out: Path | None, quiet: bool) -> Comparison:
    """One run after the other, so that none slows another down."""
    from colonnade.cli.progress import follow_runs
    from colonnade.run.compare import Comparison, run_folder
    from colonnade.run.launch import launch
    from colonnade.run.pool import Trial

    common = read_job("digits", DEMO_SETS)
    console = screen.stderr()
    kept = "" if out is None else f"; the same command goes on from what is saved in {out}"
    total, trials = len(DEMO_METHODS), []
    follow = follow_runs(console, total, quiet or console.is_terminal)
    with stopping(kept) as stopped, follow as following:
        for count, label in enumerate(DEMO_METHODS, 1):
            job = msgspec.structs.replace(common, method=parse_method(label))
            folder = None if out is None else run_folder(out, label, job.seed)
            hidden, title = quiet or not console.is_terminal, f"run {count} of {total}: {label}"
            with parties_shown(job, hidden, [title]) as observer:
                run = launch(
                    job, out=folder, emulate=DEMO_LINE, observers=[observer], should_stop=stopped
                )
            trials.append(Trial(label, job, plain(run.summary()), plain(run.history)))
            following.on_done(trials[-1])
    result = Comparison(trials)
    if out is not None:
        result.save(out)
    return result
