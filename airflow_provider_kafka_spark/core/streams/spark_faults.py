"""Known faults of Spark's availableNow streams, as data. No I/O."""

from __future__ import annotations

import re
from dataclasses import dataclass

Version = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class SparkFault:
    """A fault that some Spark versions have.

    :param first: first version with it.
    :param last: last version with it.
    :param source: where it is reported.
    """

    name: str
    first: Version
    last: Version
    what: str
    source: str

    def __str__(self) -> str:
        return f"{self.name} (Spark {_text(self.first)} to {_text(self.last)}): {self.what} See {self.source}."


AVAILABLE_NOW_FAULTS = (
    SparkFault(
        "SPARK-53560",
        (3, 3, 0),
        (4, 0, 1),
        "A run that ends in the middle of a batch, followed by a change in the number of partitions, fails at every "
        "restart. This package finishes such a batch itself before Spark starts the stream, so only partitions that "
        "are added while a stream runs can still meet it; a retry succeeds.",
        "https://issues.apache.org/jira/browse/SPARK-53560",
    ),
    SparkFault(
        "SPARK-55271",
        (4, 1, 0),
        (4, 1, 1),
        "After an uncommitted batch was replayed, the stream fails once with a NullPointerException. This package "
        "finishes such a batch itself, so it should not occur.",
        "https://issues.apache.org/jira/browse/SPARK-55271",
    ),
)


def faults_of(spark_version: str) -> tuple[SparkFault, ...]:
    """The known faults of a version.

    >>> [fault.name for fault in faults_of("4.0.0")]
    ['SPARK-53560']

    :param spark_version: such as ``"4.0.0"``; any other text has no known faults.
    """
    found = re.match(r"(\d+)\.(\d+)\.(\d+)", spark_version)
    if found is None:
        return ()
    version = (int(found[1]), int(found[2]), int(found[3]))
    return tuple(fault for fault in AVAILABLE_NOW_FAULTS if fault.first <= version <= fault.last)


def _text(version: Version) -> str:
    return ".".join(map(str, version))
