"""Spark jobs that log in with a delegation token of their own, by real ``spark-submit``."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace
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
    DelegationTokenError,
    DuplicateRecordsError,
    ExpressionError,
    JobFailedError,
    JobKilledError,
    JobTokenEndedError,
    KafkaSparkError,
)
from airflow_provider_kafka_spark.core.logins.delegation_token import DelegationToken, TokenInfo
from airflow_provider_kafka_spark.hooks import job_tokens
from airflow_provider_kafka_spark.hooks.delegation_token import DelegationTokenHook
from airflow_provider_kafka_spark.hooks.submission import spark_submission
from airflow_provider_kafka_spark.operators.available_now import KafkaToKafkaAvailableNowOperator
from airflow_provider_kafka_spark.operators.batch import KafkaToKafkaBatchOperator
from airflow_provider_kafka_spark.operators.replay import ReplayOffsetRangesOperator
from airflow_provider_kafka_spark.testing.kafka_broker import KafkaBroker, Record
from tests.airflow_fakes import TaskStateStore, task_context
from tests.operators.conftest import RecordingSpark, Traces

pytestmark = [pytest.mark.broker, pytest.mark.spark]

#: Keeps every record, and takes a second for each. That it looks at the record keeps Spark from asking once for all.
SLOW = "coalesce(java_method('java.util.concurrent.locks.LockSupport', 'parkNanos', 1000000000L + offset), 'null') = 'null'"


@pytest.fixture(scope="module")
def broker() -> Iterator[KafkaBroker]:
    users = {"alice": "password-of-alice", "bob": "password-of-bob"}
    with KafkaBroker(sasl_users=users, properties={"delegation.token.expiry.check.interval.ms": "1000"}) as running:
        for name in ("orders", "copy", "by_stream", "by_replay", "slow", "slow_copy", "too_slow_copy", "killed_copy"):
            running.create_topic(name, 1)
        running.produce("orders", [Record(b"k", b"v%d" % i) for i in range(100)])
        running.produce("slow", [Record(b"k", b"v%d" % i) for i in range(60)])
        yield running


@pytest.fixture(autouse=True)
def connections(broker: KafkaBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    alice = broker.sasl_client_config("alice")
    extras = {
        "kafka_default": alice,
        "bob": broker.sasl_client_config("bob"),
        "short": {**alice, "delegation.token.max.lifetime.ms": 30_000},
    }
    for name, extra in extras.items():
        monkeypatch.setenv(f"AIRFLOW_CONN_{name.upper()}", json.dumps({"conn_type": "kafka", "extra": extra}))
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps({"conn_type": "spark", "host": "local[1]"}))


def living_tokens() -> list[str]:
    with DelegationTokenHook() as hook:
        now_ms = hook.now_ms()
        return [str(t) for t in hook.describe() if t.remaining_ms(now_ms) > 0]


def run(operator: Any) -> dict[str, Any]:
    result: dict[str, Any] = operator.execute(task_context())
    return result


def test_spark_gets_the_token_and_not_the_login(recording_spark: RecordingSpark) -> None:
    """And for the cluster that is asked for only."""
    with pytest.raises(KafkaSparkError, match="without leaving its report"):
        run(
            KafkaToKafkaBatchOperator(
                task_id="t",
                topics=["orders"],
                target_topic="copy",
                target_conn_id="bob",
                use_delegation_token="source",
            )
        )
    (request,) = recording_spark.requests
    assert 'tokenauth="true"' in request.source_options["kafka.sasl.jaas.config"]
    assert "password-of-alice" not in request.to_json()
    assert 'username="bob" password="password-of-bob"' in request.sink_options["kafka.sasl.jaas.config"]
    assert living_tokens() == []


def test_each_operator_by_a_token(broker: KafkaBroker, tmp_path: Path, traces: Traces) -> None:
    common: dict[str, Any] = {"task_id": "t", "use_delegation_token": True}
    operators: dict[str, Any] = {
        "copy": KafkaToKafkaBatchOperator(
            topics=["orders"], target_topic="copy", target_conn_id="bob", min_token_lifetime=60, **common
        ),
        "by_replay": ReplayOffsetRangesOperator(offset_ranges=["orders:0:0:100"], target_topic="by_replay", **common),
        "by_stream": KafkaToKafkaAvailableNowOperator(
            topics=["orders"],
            target_topic="by_stream",
            starting_offsets="earliest",
            checkpoint_location=str(tmp_path / "checkpoint"),
            **common,
        ),
    }
    for target, operator in operators.items():
        assert run(operator)["records_written"] == 100
        assert len(broker.consume(target)) == 100
    assert living_tokens() == []
    assert (traces.files, traces.processes) == ([], [])


@pytest.mark.parametrize("killed", [False, True], ids=["fails", "is-killed"])
def test_a_job_that_does_not_succeed_leaves_no_token(killed: bool, traces: Traces) -> None:
    operator = KafkaToKafkaBatchOperator(
        task_id="t",
        topics=["slow"],
        target_topic="killed_copy",
        where=SLOW if killed else "assert_true(false) IS NULL",
        use_delegation_token=True,
        progress_seconds=1,
    )
    if killed:
        # As Airflow does when a task is cleared or times out.
        operator._on_event = lambda *_: operator.on_kill()  # type: ignore[method-assign]
    with pytest.raises(JobKilledError if killed else AirflowFailException):
        run(operator)
    assert living_tokens() == []
    assert (traces.files, traces.processes) == ([], [])


def test_tokens_end_while_spark_is_being_ended(monkeypatch: pytest.MonkeyPatch, traces: Traces) -> None:
    """Airflow waits 5 s for a task that it kills, and Spark alone may take longer."""
    end_group, left = spark_submission.end_group, list[list[str]]()

    def end_when_the_tokens_have(group: int) -> None:
        deadline = time.monotonic() + 60
        while (living := living_tokens()) and time.monotonic() < deadline:
            time.sleep(0.2)
        left.append(living)
        end_group(group)

    monkeypatch.setattr(spark_submission, "end_group", end_when_the_tokens_have)
    operator = KafkaToKafkaBatchOperator(
        task_id="t",
        topics=["slow"],
        target_topic="killed_copy",
        target_conn_id="bob",
        where=SLOW,
        use_delegation_token=True,
    )
    operator._on_event = lambda *_: operator.on_kill()  # type: ignore[method-assign]
    with pytest.raises(JobKilledError):
        run(operator)
    assert left[0] == []
    assert (traces.files, traces.processes) == ([], [])


def test_the_token_of_a_worker_that_was_killed_is_expired_by_the_next_try(broker: KafkaBroker) -> None:
    memory = TaskStateStore()
    config = DelegationTokenHook().config
    first = job_tokens.JobTokens([config], memory=memory)
    first.__enter__()
    (left,) = living_tokens()
    with job_tokens.JobTokens([config], memory=memory):
        (living,) = living_tokens()
        assert living != left
    assert living_tokens() == []
    # What is gone is no error to anybody.
    first.close()


def test_a_token_that_somebody_ends_is_named(broker: KafkaBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the job's failure is called: Spark may have been logging in, or looking for the topic."""
    monkeypatch.setattr(job_tokens, "LEASE_MS", 60_000)
    # The first renewal is tried after 3 s, long before its end.
    monkeypatch.setattr(job_tokens, "RENEW_AT", 0.05)
    config = DelegationTokenHook().config
    with job_tokens.JobTokens([config], memory=TaskStateStore()) as tokens:
        (lease,) = tokens._leases.values()
        with DelegationTokenHook() as hook:
            hook.expire_token(lease._token)
        deadline = time.monotonic() + 60
        while lease._thread.is_alive() and time.monotonic() < deadline:
            time.sleep(0.2)
        with pytest.raises(JobTokenEndedError, match="was ended before the job failed: somebody has ended it"):
            tokens.explain(BrokerAuthenticationError("The brokers refused the job's login"))
    assert living_tokens() == []


