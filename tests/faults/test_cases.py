"""Which combinations the seed draws."""

from __future__ import annotations

from dataclasses import astuple
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


def test_the_short_form_tries_every_fault() -> None:
    """Also in a copy, a replay and a stream, and at one broker and at three."""
    drawn = [draw(7, number) for number in range(len(Fault))]

    assert [case.fault for case in drawn] == list(Fault)
    assert {value for case in drawn for value in astuple(case)} >= {*Kind, *Layout, *Delivery, *Master, *Brokers}


def test_a_draw_is_the_same_each_time() -> None:
    """So a failure can be repeated by its seed and number; another seed draws others."""
    assert [draw(7, n) for n in range(DRAWS)] == [draw(7, n) for n in range(DRAWS)]
    assert [draw(7, n) for n in range(DRAWS)] != [draw(8, n) for n in range(DRAWS)]


@pytest.mark.parametrize("exclusion", EXCLUDED, ids=lambda exclusion: exclusion.reason)
def test_each_exclusion_is_needed(exclusion: Exclusion) -> None:
    """It is of two dimensions, has a reason, and excludes what no other one does."""
    all_cases = (Case(*values) for values in product(Fault, Kind, Layout, Delivery, Master, Brokers))

    assert exclusion.reason.endswith(".")
    assert {type(v) for v in exclusion.first}.isdisjoint({type(v) for v in exclusion.second})
    assert any(_reasons(case) == [exclusion.reason] for case in all_cases)


def _reasons(case: Case) -> list[str]:
    return [exclusion.reason for exclusion in EXCLUDED if exclusion.holds_for(case)]
