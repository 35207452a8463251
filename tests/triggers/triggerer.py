"""The part of a triggerer in the tests of watchers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from airflow.triggers.shared_stream import SharedStreamManager

from airflow_provider_kafka_spark.triggers.new_records import KafkaNewRecordsTrigger
from tests.airflow_fakes import AssetStateStore

#: Between two looks, in seconds.
INTERVAL = 0.2


class Triggerer:
    """What a triggerer does with a watcher: events are kept when it says so, and it can end at any moment."""

    def __init__(self, store: AssetStateStore, **parameters: Any) -> None:
        self.events: list[dict[str, Any]] = []
        self._parameters = {"poll_interval": INTERVAL, "since": "earliest", **parameters}
        self._store = store
        self._unconfirmed: list[int] = []
        self._manager = SharedStreamManager()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Triggerer]:
        _, kwargs = KafkaNewRecordsTrigger(**self._parameters).serialize()
        trigger = KafkaNewRecordsTrigger(**json.loads(json.dumps(kwargs)))
        trigger.trigger_id = 1
        trigger.asset_state_store = self._store  # type: ignore[assignment]
        task = asyncio.create_task(self._run(trigger))
        try:
            yield self
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            await self._manager.stop_all()

    def confirm(self) -> None:
        """What was announced so far is in the database."""
        confirmed, self._unconfirmed = self._unconfirmed, []
        self._manager.confirm_persisted(confirmed)

    async def _run(self, trigger: KafkaNewRecordsTrigger) -> None:
        key = trigger.shared_stream_key()
        stream = self._manager.subscribe(trigger_id=1, trigger=trigger, key=key)
        async for event in trigger.filter_shared_stream(stream):
            seq = self._manager.bind_pending_event(trigger_id=1, key=key)
            assert seq is not None, "Airflow has to acknowledge the event"
            self._unconfirmed.append(seq)
            self.events.append(event.payload)
