"""Every combination of a copy, a place where it runs and a fault; and which of them a seed draws. No I/O."""

from __future__ import annotations

import random
from collections.abc import Collection
from dataclasses import dataclass
from enum import Enum
from itertools import product
from typing import NamedTuple


class Fault(Enum):
    """What goes wrong while records are written; the text is that of the table."""

    EXECUTOR_KILLED = "an executor is killed"
    DRIVER_KILLED = "the driver's Python and JVM are killed"
    JVM_KILLED = "the driver's JVM is killed"
    PYTHON_KILLED = "the driver's Python is killed"
    WORKER_KILLED = "the process of the Airflow task is killed"
    DRIVER_SUSPENDED = "a driver is suspended until its retry has ended"
    BROKER_SUSPENDED = "a broker is suspended for less than its clients' timeouts"
    BROKER_HANGS = "a broker is suspended for longer"
    BROKER_KILLED = "a broker that leads is killed and started again"
    COORDINATOR_KILLED = "a coordinator is killed and stays away"
    ROLLING_RESTART = "all brokers are restarted, one after the other"
    LEADER_MOVED = "the leader of a partition changes"
    PARTITION_REASSIGNED = "a partition is moved to another broker"
    TARGET_RECREATED = "the target is deleted and recreated"
    PARTITIONS_ADDED = "partitions are added to source and target"
    SOURCE_AGED_OUT = "the source ages out"


class Kind(Enum):
    """Which job runs, and which records it copies."""

    COPY = "copy"
    REPLAY = "replay of ranges with gaps"
    STREAM = "stream"


class Layout(Enum):
    """How the records are divided among Spark tasks."""

    IN_ORDER = "one task for each partition"
    CUT = "preserve_order=False, cut"
    BUNDLES = "preserve_order=False, cut into so many that a task has several"
    MANY_RANGES = "many ranges"


class Delivery(Enum):
    EXACTLY_ONCE = "exactly_once"
    BYTES = "exactly_once, as bytes"
    BATCHES = "exactly_once, by batches"
    AT_LEAST_ONCE = "at_least_once"
    BYTES_AT_LEAST_ONCE = "at_least_once, as bytes"
    BATCHES_AT_LEAST_ONCE = "at_least_once, by batches"

    @property
    def by_batches(self) -> bool:
        """Whether record batches are passed on, and no record says where it came from."""
        return self in {Delivery.BATCHES, Delivery.BATCHES_AT_LEAST_ONCE}

    @property
    def reader(self) -> str:
        """Who reads the records."""
        return "source" if self in {Delivery.EXACTLY_ONCE, Delivery.AT_LEAST_ONCE} else "batches"

    @property
    def is_exactly_once(self) -> bool:
        return self in {Delivery.EXACTLY_ONCE, Delivery.BYTES, Delivery.BATCHES}


class Master(Enum):
    LOCAL = "local[2]"
    EXECUTORS = "local-cluster[2,1,1024]"


class Brokers(Enum):
    ONE = "one broker"
    THREE = "three brokers"


class Case(NamedTuple):
    fault: Fault
    kind: Kind
    layout: Layout
    delivery: Delivery
    master: Master
    brokers: Brokers


@dataclass(frozen=True)
class Exclusion:
    """Combinations that are not tried: those that have one of these values of each dimension.

    :param first: values of one dimension.
    :param second: values of another one.
    """

    reason: str
    first: Collection[Enum]
    second: Collection[Enum]

    def holds_for(self, case: Case) -> bool:
        return any(value in self.first for value in case) and any(value in self.second for value in case)


EXCLUDED = (
    Exclusion(
        "A batch of a stream has one range of each partition, which one task reads.",
        {Kind.STREAM},
        {Layout.CUT, Layout.BUNDLES, Layout.MANY_RANGES},
    ),
    Exclusion("Its executor is the driver's JVM.", {Fault.EXECUTOR_KILLED}, {Master.LOCAL}),
    Exclusion(
        "Nothing fences a writer at least once.",
        {Fault.DRIVER_SUSPENDED},
        {Delivery.AT_LEAST_ONCE, Delivery.BYTES_AT_LEAST_ONCE, Delivery.BATCHES_AT_LEAST_ONCE},
    ),
    Exclusion(
        "There is no other broker.",
        {Fault.COORDINATOR_KILLED, Fault.ROLLING_RESTART, Fault.LEADER_MOVED, Fault.PARTITION_REASSIGNED},
        {Brokers.ONE},
    ),
    Exclusion(
        "A stream does not copy again what its checkpoint has committed.", {Fault.TARGET_RECREATED}, {Kind.STREAM}
    ),
)

ALLOWED = tuple(
    case
    for case in (Case(*values) for values in product(Fault, Kind, Layout, Delivery, Master, Brokers))
    if not any(exclusion.holds_for(case) for exclusion in EXCLUDED)
)


def draw(seed: int, number: int) -> Case:
    """The case of a number. Numbers go through all faults in turn, and each fault through its layouts; the rest is
    drawn.
    """
    rounds, index = divmod(number, len(Fault))
    fault = tuple(Fault)[index]
    of_fault = [case for case in ALLOWED if case.fault is fault]
    layouts = sorted({case.layout for case in of_fault}, key=tuple(Layout).index)
    layout = layouts[(rounds + index + seed) % len(layouts)]
    return random.Random(f"{seed}-{number}").choice([case for case in of_fault if case.layout is layout])
