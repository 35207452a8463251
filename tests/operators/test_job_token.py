"""Spark jobs that log in with a delegation token of their own.

They run in the tests' own Spark; that a driver of its own logs in so is shown with the other logins, and here that a
kill ends both it and its tokens.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException

from airflow_provider_kafka_spark.core.errors import (
    BrokerAuthenticationError,
    BrokerAuthorizationError,
    BrokerUnavailableError,
    DataLossError,
    DuplicateRecordsError,
    ExpressionError,
    JobFailedError,
    JobKilledError,
    JobTokenEndedError,
    KafkaSparkError,
)
from airflow_provider_kafka_spark.core.tokens.delegation_token import DelegationToken, TokenInfo
from airflow_provider_kafka_spark.core.tokens.token_selection import TokenSelection
from airflow_provider_kafka_spark.hooks.delegation_token import DelegationTokenHook
from airflow_provider_kafka_spark.operators import job_tokens
from airflow_provider_kafka_spark.operators.available_now import KafkaToKafkaAvailableNowOperator
from airflow_provider_kafka_spark.operators.batch import KafkaToKafkaBatchOperator
from airflow_provider_kafka_spark.operators.replay import ReplayOffsetRangesOperator
from airflow_provider_kafka_spark.submission import spark_submission
from airflow_provider_kafka_spark.testing.kafka_broker import KafkaBroker, Record
from tests.airflow_fakes import TaskStateStore, task_context
from tests.in_process_jobs import InProcessSpark
from tests.operators.conftest import RecordingSpark, Traces

pytestmark = [pytest.mark.broker, pytest.mark.spark]

#: A second for each record of the topic "slow": a broker waits so long for more, then hands out a batch of one record.
SLOW = {"kafka.fetch.min.bytes": 1_000_000, "kafka.fetch.max.wait.ms": 1_000, "kafka.max.partition.fetch.bytes": 1}
#: How long such a copy takes, and how long a token lives that ends before it: a busy machine may take some seconds for
#: each login.
SECONDS, SHORT_MS = 13, 10_000
#: Likewise for a job that outlives its token: each renewal has much of this time.
LONG_SECONDS, RENEWED_MS = 24, 20_000


@pytest.fixture(scope="module")
def broker() -> Iterator[KafkaBroker]:
    users = {"alice": "password-of-alice", "bob": "password-of-bob"}
    with KafkaBroker(sasl_users=users, properties={"delegation.token.expiry.check.interval.ms": "1000"}) as running:
        copies = ("copy", "by_stream", "by_replay", "too_slow_copy", "killed_copy", "longest_copy")
        for name in ("orders", "slow", "longest", *copies):
            running.create_topic(name, 1)
        running.produce("orders", [Record(b"k", b"v%d" % i) for i in range(100)])
        for name, seconds in (("slow", SECONDS), ("longest", LONG_SECONDS)):
            running.produce(name, [Record(b"k", b"v%d" % i) for i in range(seconds)], {"batch.num.messages": 1})
        yield running


@pytest.fixture(autouse=True)
def connections(broker: KafkaBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    alice = broker.sasl_client_config("alice")
    extras = {
        "kafka_default": alice,
        "bob": broker.sasl_client_config("bob"),
        "short": {**alice, "delegation.token.max.lifetime.ms": SHORT_MS},
    }
    for name, extra in extras.items():
        monkeypatch.setenv(f"AIRFLOW_CONN_{name.upper()}", json.dumps({"conn_type": "kafka", "extra": extra}))
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps({"conn_type": "spark", "host": "local[1]"}))


LivingTokens = Callable[[], list[TokenInfo]]


@pytest.fixture(scope="module")
def admin(broker: KafkaBroker) -> Iterator[DelegationTokenHook]:
    """The tests' own, which has a JVM."""
    with pytest.MonkeyPatch.context() as patch:
        alice = {"conn_type": "kafka", "extra": broker.sasl_client_config("alice")}
        patch.setenv("AIRFLOW_CONN_KAFKA_DEFAULT", json.dumps(alice))
        with DelegationTokenHook() as hook:
            yield hook


