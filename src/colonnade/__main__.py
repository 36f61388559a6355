"""`python -m colonnade` is the command `colonnade`."""

from __future__ import annotations

import sys

from colonnade.cli import main

if __name__ == "__main__":
    sys.exit(main())
