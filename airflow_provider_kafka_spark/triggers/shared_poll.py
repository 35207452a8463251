"""One Kafka client for all triggers of a process with one connection, and one round of requests for simultaneous
queries.

The triggers of a process run in one event loop. A :class:`Poller` belongs to a loop and a connection, lives as long as
a trigger uses it, and creates a new client after a failure, so that a failed round does not affect later ones.
"""

from __future__ import annotations

import asyncio
import contextvars
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
from airflow_provider_kafka_spark.core.errors import KafkaSparkError
from airflow_provider_kafka_spark.hooks.kafka import KafkaHook
from airflow_provider_kafka_spark.state.checkpoint import read_checkpoint

T = TypeVar("T")

#: Queries within this time share a round, in seconds.
GATHER_SECONDS = 0.05
_AT_ONCE = 20


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
        # A separate thread: a broker that does not answer must not block the pool that Airflow's triggers share.
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=f"kafka-poll-{conn_id}")

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
        # The thread drops the client after its last request; a leaving member does not wait for that.
        self._thread.submit(self._drop_client)
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
        finished = await asyncio.shield(self._read(location))
        snapshot = await self._next_round(replace(query, checkpoint_location=None))
        return snapshot.with_checkpoint(location, finished)

    async def _next_round(self, query: BrokerQuery) -> BrokerSnapshot:
        future: asyncio.Future[BrokerSnapshot] = asyncio.get_running_loop().create_future()
        self._waiting.append((query, future))
        if self._rounds is None:
            # In a separate context; otherwise its log lines would go to the log of the first trigger's task.
            self._rounds = contextvars.Context().run(asyncio.create_task, self._make_rounds())
        return await future

    def _read(self, location: str) -> asyncio.Future[Position | KafkaSparkError]:
        """Queries for a checkpoint that is being read share that read."""
        reading = self._reading.get(location)
        if reading is None:
            reading = asyncio.ensure_future(asyncio.to_thread(read_checkpoint, location))
            self._reading[location] = reading
            reading.add_done_callback(lambda _: self._reading.pop(location, None))
        return reading

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
            await self._in_thread(self._drop_client)
            for _, future in waiting:
                if not future.done():
                    future.set_exception(error)
        else:
            for number, (_, future) in enumerate(waiting, start=1):
                if not future.done():
                    future.set_result(snapshot)
                if number % _AT_ONCE == 0:
                    # Yield between the woken triggers, so that other tasks in the event loop can run.
                    await asyncio.sleep(0)

    async def _ask(self, queries: set[BrokerQuery]) -> BrokerSnapshot:
        self.rounds += 1
        hook = self._hook
        if hook is None:
            hook = KafkaHook(self.conn_id)
            await hook.load_config()
            self._hook = hook
        hook.timeout = max(self._members.values(), default=hook.timeout)
        return await self._in_thread(lambda: fetch_snapshot(hook, queries))

    async def _in_thread(self, call: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, call)

    def _drop_client(self) -> None:
        hook, self._hook = self._hook, None
        if hook is not None:
            hook.close()


def _forget_frames(error: BaseException | None) -> None:
    """The frames of a failure hold a reference to the client, which must be closed now."""
    while isinstance(error, (KafkaSparkError, KafkaException)):
        error.__traceback__ = None
        error = error.__cause__ or error.__context__


_POLLERS: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[str, Poller]] = WeakKeyDictionary()
