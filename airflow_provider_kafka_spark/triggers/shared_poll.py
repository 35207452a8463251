"""One Kafka client for all triggers of a process with one connection, and one round of requests for simultaneous
queries.

The triggers of a process run in one event loop. A :class:`Poller` belongs to a loop and a connection, lives as long as
a trigger uses it, and creates a new client after a failure, so that a failed round does not affect later ones.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
import time
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TypeVar
from weakref import WeakKeyDictionary

from confluent_kafka import KafkaException

from airflow_provider_kafka_spark.clients.broker_poll import fetch_snapshot
from airflow_provider_kafka_spark.core.conditions.broker_snapshot import BrokerQuery, BrokerSnapshot
from airflow_provider_kafka_spark.core.conditions.since import Position
from airflow_provider_kafka_spark.core.errors import (
    CheckpointUnavailableError,
    ConnectionNotFoundError,
    KafkaSparkError,
)
from airflow_provider_kafka_spark.hooks.kafka import KafkaHook
from airflow_provider_kafka_spark.state.checkpoint import read_checkpoint

T = TypeVar("T")

log = logging.getLogger(__name__)

#: Queries within this time share a round, in seconds.
GATHER_SECONDS = 0.05
_AT_ONCE = 20
#: How long a client is used before its connection is read again, which somebody may have changed.
CONFIG_SECONDS = 300.0
#: For a client to be closed, and for a checkpoint to be read.
CLOSE_SECONDS, READ_SECONDS = 30.0, 60.0


@asynccontextmanager
async def shared_poller(conn_id: str, timeout: float) -> AsyncIterator[Poller]:
    """The poller of this event loop for a connection. The last one to leave closes its client.

    :param timeout: seconds for each request; the longest of all users counts.
    """
    pollers = open_pollers()
    poller = pollers.get(conn_id)
    if poller is None:
        poller = pollers[conn_id] = Poller(conn_id)
    member = poller.join(timeout)
    try:
        yield poller
    finally:
        if poller.leave(member):
            # Before anything is awaited, so that no trigger joins a poller that is being closed.
            del pollers[conn_id]
            await poller.close()


def open_pollers() -> dict[str, Poller]:
    """The pollers of this event loop, by connection."""
    return _POLLERS.setdefault(asyncio.get_running_loop(), {})


async def until_next_tick(interval: float, *, at_least: float = 0.0) -> None:
    """Sleep until the clock is at a multiple of the interval, so that triggers with equal intervals wake together.

    :param interval: in seconds.
    :param at_least: minimum sleep in seconds; an earlier tick is skipped.
    """
    now = time.monotonic() + at_least
    await asyncio.sleep(at_least + interval - now % interval)


class Poller:
    """Queries the brokers of one connection for all triggers of one event loop."""

    def __init__(self, conn_id: str) -> None:
        self.conn_id = conn_id
        #: Number of rounds, for tests and benchmarks.
        self.rounds = 0
        self._members: dict[object, float] = {}
        self._waiting: list[tuple[BrokerQuery, asyncio.Future[BrokerSnapshot]]] = []
        self._reading: dict[str, asyncio.Future[Position | KafkaSparkError]] = {}
        self._rounds: asyncio.Task[None] | None = None
        self._hook: KafkaHook | None = None
        self._configured_at = 0.0
        self._thread = self._new_thread()

    def _new_thread(self) -> ThreadPoolExecutor:
        # A separate one: a broker that does not answer must not block the pool that Airflow's triggers share.
        return ThreadPoolExecutor(1, thread_name_prefix=f"kafka-poll-{self.conn_id}")

    def join(self, timeout: float) -> object:
        member = object()
        self._members[member] = timeout
        return member

    def leave(self, member: object) -> bool:
        """Remove a member; return whether it was the last one."""
        del self._members[member]
        return not self._members

    async def close(self) -> None:
        rounds = self._rounds
        if rounds is not None:
            rounds.cancel()
        # The thread closes the client after its last request; a leaving member does not wait for that.
        hook, self._hook = self._hook, None
        if hook is not None:
            self._thread.submit(hook.close)
        del hook
        self._thread.shutdown(wait=False)

    async def ask(self, query: BrokerQuery) -> BrokerSnapshot:
        """Wait for the next round, and return its snapshot, which all queries share.

        :raises KafkaSparkError: if the round failed. The next round uses a new client.
        """
        location = query.checkpoint_location
        if location is None:
            return await self._next_round(query)
        # Read before the request to the broker; otherwise offsets that the stream finishes meanwhile would lie beyond
        # the end.
        finished = await self._finished(location)
        snapshot = await self._next_round(replace(query, checkpoint_location=None))
        return snapshot.with_checkpoint(location, finished)

    async def _next_round(self, query: BrokerQuery) -> BrokerSnapshot:
        future: asyncio.Future[BrokerSnapshot] = asyncio.get_running_loop().create_future()
        self._waiting.append((query, future))
        if self._rounds is None:
            # In a separate context; otherwise its log lines would go to the log of the first trigger's task.
            self._rounds = contextvars.Context().run(asyncio.create_task, self._make_rounds())
        return await future

    async def _finished(self, location: str) -> Position | KafkaSparkError:
        """Queries for a checkpoint that is being read share that read, also one that does not come back."""
        reading = self._reading.get(location)
        if reading is None:
            reading = asyncio.get_running_loop().run_in_executor(_READERS, read_checkpoint, location)
            self._reading[location] = reading
            reading.add_done_callback(lambda _: self._reading.pop(location, None))
        try:
            return await asyncio.wait_for(asyncio.shield(reading), READ_SECONDS)
        except asyncio.TimeoutError:
            return CheckpointUnavailableError(
                f"The storage of the checkpoint {location!r} must answer within {READ_SECONDS:g} s; it did not. Check "
                "that the triggerer reaches it."
            )

    async def _make_rounds(self) -> None:
        try:
            while self._waiting:
                await asyncio.sleep(GATHER_SECONDS)
                waiting, self._waiting = self._waiting, []
                await self._make_round([(query, future) for query, future in waiting if not future.done()])
        finally:
            self._rounds = None

    async def _make_round(self, waiting: list[tuple[BrokerQuery, asyncio.Future[BrokerSnapshot]]]) -> None:
        if not waiting:
            return
        try:
            snapshot = await self._ask({query for query, _ in waiting})
        except Exception as error:  # noqa: BLE001 - whatever it is, all waiting queries must get it
            _forget_frames(error)
            for _, future in waiting:
                if not future.done():
                    future.set_exception(error)
            await self._drop_client()
        else:
            for number, (_, future) in enumerate(waiting, start=1):
                if not future.done():
                    future.set_result(snapshot)
                if number % _AT_ONCE == 0:
                    # Yield between the woken triggers, so that other tasks in the event loop can run.
                    await asyncio.sleep(0)

    async def _ask(self, queries: set[BrokerQuery]) -> BrokerSnapshot:
        self.rounds += 1
        hook = await self._current()
        hook.timeout = max(self._members.values(), default=hook.timeout)
        return await self._in_thread(lambda: fetch_snapshot(hook, queries))

    async def _current(self) -> KafkaHook:
        """A client of the connection as it is now, or was a few minutes ago."""
        hook = self._hook
        if hook is not None and time.monotonic() < self._configured_at + CONFIG_SECONDS:
            return hook
        fresh = KafkaHook(self.conn_id)
        try:
            await fresh.load_config()
        except ConnectionNotFoundError as error:
            if hook is None:
                raise
            log.warning("The client of connection %r is kept as it is: %s", self.conn_id, error)
        else:
            if hook is None or hook.config != fresh.config:
                await self._drop_client()
                self._hook = hook = fresh
        self._configured_at = time.monotonic()
        return hook

    async def _in_thread(self, call: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, call)

    async def _drop_client(self) -> None:
        hook, self._hook = self._hook, None
        if hook is None:
            return
        try:
            await asyncio.wait_for(self._in_thread(hook.close), CLOSE_SECONDS)
        except Exception as error:  # noqa: BLE001 - whatever it is, the next round has a client of its own
            log.warning("A client of connection %r was not closed: %r", self.conn_id, error)
            # It may still hang in the thread.
            self._thread.shutdown(wait=False)
            self._thread = self._new_thread()


def _forget_frames(error: BaseException | None) -> None:
    """The frames of a failure hold a reference to the client, which must be closed now."""
    while isinstance(error, (KafkaSparkError, KafkaException)):
        error.__traceback__ = None
        error = error.__cause__ or error.__context__


#: Storages are read apart from what all triggers share: one that hangs keeps a thread.
_READERS = ThreadPoolExecutor(8, "checkpoints")
_POLLERS: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[str, Poller]] = WeakKeyDictionary()
