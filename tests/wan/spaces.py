"""Network namespaces and TUN devices: make, enter, remove. Needs root.

A namespace is called `colonnade-PID-HOST` after the relay that made it, so that one whose
relay is dead can be told and removed.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import re
import shutil
import signal
import struct
import subprocess
import time
from functools import cache
from pathlib import Path

FOLDER = Path("/run/netns")
DEVICE = "wan0"
TUN = Path("/dev/net/tun")
TUNSETIFF, IFF_TUN, IFF_NO_PI = 0x400454CA, 0x0001, 0x1000
CLONE_NEWNET = 0x40000000
TUN_QUEUE_PACKETS = 10_000
"""Room in a device for what a relay that the machine holds up has not read yet."""


@cache
def why_not() -> str:
    """Why no namespace can be made here, as a sentence; empty when it can."""
    if os.geteuid() != 0:
        return "the WAN test bench needs root"
    if shutil.which("ip") is None:
        return "the WAN test bench needs the ip command of iproute2"
    if not TUN.exists():
        return f"the WAN test bench needs {TUN}"
    probe = namespace(os.getpid(), "probe")
    try:
        os.close(make(probe, "10.203.0.1/24", 1500))
    except (OSError, subprocess.CalledProcessError) as error:
        return f"network namespaces are not permitted here: {_words(error)}"
    finally:
        remove(probe)
    return ""


def namespace(pid: int, host: str) -> str:
    """The namespace of a host of the relay with this process number."""
    return f"colonnade-{pid}-{host}"


def make(name: str, address: str, mtu: int) -> int:
    """A namespace with loopback and a TUN device; returns the device's file, non-blocking."""
    _ip("netns", "add", name)
    tun = _open_tun(name)
    # Without an IPv6 address the kernel sends nothing of its own through the line.
    settings = f"""\
        link set dev lo up
        link set dev {DEVICE} mtu {mtu} txqueuelen {TUN_QUEUE_PACKETS} addrgenmode none
        addr add {address} dev {DEVICE}
        link set dev {DEVICE} up
    """
    _ip("-n", name, "-batch", "-", given=settings)
    return tun


def remove(name: str) -> None:
    """End what still runs in a namespace and remove it; nothing when there is none."""
    for _ in range(50):
        inside = subprocess.run(["ip", "netns", "pids", name], capture_output=True, text=True)
        pids = [int(pid) for pid in inside.stdout.split()]
        if not pids:
            break
        for pid in pids:
            _kill(pid)
        time.sleep(0.02)
    # Two sweeps at once may both come to the same one; the second finds it gone.
    subprocess.run(["ip", "netns", "del", name], capture_output=True)


def sweep() -> list[str]:
    """Remove the namespaces whose relay is dead; returns their names."""
    stale = [name for pid, name in existing() if not alive(pid)]
    for name in stale:
        remove(name)
    return stale


def existing() -> list[tuple[int, str]]:
    """The process number and the name of every namespace of ours."""
    names = sorted(path.name for path in FOLDER.iterdir()) if FOLDER.exists() else []
    matches = [re.fullmatch(r"colonnade-(\d+)-.+", name) for name in names]
    return [(int(match[1]), match[0]) for match in matches if match]


def alive(pid: int) -> bool:
    """Whether a process runs; one that has ended and waits for its parent does not."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return status.rpartition(")")[2].split()[0] != "Z"


def _open_tun(name: str) -> int:
    """A TUN device made inside a namespace; its file works from outside."""
    libc = ctypes.CDLL(None, use_errno=True)

    def enter(space: int) -> None:
        if libc.setns(space, CLONE_NEWNET) != 0:
            raise OSError(ctypes.get_errno(), f"cannot enter the namespace {name}")

    home_path = Path("/proc/thread-self/ns/net")
    with home_path.open() as home, (FOLDER / name).open() as space:
        enter(space.fileno())
        try:
            tun = os.open(TUN, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
            request = struct.pack("16sH22x", DEVICE.encode(), IFF_TUN | IFF_NO_PI)
            fcntl.ioctl(tun, TUNSETIFF, request)
        finally:
            enter(home.fileno())
    return tun


def _ip(*words: str, given: str = "") -> None:
    subprocess.run(["ip", *words], input=given, capture_output=True, text=True, check=True)


def _words(error: Exception) -> str:
    return (getattr(error, "stderr", "") or str(error)).strip()


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return
