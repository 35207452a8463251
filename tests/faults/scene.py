"""One case: its copy, its tries, and the moment at which the fault happens."""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace
from pathlib import Path

from airflow_provider_kafka_spark.core.errors import KafkaSparkError
from airflow_provider_kafka_spark.core.wire.protocol import CopyJob, JobReport
from airflow_provider_kafka_spark.state.checkpoint import CheckpointFolder
from airflow_provider_kafka_spark.testing.kafka_broker import KafkaBroker
from airflow_provider_kafka_spark.testing.kafka_cluster import KafkaCluster
from tests.faults.cases import Case, Delivery, Fault, Kind
from tests.faults.drivers import Driver, Start, wait_for_copies
from tests.faults.proof import Copy
from tests.faults.slow_copy import stream_of


@dataclass
class Scene:
    """A case while it is played.

    :param brokers: a broker that may be killed, or three.
    :param chance: decides on moments and durations.
    :param folder: for the checkpoint of a stream.
    """

    case: Case
    brokers: KafkaBroker | KafkaCluster
    copy: Copy
    start_driver: Start
    chance: random.Random
    folder: Path
    _tries: list[Driver] = field(default_factory=list)

    @property
    def times(self) -> int:
        """How often a record may be in the target: at least once, a retry finds by headers alone what is there."""
        return len(self._tries) if self.case.delivery is Delivery.BATCHES_AT_LEAST_ONCE else 1

    def request(self) -> CopyJob:
        """That of the next try."""
        number = len(self._tries)
        first = self.copy.request
        submission = replace(first.submission, number=first.submission.number + number)
        history = replace(first.history, has_begun=number > 0)
        request = replace(first, submission=submission, history=history)
        if self.case.kind is not Kind.STREAM:
            return request
        lock = self.folder / "lock.json"
        return stream_of(request, CheckpointFolder(str(self.folder)), self.copy.source, lock)

    def start(self, request: CopyJob | None = None) -> Driver:
        """Start the next try.

        Where the worker would wait for the end of an earlier one, so does this: at least once, and until the lock of a
        checkpoint does not change any more.
        """
        is_locked = self.case.kind is Kind.STREAM and self.case.fault is not Fault.DRIVER_SUSPENDED
        if is_locked or not self.case.delivery.is_exactly_once:
            for driver in self._tries:
                driver.wait_until_gone()
        driver = self.start_driver(request or self.request(), self.case.master.value)
        self._tries.append(driver)
        return driver

    def wait_for_moment(self) -> None:
        """Return when as many records are there as the seed says, at most half."""
        wait_for_copies(self.copy.broker, self.copy.target, self.chance.randrange(1, len(self.copy.records) // 2))

    def assert_unfinished(self) -> None:
        """The fault came while records were still being written."""
        ends = self.copy.broker.offsets(self.copy.target).values()
        assert sum(end - start for start, end in ends) < len(self.copy.records), "the copy ended before the fault"

    def check(self, driver: Driver, healed_by: str, report: JobReport | None = None) -> None:
        """The last try has delivered everything.

        :param healed_by: what the table says.
        :param report: of the driver, if it has ended.
        """
        self.copy.tell("healed by", healed_by)
        report = report or driver.wait()
        assert report is not None, driver.log[-3000:]
        assert report.failure is None, report.failure
        self.copy.check(report, driver.request, self.times)


def assert_failed(report: JobReport | None, *errors: type[KafkaSparkError]) -> None:
    """The try left a report of one of these."""
    assert report is not None
    assert report.failure is not None
    assert report.failure.code in {error.code for error in errors}, report.failure
