"""Large whole numbers: gmpy2, which is an extra."""

from __future__ import annotations

from colonnade.errors import RequestError

try:
    import gmpy2
except ImportError:
    raise RequestError(
        "encryption needs gmpy2: pip install 'colonnade[he]', or leave the encryption out"
    ) from None

__all__ = ["gmpy2"]
