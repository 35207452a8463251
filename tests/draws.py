"""How many cases the tests that draw them draw, and which: ``DRAWS=300 DRAW_SEED=7``. ``make faults`` draws many."""

from __future__ import annotations

import os

#: The same seed draws the same cases.
SEED = int(os.environ.get("DRAW_SEED", "7"))
_DRAWS = os.environ.get("DRAWS")


def draws(unless_asked: int, one_of: int = 1) -> range:
    """The numbers of a test's cases.

    :param unless_asked: how many the long ring draws.
    :param one_of: of so many draws that are asked for, this test makes one: its cases take longer than others.
    """
    return range(unless_asked if _DRAWS is None else -(-int(_DRAWS) // one_of))
