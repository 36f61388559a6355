"""Who among the parties that have come belongs to the run, and who has to be sent away.

A run begins when parties that have nothing go to the first round together; from then on it has a
name, which each keeps in its folder. As soon as anybody has a checkpoint of it, all must come from
folders of that run. A party that comes from another folder, or from an empty one, is told so: were
it let in, everybody else would have to begin again from nothing.

A party that took part and crashed before its first checkpoint has the run's name and no
checkpoint. It is let in, and all begin at the beginning of the same run.
"""

from __future__ import annotations

from collections.abc import Mapping

from colonnade.record.checkpoints import ANEW
from colonnade.wire.messages import Hello


def strangers(mine: Hello, heard: Mapping[str, Hello]) -> dict[str, str]:
    """Who does not belong, each with a sentence that names the fault and the cure; `mine` is the
    active party's own introduction, and `heard` everybody else's.

    >>> bank = Hello("bank", "d", 1, 1, 1, run="r1", checkpoints={20: "a"})
    >>> strangers(bank, {"telco": Hello("telco", "d", 1, 1, 1, run="r1")})
    {}
    >>> strangers(bank, {"telco": Hello("telco", "d", 1, 1, 1)})["telco"]
    'telco comes from a folder without the run r1, of which bank has the checkpoint of round 20: \
start telco with the --out folder of that run, or begin anew at all parties, each with --restart \
or another --out folder'
    """
    everybody = {mine.party: mine, **heard}
    run = _present(mine, heard)
    holders = {
        name: max(hello.checkpoints)
        for name, hello in everybody.items()
        if hello.checkpoints and hello.run == run
    }
    found: dict[str, str] = {}
    for name, hello in everybody.items():
        if hello.checkpoints and hello.run != run:
            found[name] = (
                f"{name} has checkpoints of another run, {hello.run[:12]}, up to round "
                f"{max(hello.checkpoints)}, and {mine.party} has none of it: start all parties "
                f"with the --out folder of one run, or {ANEW}"
            )
        elif holders and hello.run != run:
            holder = max(holders, key=lambda name: holders[name])
            found[name] = (
                f"{name} comes from a folder without the run {run[:12]}, of which {holder} has the "
                f"checkpoint of round {holders[holder]}: start {name} with the --out folder of "
                f"that run, or {ANEW}"
            )
    return found


def _present(mine: Hello, heard: Mapping[str, Hello]) -> str:
    """The run that counts: the active party's, unless it has nothing to lose and all others come
    from one and the same."""
    theirs = {hello.run for hello in heard.values()}
    if mine.checkpoints or len(theirs) > 1 or not any(h.checkpoints for h in heard.values()):
        return mine.run
    return theirs.pop()
