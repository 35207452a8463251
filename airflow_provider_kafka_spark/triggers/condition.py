"""A trigger that waits until a sensor's condition holds."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Any

from airflow.triggers.base import BaseTrigger, TriggerEvent

from airflow_provider_kafka_spark.core.conditions.broker_snapshot import ConditionResult
from airflow_provider_kafka_spark.core.conditions.condition import parse_condition
from airflow_provider_kafka_spark.core.conditions.outage import Outage
from airflow_provider_kafka_spark.core.errors import BrokerUnavailableError, KafkaSparkError, ProtocolError
from airflow_provider_kafka_spark.core.wire.codec import decode, encode
from airflow_provider_kafka_spark.core.wire.fault import Fault
from airflow_provider_kafka_spark.triggers.shared_poll import Poller, shared_poller, until_next_tick

#: Airflow's scheduler fails a task that is resumed before the scheduler has recorded its deferral.
_SETTLE_SECONDS = 2.0
_REMEDY = "Run the same version of airflow-provider-kafka-spark on workers and triggerers."


class KafkaConditionTrigger(BaseTrigger):
    """Fires one event when a condition holds, or when it has failed.

    All triggers with one connection share one client, and those with equal intervals share one round of requests per
    interval. Nothing is committed and nothing runs elsewhere, so ``on_kill`` does nothing. A trigger that ends or is
    cancelled does not affect the others.

    :param conn_id: Kafka connection; its secrets stay there.
    :param condition: as its ``to_json`` gives it.
    :param poll_interval: seconds between two evaluations.
    :param kafka_timeout: seconds for each request to a broker.
    """

    def __init__(self, conn_id: str, condition: dict[str, Any], poll_interval: float, kafka_timeout: float) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.conn_id = conn_id
        self.condition = condition
        self.poll_interval = poll_interval
        self.kafka_timeout = kafka_timeout

    def serialize(self) -> tuple[str, dict[str, Any]]:
        return (
            f"{type(self).__module__}.{type(self).__qualname__}",
            {
                "conn_id": self.conn_id,
                "condition": self.condition,
                "poll_interval": self.poll_interval,
                "kafka_timeout": self.kafka_timeout,
            },
        )

    async def run(self) -> AsyncIterator[TriggerEvent]:
        try:
            async with shared_poller(self.conn_id, self.kafka_timeout) as poller:
                result = await self._wait(poller)
        except KafkaSparkError as error:
            yield TriggerEvent(event_of_error(error))  # type: ignore[no-untyped-call]
        else:
            yield TriggerEvent(event_of_result(result))  # type: ignore[no-untyped-call]

    async def _wait(self, poller: Poller) -> ConditionResult:
        condition, outage = parse_condition(self.condition), Outage()
        at_least = min(_SETTLE_SECONDS, self.poll_interval)
        while True:
            await until_next_tick(self.poll_interval, at_least=at_least)
            at_least = 0.0
            now_ms = int(time.time() * 1000)
            try:
                snapshot = await poller.ask(condition.query(now_ms))
                # In a thread: with many topics it takes longer than the event loop may stand still.
                result = await asyncio.to_thread(condition.check, snapshot, now_ms)
            except BrokerUnavailableError as error:
                outage.began(error, self.log)
                continue
            outage.ended(self.log)
            if result.met:
                return result


def event_of_result(result: ConditionResult) -> dict[str, Any]:
    return {"status": "met", "result": encode(result)}


def event_of_error(error: KafkaSparkError) -> dict[str, Any]:
    return {"status": "error", "fault": encode(Fault.of(error))}


def result_of_event(event: object) -> ConditionResult:
    """Read back what the trigger sent.

    :raises KafkaSparkError: the trigger's error.
    :raises ProtocolError: if it is not an event of this trigger.
    """
    said = event if isinstance(event, dict) else {}
    if said.get("status") == "met":
        return decode(ConditionResult, said.get("result"), name="The result of a trigger's event", remedy=_REMEDY)
    if said.get("status") == "error":
        # A trigger has no job whose logins a message could show.
        raise decode(Fault, said.get("fault"), name="The fault of a trigger's event", remedy=_REMEDY).error(())
    raise ProtocolError(f"The trigger must send an event with the status 'met' or 'error'; got {event!r}. {_REMEDY}")
