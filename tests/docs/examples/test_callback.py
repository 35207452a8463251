"""An example of the documentation: tell somebody that a copy has failed."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from airflow_provider_kafka_spark.core.errors import DataLossError
from airflow_provider_kafka_spark.failure import no_retry_on_permanent_error

SENT: list[str] = []
send = SENT.append


def tell(context):
    error = context["exception"]
    cause = error if hasattr(error, "code") else error.__context__  # AirflowFailException has it as its context
    send(f"{context['ti'].dag_id}: {getattr(cause, 'code', 'an error')}: {error}")


def test_a_callback_knows_the_code_of_the_error() -> None:
    @no_retry_on_permanent_error
    def execute() -> None:
        raise DataLossError("offsets 0 to 7 aged out")

    with pytest.raises(Exception, match="aged out") as failed:
        execute()

    context: Any = {"ti": SimpleNamespace(dag_id="hourly"), "exception": failed.value}
    tell(context)

    assert SENT[0].startswith("hourly: KS208: DataLossError: offsets 0 to 7 aged out")
