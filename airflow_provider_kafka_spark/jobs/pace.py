"""The pace of a job: the driver says how many Spark tasks share it, in the committed offset of a group, and in the text
beside it whether the job is paused.

Each task keeps to its part by itself (``Pace.java``), and looks at the group once a second, after a commit.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING

from airflow_provider_kafka_spark.core.errors import BrokerAuthorizationError, KafkaSparkError
from airflow_provider_kafka_spark.core.runs.run_identity import pace_group
from airflow_provider_kafka_spark.core.wire.protocol import Pace
from airflow_provider_kafka_spark.core.wire.writer_messages import SharedPace
from airflow_provider_kafka_spark.jobs.kafka_admin import CommittedOffset, KafkaAdmin
from airflow_provider_kafka_spark.jobs.owner_producer import java_offsets

if TYPE_CHECKING:
    from airflow_provider_kafka_spark.jobs.lag_watch import LagWatch
    from airflow_provider_kafka_spark.jobs.record_writer import TaskMonitor

_LOOK_SECONDS = 0.25
#: After this time without a change, tasks that wait are not going to run soon.
_STEADY_SECONDS = 2.0
_RETRY_SECONDS = 5.0
_REPEAT_SECONDS = 5.0


class PaceKeeper:
    """Tells the tasks how many they are, inside ``with``.

    :param pace: of all tasks.
    :param instance: of the run, see ``core.runs.run_identity``.
    :param topic: of the target's cluster; the group's offset is committed for its first partition.
    :param tasks: of the job, all together.
    :param slots: how many can run at the same time.
    :param lag: says whether the job has to pause; None if it never has to.
    :param stop: ends the job, with :attr:`failure` set.
    """

    def __init__(
        self,
        pace: Pace,
        instance: str,
        admin: KafkaAdmin,
        topic: str,
        monitor: TaskMonitor,
        tasks: int,
        slots: int,
        lag: LagWatch | None = None,
        stop: Callable[[], None] = lambda: None,
    ) -> None:
        self._admin = admin
        self._topic = topic
        self._monitor = monitor
        self._tasks = tasks
        self._slots = max(1, slots)
        self._lag = lag
        self._stop_job = stop
        #: Why the job was stopped.
        self.failure: KafkaSparkError | None = None
        self._group = pace_group(instance)
        self._said, self._said_at = (0, False), 0.0
        self._is_paused = False
        self._most_running = 0
        self._next_at = 0.0
        self._is_refused = False
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="pace", daemon=True)
        first = max(1, min(self._tasks, self._slots))
        self.shared = SharedPace(self._group, pace.records_per_second, pace.bytes_per_second, first)

    def __enter__(self) -> PaceKeeper:
        # What an earlier driver has said may be for another topic, and tasks read whatever is there.
        with suppress(Exception):
            self._admin.remove_groups([self._group])
        self._is_paused = self._lag is not None and self._lag.is_paused()
        self._say(self.shared.tasks)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join(timeout=10)
        # It would expire by itself.
        with suppress(Exception):
            self._admin.remove_groups([self._group])

    def _run(self) -> None:
        seen, since = (0, 0), time.monotonic()
        while not self._stop.wait(_LOOK_SECONDS):
            if not self._look_at_lag():
                # Spark's job may not have begun yet.
                continue
            with suppress(Exception):
                now = self._monitor.tasks
                if now != seen:
                    seen, since = now, time.monotonic()
                running, succeeded = now
                self._most_running = max(self._most_running, running)
                # What was configured is a guess; when tasks have ended, it is known how many run.
                self._slots = self._most_running if succeeded else max(self._slots, running)
                is_steady = time.monotonic() - since > _STEADY_SECONDS
                self._say(sharing(running, self._tasks - succeeded, self._slots, is_steady=is_steady))

    def _look_at_lag(self) -> bool:
        """Whether the job may go on."""
        if self.failure is not None:
            self._stop_job()
            return False
        try:
            self._is_paused = self._lag is not None and self._lag.is_paused()
        except KafkaSparkError as error:
            self.failure = error
            self._stop_job()
            return False
        return True

    def _say(self, tasks: int) -> None:
        said = (tasks, self._is_paused)
        now = time.monotonic()
        # Who may write the group, such as an earlier driver that wakes up, must not have the last word.
        is_old = now - self._said_at > _REPEAT_SECONDS
        if (said == self._said and not is_old) or self._is_refused or now < self._next_at:
            return
        offsets = {(self._topic, 0): CommittedOffset(tasks, "paused" if self._is_paused else "")}
        try:
            self._admin.commit(self._group, java_offsets(self._admin.jvm, offsets))
            self._said, self._said_at = said, now
        except Exception as error:
            self._next_at = now + _RETRY_SECONDS
            self._is_refused = "AuthorizationException" in str(error)
            reason = next(iter(str(getattr(error, "java_exception", error)).splitlines()), "")
            if self._is_refused and self._lag is not None:
                raise BrokerAuthorizationError(
                    f"pause_while_lag needs READ on the group {self._group!r} of the target's cluster, which the tasks "
                    f"of the job read: {reason}"
                ) from error
            sys.stderr.write(f"The pace could not be shared anew among {tasks} Spark tasks: {reason}\n")


def sharing(running: int, unfinished: int, slots: int, *, is_steady: bool) -> int:
    """Among how many Spark tasks to share.

    One that is going to start at once counts: otherwise all would be too fast until they know of it.

    :param unfinished: tasks that run or wait.
    :param slots: how many can run at the same time.
    :param is_steady: nothing has changed for a while, so those that wait are not going to start soon.

    >>> sharing(1, 5, 2, is_steady=False), sharing(1, 5, 2, is_steady=True), sharing(1, 1, 2, is_steady=False)
    (2, 1, 1)
    """
    return max(1, running) if is_steady else max(1, running, min(unfinished, slots))
