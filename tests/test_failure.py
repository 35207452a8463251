"""Promises of :func:`~airflow_provider_kafka_spark.failure.no_retry_on_permanent_error`: only retriable errors
are retried.
"""

from __future__ import annotations

import pytest
from airflow.sdk.exceptions import AirflowFailException

from airflow_provider_kafka_spark.core.errors import BrokerUnavailableError, DataLossError
from airflow_provider_kafka_spark.failure import no_retry_on_permanent_error


@no_retry_on_permanent_error
def execute(error: Exception | None) -> str:
    if error is not None:
        raise error
    return "done"


def test_a_final_error_is_final_to_airflow_and_keeps_its_name_and_cause() -> None:
    with pytest.raises(AirflowFailException, match="DataLossError: gone") as raised:
        execute(DataLossError("gone"))
    assert isinstance(raised.value.__cause__, DataLossError)


@pytest.mark.parametrize("error", [BrokerUnavailableError("later"), ValueError("a bug")])
def test_everything_else_passes_as_it_is(error: Exception) -> None:
    with pytest.raises(type(error)):
        execute(error)
    assert execute(None) == "done"
