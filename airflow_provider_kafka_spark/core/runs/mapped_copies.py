"""Copies that say where their records are, by segments: those whose topics are still the same count. No I/O."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from airflow_provider_kafka_spark.core.errors import InvalidInputError
from airflow_provider_kafka_spark.core.offsets.segments import Segment, results_in, segments_of
from airflow_provider_kafka_spark.core.topics.broker_state import ClusterState
from airflow_provider_kafka_spark.core.topics.known_topics import KnownTopics


@dataclass(frozen=True, slots=True)
class MappedCopy:
    """What the result of a copy, or its asset event, says of where its records are.

    :param source: what the sources of its segments are of.
    :param target: likewise.
    """

    segments: tuple[Segment, ...]
    source: KnownTopics
    target: KnownTopics

    @classmethod
    def from_dict(cls, value: Mapping[str, Any], name: str) -> MappedCopy:
        """:param name: of the parameter, for errors.
        :raises InvalidInputError: if the ids in it are malformed.
        """
        segments = segments_of(value)
        # A result has them with its evidence.
        evidence = _mapping(value, "evidence", name)
        target_ids = _mapping(evidence, "target_ids", name) or _mapping(value, "target_topic_ids", name)
        source_cluster, target_cluster = (
            str(evidence.get(key) or value.get(key) or "") for key in ("source_cluster_id", "target_cluster_id")
        )
        sources, targets = {s.source.topic for s in segments}, {s.target.topic for s in segments}
        source_ids = _mapping(value, "source_topic_ids", name)
        return cls(
            segments,
            KnownTopics.of(sources, source_ids, source_cluster),
            KnownTopics.of(targets, target_ids, target_cluster),
        )

    def still_there(self, source: ClusterState, target: ClusterState) -> tuple[tuple[Segment, ...], list[str]]:
        """The segments that lead from topics of now to topics of now.

        :return: these; and warnings about the others, and about what is not known.
        """
        sources, targets = {s.source.topic for s in self.segments}, {s.target.topic for s in self.segments}
        gone, lost = self.source.changes(sources, source), self.target.changes(targets, target)
        left = [s for s in self.segments if s.source.topic not in gone and s.target.topic not in lost]
        reasons = [*gone.values(), *lost.values()]
        return tuple(left), [
            *(f"Segments of a result in of are left out, since {reason}." for reason in reasons),
            *self.source.unchecked(sources, source),
            *self.target.unchecked(targets, target),
        ]


def copies_in(value: object, name: str) -> tuple[MappedCopy, ...]:
    """Copies with segments.

    :param value: as :func:`~airflow_provider_kafka_spark.core.offsets.segments.results_in` takes it.
    :param name: of the parameter, for errors.
    :raises InvalidInputError: if one of them has no segments, or is malformed.
    """
    return tuple(MappedCopy.from_dict(item, name) for item in results_in(value, name))


def _mapping(value: Mapping[str, Any], key: str, name: str) -> dict[str, Any]:
    found = value.get(key) or {}
    if not isinstance(found, Mapping):
        raise InvalidInputError(
            f"{key} of a result in {name} must be an object, as the copy returned it; got {type(found).__name__}. Pass "
            "the whole result."
        )
    return dict(found)
