"""Worker processes that do not outlive whoever started them."""

from __future__ import annotations

import multiprocessing
import os
import threading
from multiprocessing.connection import wait


def end_with_parent() -> None:
    """To be called in a worker: end it as soon as its parent process has ended.

    A parent that is killed cannot tell its workers; without this they wait for work for ever.
    """
    parent = multiprocessing.parent_process()
    assert parent is not None, "this process is no worker"

    def watch() -> None:
        wait([parent.sentinel])
        os._exit(1)

    threading.Thread(target=watch, name="end-with-parent", daemon=True).start()
