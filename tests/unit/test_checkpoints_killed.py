"""A process that is killed, or meets a limit, while it saves: the checkpoint before is usable."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.warm import python

START = """
import os, signal, sys
from pathlib import Path
import torch
from colonnade.record import checkpoints
from colonnade.record.checkpoints import FileStore
from colonnade.record.checkpoints import CheckpointError

torch.set_num_threads(1)
folder = Path(sys.argv[1])

def store():
    return FileStore(folder, "bank", "d1", keep=2)

def save(round, size=2000):
    store().save(round, {"round": round, "weights": torch.full((size,), float(round))})

def check(round, size=2000):
    state = opened.load(round)
    assert state["round"] == round
    assert torch.equal(state["weights"], torch.full((size,), float(round)))

def in_a_child(work):
    pid = os.fork()
    if not pid:
        work()
        os._exit(0)
    return pid
"""

EVERY_STEP = """
def die(*given, **named):
    os.kill(os.getpid(), signal.SIGKILL)

def half(path, pieces):
    def dying():
        yield from list(pieces)[:2]
        die()
    real(path, dying())

real = checkpoints.write_whole
force = checkpoints.force_folder
STEPS = {
    "before": lambda: setattr(checkpoints, "write_whole", die),
    "halfway": lambda: setattr(checkpoints, "write_whole", half),
    "written": lambda: setattr(os, "fsync", die),
    "forced": lambda: setattr(Path, "replace", die),
    "renamed": lambda: setattr(checkpoints, "force_folder", die),
    "durable": lambda: setattr(FileStore, "_delete", die),
    "deleting": lambda: setattr(Path, "unlink", lambda p, **k: p.name.startswith(".") or die()),
}
for step, patch in STEPS.items():
    for old in folder.iterdir():
        old.unlink()
    for round in (2, 4):
        save(round)
    pid = in_a_child(lambda: (patch(), save(6)))
    assert os.WIFSIGNALED(os.waitpid(pid, 0)[1]), step
    left = sorted(path.name for path in folder.iterdir())
    opened = store()
    known = tuple(opened.marks())
    assert known == ((2, 4) if step in ("before", "halfway", "written", "forced") else (2, 4, 6)), step
    assert (".checkpoint-00000006.state.part" in left) == (step in ("halfway", "written", "forced")), step
    for round in known:
        check(round)
    assert opened.faults == []
    assert not list(folder.glob(".*"))
    opened.save(6, {"round": 6})
    assert tuple(opened.marks()) == (4, 6)
print("sound")
"""  # noqa: E501

ANY_MOMENT = """
import select, time

def work(pipe):
    round = 0
    while True:
        round += 1
        save(round, 200_000)
        os.write(pipe, round.to_bytes(4, "little"))

for attempt in range(20):
    for old in folder.iterdir():
        old.unlink()
    reader, writer = os.pipe()
    pid = in_a_child(lambda: work(writer))
    os.close(writer)
    select.select([reader], [], [])
    time.sleep(0.0013 * attempt)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    told = os.read(reader, 1 << 16)
    os.close(reader)
    last = int.from_bytes(told[-4:], "little")
    opened = store()
    assert tuple(opened.marks())[-1] in (last, last + 1), (last, tuple(opened.marks()))
    for round in tuple(opened.marks()):
        check(round, 200_000)
    assert opened.faults == []
print("sound")
"""

SMALL_FILES = """
import resource

save(2)
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
try:
    save(4, 100_000)
except CheckpointError as error:
    print(error)
opened = store()
assert tuple(opened.marks()) == (2,)
assert [path.name for path in folder.iterdir()] == ["checkpoint-00000002.state"]
check(2)
save(6)
print("sound")
"""

READ_ONLY = """
os.chdir(folder)
folder = Path()
save(2)
folder.chmod(0o500)
if os.getuid() == 0:
    # Root may write anywhere, so it becomes somebody else.
    for path in (folder, *folder.iterdir()):
        os.chown(path, 65534, 65534)
    os.setgroups([])
    os.setuid(65534)
try:
    save(4)
except CheckpointError as error:
    print(error)
opened = store()
assert tuple(opened.marks()) == (2,)
check(2)
print("sound")
"""


def run(script: str, folder: Path) -> list[str]:
    command = [python(), "-W", "error", "-c", START + script, str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.parametrize("script", [EVERY_STEP, ANY_MOMENT], ids=["every step", "any moment"])
def test_a_kill_leaves_the_one_before_or_the_new_one(tmp_path, script):
    assert run(script, tmp_path) == ["sound"]


def test_a_limit_on_files_leaves_the_one_before(tmp_path):
    sentence, last = run(SMALL_FILES, tmp_path)
    assert last == "sound"
    assert sentence == (
        f"the checkpoint {tmp_path}/checkpoint-00000004.state cannot be written "
        "(File too large): raise the limit on the size of files (ulimit -f)"
    )


def test_a_folder_that_became_read_only_leaves_the_one_before(tmp_path):
    sentence, last = run(READ_ONLY, tmp_path)
    tmp_path.chmod(0o700)
    assert last == "sound"
    assert sentence == (
        "the checkpoint checkpoint-00000004.state cannot be written (Permission denied): "
        "make the folder writable, or choose another --out folder"
    )
