from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_kafka_spark.core.errors import ProtocolError, RunTakenOverError
from airflow_provider_kafka_spark.core.offsets.offset_range import OffsetRange
from airflow_provider_kafka_spark.core.offsets.pieces import Piece, PlannedPart
from airflow_provider_kafka_spark.core.runs.run_protocol import (
    LATE_CLAIM_MS,
    Claimant,
    Decision,
    Mark,
    MarkState,
    claiming,
    decide,
    delivery_key,
    fences,
    judged,
    latest,
    leaves_mark,
    may_have_delivered,
    next_number,
    repeats,
    with_slots,
)

_BEGIN, _CONTINUE, _READ_BACK = Decision.BEGIN, Decision.CONTINUE, Decision.READ_BACK
_DELIVERED, _CARRY_OVER = Decision.DELIVERED, Decision.CARRY_OVER
_OPENING, _OPEN, _FINISHED = (state.value for state in MarkState)
_MARK = Mark(3, "other", "run", "key", _OPEN, groups=2)
_BEGUN, _DONE = replace(_MARK, state=_OPENING), replace(_MARK, state=_FINISHED)
_REPEATS = replace(_MARK, repeats=True)
_FIRST = Claimant(1, "mine", "run", "key", may_have_delivered=False)
_RETRY = Claimant(4, "mine", "run", "key", may_have_delivered=True)
#: Its plan was delivered by submission 3, as the worker has proved.
_PROVED = replace(_RETRY, untrusted_until=3, carries=True, proved_until=3, proved_key="key")
#: The plan of the proof, while a longer one of the same delivery is open.
_SHORT = Claimant(
    5, "mine", "run", "delivery-short", True, untrusted_until=3, carries=True, proved_until=3,
    proved_key="delivery-short",
)  # fmt: skip
_LONG = Mark(4, "other", "run", "delivery-long", _OPEN, groups=1, pieces=2)
#: Those who come after the driver of the proof, with the plan that is open.
_AFTER_PROOF = replace(_SHORT, number=6, key=_LONG.key, untrusted_until=4)
_ANOTHER_RUN = replace(_RETRY, run_id="other run", may_have_delivered=False)


def test_the_text_of_a_mark() -> None:
    """Tasks read it in Java, and later versions may find it: a change of it is a change of the version."""
    assert _MARK.to_json() == (
        '{"groups":2,"key":"key","leaders":"","number":3,"pieces":0,"repeats":false,"run_id":"run","sources":"",'
        '"state":"open","token":"other","version":4,"width":1}'
    )


@pytest.mark.parametrize("end", ["\0", "\0\0", "\0abc", "a", '"}\ufffd', "1"])
def test_a_mark_ends_with_its_json(end: str) -> None:
    """The worker's client adds a zero character, or what follows in its memory."""
    assert Mark.from_json(f"{_MARK.to_json()}{end}") == _MARK


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="no-json"),
        pytest.param('{"version":2}', id="another-version"),
        pytest.param(replace(_MARK, state="closed").to_json(), id="unknown-state"),
    ],
)
def test_what_is_no_mark_is_refused(text: str) -> None:
    with pytest.raises(ProtocolError, match="mark"):
        Mark.from_json(text)


