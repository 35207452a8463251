from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from airflow_provider_kafka_spark.core.copies.plan import ReplayPlan
from airflow_provider_kafka_spark.core.copies.target import Target
from airflow_provider_kafka_spark.core.copies.verification import (
    check_delivery,
    check_duplicates,
    lost_in_gaps,
    ranges_with_gaps,
    result_of_empty_plan,
    result_of_plan,
    result_of_run,
    totals,
)
from airflow_provider_kafka_spark.core.errors import DeliveryError, DuplicateRecordsError
from airflow_provider_kafka_spark.core.offsets.offset_range import OffsetRange, OffsetRanges
from airflow_provider_kafka_spark.core.records.trace import Trace
from airflow_provider_kafka_spark.core.topics.resolve import MissingRange
from airflow_provider_kafka_spark.core.wire.fault import Fault
from airflow_provider_kafka_spark.core.wire.protocol import JobReport, RangeReport, Transform
from tests.core.refusals import refuses

_RUN = "0123456789abcdef"
_PLAN = ReplayPlan(
    source_cluster_id="A",
    target_cluster_id="A",
    target=Target("copy"),
    ranges=OffsetRanges.parse(["orders:0:0:10", "orders:1:7:7", "orders:2:5:9"]),
    missing=(MissingRange(OffsetRange("orders", 0, 0, 3), "aged out"),),
    spark_partitions=2,
    topic_ids={"orders": "id-1"},
    target_ids={"copy": "id-2"},
    warnings=("mind this",),
)
_MISSING = {"topic": "orders", "partition": 0, "from_offset": 0, "until_offset": 3}
_KEEP_ALL = Transform(topic="copy")


def _report(first: tuple[int, ...] = (10, 10), second: tuple[int, int] = (4, 4), **changes: Any) -> JobReport:
    """The report of a whole delivery, but for what is given: (read, written, left out) of two ranges."""
    report = JobReport(
        run_id=_RUN,
        plan_digest=_PLAN.digest,
        ranges=(
            RangeReport(OffsetRange("orders", 0, 0, 10), *first),
            RangeReport(OffsetRange("orders", 2, 5, 9), *second),
        ),
        target_topics=("copy",),
        application_id="local-1",
        spark_version="4.0.1",
        seconds=12.34567,
        ui_url=None,
    )
    return replace(report, **changes)


@pytest.mark.parametrize(
    ("report", "transform"),
    [
        pytest.param(_report(), _KEEP_ALL, id="every-offset"),
        pytest.param(_report((8, 8)), _KEEP_ALL, id="with-gaps"),
        pytest.param(_report((10, 3, 7)), Transform(where="key is not null"), id="predicate"),
        pytest.param(_report(delivered_before=4), _KEEP_ALL, id="partly-delivered-before"),
    ],
)
def test_passes_a_report_that_proves_delivery(report: JobReport, transform: Transform) -> None:
    check_delivery(report, _PLAN, _RUN, transform)


_FIRST, _SECOND = _report().ranges


