"""Promises of :func:`~airflow_provider_kafka_spark.failure.no_retry_on_permanent_error`: only retriable errors
are retried.
"""

from __future__ import annotations

import traceback

import pytest
from airflow.sdk.exceptions import AirflowFailException
from structlog.tracebacks import ExceptionDictTransformer

from airflow_provider_kafka_spark.core.errors import (
    BrokerUnavailableError,
    DataLossError,
    KafkaSparkError,
    ProtocolError,
)
from airflow_provider_kafka_spark.failure import no_retry_on_permanent_error


@no_retry_on_permanent_error
def execute(error: Exception | None) -> str:
    if error is not None:
        raise error
    return "done"


def test_a_final_error_is_final_to_airflow_and_keeps_its_name_and_cause() -> None:
    with pytest.raises(AirflowFailException, match="DataLossError: gone") as raised:
        execute(DataLossError("gone"))
    assert isinstance(raised.value.__context__, DataLossError)


@pytest.mark.parametrize("kind", [DataLossError, BrokerUnavailableError])
def test_the_log_begins_with_the_message_and_has_nothing_of_the_way_to_it(
    kind: type[KafkaSparkError], caplog: pytest.LogCaptureFixture
) -> None:
    """As its task runner renders an exception, and as a terminal does (``airflow dags test``)."""
    with pytest.raises(Exception, match="gone") as raised:
        execute_deeply(kind)
    assert [(each.levelname, each.getMessage()) for each in caplog.records] == [("ERROR", f"{kind.__name__}: gone")]
    printed = "".join(traceback.format_exception(raised.value))
    assert (printed.count("Traceback"), printed.count("gone\nError")) == (1, 1)
    (shown,) = ExceptionDictTransformer(use_rich=False)((raised.type, raised.value, raised.value.__traceback__))
    assert shown["exc_value"].count("gone") == 1
    assert [frame["name"] for frame in shown["frames"]] == [raised.traceback[0].frame.code.name, "wrapped"]


def test_what_others_have_written_is_bounded_and_escaped() -> None:
    """As in an error that quotes an XCom or the name of a client."""
    with pytest.raises(AirflowFailException) as raised:
        execute(DataLossError("got \x1b[2J" + "a" * 10_000_000))
    assert len(str(raised.value)) < 30_000
    assert "\x1b" not in str(raised.value)
    assert "lists causes and checks" in str(raised.value)


def test_what_may_be_a_bug_keeps_its_traceback() -> None:
    with pytest.raises(AirflowFailException) as raised:
        execute_deeply(ProtocolError)
    assert raised.value.__cause__ is not None
    assert raised.value.__cause__.__traceback__ is not None


@no_retry_on_permanent_error
def execute_deeply(kind: type[KafkaSparkError]) -> None:
    try:
        raise OSError("the broker's words")
    except OSError as error:
        raise kind("gone") from error


@pytest.mark.parametrize("error", [BrokerUnavailableError("later"), ValueError("a bug")])
def test_everything_else_passes_as_it_is(error: Exception) -> None:
    with pytest.raises(type(error)):
        execute(error)
    assert execute(None) == "done"