@pytest.mark.parametrize(
    ("mark", "claimant", "decision"),
    [
        pytest.param(None, _FIRST, _BEGIN, id="first"),
        pytest.param(None, _RETRY, _READ_BACK, id="retry-without-a-mark"),
        pytest.param(_MARK, _RETRY, _CONTINUE, id="open"),
        pytest.param(_DONE, _RETRY, _DELIVERED, id="finished"),
        pytest.param(_BEGUN, _RETRY, _READ_BACK, id="opening"),
        pytest.param(_MARK, replace(_RETRY, key="other"), _READ_BACK, id="open-under-another-key"),
        pytest.param(_DONE, replace(_RETRY, key="other"), _READ_BACK, id="finished-another-key"),
        pytest.param(_MARK, replace(_RETRY, key="key-loss"), _CONTINUE, id="a-loss-is-permitted-since"),
        pytest.param(replace(_MARK, key="key-loss"), _RETRY, _READ_BACK, id="a-loss-was-permitted-and-is-not-any-more"),
        pytest.param(
            replace(_LONG, key="delivery-long-loss"),
            replace(_SHORT, proved_key=""),
            _READ_BACK,
            id="another-plan-under-which-a-loss-was-permitted",
        ),
        pytest.param(
            _LONG,
            replace(_SHORT, key="delivery-short-loss", proved_key=""),
            _CARRY_OVER,
            id="another-plan-and-a-loss-is-permitted-since",
        ),
        pytest.param(_MARK, replace(_RETRY, is_cut=True), _READ_BACK, id="open-and-cut"),
        pytest.param(_DONE, replace(_PROVED, is_cut=True), _READ_BACK, id="proved-and-cut"),
        pytest.param(_LONG, replace(_SHORT, is_cut=True), _READ_BACK, id="another-plan-and-a-cut"),
        pytest.param(_MARK, replace(_RETRY, untrusted_until=2), _CONTINUE, id="trusted-again"),
        pytest.param(_MARK, replace(_RETRY, untrusted_until=3), _READ_BACK, id="open-and-untrusted"),
        pytest.param(_DONE, replace(_RETRY, untrusted_until=3), _READ_BACK, id="finished-and-untrusted"),
        pytest.param(_MARK, replace(_RETRY, may_have_delivered=False), _CONTINUE, id="unknown-run"),
        pytest.param(
            _MARK, replace(_RETRY, key="other", may_have_delivered=False), _READ_BACK, id="unknown-run-and-another-key"
        ),
        pytest.param(_MARK, _ANOTHER_RUN, _BEGIN, id="another-run"),
        pytest.param(_MARK, replace(_ANOTHER_RUN, may_have_delivered=True), _READ_BACK, id="another-run-and-a-retry"),
        pytest.param(replace(_MARK, token="mine", number=4), _RETRY, _CONTINUE, id="own-mark"),
        pytest.param(_DONE, _PROVED, _DELIVERED, id="proved-and-mapped-by-segments"),
        pytest.param(_DONE, replace(_PROVED, carries=False), _READ_BACK, id="proved-with-headers"),
        pytest.param(_BEGUN, _PROVED, _READ_BACK, id="written-again-since-the-proof"),
        pytest.param(_DONE, replace(_PROVED, untrusted_until=4), _READ_BACK, id="a-bad-verdict-since"),
        pytest.param(
            _DONE, replace(_RETRY, reads_back=True), _READ_BACK, id="finished-and-the-target-tells-what-it-has"
        ),
        pytest.param(_LONG, _SHORT, _DELIVERED, id="proved-and-a-longer-plan-is-open"),
        pytest.param(
            _LONG, replace(_SHORT, untrusted_until=4), _READ_BACK, id="proved-and-the-longer-plan-is-untrusted"
        ),
        pytest.param(_LONG, replace(_SHORT, proved_key="delivery-other"), _CARRY_OVER, id="a-plan-that-is-not-proved"),
        pytest.param(
            _LONG, replace(_AFTER_PROOF, proved_until=4), _CONTINUE, id="left-open-by-the-driver-of-the-proof"
        ),
        pytest.param(
            _LONG, replace(_AFTER_PROOF, proved_until=3), _READ_BACK, id="open-and-untrusted-and-not-of-the-proof"
        ),
    ],
)
def test_what_earlier_deliveries_mean(mark: Mark | None, claimant: Claimant, decision: Decision) -> None:
    """Only open progress of the same key is continued, and only a finished key is delivered."""
    assert decide(mark, claimant) is decision


@pytest.mark.parametrize(
    ("known", "now_ms", "expected"),
    [
        (False, 0, False),
        (False, LATE_CLAIM_MS, False),
        (False, LATE_CLAIM_MS + 1, True),
        (True, 0, True),
        (False, -1, False),
    ],
)
def test_a_late_driver_assumes_that_a_mark_has_expired(known: bool, now_ms: int, expected: bool) -> None:
    """It may have slept while a later submission delivered everything."""
    assert may_have_delivered(known, 0, now_ms) is expected


@pytest.mark.parametrize(
    ("mark", "claimant"),
    [
        pytest.param(_MARK, _FIRST, id="later-submission"),
        pytest.param(_MARK, replace(_ANOTHER_RUN, number=3), id="another-run-with-the-same-number"),
        pytest.param(_DONE, _FIRST, id="finished"),
    ],
)
def test_an_earlier_submission_does_not_get_the_run_back(mark: Mark, claimant: Claimant) -> None:
    with pytest.raises(RunTakenOverError, match="submission 3 has had the run since"):
        decide(mark, claimant)


