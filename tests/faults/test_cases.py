"""Which combinations the seed draws."""

from __future__ import annotations

from itertools import product

import pytest

from tests.faults.cases import ALLOWED, EXCLUDED, Brokers, Case, Delivery, Exclusion, Fault, Kind, Layout, Master, draw

DRAWS = 300


@pytest.mark.parametrize("seed", [7, 20261122])
def test_the_long_form_tries_every_fault_with_every_layout(seed: int) -> None:
    """As far as the pair is not excluded, and nothing that is."""
    drawn = {draw(seed, number) for number in range(DRAWS)}

    assert {(case.fault, case.layout) for case in drawn} == set(product(Fault, Layout))
    assert drawn <= set(ALLOWED)


@pytest.mark.parametrize("exclusion", EXCLUDED, ids=lambda exclusion: exclusion.reason)
def test_each_exclusion_is_needed(exclusion: Exclusion) -> None:
    """It is of two dimensions, has a reason, and excludes what no other one does."""
    all_cases = (Case(*values) for values in product(Fault, Kind, Layout, Delivery, Master, Brokers))

    assert exclusion.reason.endswith(".")
    assert {type(v) for v in exclusion.first}.isdisjoint({type(v) for v in exclusion.second})
    assert any(_reasons(case) == [exclusion.reason] for case in all_cases)


def _reasons(case: Case) -> list[str]:
    return [exclusion.reason for exclusion in EXCLUDED if exclusion.holds_for(case)]
