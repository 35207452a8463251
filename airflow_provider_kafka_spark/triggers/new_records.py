"""A trigger for ``AssetWatcher`` that updates an asset when records arrive."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import AsyncIterator, Collection, Hashable, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.triggers.base import BaseEventTrigger, TriggerEvent
from airflow.triggers.shared_stream import AdvanceItem, SharedStreamProducer

from airflow_provider_kafka_spark.clients.kafka_client import MALFORMED_ANSWERS
from airflow_provider_kafka_spark.core.checks import check_connection_id, milliseconds
from airflow_provider_kafka_spark.core.conditions.broker_snapshot import BrokerSnapshot
from airflow_provider_kafka_spark.core.conditions.outage import Outage
from airflow_provider_kafka_spark.core.conditions.watch import LATEST, Watch, WatchState
from airflow_provider_kafka_spark.core.conditions.watch import announced_ranges as announced_ranges  # for DAG files
from airflow_provider_kafka_spark.core.errors import (
    BrokerAuthorizationError,
    BrokerUnavailableError,
    InvalidInputError,
    KafkaSparkError,
)
from airflow_provider_kafka_spark.triggers.shared_poll import Poller, shared_poller, until_next_tick
from airflow_provider_kafka_spark.triggers.watcher_health import WatcherHealth, watcher_name

if TYPE_CHECKING:
    from airflow.sdk.execution_time.context import AssetStateStoreAccessors

log = logging.getLogger(__name__)

_STATE_KEY = "kafka-spark-watch"
_ALARM_KEY = "kafka-spark-alarm"
#: What a running trigger serializes to has this too.
_ROW = "row"


class KafkaNewRecordsTrigger(BaseEventTrigger):
    """Announces every new record once, as offset ranges, to schedule DAGs by the records that arrive in Kafka.

    .. code-block:: python

        TRIGGER = KafkaNewRecordsTrigger(topics=["orders"])
        ORDERS = Asset("orders", watchers=[AssetWatcher(name="orders", trigger=TRIGGER)])

    Each event's payload is ``{"version": 1, "number": 7, "ranges": [...], "warnings": [...]}``;
    :func:`announced_ranges` reads the ranges out of a run's ``triggering_asset_events``. The asset's state store keeps
    the progress, so a restarted triggerer continues from there: no range is lost, and consecutive ranges never overlap,
    as long as no log is cut by an unclean leader election.

    .. warning::
        Airflow stores an event and its acknowledgement in two writes. If the triggerer ends between them, within a
        second or two, the same event is sent again with the same number.

    If a broker does not answer or refuses the login, the trigger tries again at the next interval and logs a warning in
    the triggerer's log, since there is no task to fail. After five minutes of failures it logs an error, each hour
    again; the asset's state store has it at the key ``kafka-spark-alarm`` until the trigger works again, and
    ``kafka_spark.watcher.*`` metrics show it.

    :param topics: names of topics; one that does not exist yet, or that the login may not see, is waited for.
    :param topic_pattern: a regular expression that matches whole names; exactly one of the two.
    :param since: where the first start begins: ``"latest"``, or as
        :class:`~airflow_provider_kafka_spark.sensors.offsets.KafkaNewRecordsSensor` takes it.
    :param min_records: minimum number of records to announce.
    :param max_wait_for_min: seconds after the timestamp of the first new record, or a timedelta, after which fewer are
        announced.
    :param poll_interval: seconds between two evaluations.
    :param source_conn_id: Kafka connection; all triggers with one connection share one client.
    :param isolation_level: as the sensors have it.
    :param kafka_timeout: seconds for each request to a broker.
    :param name: distinguishes several watchers of one asset.
    :raises InvalidInputError: if a parameter is invalid, when the DAG file is parsed.
    """

    def __init__(
        self,
        topics: Sequence[str] | None = None,
        *,
        topic_pattern: str | None = None,
        since: Any = LATEST,
        min_records: int = 1,
        max_wait_for_min: float | timedelta | None = None,
        poll_interval: float = 60.0,
        source_conn_id: str = "kafka_default",
        isolation_level: str = "read_committed",
        kafka_timeout: float = 30.0,
        name: str = "",
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        parameters = {
            "topics": topics if topics is None or isinstance(topics, str) else list(topics),
            "topic_pattern": topic_pattern,
            "since": since,
            "min_records": min_records,
            "max_wait_for_min": max_wait_for_min,
            "isolation_level": isolation_level,
        }
        watch = Watch.parse(**parameters)
        self._parameters = {
            **parameters,
            "since": watch.since,
            "max_wait_for_min": watch.condition.to_json()["max_wait_for_min"],
        }
        self.poll_interval = milliseconds(poll_interval, "poll_interval") / 1000
        self.kafka_timeout = milliseconds(kafka_timeout, "kafka_timeout") / 1000
        check_connection_id(source_conn_id, "source_conn_id")
        self.conn_id = source_conn_id
        self._name = name

    def serialize(self) -> tuple[str, dict[str, Any]]:
        return (
            f"{type(self).__module__}.{type(self).__qualname__}",
            {
                **self._parameters,
                "poll_interval": self.poll_interval,
                "source_conn_id": self.conn_id,
                "kafka_timeout": self.kafka_timeout,
                "name": self._name,
                **({} if self.asset_state_store is None else {_ROW: self.trigger_id}),
            },
        )

    def shared_stream_key(self) -> Hashable:
        """A separate stream for each row of Airflow's table of triggers: only a shared stream gets acknowledgements of
        events. Two assets in two DAG files may be watched with the same parameters, and each has a state of its own.
        """
        if self.asset_state_store is not None:
            # A class method creates the stream, of what this instance serializes to.
            _STORES[self.trigger_id] = self.asset_state_store
        return _STATE_KEY, json.dumps(self.serialize()[1], sort_keys=True)

    @classmethod
    def create_shared_stream_producer(cls, kwargs: dict[str, Any]) -> SharedStreamProducer:
        """:param kwargs: as an instance that a triggerer runs serializes to them."""
        kwargs = dict(kwargs)
        store = _STORES.pop(kwargs.pop(_ROW, None), None)
        if store is None:
            raise InvalidInputError(
                f"A {cls.__name__} must belong to an AssetWatcher, whose asset keeps how far it is; this one has no "
                "asset. To wait in a task, use KafkaNewRecordsSensor."
            )
        return cls(**kwargs)._producer(store)

    def _producer(self, store: AssetStateStoreAccessors) -> SharedStreamProducer:
        return _EventProducer(self, Watch.parse(**self._parameters), _WatchStateStore(store, self._name))

    async def filter_shared_stream(self, shared_stream: AsyncIterator[Any]) -> AsyncIterator[TriggerEvent]:
        async for event in shared_stream:
            yield TriggerEvent(event)  # type: ignore[no-untyped-call]

    async def run(self) -> AsyncIterator[TriggerEvent]:
        raise InvalidInputError(
            f"A {type(self).__name__} must be run by a triggerer as the trigger of an AssetWatcher. To wait in a "
            "task, use KafkaNewRecordsSensor."
        )
        yield

    @property
    def tag(self) -> str:
        """The watcher's name in metrics and in the log."""
        return watcher_name(self._name, self._parameters["topics"], self._parameters["topic_pattern"])


