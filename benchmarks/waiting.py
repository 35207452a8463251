"""Many triggers in one event loop, as in a triggerer, in a separate process to count its clients and threads.

``python -m benchmarks.waiting KIND COUNT TOPIC RESULT``: RESULT gets a line with the time at which each trigger fired.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

OURS, PEER = "ours", "await-message"
#: The interval of both, in seconds.
INTERVAL = 1.0


def main(argv: Sequence[str]) -> None:
    kind, count, topic, result = argv
    asyncio.run(_wait(kind, int(count), topic, Path(result)))


async def _wait(kind: str, count: int, topic: str, result: Path) -> None:
    result.write_text("")

    async def one() -> None:
        async for _ in _trigger(kind, topic).run():
            with result.open("a") as file:
                file.write(f"{time.time()}\n")

    await asyncio.gather(*(one() for _ in range(count)))


def _trigger(kind: str, topic: str) -> Any:
    if kind == OURS:
        from airflow_provider_kafka_spark.core.conditions.new_records import NewRecords
        from airflow_provider_kafka_spark.triggers.condition import KafkaConditionTrigger

        condition = NewRecords.parse(topics=[topic], since="earliest").to_json()
        return KafkaConditionTrigger("kafka_default", condition, INTERVAL, 30.0)
    from airflow.providers.apache.kafka.triggers.await_message import AwaitMessageTrigger

    return AwaitMessageTrigger(
        topics=[topic], kafka_config_id="kafka_default", poll_timeout=INTERVAL, poll_interval=INTERVAL
    )


if __name__ == "__main__":
    main(sys.argv[1:])
