"""The parameter ``since`` of sensors: the position from which records are new. No I/O, no clock.

A parsed ``since`` is one of :class:`SinceOffsets`, :class:`SinceTimestamp`, :class:`SinceGroup`,
:class:`SinceCheckpoint`. Each has the JSON form that :func:`parse_since` reads back, to send it to the triggerer.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from airflow_provider_kafka_spark.core.checks import check_group_id, read_json
from airflow_provider_kafka_spark.core.errors import BoundError, KafkaSparkError
from airflow_provider_kafka_spark.core.offsets.compact_rows import rows_in
from airflow_provider_kafka_spark.core.offsets.offset_range import OffsetRange, TopicPartition, by_topic
from airflow_provider_kafka_spark.core.secrets import TAKE_OUT, secrets_in_url
from airflow_provider_kafka_spark.core.topics.bounds import AtOffset, Bound, Earliest, parse_bound, parse_timestamp
from airflow_provider_kafka_spark.core.topics.known_topics import KnownTopics
from airflow_provider_kafka_spark.core.topics.log_ends import Reached
from airflow_provider_kafka_spark.core.topics.starts import group_named, named_form

_CHECKPOINT = "checkpoint_location"
_LOCATION = re.compile(r"\s*(/|[A-Za-z][A-Za-z0-9+.-]*://)")
#: In the result of a task, and in the JSON form of offsets.
_TOPIC_IDS = "source_topic_ids"
#: In the JSON form of offsets.
EPOCHS = "source_epochs"
_EXAMPLE = (
    "{'offsets': {'orders': {'0': 23}}}, the result of another task, {'checkpoint_location': "
    "'/data/checkpoints/orders'}, {'group_id': 'copy-of-orders'} or {'timestamp': '2026-11-20T10:00:00Z'}"
)


@dataclass(frozen=True, slots=True)
class Position:
    """Where somebody stands.

    :param offsets: of the first record that is new, for each partition it knows.
    :param topic_ids: of the topics that the offsets belong to (KIP-516), as far as they are known. The offsets do not
        apply to a topic that was deleted and recreated, which has another id.
    :param epochs: of the partitions' leaders at that time, as far as they are known. Other records may have taken the
        offsets since, if the log was cut (see :mod:`~airflow_provider_kafka_spark.core.topics.log_ends`).
    """

    offsets: Mapping[TopicPartition, int]
    topic_ids: Mapping[str, str] = field(default_factory=dict)
    epochs: Mapping[TopicPartition, int] = field(default_factory=dict)

    @property
    def reached(self) -> frozenset[Reached]:
        return frozenset(Reached(p, self.offsets[p], epoch) for p, epoch in self.epochs.items() if p in self.offsets)


@dataclass(frozen=True, slots=True)
class SinceOffsets:
    """From these offsets on; a partition that is not named counts from its beginning.

    :param topic_ids: as :class:`Position` has them, and ``epochs``.
    """

    bound: Bound
    topic_ids: Mapping[str, str] = field(default_factory=dict)
    epochs: Mapping[TopicPartition, int] = field(default_factory=dict)

    @property
    def position(self) -> Position:
        requested = self.bound.by_partition.items()
        return Position({p: r.offset for p, r in requested if isinstance(r, AtOffset)}, self.topic_ids, self.epochs)

    def to_json(self) -> dict[str, Any]:
        if not self.bound.by_partition:
            return {"offsets": "earliest"}
        by_partition = self.bound.by_partition.items()
        offsets = by_topic(
            {p: requested.offset if isinstance(requested, AtOffset) else -2 for p, requested in by_partition}
        )
        return {
            "offsets": offsets,
            **({_TOPIC_IDS: dict(self.topic_ids)} if self.topic_ids else {}),
            **({EPOCHS: by_topic(self.epochs)} if self.epochs else {}),
        }


@dataclass(frozen=True, slots=True)
class SinceTimestamp:
    """From the first record at or after a moment on, in ms since 1970."""

    epoch_ms: int

    def to_json(self) -> dict[str, Any]:
        return {"timestamp": self.epoch_ms}


@dataclass(frozen=True, slots=True)
class SinceGroup:
    """From what a consumer group has committed on; a partition without a commit counts from its beginning."""

    group_id: str

    def to_json(self) -> dict[str, Any]:
        return {"group_id": self.group_id}


@dataclass(frozen=True, slots=True)
class SinceCheckpoint:
    """From where the stream with this checkpoint is done on; a partition that it does not know counts from its
    beginning.

    :param missing_is_earliest: count everything if the checkpoint does not exist yet, instead of raising an error.
    """

    location: str
    missing_is_earliest: bool = False

    def to_json(self) -> dict[str, Any]:
        return {
            "checkpoint_location": self.location,
            **({"if_missing": "earliest"} if self.missing_is_earliest else {}),
        }


Since = SinceOffsets | SinceTimestamp | SinceGroup | SinceCheckpoint


def parse_since(value: object) -> Since:
    """Read ``since`` in any of its forms.

    >>> parse_since("group:copy-of-orders")
    SinceGroup(group_id='copy-of-orders')
    >>> parse_since([{"topic": "orders", "partition": 0, "from_offset": 10, "until_offset": 23}]).to_json()
    {'offsets': {'orders': {'0': 23}}}

    :param value: a mapping with one of the keys ``offsets``, ``timestamp``, ``group_id``, ``checkpoint_location``;
        offsets as Spark has them; a list of ranges or the whole result of a task, whose ``until_offset``\\ s are where
        new records start; any of these as JSON text; ``"earliest"``; ``"group:NAME"``; the location of a checkpoint; or
        a moment.
    :raises BoundError: if it is none of them, or the location of a checkpoint has a password.
    """
    try:
        since = _parse(value)
    except KafkaSparkError as error:
        raise BoundError(
            f"since must be {_EXAMPLE}; got {value!r}: {error} If it is a template, check what it rendered to; for an "
            "XCom, pass the task's output itself."
        ) from error
    if isinstance(since, SinceCheckpoint) and secrets_in_url(since.location):
        raise BoundError(f"checkpoint_location in since must have no password. {TAKE_OUT}")
    return since


def names_location(written: object) -> bool:
    """Whether ``since`` is the location of a checkpoint as it stands in the DAG file, whatever templates in it render
    to. A result of another task is none, so whoever edits that cannot have another place read.

    >>> names_location({"checkpoint_location": "{{ params.place }}"}), names_location("s3a://bucket/{{ params.place }}")
    (True, True)
    >>> names_location("{{ params.since }}"), names_location({"last_run": "group:billing"})
    (False, False)
    """
    if isinstance(written, Mapping):
        return _CHECKPOINT in written or any(names_location(inner) for inner in written.values())
    return isinstance(written, str) and (_CHECKPOINT in written or _LOCATION.match(written) is not None)


def _parse(value: object) -> Since:
    if isinstance(value, str):
        return _parse_text(value.strip())
    if isinstance(value, Mapping):
        return _parse_mapping(value)
    if isinstance(value, (datetime, int)) and not isinstance(value, bool):
        return SinceTimestamp(parse_timestamp(value, "since"))
    if isinstance(value, Iterable):
        return _after_ranges(value)
    raise BoundError(f"A {type(value).__name__} is none of these.")


def _parse_text(text: str) -> Since:
    if text.lower() == "earliest":
        return SinceOffsets(Bound(Earliest(), {}))
    if text[:1] in ("{", "[", '"'):
        try:
            return _parse(read_json(text, "since"))
        except (ValueError, RecursionError) as error:
            raise BoundError(f"It is not JSON: {error}.") from error
    if (group := group_named(text)) is not None:
        return SinceGroup(group)
    if text.startswith("/") or "://" in text:
        return SinceCheckpoint(text)
    return SinceTimestamp(parse_timestamp(text, "since"))


def _parse_mapping(value: Mapping[Any, Any]) -> Since:
    if set(value) == {"checkpoint_location", "if_missing"}:
        if value["if_missing"] not in ("fail", "earliest"):
            raise BoundError(f"if_missing must be 'fail' or 'earliest'; got {value['if_missing']!r}.")
        return replace(_checkpoint(value["checkpoint_location"]), missing_is_earliest=value["if_missing"] == "earliest")
    if (form := named_form(value)) is not None:
        key, inner = form
        if key == "offsets":
            return _offsets(inner) if isinstance(inner, Mapping) else _parse(inner)
        if key == "group_id":
            return SinceGroup(check_group_id(inner, "group_id"))
        if key == "checkpoint_location":
            return _checkpoint(inner)
        if key == "timestamp":
            return SinceTimestamp(parse_timestamp(inner, "since"))
    ranges = rows_in(value.get("ranges"))
    if isinstance(ranges, (list, tuple)):
        after = _after_ranges(ranges)
        return replace(after, topic_ids={**after.topic_ids, **_topic_ids(value.get(_TOPIC_IDS, {}))})
    if "offsets" in value and value.keys() <= {"offsets", _TOPIC_IDS, EPOCHS} and len(value) > 1:
        offsets, ids = _offsets(value["offsets"]), _topic_ids(value.get(_TOPIC_IDS, {}))
        epochs = _offsets(value[EPOCHS]).position.offsets if EPOCHS in value else {}
        return replace(offsets, topic_ids={**offsets.topic_ids, **ids}, epochs=epochs)
    return _offsets(value)


def _offsets(value: Mapping[Any, Any]) -> SinceOffsets:
    bound = parse_bound(value, "start")
    return SinceOffsets(Bound(Earliest(), bound.by_partition), bound.topic_ids)


def _after_ranges(values: Iterable[object]) -> SinceOffsets:
    ends: dict[TopicPartition, int] = {}
    values = list(values)
    for value in values:
        r = OffsetRange.parse(value)
        ends[r.topic_partition] = max(r.until_offset, ends.get(r.topic_partition, 0))
    if not ends:
        # Every partition would count from its beginning, which is never intended for a task's result.
        raise BoundError("A list of ranges must name at least one; 'earliest' is everything that is there.")
    bound = Bound(Earliest(), {partition: AtOffset(end) for partition, end in ends.items()})
    return SinceOffsets(bound, KnownTopics.of_ranges(values).topic_ids)


def _topic_ids(value: object) -> Mapping[str, str]:
    if not isinstance(value, Mapping) or not all(isinstance(text, str) for pair in value.items() for text in pair):
        raise BoundError(f"{_TOPIC_IDS} must map names of topics to their ids; got {value!r}.")
    return dict(value)


def _checkpoint(value: object) -> SinceCheckpoint:
    if not isinstance(value, str) or not value.strip():
        raise BoundError(f"checkpoint_location must be a folder or URI; got {value!r}.")
    return SinceCheckpoint(value.strip())
