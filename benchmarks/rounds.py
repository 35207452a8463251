"""Measure variants in turn, so that a temporary disturbance of the machine affects all of them."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from statistics import median
from types import FrameType


@dataclass
class Variant:
    """One way to do the work.

    :param name: as in the table.
    :param run: does the work once, checks it, and returns the seconds that count.
    :param warm_up: run it once unmeasured before the first round.
    :param seconds: what was measured, round by round.
    :param missing: why it cannot be measured here, or None.
    """

    name: str
    run: Callable[[], float]
    warm_up: bool = True
    seconds: list[float] = field(default_factory=list)
    missing: str | None = None

    @property
    def median(self) -> float:
        return median(self.seconds)


def unavailable(name: str, reason: str) -> Variant:
    """A variant that keeps its line in the table and is not measured."""
    return Variant(name, lambda: 0.0, missing=reason)


def alternate(variants: Sequence[Variant], rounds: int, limit: float) -> None:
    """Run every variant once in each round, each round starting with another one.

    :param limit: seconds that one run may take.
    :raises TimeoutError: if one takes longer.
    """
    present = [variant for variant in variants if variant.missing is None]
    for variant in present:
        if variant.warm_up:
            _run(variant, "warm-up", limit)
    for number in range(rounds):
        shift = number % len(present)
        for variant in (*present[shift:], *present[:shift]):
            variant.seconds.append(_run(variant, f"round {number + 1} of {rounds}", limit))


def emit(text: str) -> None:
    """Print progress to standard error; standard output is for the tables."""
    print(text, file=sys.stderr, flush=True)


@contextmanager
def time_limit(seconds: float, what: str) -> Iterator[None]:
    """Bound any wait of the main thread, even one inside a library.

    :raises TimeoutError: when the time is over.
    """

    def over(_number: int, _frame: FrameType | None) -> None:
        raise TimeoutError(f"{what} must end within {seconds:.0f} seconds; it did not.")

    before = signal.signal(signal.SIGALRM, over)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _run(variant: Variant, when: str, limit: float) -> float:
    # Write the previous variant's data to disk first, to not slow down this one.
    os.sync()
    started = time.perf_counter()
    with time_limit(limit, f"{variant.name!r} ({when})"):
        seconds = variant.run()
    emit(
        f"  {when}: {variant.name}: {seconds:.2f} s (with preparing and checking {time.perf_counter() - started:.1f} s)"
    )
    return seconds
