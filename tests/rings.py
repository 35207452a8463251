"""The three rings of the tests: what each runs, and in what order. ``CONTRIBUTING.md`` says what each proves."""

from __future__ import annotations

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
