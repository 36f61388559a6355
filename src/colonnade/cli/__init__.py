"""The command line. Commands import what loads slowly when they run, so that help comes at once.

Exit codes: 0; 1 when the job failed; 2 when the request is wrong; 130 after Ctrl-C. Whatever is
not 0 comes with one sentence on standard error; only our own mistakes show a traceback.

May import dashboard, reproduce, study, page, run, tracking, privacy, serve, predict, align, net,
tls, party, learn, record, models, data, job, methods, policies, compress, protect, wire.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from inspect import cleandoc
from typing import Annotated, Any

import typer

from colonnade.cli import screen
from colonnade.cli.align import align
from colonnade.cli.compare import compare
from colonnade.cli.dashboard import dashboard
from colonnade.cli.demo import demo
from colonnade.cli.export import export
from colonnade.cli.inspect import inspect
from colonnade.cli.join import join, stop
from colonnade.cli.keys import keys
from colonnade.cli.launch import launch
from colonnade.cli.ledger import ledger
from colonnade.cli.listing import jobs, methods
from colonnade.cli.look import look
from colonnade.cli.plan import plan
from colonnade.cli.predict import predict
from colonnade.cli.privacy import privacy
from colonnade.cli.race import race
from colonnade.cli.report import report
from colonnade.cli.reproduce import reproduce
from colonnade.cli.serve import serve
from colonnade.cli.simulate import simulate
from colonnade.cli.sweep import sweep
from colonnade.cli.trace import trace
from colonnade.errors import ColonnadeError, nearest, reason
from colonnade.record.chain import printable

# Typer carries its own click or uses the one installed: both name this the base of usage errors.
_UsageError: Any = typer.BadParameter.__mro__[1]

app = typer.Typer(
    name="colonnade",
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    help="Train one neural network across organisations that hold different columns of the same "
    "rows.\n\nBegin with [bold]colonnade demo[/bold].",
)
COMMANDS = (
    *(demo, look, plan, simulate, compare, sweep, race, launch, align, join, stop, predict, serve),
    *(dashboard, inspect, report, trace, privacy, export, ledger, methods, jobs, reproduce),
)


def _flowing(text: str) -> str:
    """Help whose paragraphs are broken by the terminal, and not where the code breaks them.

    >>> _flowing("Train.\\n\\n    One line\\n    and another.")
    'Train.\\n\\nOne line and another.'
    """
    return re.sub(r"(?<!\n)\n(?!\n)", " ", cleandoc(text))


for _command in COMMANDS:
    app.command(help=_flowing(_command.__doc__ or ""))(_command)
app.add_typer(keys, name="keys")
SENTENCE_MAX = 4_000
"""The longest sentence that is printed: it may repeat what a file says."""


def _show_version(asked: bool) -> None:
    if asked:
        from importlib.metadata import version

        print(f"colonnade {version('colonnade')}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    """Options of the command as a whole."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code.

    >>> main(["--version"])
    colonnade 0.1.0
    0
    """
    try:
        return _run(list(sys.argv[1:] if arguments is None else arguments) or ["--help"])
    except KeyboardInterrupt:  # A second one, while the first was answered.
        return 130
    finally:
        try:
            screen.leave(ends_process=arguments is None)
        except KeyboardInterrupt:  # One that came before it was deaf to them.
            screen.leave(ends_process=arguments is None)


def _run(words: Sequence[str]) -> int:
    try:
        code = app(args=words, prog_name="colonnade", standalone_mode=False) or 0
        sys.stdout.flush()
    except _UsageError as error:
        return _refuse(_usage_sentence(error, words), 2)
    except ColonnadeError as error:
        return _refuse(str(error), error.exit_code)
    except BrokenPipeError:
        # Whoever read our output has left (`colonnade jobs | head`): that is no fault.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        if error.filename is None:
            raise
        # A folder that was taken away or filled up in the meantime is no mistake of ours.
        return _refuse(f"{error.filename}: {reason(error)}", 1)
    except KeyboardInterrupt:
        code = 130
    if code == 130:
        return _refuse("interrupted", 130)
    return int(code)


def _refuse(sentence: str, code: int) -> int:
    # Another party may have said it, or the name of a file.
    screen.complain(printable(" ".join(sentence.split()))[:SENTENCE_MAX], code)
    return code


def _usage_sentence(error: Any, words: Sequence[str]) -> str:
    """What typer says of a usage error, with the nearest command and where to find help."""
    message = error.format_message().rstrip(".")
    path = "colonnade" if error.ctx is None else error.ctx.command_path
    if message.startswith("No such command"):
        wrong = words[path.count(" ")]
        return f"there is no command '{wrong}': {nearest(wrong, error.ctx.command.commands)}"
    return f"{message[0].lower()}{message[1:]}: see {path} --help"