@pytest.fixture
def living_tokens(admin: DelegationTokenHook) -> LivingTokens:
    def look() -> list[TokenInfo]:
        now_ms = admin.now_ms()
        return [t for t in admin.describe() if t.remaining_ms(now_ms) > 0]

    return look


def run(operator: Any) -> dict[str, Any]:
    result: dict[str, Any] = operator.execute(task_context())
    return result


def copy(**parameters: Any) -> KafkaToKafkaBatchOperator:
    given = {"topics": ["orders"], "target_topic": "copy", "use_delegation_token": True, **parameters}
    return KafkaToKafkaBatchOperator(task_id="t", **given)


def slow_copy(target: str, source: str = "slow", **parameters: Any) -> KafkaToKafkaBatchOperator:
    return copy(topics=[source], target_topic=target, source_options=SLOW, **parameters)


@pytest.mark.long
def test_spark_gets_the_token_and_not_the_login(recording_spark: RecordingSpark, living_tokens: LivingTokens) -> None:
    """And for the cluster that is asked for only."""
    with pytest.raises(KafkaSparkError, match="without leaving its report"):
        run(copy(target_conn_id="bob", use_delegation_token="source"))
    (request,) = recording_spark.requests
    assert 'tokenauth="true"' in request.source_options["kafka.sasl.jaas.config"]
    assert "password-of-alice" not in request.to_json()
    assert 'username="bob" password="password-of-bob"' in request.sink_options["kafka.sasl.jaas.config"]
    assert living_tokens() == []


@pytest.mark.parametrize(
    "target", ["by_stream", *(pytest.param(n, marks=pytest.mark.long) for n in ("copy", "by_replay"))]
)
def test_each_operator_by_a_token(
    broker: KafkaBroker,
    tmp_path: Path,
    traces: Traces,
    in_process_spark: InProcessSpark,
    living_tokens: LivingTokens,
    target: str,
) -> None:
    """A batch and an audit by one are among the tests of permissions."""
    common: dict[str, Any] = {"task_id": "t", "target_topic": target, "use_delegation_token": True}
    stream = {"starting_offsets": "earliest", "checkpoint_location": str(tmp_path / "checkpoint")}
    operators: dict[str, Any] = {
        "copy": copy(target_conn_id="bob", min_token_lifetime=60),
        "by_stream": KafkaToKafkaAvailableNowOperator(topics=["orders"], **stream, **common),
        "by_replay": ReplayOffsetRangesOperator(offset_ranges=["orders:0:0:100"], **common),
    }
    assert run(operators[target])["records_written"] == 100
    assert len(broker.consume(target)) == 100
    assert in_process_spark.jobs == ["available_now" if target == "by_stream" else "batch"]
    assert living_tokens() == []
    assert traces.files == []


@pytest.mark.long
def test_a_job_that_fails_leaves_no_token(
    traces: Traces, in_process_spark: InProcessSpark, living_tokens: LivingTokens
) -> None:
    with pytest.raises(AirflowFailException, match="USER_RAISED_EXCEPTION"):
        run(slow_copy("killed_copy", where="assert_true(false) IS NULL"))
    assert in_process_spark.jobs == ["batch"]
    assert living_tokens() == []
    assert traces.files == []


@dataclass
class KillsWhenItRuns(TaskStateStore):
    """Kills the task as Airflow does when it is cleared or times out: as soon as its application is known."""

    operator: KafkaToKafkaBatchOperator | None = None

    def set(self, key: str, value: Any, *, retention: timedelta | None = None) -> None:
        super().set(key, value, retention=retention)
        if isinstance(value, dict) and value.get("application_id"):
            assert self.operator is not None
            self.operator.on_kill()


