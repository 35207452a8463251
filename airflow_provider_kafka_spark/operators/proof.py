"""What the report of a job proves: it is compared with the plan, with the source and with the target."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from airflow_provider_kafka_spark.core.copies.planned_copy import PlannedCopy
from airflow_provider_kafka_spark.core.copies.verification import (
    THEN,
    check_delivery,
    check_duplicates,
    lost_in_gaps,
    ranges_with_gaps,
    result_of_run,
)
from airflow_provider_kafka_spark.core.errors import DeliveryError, TargetRecreatedError
from airflow_provider_kafka_spark.core.shown_text import first_ten
from airflow_provider_kafka_spark.core.topics.broker_state import TopicState
from airflow_provider_kafka_spark.core.topics.known_topics import standard_id
from airflow_provider_kafka_spark.core.wire.protocol import JobReport
from airflow_provider_kafka_spark.hooks.kafka import KafkaHook

log = logging.getLogger(__name__)

LOST_STATE = (
    "This task has had an earlier try, and Airflow has stored nothing of that. If its run has left a mark at the "
    "target's brokers, that run is continued, and what its progress or its headers tell of is not written again; "
    "brokers keep the mark for offsets.retention.minutes, a week by default."
)
_MOVED = (
    "This item of the mapped task was copied before the clear, perhaps at another map index. Its run {} is continued: "
    "what its progress or its headers tell of is not written again."
)
#: Maximum number of offsets in ranges with gaps that a second client counts.
_MAX_RECOUNTED_OFFSETS = 1_000_000


def proved_result(
    source: KafkaHook, planned: PlannedCopy, report: JobReport, *, allow_duplicates: bool = False
) -> dict[str, Any]:
    """The result of a bounded copy whose report proves the delivery.

    :param source: of the cluster that was read.
    :raises KafkaSparkError: if the report does not prove it.
    """
    run_id = report.run_id if planned.history.adopts_run else planned.run_id
    check_delivery(report, planned.plan, run_id, planned.transform)
    after = source.state(planned.plan.partition_counts, only=planned.plan.ranges.topic_partitions)
    plan = planned.plan.after_job(after, planned.rules, source.cuts(planned.plan.reached, after))
    counted = check_counts(source, planned, report, allow_duplicates=allow_duplicates)
    warnings = [*plan.partitions_added(after), *counted]
    if planned.is_lost:
        warnings.append(LOST_STATE)
    elif run_id != planned.run_id:
        warnings.append(_MOVED.format(run_id))
    for warning in first_ten([*report.warnings, *warnings], "more warnings in the result"):
        log.warning("%s", warning)
    if planned.earlier is not None:
        earlier = planned.earlier.still_there(report.target_ids)
        report = replace(report, target_ranges=tuple(earlier.target_ranges.merge(report.target_ranges)))
    result = result_of_run(report, plan, tuple(warnings))
    return {
        **result,
        "evidence": planned.evidence(report.target_ids, run_id, may_have_duplicates=report.may_have_duplicates),
    }


def check_counts(
    source: KafkaHook, planned: PlannedCopy, report: JobReport, *, allow_duplicates: bool = False
) -> list[str]:
    """Check a report for duplicates, and count the records of ranges with gaps again, by a second client.

    :return: a warning if there are too many offsets to count.
    :raises DeliveryError: if the broker has records that the job did not read.
    :raises DuplicateRecordsError: if records are in the target more than once.
    """
    if not allow_duplicates:
        check_duplicates(report, planned.transform)
    lost, warnings = recounted(source, planned, report)
    if lost:
        raise DeliveryError(
            f"The job read fewer records than there are (application {report.application_id}): "
            f"{'; '.join(first_ten(lost))}. {THEN}"
        )
    return warnings


def recounted(source: KafkaHook, planned: PlannedCopy, report: JobReport) -> tuple[list[str], list[str]]:
    """Count the records of ranges with gaps again, by a second client.

    :return: descriptions of the ranges of which the job read fewer than there are; and a warning if there are too many
        offsets to count.
    :raises BrokerError: if the source does not answer.
    """
    gaps = ranges_with_gaps(report)
    if gaps.total > _MAX_RECOUNTED_OFFSETS:
        return [], [
            (
                f"{len(gaps)} ranges have offsets without a record (compacted, aborted, or transaction markers); "
                f"with {gaps.total:,} offsets they are too many to be counted a second time"
            )
        ]
    if not gaps:
        return [], []
    log.info("%s ranges have offsets without a record; a second client counts them.", f"{len(gaps):,}")
    return lost_in_gaps(report, source.count_records(gaps, read_committed=planned.rules.read_committed)), []


def recreated_target(report: JobReport, now: Mapping[str, TopicState]) -> TargetRecreatedError | None:
    """What is wrong if a target is not the topic any more that the job wrote to.

    :param now: the targets, as far as they exist.
    """
    for name, topic_id in report.target_ids.items():
        if name not in now or now[name].topic_id != standard_id(topic_id):
            return TargetRecreatedError(
                f"The target topic {name!r} was deleted or recreated after application {report.application_id} had "
                "written to it. A retry copies again what is gone."
            )
    return None
