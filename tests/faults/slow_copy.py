"""A copy that lasts for seconds, and the moment in it at which something goes wrong: the seed decides."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable
from dataclasses import replace
from uuid import uuid4

import pytest

from airflow_provider_kafka_spark.core.protocol import JobRequest
from airflow_provider_kafka_spark.testing.broker_client import BrokerClient, Record
from tests.faults.drivers import request_for, wait_for_copies
from tests.faults.proof import Copy

RECORDS, PARTITIONS = 4_000, 2
#: How often each fault is tried; `make faults` tries more.
ROUNDS = int(os.environ.get("FAULT_ROUNDS", "1"))
SEED = int(os.environ.get("FAULT_SEED", "7"))

each_round = pytest.mark.parametrize("number", range(ROUNDS))


def new_copy(broker: BrokerClient, tell: Callable[[str, object], None], **topic: int) -> Copy:
    """A copy that lasts for some seconds, and its records.

    :param topic: further arguments of ``create_topic``.
    """
    names = (f"{name}-{uuid4().hex[:8]}" for name in ("source", "target"))
    source, target = (broker.create_topic(name, PARTITIONS, **topic) for name in names)
    # Retention would delete what is old.
    now = int(time.time() * 1000) - RECORDS
    records = [
        Record(b"k%d" % i, b"%d" % i, (("h", b"%d" % i),), timestamp=now + i, partition=i % PARTITIONS)
        for i in range(RECORDS)
    ]
    broker.produce(source, records, {"batch.num.messages": 20})
    ranges = [f"{source}:{p}:0:{RECORDS // PARTITIONS}" for p in range(PARTITIONS)]
    audit = {target: {str(p): 0 for p in range(PARTITIONS)}}
    return Copy(broker, request_for(broker, ranges, target, audit_from=audit), records, tell)


def wait_for_moment(copy: Copy, number: int) -> None:
    """Return when as many records are there as the seed says."""
    count = random.Random(SEED * 1000 + number).randrange(1, RECORDS // 2)
    wait_for_copies(copy.broker, copy.target, count)


def impatient(request: JobRequest) -> JobRequest:
    """Its clients give up soon."""
    soon = {"kafka.request.timeout.ms": "2000", "kafka.default.api.timeout.ms": "4000"}
    producer = {"kafka.delivery.timeout.ms": "4000", "kafka.max.block.ms": "4000", "kafka.request.timeout.ms": "2000"}
    return replace(
        request,
        source_options={**request.source_options, **soon},
        sink_options={**request.sink_options, **producer},
    )


def retry(request: JobRequest) -> JobRequest:
    return replace(request, is_retry=True)