@pytest.mark.long
def test_tokens_end_while_spark_is_being_ended(
    monkeypatch: pytest.MonkeyPatch, traces: Traces, living_tokens: LivingTokens
) -> None:
    """By real ``spark-submit``. Airflow waits 5 s for a task that it kills, and Spark alone may take longer."""
    end_group, left = spark_submission.end_group, list[list[TokenInfo]]()

    def end_when_the_tokens_have(group: int) -> None:
        deadline = time.monotonic() + 60
        while (living := living_tokens()) and time.monotonic() < deadline:
            time.sleep(0.2)
        left.append(living)
        end_group(group)

    monkeypatch.setattr(spark_submission, "end_group", end_when_the_tokens_have)
    operator = slow_copy("killed_copy", target_conn_id="bob")
    with pytest.raises(JobKilledError):
        operator.execute(task_context(KillsWhenItRuns(operator=operator)))  # type: ignore[arg-type]
    assert left[0] == living_tokens() == []
    assert (traces.files, traces.processes) == ([], [])


@pytest.mark.long
def test_the_token_of_a_worker_that_was_killed_is_expired_by_the_next_try(
    broker: KafkaBroker, living_tokens: LivingTokens
) -> None:
    memory = TaskStateStore()
    config = DelegationTokenHook().config
    first = job_tokens.JobTokens([config], state_store=memory)
    first.__enter__()
    (left,) = living_tokens()
    with job_tokens.JobTokens([config], state_store=memory):
        (living,) = living_tokens()
        assert living != left
    assert living_tokens() == []
    # What is gone is no error to anybody.
    first.close()


def test_a_token_that_somebody_ends_is_named(
    broker: KafkaBroker, monkeypatch: pytest.MonkeyPatch, living_tokens: LivingTokens, admin: DelegationTokenHook
) -> None:
    """Whatever the job's failure is called: Spark may have been logging in, or looking for the topic."""
    monkeypatch.setattr(job_tokens, "RENEW_PERIOD_MS", 60_000)
    # The first renewal is tried after a second, long before its end.
    monkeypatch.setattr(job_tokens, "RENEW_AT", 0.01)
    config = DelegationTokenHook().config
    with job_tokens.JobTokens([config], state_store=TaskStateStore()) as tokens:
        _expire(admin, living_tokens())
        with pytest.raises(JobTokenEndedError, match="was ended before the job failed: it was expired by others"):
            _explain_for(tokens, seconds=60)
    assert living_tokens() == []


def _expire(hook: DelegationTokenHook, tokens: list[TokenInfo]) -> None:
    hook.expire(TokenSelection(token_ids=tuple(token.token_id for token in tokens)))


def _explain_for(tokens: job_tokens.JobTokens, seconds: float) -> None:
    """What a renewal has to find out first is explained only then."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        tokens.explain(BrokerAuthenticationError("The brokers refused the job's login"))
        time.sleep(0.1)


@pytest.mark.long
def test_a_token_that_lives_is_no_cause(monkeypatch: pytest.MonkeyPatch) -> None:
    """Though a renewal was refused: it is tried again, and the job's own failure is what it is."""
    monkeypatch.setattr(job_tokens, "RENEW_PERIOD_MS", 60_000)
    # After a second.
    monkeypatch.setattr(job_tokens, "RENEW_AT", 0.01)
    monkeypatch.setattr(job_tokens, "AGAIN_SECONDS", 0.1)
    renew, refused, renewed = DelegationTokenHook.renew_token, threading.Event(), list[TokenInfo]()

    def refuses_once(hook: DelegationTokenHook, token: DelegationToken, period_ms: int) -> TokenInfo:
        if not refused.is_set():
            refused.set()
            raise BrokerAuthorizationError("Not now")
        renewed.append(renew(hook, token, period_ms))
        return renewed[-1]

    monkeypatch.setattr(DelegationTokenHook, "renew_token", refuses_once)
    with job_tokens.JobTokens([DelegationTokenHook().config], state_store=TaskStateStore()) as tokens:
        deadline = time.monotonic() + 60
        # Again and again: after the one that was refused, and after the one that was not.
        while len(renewed) < 2:
            tokens.explain(BrokerAuthenticationError("The brokers refused the job's login"))
            assert time.monotonic() < deadline
            time.sleep(0.02)
        assert renewed[0].issue_ms + 60_000 < renewed[0].expiry_ms < renewed[1].expiry_ms


