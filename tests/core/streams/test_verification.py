from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from airflow_provider_kafka_spark.core.copies.identity import BatchForm, Binding
from airflow_provider_kafka_spark.core.errors import DeliveryError
from airflow_provider_kafka_spark.core.offsets.offset_range import OffsetRange, OffsetRanges, TopicPartition
from airflow_provider_kafka_spark.core.records.trace import Trace
from airflow_provider_kafka_spark.core.streams.checkpoint import StreamManifest
from airflow_provider_kafka_spark.core.streams.stream_plan import StreamPlan
from airflow_provider_kafka_spark.core.streams.verification import (
    check_stream,
    lag_of,
    report_of_nothing,
    result_of_stream,
)
from airflow_provider_kafka_spark.core.topics.broker_state import ClusterState, PartitionState, TopicState
from airflow_provider_kafka_spark.core.topics.resolve import ReadRules, ResolvedRanges
from airflow_provider_kafka_spark.core.wire.fault import Fault
from airflow_provider_kafka_spark.core.wire.protocol import BatchReport, JobReport, RangeReport, Transform
from tests.core.copies.test_verification import _KEEP_ALL, _MISSING, _counted
from tests.core.copies.test_verification import _PLAN as _BATCH_PLAN
from tests.core.refusals import refuses

_STREAM = "0123456789abcdef"
_PLAN = replace(_BATCH_PLAN, ranges=OffsetRanges.parse(["orders:0:0:10", "orders:1:7:7"]))
_BOTH = (RangeReport(OffsetRange("orders", 0, 0, 10), 10, 10), RangeReport(OffsetRange("orders", 1, 7, 7), 0, 0))


def _offsets(*ends: int) -> dict[TopicPartition, int]:
    return {TopicPartition("orders", number): end for number, end in enumerate(ends)}


def _report(*ranges: RangeReport, **changes: Any) -> JobReport:
    """The report of a whole run in two batches, but for what is given."""
    ranges = ranges or _BOTH
    read, written = sum(r.records_read for r in ranges), sum(r.records_written for r in ranges)
    report = JobReport(
        run_id=_STREAM,
        plan_digest=_PLAN.digest,
        ranges=ranges,
        target_topics=("copy",),
        application_id="local-1",
        spark_version="4.0.1",
        seconds=12.34567,
        batches=(
            BatchReport(4, 1, 1, 1.23456, replayed=True, delivered_before=1),
            BatchReport(5, read - 1, written - 1, 2.0),
        ),
    )
    return replace(report, **changes)


def _first(until: int = 10, read: int = 10, written: int = 10, start: int = 0) -> RangeReport:
    return RangeReport(OffsetRange("orders", 0, start, until), read, written)


@pytest.mark.parametrize(
    ("report", "finished", "transform"),
    [
        pytest.param(_report(), _offsets(10, 7), _KEEP_ALL, id="to-the-planned-ends"),
        pytest.param(_report(_first(12, 12, 12), _BOTH[1]), _offsets(12, 7), _KEEP_ALL, id="beyond-them"),
        pytest.param(
            _report(replace(_first(10, 10, 3), records_skipped=7), _BOTH[1]),
            _offsets(10, 7),
            Transform(where="x"),
            id="predicate",
        ),
        pytest.param(_report(), _offsets(10, 3), _KEEP_ALL, id="aged-out-up-to-an-idle-partitions-end"),
    ],
)
def test_passes_a_report_that_proves_delivery(
    report: JobReport, finished: dict[TopicPartition, int], transform: Transform
) -> None:
    check_stream(report, _PLAN, _STREAM, finished, transform)


@pytest.mark.parametrize(
    ("report", "finished", "says"),
    [
        pytest.param(_report(_BOTH[0]), (10, 7), "orders[1] 7 to 7: not in the report", id="partition-left-out"),
        pytest.param(
            _report(_first(9, 9, 9), _BOTH[1]), (9, 7), "orders[0] 0 to 10: the stream went from 0 to 9", id="too-short"
        ),
        pytest.param(_report(_first(10, 9, 9, start=1), _BOTH[1]), (10, 7), "went from 1 to 10", id="began-too-late"),
        pytest.param(_report(), (9, 7), "orders[0]: reported up to 10, committed up to 9", id="not-all-committed"),
        pytest.param(_report(), (10, 8), "orders[1]: reported up to 7, committed up to 8", id="idle-one-committed"),
        pytest.param(_report(*_BOTH, _BOTH[1]), (10, 7), "a partition is reported more than once", id="reported-twice"),
        pytest.param(
            _report(failure=Fault("KS701", "no disk")),
            (10, 7),
            "the job reports a failure, KS701",
            id="failure",
        ),
        pytest.param(
            _report(batches=(BatchReport(4, 9, 10, 1.0),)),
            (10, 7),
            "the batches make 9 read and 10 written",
            id="batches-read",
        ),
    ],
)
def test_names_what_falls_short(report: JobReport, finished: tuple[int, ...], says: str) -> None:
    with refuses(DeliveryError, says, "local-1", "Planned 10 records at most", "retry"):
        check_stream(report, _PLAN, _STREAM, _offsets(*finished), _KEEP_ALL)


