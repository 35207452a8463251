"""Promises of :mod:`airflow_provider_kafka_spark.clients.run_mark`, on the real broker."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import confluent_kafka
import pytest
from confluent_kafka import KafkaError

from airflow_provider_kafka_spark.clients.consumer_group import ConsumerGroup
from airflow_provider_kafka_spark.clients.run_mark import judge_run, remove_progress, run_mark
from airflow_provider_kafka_spark.core.errors import BrokerError, BrokerUnavailableError, RunTakenOverError
from airflow_provider_kafka_spark.core.offsets.offset_range import TopicPartition
from airflow_provider_kafka_spark.core.runs.run_identity import PREFIX, owner_group
from airflow_provider_kafka_spark.core.runs.run_protocol import Mark, MarkState
from airflow_provider_kafka_spark.hooks.kafka import KafkaHook
from airflow_provider_kafka_spark.testing.kafka_broker import KafkaBroker
from airflow_provider_kafka_spark.testing.pytest_plugin import TopicFactory

pytestmark = pytest.mark.broker

_MARK = Mark(5, "token", "run", "key", MarkState.OPEN.value, groups=2, width=3)


@pytest.fixture
def hook(kafka: KafkaBroker) -> Iterator[KafkaHook]:
    with KafkaHook() as opened:
        yield opened


@dataclass
class Run:
    """Submission 5 of a run that no other test has."""

    hook: KafkaHook
    instance: str = field(default_factory=lambda: uuid4().hex[:16])

    def commit(self, marks: dict[str, Mark]) -> None:
        """As drivers did it, by topic."""
        offsets = [confluent_kafka.TopicPartition(topic, 0, 0, mark.to_json()) for topic, mark in marks.items()]
        self.hook.group_consumer(owner_group(self.instance)).commit(offsets=offsets, asynchronous=False)

    def marks(self, *topics: str) -> list[Mark | None]:
        """The mark at each topic."""
        asked = [confluent_kafka.TopicPartition(topic, 0) for topic in topics]
        found = self.hook.group_consumer(owner_group(self.instance)).committed(asked, timeout=30)
        return [Mark.from_json(p.metadata) if p.offset >= 0 else None for p in found]

    def judge(self, *topics: str, proved: bool = True) -> None:
        judge_run(self.hook, self.instance, 5, "run", list(topics), proved=proved)


@pytest.fixture
def run(hook: KafkaHook) -> Run:
    return Run(hook)


@pytest.fixture
def run_without_brokers(connection: Callable[..., None], closed_port: int) -> Iterator[Run]:
    connection("kafka_default", extra={"bootstrap.servers": f"127.0.0.1:{closed_port}"})
    with KafkaHook(timeout=1) as hook:
        yield Run(hook)


@pytest.mark.parametrize(
    ("proved", "state"),
    [pytest.param(True, MarkState.FINISHED, id="proved"), pytest.param(False, MarkState.OPENING, id="not-proved")],
)
def test_the_mark_says_what_the_worker_found(run: Run, topic: TopicFactory, proved: bool, state: MarkState) -> None:
    """The next driver counts only, or reads the target back; all else that the driver committed stays."""
    target = topic()
    run.commit({target: _MARK})

    run.judge(target, proved=proved)

    assert run.marks(target) == [replace(_MARK, state=state.value)]


@pytest.mark.parametrize("proved", [True, False])
@pytest.mark.parametrize(
    "mark",
    [
        pytest.param(replace(_MARK, number=6), id="later-submission"),
        pytest.param(replace(_MARK, run_id="other"), id="same-number-of-another-run"),
    ],
)
def test_the_mark_of_another_submission_stays(run: Run, topic: TopicFactory, mark: Mark, proved: bool) -> None:
    """It has the run, and what this worker knows says nothing of what the other one delivered."""
    target = topic()
    run.commit({target: mark})

    with pytest.raises(RunTakenOverError, match=f"submission {mark.number} of run {mark.run_id} has it"):
        run.judge(target, proved=proved)

    assert run.marks(target) == [mark]


def test_without_a_mark_there_is_nothing_to_judge(run: Run, topic: TopicFactory) -> None:
    """A login that may not commit one has written at least once; the worker leaves none behind."""
    target = topic()

    run.judge(target)

    assert run.marks(target) == [None]


def test_marks_at_several_topics_are_all_judged(run: Run, topic: TopicFactory) -> None:
    """An older one would count again if the topic of the newer one were deleted; where none is, none is made."""
    newer, older, unmarked = (topic(suffix=name) for name in ("newer", "older", "unmarked"))
    run.commit({older: replace(_MARK, number=4, token="earlier"), newer: _MARK})

    run.judge(unmarked, older, newer)

    finished = replace(_MARK, state=MarkState.FINISHED.value)
    assert run.marks(newer, older, unmarked) == [finished, finished, None]


def test_the_number_of_the_mark_is_known_where_the_targets_are(run: Run, topic: TopicFactory) -> None:
    """The highest one, which the next submission has to exceed; no mark means that nobody has claimed the run."""
    older, newer = topic(suffix="older"), topic(suffix="newer")

    assert run_mark(run.hook, run.instance, [older, newer]) is None
    run.commit({older: replace(_MARK, number=4), newer: _MARK})
    assert run_mark(run.hook, run.instance, [older, newer]) == _MARK
    assert run_mark(run.hook, run.instance, []) is None


def test_a_number_that_brokers_do_not_say_is_an_error(run_without_brokers: Run) -> None:
    """Nothing is submitted by then."""
    with pytest.raises(BrokerUnavailableError):
        run_mark(run_without_brokers.hook, run_without_brokers.instance, ["copy"])


@pytest.mark.parametrize(
    ("code", "says"), [(KafkaError.UNSTABLE_OFFSET_COMMIT, None), (KafkaError.TOPIC_AUTHORIZATION_FAILED, "nothing")]
)
def test_a_mark_that_brokers_do_not_say_is_not_absent(
    run: Run, topic: TopicFactory, monkeypatch: pytest.MonkeyPatch, code: int, says: str | None
) -> None:
    """The answer for a topic may be an error, as while a transaction is open there."""
    newer, older = topic(suffix="newer"), topic(suffix="older")
    run.commit({older: replace(_MARK, number=4), newer: _MARK})
    consumer = run.hook.group_consumer(owner_group(run.instance))

    def committed(asked: list[confluent_kafka.TopicPartition], timeout: float) -> list[Any]:
        found = consumer.committed(asked, timeout=timeout)
        return [
            SimpleNamespace(topic=p.topic, offset=-1001, metadata=None, error=KafkaError(code))
            if p.topic == newer
            else p
            for p in found
        ]

    monkeypatch.setattr(run.hook, "group_consumer", lambda _: SimpleNamespace(committed=committed))
    if says is None:
        with pytest.raises(BrokerError):
            run_mark(run.hook, run.instance, [older, newer])
    else:
        assert run_mark(run.hook, run.instance, [older, newer]) is None


def test_brokers_that_are_away_do_not_fail_a_delivery(
    run_without_brokers: Run, caplog: pytest.LogCaptureFixture
) -> None:
    """It is proved by then; the next driver looks at the committed progress, or at the target."""
    with caplog.at_level(logging.WARNING):
        run_without_brokers.judge("copy")

    assert "The mark of the run could not be read" in caplog.text


def test_progress_is_removed_as_far_as_it_is_there(hook: KafkaHook, topic: TopicFactory) -> None:
    """It is tidied up after a success, and nothing depends on it."""
    partition, group = TopicPartition(topic(), 0), f"{PREFIX}{uuid4().hex[:16]}-task"
    ConsumerGroup(hook, group).commit({partition: 5})

    remove_progress(hook, [group, f"{PREFIX}unknown"])

    assert ConsumerGroup(hook, group).committed([partition]) == {}