class _WatchStateStore:
    """The state of a watcher in its asset's state store, whose calls block: Airflow 3.3.1 has no others."""

    def __init__(self, store: AssetStateStoreAccessors, name: str) -> None:
        self._store = store
        self._key = f"{_STATE_KEY}-{name}" if name else _STATE_KEY

    async def read(self) -> WatchState | None:
        """:raises InvalidInputError: if several assets have the trigger: which of them has the state?"""
        try:
            value = await asyncio.to_thread(self._store.get, self._key)
        except ValueError as error:
            raise InvalidInputError(
                f"A watcher must be of one asset; got: {error}. Give the trigger of each asset a name of its own "
                "(name=...)."
            ) from error
        return None if value is None else WatchState.from_json(value)

    async def write(self, state: WatchState) -> WatchState:
        """Store a state, unless another triggerer has gone on meanwhile, as while this one stood still.

        :return: what is stored.
        """
        stored = await self.read()
        if stored is not None and stored.number > state.number:
            log.warning("Another triggerer has announced up to event %s; going on from there.", stored.number)
            return stored
        await asyncio.to_thread(self._store.set, self._key, state.to_json())
        return state

    async def write_alarm(self, alarm: str) -> None:
        """Show with the asset why its watcher fails, or that it works again: an empty text."""
        try:
            await asyncio.to_thread(self._store.set, self._key.replace(_STATE_KEY, _ALARM_KEY, 1), alarm)
        except Exception as error:  # noqa: BLE001 - whatever it is, the watcher goes on
            log.warning("The asset's state does not have the watcher's alarm: %r", error)


