"""Rejected records: when, where to, and what a result says of them. No I/O."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from airflow_provider_kafka_spark.core.errors import OptionError, TargetError
from airflow_provider_kafka_spark.core.offsets.offset_range import OffsetRange, OffsetRanges, is_topic_name

#: Why a record was rejected, as text.
REASON_HEADER = "x-kafka-spark-reject-reason"


def check_dead_letters(topic: str | None, reject_when: str | None, targets: Iterable[str]) -> None:
    """Check what is known of dead letters without a broker.

    :param targets: that records go to which are not rejected, as far as known.
    :raises KafkaSparkError: if only one of the two is given, or the topic is none for them.
    """
    if (topic is None) != (reject_when is None):
        given = f"dead_letter_topic={topic!r}" if reject_when is None else f"reject_when={reject_when!r}"
        raise OptionError(
            "dead_letter_topic and reject_when belong together, such as dead_letter_topic='orders.DLT' and "
            f"reject_when='value is null'; got only {given}."
        )
    if topic is None:
        return
    if not is_topic_name(topic):
        raise TargetError(
            "dead_letter_topic must be the name of a topic, 1 to 249 letters, digits, dots, dashes and underscores; "
            f"got {topic!r}."
        )
    if topic in targets:
        raise TargetError(
            f"dead_letter_topic must be another topic than the target; both are {topic!r}. Choose another one, such as "
            f"{topic + '.DLT'!r}."
        )


def dead_letters_of(result: Mapping[str, Any]) -> list[Any]:
    """The ranges of the dead-letter topic that a result names."""
    found = result.get("dead_letters")
    return [] if found is None else list(found["ranges"])


def all_target_ranges(result: Mapping[str, Any]) -> OffsetRanges:
    """Where a result says that records were written, dead letters included."""
    return OffsetRanges.parse([*result["target_ranges"], *dead_letters_of(result)])


def split_ranges(ranges: Iterable[OffsetRange], topic: str | None) -> tuple[list[OffsetRange], list[OffsetRange]]:
    """Those of the targets, and those of the dead-letter topic.

    >>> split_ranges([OffsetRange("copy", 0, 0, 2), OffsetRange("dead", 0, 0, 1)], "dead")[1]
    [OffsetRange(topic='dead', partition=0, from_offset=0, until_offset=1)]
    """
    ranges = list(ranges)
    return [r for r in ranges if r.topic != topic], [r for r in ranges if r.topic == topic]
