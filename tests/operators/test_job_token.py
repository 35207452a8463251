"""Spark jobs that log in with a delegation token of their own.

They run in the tests' own Spark; that a driver of its own logs in so is shown with the other logins, and here that a
kill ends both it and its tokens.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
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
from airflow_provider_kafka_spark.submission import spark_submission
from airflow_provider_kafka_spark.testing.kafka_broker import KafkaBroker, Record
from tests.airflow_fakes import TaskStateStore
from tests.in_process_jobs import InProcessSpark
from tests.operators.conftest import RecordingSpark, Traces
from tests.operators.copy_task import Batch, Stream, execute
from tests.secured_brokers import USERS

pytestmark = [pytest.mark.broker, pytest.mark.spark]

#: Topics of the secured broker.
ORDERS, COPY = "orders-by-token", "copy-by-token"


@pytest.fixture(scope="module")
def broker(secured_broker: KafkaBroker) -> KafkaBroker:
    secured_broker.produce(secured_broker.create_topic(ORDERS), [Record(b"k", b"v%d" % i) for i in range(100)])
    secured_broker.create_topic(COPY)
    return secured_broker


@pytest.fixture(autouse=True)
def connections(broker: KafkaBroker, connection: Callable[..., None]) -> None:
    alice = broker.sasl_client_config("alice")
    connection("kafka_default", extra=alice)
    connection("copier", extra=broker.sasl_client_config("copier"))
    connection("short", extra={**alice, "delegation.token.max.lifetime.ms": 10_000})
    connection("spark_default", conn_type="spark", host="local[1]")


LivingTokens = Callable[[], list[TokenInfo]]


@pytest.fixture
def living_tokens(token_hook: DelegationTokenHook) -> LivingTokens:
    """Those that this test has made."""
    others = {token.token_id for token in token_hook.describe()}

    def look() -> list[TokenInfo]:
        now_ms = token_hook.now_ms()
        return [t for t in token_hook.describe() if t.remaining_ms(now_ms) > 0 and t.token_id not in others]

    return look


def copy(**parameters: Any) -> Batch:
    given = {"topics": [ORDERS], "target_topic": COPY, "use_delegation_token": True, **parameters}
    return Batch(task_id="t", **given)


@pytest.mark.long
def test_spark_gets_the_token_and_not_the_login(recording_spark: RecordingSpark, living_tokens: LivingTokens) -> None:
    """And for the cluster that is asked for only."""
    with pytest.raises(KafkaSparkError, match="without leaving its report"):
        execute(copy(target_conn_id="copier", use_delegation_token="source"))
    (request,) = recording_spark.requests
    assert 'tokenauth="true"' in request.source_options["kafka.sasl.jaas.config"]
    assert USERS["alice"] not in request.to_json()
    assert f'username="copier" password="{USERS["copier"]}"' in request.sink_options["kafka.sasl.jaas.config"]
    assert living_tokens() == []


def test_a_stream_by_a_token(
    broker: KafkaBroker, tmp_path: Path, traces: Traces, in_process_spark: InProcessSpark, living_tokens: LivingTokens
) -> None:
    """A batch and an audit by one are among the tests of permissions."""
    given = {"starting_offsets": "earliest", "checkpoint_location": str(tmp_path / "checkpoint")}
    stream = Stream(task_id="t", topics=[ORDERS], target_topic=COPY, use_delegation_token=True, **given)

    assert execute(stream)["records_written"] == len(broker.consume(COPY)) == 100
    assert in_process_spark.jobs == ["available_now"]
    assert (living_tokens(), traces.files) == ([], [])


@dataclass
class KillsWhenItRuns(TaskStateStore):
    """Kills the task as Airflow does when it is cleared or times out: as soon as its application is known."""

    operator: Batch | None = None

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
    operator = copy(target_conn_id="copier", max_records_per_second=5)
    with pytest.raises(JobKilledError):
        execute(operator, KillsWhenItRuns(operator=operator))
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
    broker: KafkaBroker, monkeypatch: pytest.MonkeyPatch, living_tokens: LivingTokens, token_hook: DelegationTokenHook
) -> None:
    """Whatever the job's failure is called: Spark may have been logging in, or looking for the topic."""
    monkeypatch.setattr(job_tokens, "RENEW_PERIOD_MS", 60_000)
    # The first renewal is tried after a second, long before its end.
    monkeypatch.setattr(job_tokens, "RENEW_AT", 0.01)
    config = DelegationTokenHook().config
    with job_tokens.JobTokens([config], state_store=TaskStateStore()) as tokens:
        _expire(token_hook, living_tokens())
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
    token_hook: DelegationTokenHook,
) -> None:
    """Its records are delivered."""

    def fails(*_: object) -> None:
        raise ValueError("anything")

    tokens = job_tokens.JobTokens([DelegationTokenHook().config], state_store=TaskStateStore())
    with monkeypatch.context() as patch, tokens:
        patch.setattr(DelegationTokenHook, "expire_token", fails)
    assert "could not be expired; it ends at" in caplog.text
    _expire(token_hook, living_tokens())


@pytest.mark.long
def test_what_is_refused_leaves_no_token(
    broker: KafkaBroker,
    connection: Callable[..., None],
    recording_spark: RecordingSpark,
    living_tokens: LivingTokens,
) -> None:
    connection("plain", extra={"bootstrap.servers": broker.bootstrap_servers})
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
            execute(copy(**parameters))
    assert recording_spark.requests == []
    assert living_tokens() == []
