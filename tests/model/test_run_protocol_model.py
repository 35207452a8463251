"""No interleaving of tries, drivers, Spark tasks and faults makes a task green that lost or duplicated a record.

The model calls the functions of ``core/runs/run_protocol.py`` for each decision. Excluded are

- writers at least once of earlier tries, which nothing fences: they have ended when the next try begins, and so has
  every writer when a try begins that delivers at least once;
- a Spark task that passes over a record of its source, when the worker does not judge the report that shows it;
- records without the provenance header that are written twice, where the mark or a later result says that this may be
  so;
- copies under another ``run_id``, as after a first try whose state store and mark are both lost.

``test_limits_and_old_rules.py`` shows that the model finds the faults that it looks for.
"""

from __future__ import annotations

import pytest

from tests.model.check import check
from tests.model.world import AT_LEAST_ONCE, OLDER_MARK, THE_SAME_IN_ONE, TWO_PIECES, Plan, Rules, Scenario, Try

_FIRST, _RETRY, _CLEAR = Try(kind="first"), Try(kind="retry"), Try(kind="clear")
_WIDE_FIRST, _WIDE_RETRY = Try(TWO_PIECES, "first"), Try(TWO_PIECES, "retry")
_AT_LEAST_ONCE = Try(kind="clear", delivery=AT_LEAST_ONCE)
_AT_LEAST_ONCE_FIRST = Try(kind="first", delivery=AT_LEAST_ONCE)
_NO_MARK = Try(kind="clear", delivery=AT_LEAST_ONCE, may_mark=False)
_NARROW_FIRST, _NARROW_RETRY = Try(((0,),), "first"), Try(((0,),), "retry")
_NARROW_CLEAR = Try(((0,),), "clear")
_PERMITTING, _PERMITTING_CLEAR = Try(permits_loss=True), Try(kind="clear", permits_loss=True)
_CUT: Plan = ((0,), (1,))
_CUT_FIRST = Try(_CUT, "first")
_LONGER, _LONGER_RETRY = Try(((0, 1, 2),), "clear"), Try(((0, 1, 2),), "retry")
#: Records have no header, and the result maps their offsets.
_CARRIES = Rules(reads_back=False, carries=True)


