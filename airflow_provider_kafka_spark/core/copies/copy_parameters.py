"""The parameters of an operator that decide what is copied, parsed and checked once. A retry restores them. No I/O."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from airflow_provider_kafka_spark.core.checks import (
    EXACTLY_ONCE,
    check_group_id,
    is_read_committed,
    mapping_of,
    milliseconds,
    whole_number,
)
from airflow_provider_kafka_spark.core.errors import OptionError
from airflow_provider_kafka_spark.core.records.trace import Trace
from airflow_provider_kafka_spark.core.wire.codec import decode, encode
from airflow_provider_kafka_spark.core.wire.protocol import PauseWhileLag, Transform


def parse_pause(value: object, max_pause: object) -> PauseWhileLag | None:
    """Read ``pause_while_lag`` and ``max_pause``.

    >>> parse_pause('{"group_id": "billing", "max_lag": 100}', 60)
    PauseWhileLag(group_id='billing', max_lag=100, max_pause_seconds=60.0)

    :raises KafkaSparkError: if one is malformed.
    """
    pause = mapping_of(value, "pause_while_lag")
    if pause is None:
        return None
    if not isinstance(pause, Mapping) or set(pause) != {"group_id", "max_lag"}:
        raise OptionError(
            "pause_while_lag must have a group and a limit, such as {'group_id': 'billing', 'max_lag': 100_000}; got "
            f"{value!r}."
        )
    return PauseWhileLag(
        check_group_id(pause["group_id"], "pause_while_lag['group_id']"),
        whole_number(pause["max_lag"], "pause_while_lag['max_lag']", minimum=1),
        milliseconds(max_pause, "max_pause") / 1000,
    )


@dataclass(frozen=True, slots=True)
class CopyParameters:
    """The parameters that decide which records are copied and to where: plain data, one form for each meaning.

    :param records: the parameters that define the records to read, by name, as plain JSON. Each kind of operator has
        its own.
    """

    source_conn_id: str
    target_conn_id: str | None
    target_topic: str | None
    target_topic_expr: str | None
    where: str | None
    columns: Mapping[str, str]
    preserve_partition: bool
    preserve_timestamps: bool
    include_headers: bool
    provenance: Trace
    delivery: str
    isolation_level: str
    source_options: Mapping[str, str]
    sink_options: Mapping[str, str]
    records: Mapping[str, Any]
    topic_map: Mapping[str, str] = field(default_factory=dict)
    keys: tuple[Any, ...] | None = None
    headers: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    reject_when: str | None = None
    dead_letter_topic: str | None = None
    schema_id_map: Mapping[str, Mapping[str, int]] = field(default_factory=dict)

    @property
    def known_targets(self) -> tuple[str, ...]:
        """Every topic that may be written to; empty if ``target_topic_expr`` decides."""
        return self.transform().targets

    @property
    def is_exactly_once(self) -> bool:
        return self.delivery == EXACTLY_ONCE

    @property
    def read_committed(self) -> bool:
        return is_read_committed(self.isolation_level)

    @property
    def target_connection(self) -> str:
        """The connection of the target's cluster."""
        return self.target_conn_id or self.source_conn_id

    def transform(self, start_ms: int | None = None, end_ms: int | None = None) -> Transform:
        """How each record is changed.

        :param start_ms: drop records with an older timestamp.
        :param end_ms: drop records with this timestamp or a later one.
        """
        same = {f.name: getattr(self, f.name) for f in fields(Transform) if hasattr(self, f.name)}
        return Transform(
            topic=self.target_topic,
            topic_expr=self.target_topic_expr,
            window_start_ms=start_ms,
            window_end_ms=end_ms,
            **same,
        )

    def by_name(self) -> dict[str, Any]:
        """Plain JSON by the names of the operator's parameters; :meth:`from_names` reads it back."""
        plain = encode(self)
        records: dict[str, Any] = plain.pop("records")
        return {**plain, **records}

    @classmethod
    def from_names(cls, values: Mapping[str, Any]) -> CopyParameters:
        """:raises ProtocolError: if they are not those of this version."""
        names = {f.name for f in fields(cls)}
        common = {name: value for name, value in values.items() if name in names}
        records = {name: value for name, value in values.items() if name not in names}
        remedy = "Clear the task, which makes a new plan with its current parameters."
        return decode(cls, {**common, "records": records}, name="The task's stored parameters", remedy=remedy)