@pytest.mark.parametrize("change", [{"run_id": "other"}, {"plan_digest": "other"}], ids=["stream", "plan"])
def test_refuses_the_report_of_another_run(change: dict[str, Any]) -> None:
    with pytest.raises(DeliveryError, match="It belongs to another run"):
        check_stream(_report(**change), _PLAN, _STREAM, _offsets(10, 7), _KEEP_ALL)


@pytest.mark.parametrize(
    ("read_committed", "expected"), [pytest.param(True, 3, id="committed"), pytest.param(False, 5, id="uncommitted")]
)
def test_lag_is_to_the_real_end_now(read_committed: bool, expected: int) -> None:
    logs = {0: PartitionState(0, 13, 15), 1: PartitionState(0, 5, 5)}
    cluster = ClusterState("A", "kafka_default", 0, {"orders": TopicState("orders", None, logs)})
    finished = {**_offsets(10, 7, 9), TopicPartition("deleted", 0): 5}

    lags = lag_of(finished, cluster, ReadRules(read_committed=read_committed))

    assert lags == _offsets(expected, 0)


def _stream_plan() -> StreamPlan:
    form = BatchForm(Trace.HEADERS, True, True, "read_committed", "exactly_once")
    manifest = StreamManifest(Binding("A", "", "A"), form, _STREAM, {})
    return StreamPlan(
        ResolvedRanges(_PLAN.ranges),
        2,
        manifest,
        is_new=False,
        uncommitted=OffsetRanges.parse(["orders:0:0:1"]),
        uncommitted_batch=4,
        added=(TopicPartition("orders", 1),),
    )


_BATCH = {"seconds": 1.235, "replayed": False, "delivered_before": 0}


def test_the_result_has_all_of_a_run() -> None:
    report = _report(_first(10, 8, 6), _BOTH[1], delivered_before=1, duplicates=2, warnings=("the job says",))

    result = result_of_stream(report, _PLAN, _stream_plan(), _offsets(5, 0), _offsets(10), ("and this",))

    assert json.loads(json.dumps(result)) == result
    assert result == {
        "version": 1,
        "run_id": _STREAM,
        "ranges": [_counted(0, 0, 10, 8, 6), _counted(1, 7, 7, 0, 0)],
        "source_topic_ids": {"orders": "id-1"},
        "records_read": 8,
        "records_written": 6,
        "gaps": 2,
        "duplicates": 2,
        "missing": 3,
        "missing_ranges": [{**_MISSING, "reason": "aged out", "topic_id": "id-1"}],
        "delivered_before": 1,
        "batches": [
            {**_BATCH, "batch": 4, "records_read": 1, "records_written": 1, "replayed": True, "delivered_before": 1},
            {**_BATCH, "batch": 5, "records_read": 7, "records_written": 5, "seconds": 2.0},
        ],
        "unfinished": ["orders:0:0:1"],
        "added_partitions": ["orders[1]"],
        "behind": {"orders[0]": 5},
        "records_behind": 5,
        "generation": 2,
        "group_committed": {"orders[0]": 10},
        "target_topics": ["copy"],
        "target_ranges": [],
        "batches_passed": 0,
        "bytes_written": 0,
        "application_id": "local-1",
        "spark_version": "4.0.1",
        "seconds": 12.346,
        "warnings": ["mind this", "the job says", "and this"],
    }


def test_a_run_without_work_has_a_result_of_the_same_shape() -> None:
    plan = replace(_PLAN, ranges=OffsetRanges.parse(["orders:0:10:10", "orders:1:7:7"]))

    nothing = result_of_stream(report_of_nothing(plan, _STREAM), plan, _stream_plan(), {}, None)

    assert nothing.keys() == result_of_stream(_report(), _PLAN, _stream_plan(), {}, None).keys()
    assert OffsetRanges.parse(nothing["ranges"]) == plan.ranges
    assert (nothing["records_read"], nothing["batches"], nothing["target_topics"]) == (0, [], ["copy"])
