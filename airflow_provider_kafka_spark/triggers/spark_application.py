"""Triggers that wait for the end of a Spark application on YARN or Kubernetes."""

from __future__ import annotations

import asyncio
import contextvars
import time
from abc import abstractmethod
from collections.abc import AsyncIterator, Callable, Hashable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import asynccontextmanager
from inspect import signature
from typing import Any, Protocol
from weakref import WeakKeyDictionary

from airflow.triggers.base import BaseTrigger, TriggerEvent

from airflow_provider_kafka_spark.core.spark.driver_pod import ApiAccess
from airflow_provider_kafka_spark.core.wire.job_events import JobProgress
from airflow_provider_kafka_spark.submission.kubernetes_api import KubernetesApi
from airflow_provider_kafka_spark.submission.progress_file import LOOK_SECONDS, read_progress
from airflow_provider_kafka_spark.submission.yarn_rest import ResourceManager, by_kerberos

#: Seconds between two requests to one cluster, however many triggers wait.
POLL_SECONDS = 5.0
#: Seconds for which a cluster may not answer, as during a restart of YARN's ResourceManager; then a worker decides.
MAX_OUTAGE_SECONDS = 600.0
#: Airflow's scheduler fails a task that is resumed before the scheduler has recorded its deferral.
_SETTLE_SECONDS = 2.0
#: Of an event.
ENDED, TIMED_OUT, UNKNOWN = "ended", "timed_out", "unknown"


class _Manager(Protocol):
    """What knows the applications of a cluster. Its methods raise RuntimeError if it does not answer."""

    def alive(self) -> Mapping[str, str]: ...

    def kill(self, application_id: str, /) -> None: ...


class _ApplicationTrigger(BaseTrigger):
    """Fires one event when a Spark application has ended, or when its task may not wait any longer.

    All triggers of a process with one cluster share one request per interval. When a person ends the task, Airflow
    calls :meth:`on_kill`, which ends the application; a triggerer that restarts does not.

    :param application_id: of an application of this package.
    :param deadline: when the task's ``execution_timeout`` is over, in seconds since 1970; None without one.
    :param report_uri: of its report, beside which it says how far it is.
    """

    def __init__(self, application_id: str, deadline: float | None, report_uri: str | None) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.application_id = application_id
        self.deadline = deadline
        self.report_uri = report_uri

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """The class, and what it is made of: each parameter is an attribute."""
        parameters = signature(type(self)).parameters
        return f"{type(self).__module__}.{type(self).__qualname__}", {name: getattr(self, name) for name in parameters}

    @abstractmethod
    def _manager(self) -> _Manager:
        """
        :raises ImportError: if the triggerer lacks a library.
        """

    @abstractmethod
    def _address(self) -> Hashable:
        """What two triggers of one cluster have in common."""

    async def run(self) -> AsyncIterator[TriggerEvent]:
        try:
            status = await self._wait()
        except ImportError as error:
            self.log.warning("A worker follows Spark application %s: %s", self.application_id, error)
            status = UNKNOWN
        yield TriggerEvent({"status": status, "application_id": self.application_id})  # type: ignore[no-untyped-call]

    async def on_kill(self) -> None:
        self.log.info("The task was ended: ending Spark application %s.", self.application_id)
        try:
            await asyncio.to_thread(lambda: self._manager().kill(self.application_id))
        except RuntimeError as error:
            self.log.warning("Spark application %s may still run: %s", self.application_id, error)

    async def _wait(self) -> str:
        began, seen, answered = time.monotonic(), "", time.monotonic()
        progress = None if self.report_uri is None else _ProgressLook(self.report_uri)
        async with _shared_watch(self._address(), self._manager) as watch:
            while True:
                if self.deadline is not None and time.time() >= self.deadline:
                    return TIMED_OUT
                alive = await watch.next_look(self.deadline)
                if alive is None:
                    continue
                if isinstance(alive, RuntimeError):
                    if time.monotonic() - answered >= MAX_OUTAGE_SECONDS:
                        return UNKNOWN
                    self.log.warning("The cluster does not answer, and is asked again: %s", alive)
                    continue
                answered = time.monotonic()
                state = alive.get(self.application_id)
                if state is None:
                    await asyncio.sleep(max(0.0, _SETTLE_SECONDS - (time.monotonic() - began)))
                    return ENDED
                if state != seen:
                    self.log.info("Spark application %s is %s.", self.application_id, state)
                    seen = state
                if progress is not None and (new := progress.next()) is not None:
                    self.log.info("Progress: %s", new)


