"""What a copy is: all that decides which records are written, in which form and to where. No I/O.

What earlier tries delivered counts only for the same copy. Of a bounded copy the parts of its identity are in the
delivery key (``core.runs.run_protocol``), and the task keeps a digest of each. A stream's checkpoint is bound to its
part (:class:`Binding`), and each of its batches has a form (:class:`BatchForm`), which is in the key of the batch.
Most parts are fields of :class:`~airflow_provider_kafka_spark.core.wire.protocol.Transform`; the others are clusters,
ids of topics, the selection, the isolation level and the delivery.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from airflow_provider_kafka_spark.core.checks import EXACTLY_ONCE
from airflow_provider_kafka_spark.core.copies.copy_parameters import CopyParameters, transform_by_name
from airflow_provider_kafka_spark.core.records.trace import Trace
from airflow_provider_kafka_spark.core.wire.codec import encode


def digest_of(content: object) -> str:
    """16 hexadecimal digits that stand for plain JSON."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]


def fingerprint_of_transform(transform: Mapping[str, Any]) -> dict[str, str]:
    """A digest of each part, by name.

    :param transform: as plain JSON.

    >>> fingerprint_of_transform({"where": "offset > 3"})
    {'where': '7065e0eb7ec334ea'}
    """
    # Of another topic that is mapped nothing was delivered before.
    routes = {f"the target of {source!r}": name for source, name in transform.get("topic_map", {}).items()}
    # Nor was a record with another id: an id that the map lacks is an error.
    ids = {
        f"schema id {old} of {side}": str(new)
        for side, of_side in transform.get("schema_id_map", {}).items()
        for old, new in of_side.items()
    }
    single = {name: value for name, value in transform.items() if name != "topic_map"}
    if "schema_id_map" in single:
        single["schema_id_map"] = sorted(single["schema_id_map"])
    return {name: digest_of(value) for name, value in {**single, **routes, **ids}.items()}


def fingerprint_changes(before: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """The names of what differs. A name that one side does not have counts as equal.

    >>> fingerprint_changes({"where": "a", "columns": "b"}, {"where": "c", "the topic 'new'": "d"})
    ['where']
    """
    return [name for name, value in now.items() if before.get(name, value) != value]


@dataclass(frozen=True, slots=True)
class BatchForm:
    """How the records of a stream's batch are read and written: parameters by name, which must not change within a
    batch.
    """

    provenance: Trace
    include_headers: bool
    preserve_timestamps: bool
    isolation_level: str
    delivery: str

    @classmethod
    def of(cls, parameters: CopyParameters) -> BatchForm:
        transform = parameters.transform
        return cls(
            transform.provenance,
            transform.include_headers,
            transform.preserve_timestamps,
            parameters.isolation_level,
            parameters.delivery,
        )

    def described(self) -> dict[str, str]:
        """As parts of a delivery key."""
        return {name: str(value) for name, value in encode(self).items()}

    def changes(self, other: BatchForm) -> list[str]:
        """What must not change within a batch that was begun with this form, and differs in the other one.

        The delivery may change where the target is read back by headers, and where it was at least once before: then
        there is no progress to keep.
        """
        mine, theirs = encode(self), encode(other)
        if self.provenance.in_headers or self.delivery != EXACTLY_ONCE:
            theirs["delivery"] = mine["delivery"]
        return [f"{name} must stay {mine[name]!r}; got {theirs[name]!r}" for name in mine if mine[name] != theirs[name]]


_OF_A_BATCH = {f.name for f in fields(BatchForm)}


@dataclass(frozen=True, slots=True)
class Binding:
    """The job that a checkpoint belongs to. With Spark alone, a job that differs in any part would copy nothing or the
    wrong records, and succeed.

    :param selection: the topics, the pattern or the assignment, as text.
    :param transform: the parts that must never change, by name, as plain JSON.
    """

    source_cluster_id: str
    selection: str
    target_cluster_id: str
    transform: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, parameters: CopyParameters, source_cluster_id: str, target_cluster_id: str) -> Binding:
        """That of a stream with these parameters."""
        records = parameters.selection
        selection = json.dumps([records["topics"] or [], records["topic_pattern"], records["assign"]], sort_keys=True)
        parts = transform_by_name(parameters.transform)
        bound = {name: value for name, value in parts.items() if name not in _OF_A_BATCH}
        return cls(source_cluster_id, selection, target_cluster_id, bound)

    def differences(self, other: Binding) -> list[str]:
        """Descriptions of what differs. A topic or a schema id that only one of the maps has is no difference: what is
        read must be mapped in any case.
        """
        mine, theirs = ({**asdict(each), **each.transform} for each in (self, other))
        names = dict.fromkeys(name for name in (*mine, *theirs) if name != "transform")
        return [
            f"{name} is {theirs.get(name)!r} and was {mine.get(name)!r}"
            for name in names
            if not _is_same(name, mine.get(name), theirs.get(name))
        ]


def _is_same(name: str, mine: Any, theirs: Any) -> bool:
    if mine == theirs:
        return True
    if not (isinstance(mine, Mapping) and isinstance(theirs, Mapping)):
        return False
    if name == "topic_map":
        common = mine.keys() & theirs.keys()
        return bool(common) and all(mine[topic] == theirs[topic] for topic in common)
    if name == "schema_id_map":
        return mine.keys() == theirs.keys() and all(
            mine[side][old] == theirs[side][old] for side in mine for old in mine[side].keys() & theirs[side].keys()
        )
    return False
