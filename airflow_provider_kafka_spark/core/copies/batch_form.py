"""How the records of a stream's batch are read and written, which must not change within a batch. No I/O."""

from __future__ import annotations

from dataclasses import dataclass, fields

from airflow_provider_kafka_spark.core.checks import EXACTLY_ONCE
from airflow_provider_kafka_spark.core.copies.copy_parameters import CopyParameters
from airflow_provider_kafka_spark.core.records.trace import Trace
from airflow_provider_kafka_spark.core.wire.codec import encode


@dataclass(frozen=True, slots=True)
class BatchForm:
    """How the records of a batch are read and written: parameters by name, which must not change within a batch."""

    provenance: Trace
    include_headers: bool
    preserve_timestamps: bool
    isolation_level: str
    delivery: str

    @classmethod
    def of(cls, parameters: CopyParameters) -> BatchForm:
        return cls(**{f.name: getattr(parameters, f.name) for f in fields(cls)})

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