class SparkApplicationTrigger(_ApplicationTrigger):
    """Follows an application on YARN.

    :param application_id: of an application with the tag of this package.
    :param resource_managers: address of YARN's web interface; with high availability those of all ResourceManagers.
    :param by_kerberos: log in there with the tickets of the triggerer's user.
    :param deadline: when the task's ``execution_timeout`` is over, in seconds since 1970; None without one.
    :param report_uri: of its report, beside which it says how far it is; None to say nothing of it.
    """

    def __init__(
        self,
        application_id: str,
        resource_managers: Sequence[str],
        by_kerberos: bool = False,
        deadline: float | None = None,
        report_uri: str | None = None,
    ) -> None:
        super().__init__(application_id, deadline, report_uri)
        self.resource_managers = list(resource_managers)
        self.by_kerberos = by_kerberos

    def _manager(self) -> ResourceManager:
        return ResourceManager(tuple(self.resource_managers), by_kerberos() if self.by_kerberos else None)

    def _address(self) -> Hashable:
        return *self.resource_managers, self.by_kerberos


class DriverPodTrigger(_ApplicationTrigger):
    """Follows an application on Kubernetes, by its driver's pod.

    :param application_id: of an application with the label of this package.
    :param access: how to reach the API server, as
        :meth:`~airflow_provider_kafka_spark.core.spark.driver_pod.ApiAccess.to_json` has it. The login is that of the
        triggerer's kubeconfig or service account.
    :param deadline: when the task's ``execution_timeout`` is over, in seconds since 1970; None without one.
    :param report_uri: of its report, beside which it says how far it is; None to say nothing of it.
    """

    def __init__(
        self,
        application_id: str,
        access: dict[str, str],
        deadline: float | None = None,
        report_uri: str | None = None,
    ) -> None:
        super().__init__(application_id, deadline, report_uri)
        self.access = access

    def _manager(self) -> KubernetesApi:
        return KubernetesApi(ApiAccess.from_json(self.access))

    def _address(self) -> Hashable:
        return tuple(sorted(self.access.items()))


class _ProgressLook:
    """Looks at the progress of a job now and then, and never waits for it: a storage may not answer."""

    def __init__(self, report_uri: str) -> None:
        self._report_uri = report_uri
        self._said, self._next = 0, 0.0
        self._look: Future[JobProgress | None] | None = None

    def next(self) -> JobProgress | None:
        """What is new since the last call, if anything."""
        found = None
        if self._look is not None and self._look.done():
            found, self._look = self._look.result(), None
        if self._look is None and time.monotonic() >= self._next:
            self._next = time.monotonic() + LOOK_SECONDS
            self._look = _READERS.submit(read_progress, self._report_uri)
        if found is None or found.records <= self._said:
            return None
        self._said = found.records
        return found


class _Watch:
    """Asks one cluster for all applications of this package that have not ended."""

    def __init__(self, manager: _Manager) -> None:
        self.members = 0
        #: Number of requests, for tests.
        self.looks = 0
        self._manager = manager
        self._next: asyncio.Future[Mapping[str, str] | RuntimeError] | None = None

    async def next_look(self, deadline: float | None) -> Mapping[str, str] | RuntimeError | None:
        """The next answer, which all triggers get; None if the deadline comes before it."""
        if self._next is None:
            # In a context of its own; otherwise its log lines would go to the log of the first trigger's task.
            self._next = contextvars.Context().run(asyncio.ensure_future, self._look())
        rest = None if deadline is None else max(0.0, deadline - time.time())
        try:
            return await asyncio.wait_for(asyncio.shield(self._next), rest)
        except asyncio.TimeoutError:
            return None

    def close(self) -> None:
        if self._next is not None:
            self._next.cancel()

    async def _look(self) -> Mapping[str, str] | RuntimeError:
        try:
            await asyncio.sleep(POLL_SECONDS - time.monotonic() % POLL_SECONDS)
            self.looks += 1
            return await asyncio.to_thread(self._manager.alive)
        except RuntimeError as error:
            return error
        finally:
            self._next = None


@asynccontextmanager
async def _shared_watch(address: Hashable, manager: Callable[[], _Manager]) -> AsyncIterator[_Watch]:
    watches = open_watches()
    watch = watches.get(address)
    if watch is None:
        watch = watches[address] = _Watch(manager())
    watch.members += 1
    try:
        yield watch
    finally:
        watch.members -= 1
        if not watch.members:
            del watches[address]
            watch.close()


def open_watches() -> dict[Hashable, _Watch]:
    """Those of this event loop, by cluster and login."""
    return _WATCHES.setdefault(asyncio.get_running_loop(), {})


#: Few, so that the storage is not asked by all triggers at once, and apart from what asks clusters.
_READERS = ThreadPoolExecutor(2, "progress")
_WATCHES: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[Hashable, _Watch]] = WeakKeyDictionary()
