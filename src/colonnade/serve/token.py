"""The token that whoever asks must know, from a file that only its owner can read."""

from __future__ import annotations

import re
from pathlib import Path

from colonnade.errors import RequestError, reason

_FORM = re.compile(r"[A-Za-z0-9._~+/=-]{16,4096}")


def read_token(path: Path) -> bytes:
    """The token of a file, or a `RequestError`.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder) / "token"
    ...     _ = file.write_text("0123456789abcdef\\n")
    ...     file.chmod(0o600)
    ...     read_token(file)
    b'0123456789abcdef'
    """
    try:
        mode, text = path.stat().st_mode, path.read_text().strip()
    except (OSError, UnicodeError) as error:
        why = reason(error) if isinstance(error, OSError) else "it is no text"
        raise RequestError(f"--token-file {path} cannot be read: {why}") from None
    if mode & 0o077:
        raise RequestError(f"others can read the token in {path}: run chmod 600 {path}")
    if not _FORM.fullmatch(text):
        raise RequestError(
            f"{path} holds no token: write 16 letters and digits or more into it, as openssl rand "
            "-hex 32 gives them"
        )
    return text.encode()