#: Each with a number of states that it has at least.
SCENARIOS = (
    pytest.param(Scenario((_WIDE_FIRST,), attempts=2), 5_000, id="attempts-of-two-pieces-side-by-side"),
    pytest.param(Scenario((_CUT_FIRST,), attempts=2, bundles=True), 100, id="attempts-of-a-bundle"),
    pytest.param(Scenario((_CUT_FIRST,), attempts=3, bundles=True), 2_000, id="three-attempts-of-a-bundle"),
    pytest.param(Scenario((_CUT_FIRST, Try(_CUT)), bundles=True), 300, id="two-tries-of-a-bundle"),
    pytest.param(
        Scenario((_CUT_FIRST, Try(_CUT)), attempts=2, bundles=True),
        20_000, id="two-tries-and-stale-attempts-of-a-bundle", marks=pytest.mark.long,
    ),
    pytest.param(
        Scenario((_FIRST, Try(_CUT, "clear")), bundles=True, rules=_CARRIES), 300, id="segments-and-a-bundle"
    ),
    pytest.param(
        Scenario((_CUT_FIRST, Try(_CUT)), ("a slot expires",), bundles=True), 1_000, id="an-expired-slot-of-a-bundle"
    ),
    pytest.param(
        Scenario((_CUT_FIRST, Try(_CUT)), ("the target is recreated",), bundles=True),
        1_000, id="a-bundle-and-a-recreated-target",
    ),
    pytest.param(
        Scenario((_CUT_FIRST, Try(_CUT, "clear", AT_LEAST_ONCE), Try(_CUT, "clear")), bundles=True),
        2_000, id="a-bundle-at-least-once-and-back",
    ),
    pytest.param(Scenario((_FIRST,), attempts=3), 1_000, id="three-attempts-of-a-piece-side-by-side"),
    pytest.param(
        Scenario((_FIRST, _RETRY), attempts=2), 40_000, id="two-tries-and-stale-attempts", marks=pytest.mark.long
    ),
    pytest.param(
        Scenario((_NARROW_FIRST, _NARROW_RETRY), attempts=2), 20_000, id="two-tries-and-stale-attempts-of-one-record"
    ),
    pytest.param(
        Scenario((_FIRST,), ("the slots expire",), attempts=2), 200, id="stale-attempts-and-expired-slots"
    ),
    pytest.param(Scenario((_FIRST, _RETRY), (OLDER_MARK,)), 300, id="two-tries-and-no-older-mark"),
    pytest.param(Scenario((_WIDE_FIRST, _WIDE_RETRY)), 6_000, id="two-tries-of-two-pieces"),
    pytest.param(Scenario((_FIRST, _RETRY, _RETRY)), 7_000, id="three-tries"),
    pytest.param(Scenario((_WIDE_FIRST,), drivers=2), 500, id="two-drivers-of-a-submission"),
    pytest.param(
        Scenario((_NARROW_FIRST, _NARROW_RETRY), drivers=2),
        30_000, id="two-drivers-of-each-submission", marks=pytest.mark.long,
    ),
    pytest.param(Scenario((_FIRST, _RETRY), workers_live_on=True), 500, id="an-earlier-worker-lives-on"),
    pytest.param(
        Scenario((_FIRST, _RETRY, _RETRY), workers_live_on=True),
        10_000, id="earlier-workers-live-on", marks=pytest.mark.long,
    ),
    pytest.param(Scenario((_FIRST, _CLEAR, _CLEAR)), 7_000, id="clear-also-after-success"),
    pytest.param(
        Scenario((_FIRST, Try(kind="clear", copies_again=True), _RETRY)), 5_000, id="clear-that-copies-again"
    ),
    pytest.param(
        Scenario((_FIRST, _CLEAR), rules=Rules(reads_back=False)),
        300, id="clear-of-a-proved-delivery-without-headers",
    ),
    pytest.param(
        Scenario((_FIRST, _CLEAR, _CLEAR), rules=Rules(reads_back=False)),
        5_000, id="clears-of-a-proved-delivery-without-headers", marks=pytest.mark.long,
    ),
    pytest.param(Scenario((_FIRST, Try(TWO_PIECES, "clear"))), 900, id="clear-with-a-larger-plan"),
    pytest.param(Scenario((_WIDE_FIRST, _CLEAR)), 1_500, id="clear-with-a-smaller-plan"),
    pytest.param(Scenario((_WIDE_FIRST, Try(THE_SAME_IN_ONE, "clear"))), 1_500, id="clear-with-another-layout"),
    pytest.param(
        Scenario((_FIRST, Try(_CUT, "clear"), _CLEAR)),
        20_000, id="clear-with-another-layout-and-back", marks=pytest.mark.long,
    ),
    pytest.param(
        Scenario((_FIRST, Try(_CUT, "clear"), _CLEAR), drivers_live_on=False),
        3_000, id="clear-with-another-layout-and-back-after-the-end",
    ),
    pytest.param(
        Scenario((_NARROW_FIRST, _CLEAR, _RETRY), workers_live_on=True), 20_000, id="clear-with-a-larger-plan-and-retry"
    ),
    pytest.param(
        Scenario((_NARROW_FIRST, _CLEAR, _NARROW_CLEAR), rules=_CARRIES), 5_000, id="segments-and-a-plan-and-back"
    ),
    pytest.param(
        Scenario((_FIRST, _LONGER, _LONGER), rules=_CARRIES), 5_000, id="segments-and-a-clear-with-a-longer-plan"
    ),
    pytest.param(
        Scenario((_FIRST, _LONGER, Try(((0, 1, 2, 3),), "clear")), rules=_CARRIES),
        5_000, id="segments-and-two-clears-with-longer-plans",
    ),
    pytest.param(
        Scenario((_NARROW_FIRST, _CLEAR, _NARROW_CLEAR, _CLEAR), drivers_live_on=False, rules=_CARRIES),
        20_000, id="segments-and-two-plans-in-turn", marks=pytest.mark.long,
    ),
    pytest.param(Scenario((_FIRST, Try(_CUT, "clear")), rules=_CARRIES), 800, id="segments-and-a-cut-plan"),
    pytest.param(
        Scenario((_FIRST, Try(_CUT, "clear"), Try(_CUT, "retry")), rules=_CARRIES),
        5_000, id="segments-and-a-cut-plan-and-its-retry", marks=pytest.mark.long,
    ),
    pytest.param(
        Scenario((_FIRST, _LONGER), ("the target is recreated",), rules=_CARRIES),
        2_000, id="segments-and-a-recreated-target",
    ),
    pytest.param(
        Scenario((_FIRST, _LONGER, Try(((0, 1, 2, 3),), "clear")), ("the target is recreated",), rules=_CARRIES),
        5_000, id="segments-two-clears-and-a-recreated-target", marks=pytest.mark.long,
    ),
    pytest.param(
        Scenario((_FIRST, _LONGER, _LONGER_RETRY), rules=_CARRIES),
        5_000, id="segments-a-longer-plan-and-its-retry",
    ),
    pytest.param(
        Scenario((_FIRST, _PERMITTING, _RETRY), ("a record ages out",), drivers_live_on=False),
        3_000, id="a-loss-is-permitted-and-no-more",
    ),
    pytest.param(
        Scenario((_FIRST, _PERMITTING_CLEAR, _CLEAR), ("a record ages out",), drivers_live_on=False, rules=_CARRIES),
        3_000, id="segments-and-a-clear-that-permits-a-loss",
    ),
    pytest.param(
        Scenario((_FIRST, _AT_LEAST_ONCE, _CLEAR), drivers_live_on=False, rules=Rules(reads_back=False)),
        1_000, id="at-least-once-in-between-without-headers",
    ),
    pytest.param(
        Scenario((_AT_LEAST_ONCE_FIRST, _AT_LEAST_ONCE, _AT_LEAST_ONCE), drivers_live_on=False, rules=_CARRIES),
        500, id="segments-at-least-once-three-times",
    ),
    pytest.param(Scenario((_FIRST, _RETRY), ("the target is cut",)), 1_000, id="a-cut-target"),
    pytest.param(
        Scenario((_FIRST, _CLEAR), ("the target is cut",), rules=_CARRIES), 1_000, id="segments-and-a-cut-target"
    ),
    pytest.param(
        Scenario((_FIRST, _LONGER, _LONGER), ("the target is cut",), drivers_live_on=False, rules=_CARRIES),
        3_000, id="segments-a-longer-plan-and-a-cut-target", marks=pytest.mark.long,
    ),
    pytest.param(
        Scenario((_FIRST, _NARROW_CLEAR, _CLEAR), ("the target is cut",), drivers_live_on=False, rules=_CARRIES),
        3_000, id="segments-a-shorter-plan-and-a-cut-target",
    ),
    pytest.param(
        Scenario((_FIRST, _CLEAR, _RETRY), ("the target is cut",), drivers_live_on=False, rules=_CARRIES),
        3_000, id="segments-a-cut-target-and-a-retry",
    ),
    pytest.param(
        Scenario((_FIRST, _RETRY), ("the target has another leader",), rules=_CARRIES),
        1_000, id="segments-and-another-leader",
    ),
    pytest.param(Scenario((_FIRST, _RETRY), ("the source is compacted",)), 500, id="a-compacted-source"),
    pytest.param(
        Scenario((_FIRST, _CLEAR), ("the source is compacted",), rules=_CARRIES),
        500, id="segments-and-a-compacted-source",
    ),
    pytest.param(
        Scenario((_FIRST, _LONGER, _CLEAR), ("the source is compacted",), drivers_live_on=False, rules=_CARRIES),
        3_000, id="segments-two-plans-and-a-compacted-source",
    ),
    pytest.param(
        Scenario((_FIRST, _RETRY), ("the target is compacted", "the slots expire"), rules=Rules(reads_back=False)),
        1_000, id="a-compacted-target-and-expired-slots",
    ),
    pytest.param(
        Scenario((_FIRST, _RETRY), ("the target is compacted", "the target is cut"), rules=Rules(reads_back=False)),
        1_000, id="a-compacted-target-that-is-cut",
    ),
    pytest.param(Scenario((_FIRST, Try(kind="clear", changes_run=True))), 300, id="clear-with-other-expressions"),
    pytest.param(
        Scenario((_NARROW_FIRST, _NARROW_RETRY, _NARROW_RETRY), ("the state store is lost",)),
        20_000, id="lost-state-and-three-tries", marks=pytest.mark.long,
    ),
    pytest.param(Scenario((_FIRST, _RETRY), ("the state store is lost",)), 500, id="lost-state"),
    pytest.param(
        Scenario((_FIRST, Try(THE_SAME_IN_ONE, "clear")), ("the state store is lost",)),
        500, id="lost-state-and-a-larger-plan",
    ),
    pytest.param(Scenario((_FIRST, _CLEAR), ("the state store is lost",)), 900, id="lost-state-and-clear"),
    pytest.param(
        Scenario((_FIRST, _RETRY), ("the state store is lost",), workers_live_on=True),
        1_000, id="lost-state-and-earlier-workers-live-on",
    ),
    pytest.param(Scenario((Try(_CUT, "first"), Try(_CUT)), ("a slot expires",)), 12_000, id="an-expired-slot"),
    pytest.param(
        Scenario((_NARROW_FIRST, _NARROW_RETRY, _NARROW_RETRY), ("the slots expire",)),
        20_000, id="expired-slots-and-three-tries", marks=pytest.mark.long,
    ),
    pytest.param(Scenario((_FIRST, _RETRY), ("the slots expire",)), 500, id="expired-slots"),
    pytest.param(Scenario((_FIRST, _RETRY), clocks=(5, 9)), 900, id="clocks-ahead-and-backwards"),
    pytest.param(
        Scenario((_FIRST, _CLEAR), ("the state store is lost",), clocks=(5, 9)),
        1_000, id="clocks-ahead-and-backwards-and-lost-state",
    ),
    pytest.param(
        Scenario((_NARROW_FIRST, _NARROW_RETRY, _NARROW_RETRY), ("the state store is lost",), clocks=(5, 9)),
        50_000, id="three-clocks-and-lost-state", marks=pytest.mark.long,
    ),
    pytest.param(Scenario((_FIRST, _RETRY), clocks=(5, 9), is_stream=True), 900, id="clocks-and-runs-of-a-stream"),
    pytest.param(
        Scenario((_NARROW_FIRST, _NARROW_RETRY, _NARROW_RETRY), clocks=(5, 9), is_stream=True),
        50_000, id="clocks-and-three-runs-of-a-stream", marks=pytest.mark.long,
    ),
    pytest.param(Scenario((_FIRST, _RETRY), ("the mark expires",)), 1_000, id="expired-mark"),
    pytest.param(Scenario((_FIRST, _RETRY), ("the progress expires",)), 1_500, id="expired-mark-and-slots"),
    pytest.param(
        Scenario((_FIRST, _RETRY), ("the progress expires",), rules=Rules(reads_back=False)),
        1_500, id="expired-mark-and-slots-without-headers",
    ),
    pytest.param(Scenario((_FIRST, _RETRY), ("the target is recreated",)), 1_500, id="recreated-target"),
    pytest.param(
        Scenario((_FIRST, _RETRY), ("the target is recreated, its marks elsewhere",)),
        1_000, id="recreated-target-with-the-marks-on-another",
    ),
    pytest.param(Scenario((_FIRST, _RETRY, _RETRY), ("a bad verdict",)), 9_000, id="bad-verdict"),
    pytest.param(
        Scenario((_FIRST, _RETRY), ("a record is lost",), awaits_verdict=True), 50, id="report-of-a-lost-record"
    ),
    pytest.param(
        Scenario((_FIRST, _AT_LEAST_ONCE, _CLEAR), ("the slots expire",)), 4_000, id="at-least-once-and-back"
    ),
    pytest.param(
        Scenario((_FIRST, _AT_LEAST_ONCE, _CLEAR), ("the state store is lost",)),
        7_000, id="at-least-once-and-back-with-lost-state",
    ),
    pytest.param(Scenario((_FIRST, _NO_MARK, _CLEAR)), 1_000, id="at-least-once-without-a-mark-and-back"),
)  # fmt: skip
#: What the quick ring explores.
EXPLORED = frozenset(scenario for scenario, *_ in (row.values for row in SCENARIOS if not row.marks))


@pytest.mark.parametrize(("scenario", "minimum"), SCENARIOS)
def test_no_green_task_lost_or_doubled_a_record(scenario: Scenario, minimum: int) -> None:
    """Whatever the order of steps, and wherever an actor stops or is suspended."""
    found = check(scenario)

    assert found.violation is None, str(found)
    assert found.states > minimum
