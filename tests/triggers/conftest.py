"""What tests of triggers share: a connection whose broker comes and goes, and a count of the clients that are open."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

Clients = Callable[[], int]


@pytest.fixture
def clients() -> Clients:
    """How many librdkafka clients this process has, beyond those that it had before: each has one main thread."""
    gc.collect()
    before, unchanged_since = _mains(), time.monotonic()
    # Clients of the broker's own set-up may be about to end.
    while time.monotonic() - unchanged_since < 0.5:
        time.sleep(0.05)
        if (now := _mains()) != before:
            before, unchanged_since = now, time.monotonic()
    return lambda: _mains() - before


async def until(condition: Callable[[], object], what: str, seconds: float = 30.0) -> None:
    """Wait in a bounded way until something holds."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"Expected {what} within {seconds:.0f} s."
        await asyncio.sleep(0.02)


async def in_thread(call: Callable[..., object], *arguments: object) -> None:
    await asyncio.to_thread(call, *arguments)


def run(main: Callable[[], Awaitable[None]], seconds: float = 90.0) -> None:
    """Run in an event loop of its own."""

    async def bounded() -> None:
        await asyncio.wait_for(main(), seconds)

    asyncio.run(bounded())


def _mains() -> int:
    names = []
    for folder in Path("/proc/self/task").iterdir():
        try:
            names.append((folder / "comm").read_text().strip())
        except OSError:
            continue
    return sum(name.startswith("rdk:main") for name in names)
