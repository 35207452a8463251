"""The parameters of an operator that decide what is copied, parsed and checked once. A retry restores them. No I/O."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
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
from airflow_provider_kafka_spark.core.wire.codec import decode, encode
from airflow_provider_kafka_spark.core.wire.protocol import WINDOW, PauseWhileLag, Transform


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


#: Fields of a transformation that have another name than the parameter that they are of.
_PARAMETERS = {"topic": "target_topic", "topic_expr": "target_topic_expr"}


def transform_by_name(transform: Transform) -> dict[str, Any]:
    """A transformation without its window as plain JSON, by the names of the operator's parameters."""
    return {_PARAMETERS.get(n, n): value for n, value in encode(transform).items() if n not in WINDOW}


@dataclass(frozen=True, slots=True)
class CopyParameters:
    """The parameters that decide which records are copied and to where: plain data, one form for each meaning.

    :param transform: how each record is changed, without a window.
    :param selection: the parameters that say which records are read, by name, as plain JSON. Each kind of operator has
        its own.
    """

    source_conn_id: str
    target_conn_id: str | None
    transform: Transform
    delivery: str
    isolation_level: str
    source_options: Mapping[str, str]
    sink_options: Mapping[str, str]
    selection: Mapping[str, Any]

    @classmethod
    def of(cls, values: Mapping[str, Any], selection: Mapping[str, Any]) -> CopyParameters:
        """:param values: of the other parameters, read, by name."""
        names = {f.name: _PARAMETERS.get(f.name, f.name) for f in fields(Transform) if f.name not in WINDOW}
        transform = Transform(**{name: values[parameter] for name, parameter in names.items()})
        others = {name: value for name, value in values.items() if name not in names.values()}
        return cls(transform=transform, selection=selection, **others)

    @property
    def known_targets(self) -> tuple[str, ...]:
        """Every topic that may be written to; empty if ``target_topic_expr`` decides."""
        return self.transform.targets

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

    def by_name(self) -> dict[str, Any]:
        """Plain JSON by the names of the operator's parameters; :meth:`from_names` reads it back."""
        plain = encode(self)
        selection: dict[str, Any] = plain.pop("selection")
        del plain["transform"]
        return {**plain, **transform_by_name(self.transform), **selection}

    @classmethod
    def from_names(cls, values: Mapping[str, Any]) -> CopyParameters:
        """:raises ProtocolError: if they are not those of this version."""
        parts = {f.name: _PARAMETERS.get(f.name, f.name) for f in fields(Transform)}
        transform = {name: values[parameter] for name, parameter in parts.items() if parameter in values}
        known = {f.name for f in fields(cls)}
        common = {name: value for name, value in values.items() if name in known}
        selection = {n: value for n, value in values.items() if n not in known and n not in parts.values()}
        plain = {**common, "transform": {**transform, **dict.fromkeys(WINDOW)}, "selection": selection}
        remedy = "Clear the task, which makes a new plan with its current parameters."
        return decode(cls, plain, name="The task's stored parameters", remedy=remedy)
