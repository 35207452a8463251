"""A plan is refused where the job would refuse it: its driver runs the job's own check, whose table of expressions is
in ``tests/jobs/test_expressions.py``.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from airflow_provider_kafka_spark.core.errors import ExpressionError
from airflow_provider_kafka_spark.core.wire.protocol import Transform
from airflow_provider_kafka_spark.submission.expression_check import compile_expressions
from airflow_provider_kafka_spark.submission.spark_cluster import SparkCluster
from tests.operators.conftest import RecordingSpark
from tests.operators.conftest import recording_spark as recording_spark


@pytest.fixture
def new_cluster(connection: Callable[..., None]) -> Callable[..., SparkCluster]:
    """A cluster on which no job may be started."""
    connection("spark_default", conn_type="spark", host="yarn", extra={"deploy-mode": "cluster"})

    def made(**conf: str) -> SparkCluster:
        options = {"conf": {"spark.sql.extensions": "no.such.Class", "spark.plugins": "no.such.Class", **conf}}
        return SparkCluster("spark_default", kafka_connector=None, report_location=None, submit_options=options)

    return made


@pytest.mark.spark
def test_the_workers_spark_compiles_as_the_job_would(new_cluster: Callable[..., SparkCluster]) -> None:
    """On this machine, wherever the job will run, and with the settings of SQL that the job gets."""
    assert compile_expressions(new_cluster(), Transform(topic="copy")) == []
    asked = Transform(where="topic <> 'ü'", topic="copy", reject_when="cast(offset as binary) = key -- it's")
    with pytest.raises(ExpressionError, match=r"reject_when must be .*does not compile: \[DATATYPE_MISMATCH"):
        compile_expressions(new_cluster(), asked)
    assert compile_expressions(new_cluster(**{"spark.sql.ansi.enabled": "false"}), asked) == []


def test_where_spark_cannot_be_asked_the_plan_says_so(
    new_cluster: Callable[..., SparkCluster], recording_spark: RecordingSpark
) -> None:
    (warning,) = compile_expressions(new_cluster(), Transform(topic="copy", columns={"value": "key"}))
    assert "columns['value'] may still be refused" in warning
