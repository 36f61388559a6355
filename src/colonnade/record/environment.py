"""What a model was trained with: versions and the kind of system, and nothing that names a host, a
person or a place."""

from __future__ import annotations

import platform
from functools import cache
from importlib.metadata import PackageNotFoundError, version

PACKAGES = ("colonnade", "torch", "numpy", "pyarrow", "safetensors")


def environment() -> dict[str, str]:
    """The versions that matter, by name.

    >>> sorted(environment())
    ['colonnade', 'numpy', 'pyarrow', 'python', 'safetensors', 'system', 'torch']
    """
    return {
        **{package: _version(package) for package in PACKAGES},
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
    }


@cache  # It takes milliseconds, and a simulation asks for every party.
def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed as a package"
