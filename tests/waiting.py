"""Wait for what a process, a broker or a thread does meanwhile."""

from __future__ import annotations

import time
from collections.abc import Callable


def until(holds: Callable[[], object], what: str = "", seconds: float = 60.0) -> None:
    """Return as soon as it holds, and fail after some seconds.

    :param what: for the failure.
    """
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, f"not within {seconds:g} seconds: {what}"
        time.sleep(0.02)
