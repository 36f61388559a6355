"""Large whole numbers: gmpy2, which is an extra."""

from __future__ import annotations

from typing import Any

from colonnade.errors import RequestError

__all__ = ["gmpy2"]


class Missing:
    """Stands in for gmpy2 where it is not installed, and says so when it is used: whoever lists all
    reproductions needs no encryption."""

    def __getattr__(self, name: str) -> Any:
        raise RequestError(
            "encryption needs gmpy2: pip install 'colonnade[he]', or leave the encryption out"
        )


try:
    import gmpy2
except ImportError:
    gmpy2 = Missing()
