"""The three rings of the tests: what each runs, and in what order. ``CONTRIBUTING.md`` says what each proves."""

from __future__ import annotations

import re
from collections.abc import Container

#: What a test needs that takes seconds to start. A test without any of it is in the quick ring.
SERVICES = ("broker", "spark", "airflow", "packaging", "kubernetes", "process")
#: More of what the whole ring proves once.
LONG = ("long", "fault")

QUICK_RING, WHOLE_RING, LONG_RING = "quick", "whole", "long"
#: What pytest selects by (``-m``). The whole ring has the quick one in it.
EXPRESSIONS = {
    QUICK_RING: " and ".join(f"not {name}" for name in (*SERVICES, *LONG)),
    WHOLE_RING: " and ".join(f"not {name}" for name in LONG),
    LONG_RING: " or ".join(LONG),
}


def ring_of(markers: Container[str]) -> str:
    """The ring of a test with these markers."""
    if any(name in markers for name in LONG):
        return LONG_RING
    return WHOLE_RING if any(name in markers for name in SERVICES) else QUICK_RING


def has_only_slow_tests(source: str) -> bool:
    """Whether a line of a module of tests, ``pytestmark = ...``, says that none of them is of the quick ring.

    It need not be imported for that. A module whose tests have their markers one by one is.
    """
    marked = re.search(r"^pytestmark = (?:\[[^\]]*\]|.*)$", source, re.MULTILINE)
    return marked is not None and ring_of(re.findall(r"pytest\.mark\.(\w+)", marked[0])) != QUICK_RING