@pytest.mark.long
def test_only_what_a_lost_login_looks_like_is_laid_to_a_token() -> None:
    """What is final by itself would fail again, with the next token too."""
    late = [0]
    config = DelegationTokenHook().config
    with job_tokens.JobTokens([config], state_store=TaskStateStore(), clock=lambda: time.time() + late[0]) as tokens:
        late[0] = 7200
        for kind in (BrokerAuthenticationError, BrokerAuthorizationError, BrokerUnavailableError, JobFailedError):
            with pytest.raises(JobTokenEndedError, match="it could not be renewed"):
                tokens.explain(kind("The job's own words"))
        for kind in (ExpressionError, DataLossError, DuplicateRecordsError):
            tokens.explain(kind("The job's own words"))


@pytest.mark.long
def test_what_hinders_the_end_of_a_token_does_not_fail_the_job(
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    living_tokens: LivingTokens,
    admin: DelegationTokenHook,
) -> None:
    """Its records are delivered."""

    def fails(*_: object) -> None:
        raise ValueError("anything")

    tokens = job_tokens.JobTokens([DelegationTokenHook().config], state_store=TaskStateStore())
    with monkeypatch.context() as patch, tokens:
        patch.setattr(DelegationTokenHook, "expire_token", fails)
    assert "could not be expired; it ends at" in caplog.text
    _expire(admin, living_tokens())


@pytest.mark.long
def test_a_job_that_outlives_its_token(
    in_process_spark: InProcessSpark,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    living_tokens: LivingTokens,
) -> None:
    """It is renewed, and goes on."""
    caplog.set_level(logging.INFO)
    monkeypatch.setattr(job_tokens, "RENEW_PERIOD_MS", RENEWED_MS)
    # After 2 s: a busy machine may take long for a renewal.
    monkeypatch.setattr(job_tokens, "RENEW_AT", 0.1)
    result = run(slow_copy("longest_copy", "longest"))
    assert in_process_spark.jobs == ["batch"]
    assert result["records_written"] == LONG_SECONDS
    assert result["seconds"] > LONG_SECONDS - 1 > RENEWED_MS / 1000
    assert caplog.text.count("Renewed the job's delegation token") >= 2
    assert living_tokens() == []


@pytest.mark.long
def test_a_job_whose_token_cannot_be_renewed_any_more(
    in_process_spark: InProcessSpark, living_tokens: LivingTokens
) -> None:
    """The same job on a token that does not live so long: its end is named, in place of a time-out."""
    names = ("kafka.delivery.timeout.ms", "kafka.request.timeout.ms", "kafka.max.block.ms")
    sink_options = dict(zip(names, (5_000, 4_000, 4_000), strict=True))
    with pytest.raises(JobTokenEndedError, match=r"ended at .* it had reached its maximum time") as caught:
        run(slow_copy("too_slow_copy", source_conn_id="short", sink_options=sink_options))
    assert caught.value.retriable
    assert "password-of-alice" not in str(caught.value)
    assert living_tokens() == []


@pytest.mark.long
def test_what_is_refused_leaves_no_token(
    broker: KafkaBroker, monkeypatch: pytest.MonkeyPatch, recording_spark: RecordingSpark, living_tokens: LivingTokens
) -> None:
    plain = {"conn_type": "kafka", "extra": {"bootstrap.servers": broker.bootstrap_servers}}
    monkeypatch.setenv("AIRFLOW_CONN_PLAIN", json.dumps(plain))
    short = {"source_conn_id": "short", "min_token_lifetime": timedelta(hours=2)}
    refused: list[tuple[dict[str, Any], str]] = [
        (short, r"min_token_lifetime wants .* 2 h; the broker gives one for 10 s"),
        ({"target_conn_id": "plain"}, r"connection 'plain' is PLAINTEXT.*say 'source'"),
        ({"use_delegation_token": "both"}, "use_delegation_token must be True"),
        ({"use_delegation_token": False, "min_token_lifetime": 60}, "use_delegation_token=True"),
        ({"use_delegation_token": "spark", "min_token_lifetime": 60}, "Spark renews them. Leave it out"),
        ({"use_delegation_token": True, "min_token_lifetime": 0}, "greater than 0"),
    ]
    for parameters, message in refused:
        with pytest.raises(AirflowFailException, match=message):
            run(copy(**parameters))
    assert recording_spark.requests == []
    assert living_tokens() == []