def _expired(lease: Any) -> None:
    """Its time is over, as the worker knows it."""
    info = lease._token.info
    lease._token = replace(lease._token, info=replace(info, expiry_ms=info.issue_ms))


@pytest.mark.parametrize("refusal", [BrokerAuthorizationError, DelegationTokenError])
def test_a_token_that_lives_is_no_cause(monkeypatch: pytest.MonkeyPatch, refusal: type[KafkaSparkError]) -> None:
    """Though a renewal was refused: it is tried again, and the job's own failure is what it is."""
    monkeypatch.setattr(job_tokens, "LEASE_MS", 20_000)
    renew, asked = DelegationTokenHook.renew_token, list[int]()

    def refuses_once(hook: DelegationTokenHook, *arguments: Any) -> Any:
        asked.append(1)
        if len(asked) == 1:
            raise refusal("Not now")
        return renew(hook, *arguments)

    monkeypatch.setattr(DelegationTokenHook, "renew_token", refuses_once)
    with job_tokens.JobTokens([DelegationTokenHook().config], memory=TaskStateStore()) as tokens:
        (lease,) = tokens._leases.values()
        first = lease._token.info.expiry_ms
        assert not lease._renewed(20_000)
        tokens.explain(BrokerAuthenticationError("The brokers refused the job's login"))
        assert lease._renewed(20_000)
        assert lease._token.info.expiry_ms > first
        assert lease._thread.is_alive()


