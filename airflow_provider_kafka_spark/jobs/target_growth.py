"""The proof at the target itself: it must have grown by what was written.

A producer that Spark has flushed, and that said all is well, may still hold records: ``flush()`` of kafka-clients before 4.2 does not wait for batches that were split because the broker found them
too large (KAFKA-19479), and forgets them if the process ends. Tried with 3.9: 1,001 records "written", none arrived. So neither Spark's success nor its counts are a proof, and a split is avoided
where it can be.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from py4j.protocol import Py4JJavaError

from airflow_provider_kafka_spark.core.errors import DeliveryError
from airflow_provider_kafka_spark.jobs.kafka_admin import KafkaAdmin

_BATCH_SIZE = "kafka.batch.size"
#: How long a producer goes on trying (``delivery.timeout.ms``) by default, in ms.
_DELIVERY_TIMEOUT_MS = 120_000
MARGIN_SECONDS = 10.0


def fitting_batches(admin: KafkaAdmin, targets: Sequence[str], options: Mapping[str, str]) -> dict[str, str]:
    """Sink options whose producer batches are not larger than what every target takes.

    A batch that is too large is split into batches of ``batch.size``: where that is larger itself, the producer splits for ever.
    """
    try:
        largest = admin.largest_messages(targets)
    except Py4JJavaError:
        # No permission to read configurations; the growth of the target still tells.
        return dict(options)
    limit = min(largest.values(), default=None)
    if limit is None or int(options.get(_BATCH_SIZE, 0)) <= limit:
        return dict(options)
    return {**options, _BATCH_SIZE: str(limit)}


class TargetGrowth:
    """How much the targets have grown since this was made.

    Records of other writers count too, so that a loss may hide behind them; without any, it is exact.

    :param options: of the sink.
    """

    def __init__(self, admin: KafkaAdmin, targets: Sequence[str], options: Mapping[str, str]) -> None:
        self._admin = admin
        self._targets = targets
        self._options = options
        self._before = admin.end_offsets(targets)

    def wait_for(self, written: int) -> None:
        """Return when the targets hold so many records more; a producer may still be sending.

        :raises DeliveryError: if they do not within the producer's own time-out.
        """
        timeout = int(self._options.get("kafka.delivery.timeout.ms", _DELIVERY_TIMEOUT_MS)) / 1000 + MARGIN_SECONDS
        deadline = time.monotonic() + timeout
        while (grown := self._admin.end_offsets(self._targets) - self._before) < written:
            if time.monotonic() > deadline:
                raise DeliveryError(
                    f"Spark reports {written:,} records as written to {', '.join(self._targets[:5])}, and the target has grown by only {grown:,} within {timeout:.0f} s: the "
                    f"rest is lost. A record may be larger than the target takes (max.message.bytes), which this Kafka client does not report when it splits a batch. A retry writes only what is "
                    f"missing where provenance_headers=True."
                )
            time.sleep(0.2)
