from __future__ import annotations

import json

import pytest

from airflow_provider_kafka_spark.core.errors import ExpressionError, ProtocolError
from airflow_provider_kafka_spark.core.wire.fault import Fault
from airflow_provider_kafka_spark.core.wire.protocol import JobReport

_LOGIN = {"kafka.sasl.jaas.config": 'PlainLoginModule required username="copier" password="hunter2";'}


def _report(message: str) -> JobReport:
    failure = Fault.of(ExpressionError(message))
    return JobReport("run", "plan", (), (), "local-1", "4.0.0", 1.0, failure=failure)


def test_the_failure_of_a_report_is_the_error_that_the_job_raised_without_secrets() -> None:
    error = JobReport.from_json(_report("It fails on 'hunter2'.").to_json()).error([_LOGIN])

    assert type(error) is ExpressionError
    assert str(error) == "The Spark job failed (application local-1): It fails on '***'."


@pytest.mark.parametrize("code", ["KS000", "", "ExpressionError", "Exception", "__doc__"])
def test_a_report_makes_the_worker_raise_nothing_but_errors_of_the_catalogue(code: str) -> None:
    report = json.loads(_report("what").to_json())
    report["failure"]["code"] = code

    with pytest.raises(ProtocolError, match="failure is malformed: The code of an error must be one of this version"):
        JobReport.from_json(json.dumps(report))