@pytest.mark.parametrize(
    ("report", "fragments"),
    [
        pytest.param(_report((10, 9), duplicates=5), ["10 read, only 9 written"], id="whatever-is-there-twice"),
        pytest.param(_report((10, 9, 1)), ["only 9 written and 1 left out"], id="one-left-out-by-nothing"),
        pytest.param(_report((11, 11)), ["11 read and 11 written of at most 10"], id="more-read-than-there-can-be"),
        pytest.param(_report((9, 10)), ["9 read and 10 written of at most 10"], id="more-written-than-read"),
        pytest.param(_report((-1, -1)), ["-1 read and -1 written"], id="negative"),
        pytest.param(_report(ranges=(_FIRST,)), ["orders[2] 5 to 9: not in the report"], id="one-range-not-reported"),
        pytest.param(
            _report(ranges=(_FIRST, _SECOND, RangeReport(OffsetRange("orders", 3, 0, 1), 1, 1))),
            ["orders[3] 0 to 1: in the report, not in the plan"],
            id="a-range-nobody-planned",
        ),
        # Two accounts of one range are no proof, in either order, not even if they agree.
        pytest.param(
            _report(ranges=(replace(_FIRST, records_written=0), _FIRST, _SECOND)),
            ["1 ranges are reported more than once"],
            id="contradicted-before",
        ),
        pytest.param(
            _report(ranges=(_FIRST, _SECOND, _FIRST)), ["1 ranges are reported more than once"], id="repeated"
        ),
        # This rule decides on green alone, so it may not trust that somebody looked at the failure before.
        pytest.param(
            _report(failure=Fault("KS701", "boom")),
            ["the job reports a failure, KS701"],
            id="failure",
        ),
    ],
)
def test_refuses_a_report_that_does_not_match_the_plan(report: JobReport, fragments: list[str]) -> None:
    written = f"written {report.records_written:,}"
    with refuses(DeliveryError, *fragments, "local-1", "Planned 14 records at most", written, "retry"):
        check_delivery(report, _PLAN, _RUN, _KEEP_ALL)


@pytest.mark.parametrize(
    ("changes", "fragment"),
    [
        pytest.param({"run_id": "other"}, "got run 'other'", id="another-run"),
        pytest.param({"plan_digest": "other"}, "plan 'other'", id="another-plan"),
    ],
)
def test_refuses_the_report_of_another_run(changes: dict[str, Any], fragment: str) -> None:
    with refuses(DeliveryError, fragment, _RUN, _PLAN.digest, "report_location"):
        check_delivery(_report(**changes), _PLAN, _RUN, _KEEP_ALL)


_HEADERS, _NO_HEADERS = replace(_KEEP_ALL, provenance=Trace.HEADERS), replace(_KEEP_ALL, provenance=Trace.NOTHING)


@pytest.mark.parametrize(
    ("changes", "transform", "fragments"),
    [
        pytest.param({"duplicates": 1_200}, _HEADERS, ["1,200 records", "more than once"], id="counted"),
        pytest.param(
            {"failed_tasks": 2},
            _NO_HEADERS,
            ["2 Spark tasks were lost", "may be", "provenance='headers'"],
            id="unknown-number",
        ),
    ],
)
def test_duplicates_are_a_permanent_error(changes: dict[str, Any], transform: Transform, fragments: list[str]) -> None:
    check_delivery(_report(**changes), _PLAN, _RUN, transform)
    with refuses(DuplicateRecordsError, *fragments, "local-1", "allow_duplicates=True") as error:
        check_duplicates(_report(**changes), transform)

    assert not error.value.retriable


def test_passes_where_nothing_is_there_twice() -> None:
    """A lost task alone is no fault where its duplicates could be looked for."""
    check_duplicates(_report(), _HEADERS)
    check_duplicates(_report(), _NO_HEADERS)
    check_duplicates(_report(failed_tasks=2), _HEADERS)


@pytest.mark.parametrize(("count", "shown", "more"), [(10, 10, False), (11, 10, True), (13, 10, True)])
def test_a_long_list_of_faults_is_cut(count: int, shown: int, more: bool) -> None:
    plan = replace(_PLAN, ranges=OffsetRanges(OffsetRange("orders", i, 0, 5) for i in range(count)))

    with pytest.raises(DeliveryError) as error:
        check_delivery(_report(plan_digest=plan.digest, ranges=()), plan, _RUN, _KEEP_ALL)

    assert str(error.value).count("not in the report") == shown
    assert (f"and {count - 10} more" in str(error.value)) is more


def test_finds_the_ranges_with_gaps() -> None:
    """Only they need to be counted a second time."""
    assert ranges_with_gaps(_report((8, 8))).format() == ["orders:0:0:10"]
    assert ranges_with_gaps(_report()) == OffsetRanges()