@pytest.mark.parametrize(
    ("kind", "by_the_token"),
    [
        (BrokerAuthenticationError, True),
        (BrokerAuthorizationError, True),
        (BrokerUnavailableError, True),
        (JobFailedError, True),
        (ExpressionError, False),
        (DataLossError, False),
        (DuplicateRecordsError, False),
    ],
)
def test_only_what_a_lost_login_looks_like_is_laid_to_a_token(kind: type[KafkaSparkError], by_the_token: bool) -> None:
    """What is final by itself would fail again, with the next token too."""
    token = DelegationToken(TokenInfo("id", "User:alice", (), 1, 2, 3), "secret")
    config = DelegationTokenHook().config
    lease = job_tokens._Lease(config, 5, None, token, job_tokens._now_ms())
    _expired(lease)
    with pytest.raises(JobTokenEndedError, match="it could not be renewed") if by_the_token else nullcontext():
        lease.explain(kind("The job's own words"))


def test_what_hinders_the_end_of_a_token_does_not_fail_the_job(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Its records are delivered."""

    def fails(*_: object) -> None:
        raise ValueError("anything")

    tokens = job_tokens.JobTokens([DelegationTokenHook().config], memory=TaskStateStore())
    with monkeypatch.context() as patch, tokens:
        (lease,) = tokens._leases.values()
        patch.setattr(DelegationTokenHook, "expire_token", fails)
    assert "could not be expired; it ends at" in caplog.text
    with DelegationTokenHook() as hook:
        hook.expire_token(lease._token)


def test_a_job_that_outlives_its_token(
    broker: KafkaBroker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """60 s on a token of 30 s: it is renewed."""
    caplog.set_level(logging.INFO)
    monkeypatch.setattr(job_tokens, "LEASE_MS", 30_000)
    # After 12 s: a busy machine may take long for a renewal.
    monkeypatch.setattr(job_tokens, "RENEW_AT", 0.4)
    operator = KafkaToKafkaBatchOperator(
        task_id="t", topics=["slow"], target_topic="slow_copy", where=SLOW, use_delegation_token=True
    )
    result = run(operator)
    assert result["records_written"] == 60
    assert result["seconds"] > 55
    assert caplog.text.count("Renewed the job's delegation token") >= 3
    assert living_tokens() == []


def test_a_job_whose_token_cannot_be_renewed_any_more(broker: KafkaBroker) -> None:
    """The same job on a token that lives for 30 s at most: its end is named, in place of a time-out."""
    operator = KafkaToKafkaBatchOperator(
        task_id="t",
        topics=["slow"],
        source_conn_id="short",
        target_topic="too_slow_copy",
        where=SLOW,
        use_delegation_token=True,
        sink_options={
            "kafka.delivery.timeout.ms": 40_000,
            "kafka.request.timeout.ms": 10_000,
            "kafka.max.block.ms": 10_000,
        },
    )
    with pytest.raises(JobTokenEndedError, match=r"ended at .* it had reached its maximum time") as caught:
        run(operator)
    assert caught.value.retriable
    assert "password-of-alice" not in str(caught.value)
    assert living_tokens() == []


def test_a_token_that_cannot_live_long_enough_is_refused(recording_spark: RecordingSpark) -> None:
    with pytest.raises(AirflowFailException, match=r"min_token_lifetime wants .* 2 h; the broker gives one for 30 s"):
        run(
            KafkaToKafkaBatchOperator(
                task_id="t",
                topics=["orders"],
                source_conn_id="short",
                target_topic="copy",
                use_delegation_token=True,
                min_token_lifetime=timedelta(hours=2),
            )
        )
    assert recording_spark.requests == []
    assert living_tokens() == []


def test_a_listener_without_logins_is_refused_before_a_token_is_made(
    broker: KafkaBroker, monkeypatch: pytest.MonkeyPatch, recording_spark: RecordingSpark
) -> None:
    plain = {"conn_type": "kafka", "extra": {"bootstrap.servers": broker.bootstrap_servers}}
    monkeypatch.setenv("AIRFLOW_CONN_PLAIN", json.dumps(plain))
    parameters: dict[str, Any] = {"topics": ["orders"], "target_topic": "copy", "target_conn_id": "plain"}
    with pytest.raises(AirflowFailException, match=r"connection 'plain' is PLAINTEXT.*say 'source'"):
        run(KafkaToKafkaBatchOperator(task_id="t", use_delegation_token=True, **parameters))
    assert recording_spark.requests == []
    assert living_tokens() == []


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        pytest.param({"use_delegation_token": "both"}, "use_delegation_token must be True", id="where"),
        pytest.param({"min_token_lifetime": 60}, "use_delegation_token=True", id="without-a-token"),
        pytest.param(
            {"use_delegation_token": "spark", "min_token_lifetime": 60},
            "Spark renews them. Leave it out",
            id="of-spark",
        ),
        pytest.param({"use_delegation_token": True, "min_token_lifetime": 0}, "greater than 0", id="no-time"),
    ],
)
def test_bad_input(recording_spark: RecordingSpark, parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(AirflowFailException, match=message):
        run(KafkaToKafkaBatchOperator(task_id="t", topics=["orders"], target_topic="copy", **parameters))
    assert recording_spark.requests == []
