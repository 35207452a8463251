"""Wait for what a process, a broker or a thread does meanwhile."""

from __future__ import annotations

import time
from collections.abc import Callable


def until_quiet(end: Callable[[], int], least: int, quiet: float, seconds: float = 90.0) -> int:
    """The end of a topic, when it has grown beyond some offset and then not for some seconds.

    :param quiet: so many.
    """
    deadline, seen, since = time.monotonic() + seconds, 0, time.monotonic()
    while time.monotonic() < deadline:
        now = end()
        if now != seen:
            seen, since = now, time.monotonic()
        elif seen > least and time.monotonic() - since > quiet:
            return seen
        time.sleep(0.1)
    raise AssertionError(f"The topic must stop to grow; it ends at {seen}")


def until(holds: Callable[[], object], what: str = "", seconds: float = 60.0) -> None:
    """Return as soon as it holds, and fail after some seconds.

    :param what: for the failure.
    """
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, f"not within {seconds:g} seconds: {what}"
        time.sleep(0.02)
