"""How a copy says where its records came from: the parameter ``provenance``. No I/O."""

from __future__ import annotations

from enum import Enum

from airflow_provider_kafka_spark.core.checks import text_or_none
from airflow_provider_kafka_spark.core.errors import OptionError
from airflow_provider_kafka_spark.core.offsets.provenance import PROVENANCE_HEADER


class Trace(Enum):
    """What a copy leaves, by which its records are found again. The values are those of the parameter."""

    #: Each record of the target says it.
    HEADERS = "headers"
    #: No record is changed; the report maps offsets of the source to offsets of the target.
    SEGMENTS = "segments"
    NOTHING = None

    @classmethod
    def parse(cls, value: object) -> Trace:
        """Read the parameter, which may be text for None.

        :raises OptionError: if it is none of these.
        """
        found = text_or_none(value)
        try:
            return cls(found)
        except ValueError:
            raise OptionError(f"provenance must be 'headers', 'segments' or None; got {value!r}.") from None

    @property
    def header(self) -> str | None:
        """The name of the header that is added to each record; None if records stay as they are."""
        return PROVENANCE_HEADER if self is Trace.HEADERS else None

    @property
    def in_headers(self) -> bool:
        """Whether the target itself tells what it has, even after a failure."""
        return self is Trace.HEADERS

    @property
    def in_segments(self) -> bool:
        """Whether results tell it, as far as each job has proved its delivery."""
        return self is Trace.SEGMENTS