@pytest.mark.parametrize(
    ("decision", "slots", "expected"),
    [
        pytest.param(_CONTINUE, {"a": 0, "b": 5}, _CONTINUE, id="all"),
        pytest.param(_CONTINUE, {"a": 0}, _READ_BACK, id="one-is-missing"),
        pytest.param(_DELIVERED, {}, _DELIVERED, id="removed-when-finished"),
        pytest.param(_READ_BACK, {"a": 0, "b": 5}, _READ_BACK, id="read-back"),
    ],
)
def test_a_missing_slot_is_unknown(decision: Decision, slots: Mapping[str, int], expected: Decision) -> None:
    """It never means that nothing was delivered."""
    assert with_slots(decision, ["a", "b"], slots) is expected


@pytest.mark.parametrize(
    ("mark", "claimant", "expected"),
    [
        pytest.param(None, _FIRST, False, id="first"),
        pytest.param(None, _RETRY, True, id="retry"),
        pytest.param(_MARK, _RETRY, True, id="mark-of-another"),
        pytest.param(replace(_MARK, token="mine"), replace(_RETRY, may_have_delivered=False), False, id="own-mark"),
    ],
)
def test_earlier_tasks_are_fenced_unless_there_were_none(mark: Mark | None, claimant: Claimant, expected: bool) -> None:
    """A first submission that finds no mark has nobody to fence."""
    assert fences(mark, claimant) is expected


def test_a_claim_of_what_was_proved_keeps_the_proof() -> None:
    """A driver that only counts may die: the next plan goes on from what the worker has proved."""
    key = "delivery-one"
    mark = replace(_MARK, key=key, state=_FINISHED, repeats=True)
    same = replace(_PROVED, key=key, proved_key=key)

    claimed = claiming(mark, same, decide(mark, same))

    assert claimed == replace(mark, number=same.number, token=same.token)
    assert decide(claimed, replace(same, key="delivery-two", number=5, token="next")) is _CARRY_OVER


@pytest.mark.parametrize(
    ("mark", "claimant", "decision", "only_counts", "expected"),
    [
        pytest.param(None, _RETRY, _READ_BACK, False, True, id="all-is-written-again"),
        pytest.param(None, replace(_RETRY, reads_back=True), _READ_BACK, False, False, id="the-target-tells"),
        pytest.param(None, _FIRST, _BEGIN, False, False, id="first"),
        pytest.param(_REPEATS, _RETRY, _BEGIN, False, False, id="nothing-was-delivered"),
        pytest.param(_REPEATS, _RETRY, _CONTINUE, False, True, id="the-mark-says-so"),
        pytest.param(_MARK, _RETRY, _CONTINUE, False, False, id="goes-on"),
        pytest.param(_DONE, _PROVED, _READ_BACK, True, False, id="proved"),
        pytest.param(None, replace(_PROVED, proved_repeats=True), _READ_BACK, True, True, id="the-proof-says-so"),
        pytest.param(_REPEATS, replace(_PROVED, carries=False), _READ_BACK, True, True, id="so-does-the-mark"),
        pytest.param(_LONG, replace(_SHORT, untrusted_until=4), _READ_BACK, True, True, id="forgotten"),
    ],
)
def test_what_may_have_been_written_twice_is_said(
    mark: Mark | None, claimant: Claimant, decision: Decision, only_counts: bool, expected: bool
) -> None:
    """Also when the driver dies next: its mark says it then."""
    assert repeats(mark, claimant, decision, only_counts=only_counts) is expected
    if only_counts:
        assert claiming(mark, claimant, decision).repeats is expected


def test_a_plan_that_is_left_open_stays_so() -> None:
    """The driver of the shorter plan takes its mark, and the worker of that does not finish it."""
    claimed = claiming(_LONG, _SHORT, decide(_LONG, _SHORT))

    assert claimed == replace(_LONG, number=5, token="mine")
    assert leaves_mark(_LONG, _SHORT, _DELIVERED)
    assert not leaves_mark(_DONE, _PROVED, _DELIVERED)
    assert judged(claimed, 5, "run", proved=True, leaves=True) == claimed
    assert judged(claimed, 5, "run", proved=False, leaves=True).state == _OPENING


@pytest.mark.parametrize(
    ("mark", "decision", "state"),
    [
        pytest.param(None, _READ_BACK, _OPENING, id="no-mark"),
        pytest.param(_MARK, _BEGIN, _OPENING, id="begin"),
        pytest.param(_MARK, _READ_BACK, _OPENING, id="read-back"),
        pytest.param(_MARK, _CONTINUE, _OPEN, id="continue"),
        pytest.param(_DONE, _DELIVERED, _FINISHED, id="delivered"),
    ],
)
def test_a_claim_promises_no_more_than_is_so(mark: Mark | None, decision: Decision, state: str) -> None:
    """The driver may die next; what was open or finished under its key stays so."""
    counts = (2, 1) if decision in (_CONTINUE, _DELIVERED) else (0, 1)

    assert claiming(mark, _RETRY, decision) == Mark(4, "mine", "run", "key", state, *counts)


