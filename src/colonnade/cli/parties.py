"""The party files of a command that runs all parties of a job itself."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from colonnade.errors import RequestError
from colonnade.job.files import with_sets
from colonnade.job.party_file import PartyFile, find_party, load_party, own_job
from colonnade.job.records import Job

PartyFolder = Annotated[
    Path | None,
    typer.Option(
        "--parties",
        metavar="DIR",
        help="The folder of the party files, NAME.toml for each party that has one; by default "
        "they are looked for beside the job file, then in the current folder.",
    ),
]


def party_files(
    source: str, job: Job, sets: Sequence[str], folder: Path | None
) -> dict[str, PartyFile]:
    """The files called after a party that `join` would find; `--set` goes before what they say."""
    from colonnade.run.provision import own_file

    found = {}
    for name in job.parties:
        path = find_party(source, name) if folder is None else folder / f"{name}.toml"
        # A party.toml is of one party, and nothing says of which.
        if path is not None and path.stem == name and path.is_file():
            file = load_party(path)
            mine = [text for text in sets if text.startswith((f"parties.{name}.", "parties.*."))]
            own = with_sets(own_job(job, name, file), *mine)
            found[name] = own_file(own, name, file.policy)
    if folder is not None and not found:
        names = ", ".join(f"{name}.toml" for name in job.parties)
        raise RequestError(f"--parties {folder} has none of the files {names}: give their folder")
    return found
