"""A search through all states that a model can reach, breadth first: what it finds has the shortest trace."""

from __future__ import annotations

import gc
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Generic, TypeVar

S = TypeVar("S", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Exploration(Generic[S]):
    """What a search found.

    :param states: how many states were seen.
    :param violation: what is wrong in the first bad state, or None.
    :param trace: the steps to it.
    """

    states: int
    violation: str | None = None
    trace: tuple[str, ...] = ()

    def __str__(self) -> str:
        steps = "\n".join(f"{i:3}. {step}" for i, step in enumerate(self.trace, start=1))
        return f"{self.violation or 'no violation'} ({self.states:,} states)\n{steps}"


def explore(
    start: S,
    steps: Callable[[S], Iterable[tuple[str, S]]],
    violation: Callable[[S], str | None],
    max_states: int = 200_000,
) -> Exploration[S]:
    """Visit each state that can be reached once.

    :param steps: each step that is possible in a state: its name, and the state after it.
    :param violation: what is wrong in a state.
    :raises RuntimeError: if there are more states; a test must not pass because its search was cut off.
    """
    before: dict[S, tuple[S, str] | None] = {start: None}
    waiting = deque([start])
    with _without_collector():
        while waiting:
            state = waiting.popleft()
            for name, following in steps(state):
                if following in before:
                    continue
                before[following] = (state, name)
                if (wrong := violation(following)) is not None:
                    return Exploration(len(before), wrong, _trace(before, following))
                if len(before) > max_states:
                    raise RuntimeError(f"There are more than {max_states:,} states.")
                waiting.append(following)
    return Exploration(len(before))


@contextmanager
def _without_collector() -> Iterator[None]:
    """States refer to no one in a circle; to look for circles among so many takes a quarter of the time."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def _trace(before: dict[S, tuple[S, str] | None], state: S) -> tuple[str, ...]:
    names: list[str] = []
    while (step := before[state]) is not None:
        state, name = step
        names.append(name)
    return tuple(reversed(names))
