"""A shop's orders, as the end-to-end tests copy them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from airflow_provider_kafka_spark.testing.broker_client import Record
from airflow_provider_kafka_spark.testing.kafka_broker import KafkaBroker


@dataclass(frozen=True)
class Shop:
    """A topic of orders that end two hours ago, 1,000 in each of 24 hours, and empty topics to copy to."""

    broker: KafkaBroker
    end: datetime
    orders: list[Record]

    def of_hours(self, first: datetime, hours: int) -> dict[tuple[str, int, int], Record]:
        """The orders of so many hours by source topic, partition and offset."""
        start, end = (int(m.timestamp() * 1000) for m in (first, first + timedelta(hours=hours)))
        return {
            ("orders", r.partition, r.offset): r
            for r in self.orders
            if r.timestamp is not None and start <= r.timestamp < end
        }
