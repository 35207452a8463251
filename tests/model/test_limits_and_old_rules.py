"""The model finds the faults that it looks for: those of earlier rules, and those of the documented limits."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

import pytest

from airflow_provider_kafka_spark.core.runs import run_protocol
from airflow_provider_kafka_spark.core.runs.run_protocol import Claimant, Decision, Mark, MarkState
from tests.model.check import check
from tests.model.test_run_protocol_model import EXPLORED
from tests.model.world import AT_LEAST_ONCE, OLDER_MARK, THE_SAME_IN_ONE, TWO_PIECES, Plan, Rules, Scenario, Try

_FIRST, _RETRY, _CLEAR = Try(kind="first"), Try(kind="retry"), Try(kind="clear")
_WIDE_FIRST = Try(TWO_PIECES, "first")
_NARROW_FIRST = Try(((0,),), "first")
_LARGER = Try(TWO_PIECES, "clear")
_CUT: Plan = ((0,), (1,))
_CUT_FIRST = Try(_CUT, "first")
_AT_LEAST_ONCE = Try(kind="clear", delivery=AT_LEAST_ONCE)
_NO_MARK = Try(kind="clear", delivery=AT_LEAST_ONCE, may_mark=False)


def _takes_over_any_mark(mark: Mark | None, claimant: Claimant) -> Decision:
    """Before: a driver that is no retry's took the run, whatever mark was there."""
    return run_protocol.decide(mark if claimant.may_have_delivered else None, claimant)


def _trusts_any_plan(mark: Mark | None, claimant: Claimant) -> Decision:
    mark = None if mark is None else replace(mark, key=claimant.key)
    return run_protocol.decide(mark, replace(claimant, reads_back=False))


def _missing_is_nothing(decision: Decision, pieces: Collection[str], slots: Mapping[str, int]) -> Decision:
    return decision


def _promises_too_much(mark: Mark | None, claimant: Claimant, decision: Decision) -> Mark:
    return claimant.mark(MarkState.OPEN)


def _leaves_mark(mark: Mark | None, number: int, run_id: str, *, proved: bool, leaves: bool) -> Mark:
    """The worker writes nothing after a bad verdict."""
    judged = run_protocol.judged(mark, number, run_id, proved=proved, leaves=leaves)
    return judged if proved or mark is None else mark


def _forgets_trust(mark: Mark | None, claimant: Claimant) -> Decision:
    """The state store does not say which submissions left no progress, or no proof; and finished means delivered."""
    return run_protocol.decide(mark, replace(claimant, untrusted_until=0, reads_back=False))


def _finishes_any(mark: Mark | None, number: int, run_id: str, *, proved: bool, leaves: bool) -> Mark:
    return run_protocol.judged(mark, number if mark is None else mark.number, run_id, proved=proved, leaves=leaves)


def _never(*_: object, **__: object) -> bool:
    """No result says that records may be in the target more than once."""
    return False


_CARRIES = Rules(reads_back=False, carries=True)


