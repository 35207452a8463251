"""Records and tries of runs, as the tests of exactly once use them: tries that stand still, fail, or are cleared."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

import pytest
from pyspark import InheritableThread

from airflow_provider_kafka_spark.core.offsets.offset_range import OffsetRanges
from airflow_provider_kafka_spark.core.offsets.spans import plan_spans
from airflow_provider_kafka_spark.core.records.trace import Trace
from airflow_provider_kafka_spark.core.spark.tuning import sink_defaults, source_defaults
from airflow_provider_kafka_spark.core.wire.protocol import CopyJob, History, How, Submission, Transform
from airflow_provider_kafka_spark.testing.broker_client import BrokerClient, Record
from airflow_provider_kafka_spark.testing.kafka_broker import KafkaBroker
from tests.operators.copy_task import large as large
from tests.waiting import until

_SECONDS = 120.0
#: The broker hands out one batch of a partition at a time, and waits before it does.
SLOW = {"kafka.fetch.min.bytes": "1000000", "kafka.fetch.max.wait.ms": "200", "kafka.max.partition.fetch.bytes": "1"}
#: A transaction for so many records.
SMALL_COMMITS = 50
#: Settings of a target that refuses :func:`large`; and the change by which it takes it.
REFUSES_LARGE, TAKES_LARGE = {"max.message.bytes": "20000"}, {"max.message.bytes": "1000000"}


def copy_request(
    broker: BrokerClient | None, ranges: Sequence[str], *, instance: str, submission: int, run_id: str, **options: Any
) -> CopyJob:
    """The request of a copy.

    :param broker: of source and target; None if their options say where they are.
    :param options: fields of the request, of its transform, of how it is done, and of what is known of the run; further
        options of source and sink.
    """
    parsed = OffsetRanges.parse(ranges)
    spans = options.pop("spans", None) or plan_spans(parsed)
    at_ms = options.pop("submitted_at_ms", int(time.time() * 1000))
    has_begun = options.pop("is_retry", False)
    untrusted_until = options.pop("untrusted_until", 0)
    known = {name: options.pop(name) for name in list(options) if name in History.__dataclass_fields__}
    how = How(**{name: options.pop(name) for name in list(options) if name in How.__dataclass_fields__})
    provenance = options.pop("provenance", Trace.HEADERS)
    login = {} if broker is None else {"kafka.bootstrap.servers": broker.bootstrap_servers}
    source_options, sink_options = options.pop("source_options", {}), options.pop("sink_options", {})
    request_fields = {name: options.pop(name) for name in list(options) if name in CopyJob.__dataclass_fields__}
    return CopyJob(
        run_id=run_id,
        instance=instance,
        submission=Submission(submission, at_ms, untrusted_until),
        history=History(has_begun, **known),
        plan_digest=" ".join(parsed.format()),
        ranges=parsed,
        spans=spans,
        transform=Transform(provenance=Trace(provenance), **options),
        how=how,
        source_options={**source_defaults(spans, read_committed=True), **login, **source_options},
        sink_options={**sink_defaults(), **login, **sink_options},
        **request_fields,
    )


def numbered(count: int, start: int = 0, partition: int | None = None) -> list[Record]:
    return [Record(b"k%d" % i, b"%d" % i, partition=partition) for i in range(start, start + count)]


def values(broker: KafkaBroker, topic: str) -> list[bytes | None]:
    """What a reader of committed records sees."""
    return [record.value for record in broker.consume(topic)]


def numbers(broker: KafkaBroker, topic: str) -> list[int]:
    """The values that a reader of committed records sees, sorted; each a number."""
    return sorted(int(value or b"") for value in values(broker, topic))


def wait_for_copies(broker: KafkaBroker, topic: str, count: int) -> None:
    """Return when a reader of committed records sees so many."""
    until(lambda: len(values(broker, topic)) >= count, f"{count} copies in {topic}", _SECONDS)


def in_background(run: Callable[[], Any]) -> Future[Any]:
    """The result of a function that runs in a thread of its own."""
    result: Future[Any] = Future()

    def target() -> None:
        try:
            result.set_result(run())
        except BaseException as error:  # noqa: BLE001 - the test raises it
            result.set_exception(error)

    InheritableThread(target=target, daemon=True).start()
    return result


@dataclass
class Pause:
    """A thread that is started by :meth:`start` stands still before a method is called for it the first time."""

    _reached: threading.Event = field(default_factory=threading.Event)
    _goes_on: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def start(self, run: Callable[[], Any]) -> Future[Any]:
        """Run a function, and return when it stands still."""

        def paused() -> Any:
            self._thread = threading.current_thread()
            return run()

        result = in_background(paused)
        deadline = time.monotonic() + _SECONDS
        while not self._reached.wait(0.05):
            assert not result.done(), result.exception()
            assert time.monotonic() < deadline
        return result

    def end(self) -> None:
        """Let it go on."""
        self._goes_on.set()

    def before(self, method: Callable[..., Any]) -> Callable[..., Any]:
        """The method, with the pause."""

        def pausing(*arguments: Any, **options: Any) -> Any:
            if threading.current_thread() is self._thread and not self._reached.is_set():
                self._reached.set()
                assert self._goes_on.wait(_SECONDS)
            return method(*arguments, **options)

        return pausing


def pause(monkeypatch: pytest.MonkeyPatch, place: object, name: str) -> Pause:
    """A pause before a function of a module, or a method of a class."""
    found = Pause()
    monkeypatch.setattr(place, name, found.before(getattr(place, name)))
    return found