def test_a_record_that_is_there_and_was_not_read_is_an_error() -> None:
    """Compacted and aborted records are gone for everyone; a smaller count is no loss either."""
    gap = OffsetRange("orders", 0, 0, 10)

    assert [lost_in_gaps(_report((8, 8)), {gap: there}) for there in (7, 8)] == [[], []]
    assert lost_in_gaps(_report((8, 8)), {gap: 9}) == ["orders[0] 0 to 10: 8 read, 9 there"]


def _counted(partition: int, start: int, until: int, read: int, written: int) -> dict[str, Any]:
    offsets = {"topic": "orders", "partition": partition, "from_offset": start, "until_offset": until}
    return {**offsets, "records_read": read, "records_written": written, "topic_id": "id-1"}


def test_the_result_of_a_run_is_as_documented() -> None:
    """Plain JSON with every range, idle ones too, in order; the names are the public contract."""
    written_to = (OffsetRange("copy", 0, 3, 14),)
    report = _report(
        (8, 7),
        delivered_before=2,
        bytes_written=1_234,
        target_ranges=written_to,
        target_ids={"copy": "id_3"},
        warnings=("the job says",),
    )
    result = result_of_run(report, _PLAN, ("look here",))

    assert result == {
        "version": 1,
        "run_id": _RUN,
        "source_topic_ids": {"orders": "id-1"},
        "ranges": [_counted(0, 0, 10, 8, 7), _counted(1, 7, 7, 0, 0), _counted(2, 5, 9, 4, 4)],
        "records_read": 12,
        "records_written": 11,
        "gaps": 2,
        "duplicates": 0,
        "missing": 3,
        "missing_ranges": [{**_MISSING, "reason": "aged out", "topic_id": "id-1"}],
        "delivered_before": 2,
        "target_topics": ["copy"],
        "target_ranges": [{"topic": "copy", "partition": 0, "from_offset": 3, "until_offset": 14, "topic_id": "id/3"}],
        "batches_passed": 0,
        "bytes_written": 1_234,
        "application_id": "local-1",
        "spark_version": "4.0.1",
        "seconds": 12.346,
        "warnings": ["mind this", "the job says", "look here"],
    }
    assert json.loads(json.dumps(result)) == result


@pytest.mark.parametrize("result_of", [result_of_empty_plan, partial(result_of_plan, transform=_KEEP_ALL)])
def test_an_expression_as_target_names_no_topic(result_of: Any) -> None:
    """Before rows are read nobody knows the targets."""
    assert result_of(replace(_PLAN, target=Target(None, "topic")), _RUN)["target_topics"] == []


def _planned(partition: int, start: int, until: int) -> dict[str, Any]:
    offsets = {"topic": "orders", "partition": partition, "from_offset": start, "until_offset": until}
    return {**offsets, "planned_records": until - start, "topic_id": "id-1"}


def test_the_result_of_a_plan_only_run_is_as_documented() -> None:
    result = result_of_plan(_PLAN, _RUN, _KEEP_ALL)

    assert result == {
        "version": 1,
        "state": "planned",
        "run_id": _RUN,
        "ranges": [_planned(0, 0, 10), _planned(1, 7, 7), _planned(2, 5, 9)],
        "planned_records": 14,
        "missing": 3,
        "missing_ranges": [{**_MISSING, "reason": "aged out", "topic_id": "id-1"}],
        "spark_partitions": 2,
        "target_topics": ["copy"],
        "digest": _PLAN.digest,
        "text": _PLAN.table(),
        "warnings": ["mind this", "PLAN ONLY: nothing was copied"],
    }
    assert json.loads(json.dumps(result)) == result


def test_the_last_line_of_a_log_has_the_totals_and_fits_a_screen() -> None:
    result = result_of_run(_report(), _PLAN)
    assert totals(result) == (
        "Delivered: 14 records read, 14 written, 0 offsets without a record, offsets missing: 3, warnings: 1, to copy, "
        "in 12.3 s. The XCom return_value has the offsets."
    )
    many = {**result, "target_topics": ["x" * 249, *map(str, range(2_000))], "ranges": result["ranges"] * 1_000}
    assert "xxx... and 2,000 more" in totals(many)
    assert len(totals(many)) < 300