@pytest.mark.parametrize(
    ("scenario", "rules"),
    [
        pytest.param(
            Scenario((_FIRST, _LARGER)),
            Rules(decide=_takes_over_any_mark), id="a-first-driver-takes-over-any-mark",
        ),
        pytest.param(
            Scenario((_FIRST, _RETRY), (OLDER_MARK,)),
            Rules(compares_epochs=False), id="marks-are-written-without-compare-and-set",
        ),
        pytest.param(
            Scenario((Try(_CUT, "first"), Try(_CUT)), ("a slot expires",)),
            Rules(with_slots=_missing_is_nothing, requires_slot=False), id="missing-progress-means-nothing",
        ),
        pytest.param(
            Scenario((_FIRST,), ("the slots expire",), attempts=2),
            Rules(requires_slot=False), id="an-attempt-without-progress-begins-anew",
        ),
        pytest.param(
            Scenario((_FIRST, _RETRY), ("a record is lost",), awaits_verdict=True),
            Rules(driver_finishes=True, decide=_forgets_trust, judged=_leaves_mark),
            id="the-driver-finishes-before-the-verdict",
        ),
        pytest.param(
            Scenario((_FIRST, _RETRY), ("a record is lost",), awaits_verdict=True),
            Rules(decide=_forgets_trust, judged=_leaves_mark), id="progress-is-trusted-after-a-bad-verdict",
        ),
        pytest.param(Scenario((_FIRST, _LARGER)), Rules(looks_again=False), id="a-task-looks-only-before-it-fences"),
        pytest.param(
            Scenario((_WIDE_FIRST, Try(THE_SAME_IN_ONE, "clear"))),
            Rules(fences_all=False), id="only-tasks-of-the-own-plan-are-fenced",
        ),
        pytest.param(
            Scenario((_FIRST, _LARGER)),
            Rules(marks_before_fencing=False), id="tasks-are-fenced-before-the-mark",
        ),
        pytest.param(
            Scenario((_WIDE_FIRST,), attempts=2), Rules(piece_name=lambda _: "orders-0"), id="two-pieces-of-one-name"
        ),
        pytest.param(
            Scenario((_CUT_FIRST,), attempts=2, bundles=True),
            Rules(slot_of=lambda names, _: names[0]), id="only-the-first-slot-of-a-bundle-is-committed",
        ),
        pytest.param(
            Scenario((_CUT_FIRST,), attempts=2, bundles=True),
            Rules(loads_each_slot=False), id="only-the-first-slot-of-a-bundle-is-loaded",
        ),
        pytest.param(
            Scenario((_CUT_FIRST,), attempts=2, bundles=True),
            Rules(task_id=lambda name, attempt: f"{name}.{attempt}"), id="each-attempt-of-a-bundle-has-its-own-id",
        ),
        pytest.param(
            Scenario((_FIRST, _RETRY), ("the target is recreated",)),
            Rules(compares_ids=False, checks_ids_at_end=False), id="ids-of-targets-are-not-compared",
        ),
        pytest.param(
            Scenario((_FIRST, _RETRY), ("the target is recreated, its marks elsewhere",)),
            Rules(checks_ids_at_end=False), id="ids-of-targets-are-not-compared-at-the-end",
        ),
        pytest.param(
            Scenario((_FIRST, Try(THE_SAME_IN_ONE, "clear")), ("the state store is lost",)),
            Rules(decide=_trusts_any_plan), id="finished-whatever-the-plan",
        ),
        pytest.param(
            Scenario((_NARROW_FIRST, _CLEAR, _RETRY), workers_live_on=True),
            Rules(claiming=_promises_too_much, with_slots=_missing_is_nothing, requires_slot=False),
            id="a-claim-promises-progress-that-is-not-there",
        ),
        pytest.param(
            Scenario((_FIRST, _NO_MARK, _CLEAR)),
            Rules(decide=_forgets_trust), id="progress-is-trusted-after-at-least-once",
        ),
        pytest.param(
            Scenario((_NARROW_FIRST, _CLEAR, _RETRY), workers_live_on=True),
            Rules(judged=_finishes_any), id="a-worker-finishes-the-run-of-another", marks=pytest.mark.long,
        ),
        pytest.param(
            Scenario((_FIRST, _RETRY), ("the mark expires",)),
            Rules(may_have_delivered=lambda known, *_: known), id="a-late-first-driver-begins-without-a-mark",
        ),
        pytest.param(
            Scenario((_FIRST, _RETRY), clocks=(5, 9)),
            Rules(next_number=lambda _, now_ms: now_ms), id="a-number-is-only-a-clock",
        ),
        pytest.param(
            Scenario((_FIRST, _CLEAR), ("the state store is lost",), clocks=(5, 9)),
            Rules(knows_numbers=False), id="a-number-without-a-look-at-the-mark",
        ),
        pytest.param(
            Scenario((_FIRST, _RETRY), clocks=(5, 9), is_stream=True),
            Rules(knows_numbers=False), id="a-number-without-a-look-beside-the-checkpoint",
        ),
        pytest.param(
            Scenario((_FIRST, _RETRY), (OLDER_MARK,)),
            Rules(marks_every_place=False), id="an-older-mark-is-left",
        ),
        pytest.param(
            Scenario((_FIRST, _RETRY), ("the progress expires",), rules=Rules(reads_back=False)),
            Rules(reads_back=False, repeats=_never), id="nothing-says-that-all-was-written-again",
        ),
        pytest.param(
            Scenario((_FIRST, Try(permits_loss=True), _RETRY), ("a record ages out",), drivers_live_on=False),
            Rules(keys_permit_loss=False), id="a-strict-try-trusts-one-that-permits-a-loss",
        ),
        pytest.param(
            Scenario((_FIRST, _RETRY), ("the target is cut",)),
            Rules(compares_leaders=False), id="leaders-of-targets-are-not-compared",
        ),
        pytest.param(
            Scenario((_FIRST, _CLEAR), ("the target is cut",), rules=_CARRIES),
            replace(_CARRIES, compares_leaders=False), id="leaders-of-targets-are-not-compared-with-segments",
        ),
        pytest.param(
            Scenario((_FIRST, _RETRY), ("the source is compacted",)),
            Rules(counts_resumed=False), id="a-verdict-by-what-the-source-still-holds",
        ),
        pytest.param(
            Scenario((_FIRST, _RETRY), ("the target is compacted", "the slots expire"), rules=Rules(reads_back=False)),
            Rules(), id="a-compacted-target-is-read-back",
        ),
        pytest.param(
            Scenario((_NARROW_FIRST, _CLEAR, Try(((0,),), "clear")), rules=_CARRIES),
            replace(_CARRIES, repeats=_never), id="nothing-says-that-another-plan-is-forgotten",
        ),
        pytest.param(
            Scenario((_FIRST, _AT_LEAST_ONCE, _CLEAR), drivers_live_on=False, rules=Rules(reads_back=False)),
            Rules(reads_back=False, notes_repeats=False), id="at-least-once-does-not-note-that-it-repeats",
        ),
    ],
)  # fmt: skip
def test_the_model_finds_the_fault_of_a_rule(scenario: Scenario, rules: Rules) -> None:
    """With this rule in place of today's, some interleaving loses or doubles a record; with today's, none does."""
    assert scenario in EXPLORED

    assert check(replace(scenario, rules=rules)).violation is not None


@pytest.mark.parametrize(
    ("scenario", "rules"),
    [
        pytest.param(
            Scenario((_FIRST, _AT_LEAST_ONCE)),
            Rules(ends_before_at_least_once=False), id="a-job-at-least-once-does-not-fence",
        ),
        pytest.param(
            Scenario((_FIRST, _NO_MARK, _CLEAR), ("the state store is lost",)),
            Rules(), id="at-least-once-without-mark-and-then-lost-state",
        ),
        pytest.param(
            Scenario((_FIRST, _RETRY), ("a record is lost",)),
            Rules(), id="a-task-passes-over-a-record-and-nobody-judges-its-report",
        ),
    ],
)  # fmt: skip
def test_the_model_finds_the_documented_limits(scenario: Scenario, rules: Rules) -> None:
    """What docs/explanation/run-protocol.md excludes is excluded for a reason."""
    assert check(replace(scenario, rules=rules)).violation is not None