@pytest.mark.parametrize("mark", [_BEGUN, _MARK, _DONE], ids=lambda mark: mark.state)
def test_the_worker_has_the_last_word(mark: Mark) -> None:
    """Only the state of the mark changes."""
    assert judged(mark, 3, "run", proved=True) == _DONE
    assert judged(mark, 3, "run", proved=False) == _BEGUN


@pytest.mark.parametrize(
    ("mark", "message"),
    [
        pytest.param(None, "no submission has it", id="no-mark"),
        pytest.param(replace(_MARK, number=4), "submission 4 of run run has it", id="later-submission"),
        pytest.param(replace(_MARK, run_id="other"), "submission 3 of run other has it", id="another-run"),
    ],
)
def test_a_worker_finishes_only_its_own_submission(mark: Mark | None, message: str) -> None:
    """Its report says nothing of what another submission delivered."""
    with pytest.raises(RunTakenOverError, match=message):
        judged(mark, 3, "run", proved=True)


def test_the_highest_number_counts_and_of_one_submission_the_mark_that_promises_less() -> None:
    """The worker may distrust a submission, and not know all places where it has its mark."""
    assert latest([]) is None
    assert latest([replace(_MARK, number=n) for n in (2, 9, 4)]) == replace(_MARK, number=9)
    for marks in permutations([_BEGUN, _MARK, _DONE]):
        assert latest(marks) == _BEGUN


@pytest.mark.parametrize(("stored", "now_ms", "number"), [(0, 1, 1), (5, 3, 6), (5, 6, 6), (5, 9, 9)])
def test_numbers_only_grow(stored: int, now_ms: int, number: int) -> None:
    """Also when the state store was lost, or a clock went back."""
    assert next_number(stored, now_ms) == number


_NAMES = st.text("ab-", max_size=3)
_VALUES = st.one_of(st.none(), st.booleans(), st.integers(0, 3), _NAMES, st.lists(_NAMES, max_size=2))
_PARTS = st.tuples(st.integers(0, 4), st.integers(1, 3)).map(lambda p: PlannedPart(p[0], p[0] + p[1], 0))
_PIECES = st.builds(
    lambda name, parts: Piece(name, (OffsetRange("orders", 0, 0, 9),), tuple(parts)),
    _NAMES,
    st.lists(_PARTS, min_size=1, max_size=2),
)
_INPUTS = st.tuples(
    st.dictionaries(_NAMES, _VALUES, max_size=2),
    st.dictionaries(_NAMES, _NAMES, max_size=2),
    st.one_of(st.none(), st.lists(_PIECES, max_size=2)),
)
_Inputs = tuple[dict[str, object], dict[str, str], list[Piece] | None]


def _is_same(one: object, other: object) -> bool:
    """As ``==``, which takes True for 1."""
    return one == other and repr(_sorted(one)) == repr(_sorted(other))


def _sorted(value: object) -> object:
    if isinstance(value, tuple):
        return [_sorted(item) for item in value]
    return sorted(value.items()) if isinstance(value, dict) else value


@given(one=_INPUTS, other=_INPUTS)
def test_any_change_of_any_input_changes_the_key(one: _Inputs, other: _Inputs) -> None:
    """Progress under one key is that of the same records, in the same tasks, to the same topics."""
    assert (delivery_key(*one) == delivery_key(*other)) == _is_same(one, other)


@given(inputs=_INPUTS, name=_NAMES, value=_VALUES, piece=_PIECES)
def test_each_single_change_changes_the_key(inputs: _Inputs, name: str, value: object, piece: Piece) -> None:
    """One part, one target or one piece more; and a plan is no stream."""
    parts, ids, pieces = inputs
    key = delivery_key(parts, ids, pieces)

    assert delivery_key({**parts, "more": value}, ids, pieces) != key
    assert delivery_key(parts, {**ids, "more": name}, pieces) != key
    assert delivery_key(parts, ids, [*(pieces or ()), piece]) != key
    assert (delivery_key(parts, ids, None) == key) == (pieces is None)


def test_the_order_of_names_does_not_change_the_key() -> None:
    """It is that of the program, not of the plan."""
    assert delivery_key({"a": 1, "b": 2}, {"c": "3", "d": "4"}, []) == delivery_key(
        {"b": 2, "a": 1}, {"d": "4", "c": "3"}, []
    )