class _EventProducer(SharedStreamProducer):
    """Sends one event after the other, each when the previous one is acknowledged."""

    def __init__(self, trigger: KafkaNewRecordsTrigger, watch: Watch, store: _WatchStateStore) -> None:
        self._trigger = trigger
        self._watch = watch
        self._store = store
        self._acknowledged = asyncio.Event()
        self._state: WatchState | None = None
        self._unauthorized = ""
        self._health = WatcherHealth(trigger.tag, trigger.log)

    async def open_stream(self) -> AsyncIterator[tuple[Any, Any]]:
        trigger, outage, logged, is_first_round = self._trigger, Outage(), "", True
        try:
            self._state = await self._store.read()
        except KafkaSparkError as error:
            # There is no place for an alarm.
            self._health.failed(error)
            raise
        async with shared_poller(trigger.conn_id, trigger.kafka_timeout) as poller:
            while True:
                state = self._state
                event = None if state is None else state.event()
                if state is not None and event is not None:
                    self._acknowledged.clear()
                    self._health.announced()
                    yield event, state
                    await self._acknowledged.wait()
                    continue
                if not is_first_round:
                    await until_next_tick(trigger.poll_interval)
                is_first_round = False
                try:
                    await self._evaluate(poller)
                except KafkaSparkError as error:
                    await self._note_failure(error)
                    if error.retriable:
                        outage.began(error, trigger.log)
                    elif str(error) != logged:
                        logged = str(error)
                        trigger.log.error("The watch cannot continue: %s: %s", type(error).__name__, error)
                except MALFORMED_ANSWERS as error:
                    malformed = BrokerUnavailableError(f"The brokers' answer cannot be read: {error!r}.")
                    await self._note_failure(malformed)
                    outage.began(malformed, trigger.log)
                else:
                    logged = ""
                    if self._health.succeeded():
                        await self._store.write_alarm("")
                    outage.ended(trigger.log)

    async def _note_failure(self, error: KafkaSparkError) -> None:
        if self._health.failed(error):
            await self._store.write_alarm(f"{type(error).__name__}: {error}")

    async def _evaluate(self, poller: Poller) -> None:
        now_ms = int(time.time() * 1000)
        query = self._watch.query(self._state, now_ms)
        snapshot = await poller.ask(query)
        self._warn_unauthorized(snapshot, query.topics or ())
        state, notes = await asyncio.to_thread(self._watch.evaluate, self._state, snapshot, now_ms)
        if state != self._state:
            self._state = await self._store.write(state)
        for note in notes:
            self._trigger.log.warning("%s", note)

    def _warn_unauthorized(self, snapshot: BrokerSnapshot, topics: Collection[str]) -> None:
        """A topic that the login may not see looks like one that does not exist yet, so a warning is logged."""
        failures = [snapshot.failures.get(("topic", name)) for name in topics if name not in snapshot.names]
        unauthorized = " ".join(str(error) for error in failures if isinstance(error, BrokerAuthorizationError))
        if unauthorized and unauthorized != self._unauthorized:
            self._trigger.log.warning("Not watched until the login may see it: %s", unauthorized)
        self._unauthorized = unauthorized

    async def advance(self, batch: Sequence[AdvanceItem]) -> None:
        for item in batch:
            if item.outcome.is_clean:
                self._state = await self._store.write(item.broker_payload.acknowledged())
        # Otherwise it is still pending, and is sent again.
        self._acknowledged.set()


#: By row of Airflow's table of triggers.
_STORES: dict[int | None, AssetStateStoreAccessors] = {}
