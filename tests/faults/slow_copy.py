"""A copy that lasts for seconds: its records, its requests for a first try and for retries."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from pathlib import Path
from uuid import uuid4

from airflow_provider_kafka_spark.core.copies.identity import BatchForm, Binding
from airflow_provider_kafka_spark.core.offsets.offset_range import OffsetRange, OffsetRanges
from airflow_provider_kafka_spark.core.offsets.spans import plan_spans
from airflow_provider_kafka_spark.core.records.trace import Trace
from airflow_provider_kafka_spark.core.streams.checkpoint import Checkpoint, StreamManifest
from airflow_provider_kafka_spark.core.wire.protocol import CopyJob, History, StreamJob, StreamRequest
from airflow_provider_kafka_spark.jobs.write import LEAST_BYTES
from airflow_provider_kafka_spark.state.checkpoint import CheckpointFolder
from airflow_provider_kafka_spark.testing.broker_client import BrokerClient, Record
from tests.faults.cases import Brokers, Case, Fault, Kind, Layout
from tests.faults.proof import Copy
from tests.jobs.runs import SLOW, copy_request

RECORDS, PARTITIONS = 4_000, 2
#: Of one partition.
END = RECORDS // PARTITIONS
_CUT_OFFSETS = {Layout.CUT: 600, Layout.BUNDLES: 50}
_OFFSETS_PER_TRIGGER = 1_000


def new_copy(case: Case, broker: BrokerClient, tell: Callable[[str, object], None]) -> Copy:
    """A copy of a case, and its records."""
    names = [f"{name}-{uuid4().hex[:8]}" for name in ("source", "target")]
    # A replica must have a broker to move to.
    replicas = 2 if case.fault is Fault.PARTITION_REASSIGNED else -1
    source, target = (broker.create_topic(name, PARTITIONS, replication=replicas) for name in names)
    # Retention would delete what is old.
    now = int(time.time() * 1000) - RECORDS
    # Small batches are not passed on, and those that compression makes small.
    rest = LEAST_BYTES // 16 if case.delivery.by_batches else 0
    records = [
        Record(
            b"k%d" % i,
            b"%d" % i,
            (("h", b"%d" % i), ("rest", os.urandom(rest))),
            timestamp=now + i,
            partition=i % PARTITIONS,
        )
        for i in range(RECORDS)
    ]
    broker.produce(source, records, {"batch.num.messages": 20})
    ranges = OffsetRanges(
        OffsetRange(source, p, start, end) for p in range(PARTITIONS) for start, end in _offsets(case.kind, case.layout)
    )
    copied = [r for i, r in enumerate(records) if any(_holds(range_, i) for range_ in ranges)]
    return Copy(broker, _request(case, broker, ranges, target), copied, tell, in_order=case.layout not in _CUT_OFFSETS)


def stream_of(request: CopyJob, folder: CheckpointFolder, source: str, lock: Path) -> CopyJob:
    """The request of the next run of a stream, as the worker makes it from the checkpoint."""
    checkpoint = folder.read()
    manifest = None if checkpoint is None else checkpoint.manifest
    if manifest is None:
        binding = Binding("", source, "", {"target_topic": request.transform.topic})
        form = BatchForm(Trace.HEADERS, True, True, "read_committed", request.delivery)
        starting = {r.topic_partition: r.from_offset for r in request.ranges}
        manifest = StreamManifest(binding, form, request.run_id, starting)
        checkpoint = Checkpoint(0, manifest)
    assert checkpoint is not None
    finished, uncommitted, committed = checkpoint.finished, checkpoint.uncommitted, checkpoint.committed
    last = uncommitted or committed
    unfinished = checkpoint.uncommitted_ranges
    stream = StreamRequest(
        stream_id=manifest.stream_id,
        planned=OffsetRanges(OffsetRange(p.topic, p.partition, start, END) for p, start in finished.items()),
        source={"subscribe": source},
        starting_offsets=json.dumps({source: {str(p): 0 for p in range(PARTITIONS)}}),
        checkpoint=folder.generation_uri(0),
        manifest=manifest.to_json(),
        last_batch=-1 if last is None else last.number,
        lock=folder.lock_uri,
        latest_submission=folder.submission_uri,
        # Its owner is dead or suspended: the worker would watch it for half a minute.
        stale_lock=lock.read_text() if lock.exists() else None,
        owner="task",
        unfinished_batch=None if uncommitted is None else uncommitted.number,
        unfinished_checkpoint=None if uncommitted is None else folder.generation_uri(0),
        max_offsets_per_trigger=_OFFSETS_PER_TRIGGER,
    )
    copied = {field.name: getattr(request, field.name) for field in fields(CopyJob)}
    history = History(uncommitted is not None)
    batch = {"ranges": unfinished, "spans": plan_spans(unfinished), "history": history}
    return StreamJob(**{**copied, **batch}, stream=stream)


def impatient(request: CopyJob) -> CopyJob:
    """Its clients give up soon."""
    soon = {"kafka.request.timeout.ms": "2000", "kafka.default.api.timeout.ms": "4000"}
    producer = {"kafka.delivery.timeout.ms": "4000", "kafka.max.block.ms": "4000", "kafka.request.timeout.ms": "2000"}
    return with_options(request, soon, producer)


def with_options(request: CopyJob, source: Mapping[str, str], sink: Mapping[str, str]) -> CopyJob:
    return replace(
        request,
        source_options={**request.source_options, **source},
        sink_options={**request.sink_options, **sink},
    )


def _request(case: Case, broker: BrokerClient, ranges: OffsetRanges, target: str) -> CopyJob:
    spans = plan_spans(ranges, _CUT_OFFSETS.get(case.layout))
    run_id = os.urandom(8).hex()
    # The broker hands out little at a time, so that a copy lasts for seconds on any machine, and for as long as three
    # brokers need to restart.
    wait_ms = 500 if case.fault is Fault.ROLLING_RESTART else 200 if case.brokers is Brokers.THREE else 60
    return copy_request(
        broker,
        ranges.format(),
        instance=run_id if case.kind is Kind.STREAM else os.urandom(8).hex(),
        submission=int(time.time() * 1000),
        run_id=run_id,
        spans=spans,
        topic=target,
        **({"provenance": "segments", "preserve_partition": True} if case.delivery.by_batches else {}),
        reader=case.delivery.reader,
        source_options={**SLOW, "kafka.fetch.max.wait.ms": str(wait_ms)},
        preserve_order=case.layout not in _CUT_OFFSETS,
        delivery="exactly_once" if case.delivery.is_exactly_once else "at_least_once",
        target_starts={target: {str(p): 0 for p in range(PARTITIONS)}},
    )


def _offsets(kind: Kind, layout: Layout) -> list[tuple[int, int]]:
    """What is copied of each partition."""
    if layout is Layout.MANY_RANGES:
        return [(start, start + (35 if kind is Kind.REPLAY else 50)) for start in range(0, END, 50)]
    if kind is Kind.REPLAY:
        return [(0, 400), (500, 900), (1000, 1400), (1500, END)]
    return [(0, END)]


def _holds(offset_range: OffsetRange, i: int) -> bool:
    """Whether it holds record ``i``."""
    offset, partition = divmod(i, PARTITIONS)
    return offset_range.partition == partition and offset_range.from_offset <= offset < offset_range.until_offset
