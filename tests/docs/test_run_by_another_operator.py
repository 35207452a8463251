"""The example of ``docs/how-to/run-by-another-operator.md``, for real: an Airflow, the Spark provider's own operator, a
broker and Spark.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from airflow_provider_kafka_spark.core.errors import LocalServiceError
from airflow_provider_kafka_spark.testing.airflow_home import AirflowHome
from airflow_provider_kafka_spark.testing.dag_runs import DagRuns
from airflow_provider_kafka_spark.testing.kafka_broker import KafkaBroker, Record
from airflow_provider_kafka_spark.toolchain.connector import connector_jars

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.airflow]

_DAG_ID = "run_by_spark_submit"
_RECORDS = 20


@pytest.fixture
def broker() -> Iterator[KafkaBroker]:
    """A broker of its own: the example names its topics."""
    with KafkaBroker() as broker:
        for name in ("orders", "orders_copy"):
            broker.create_topic(name, 2)
        broker.produce("orders", [Record(value=b"%d" % i, partition=i % 2) for i in range(_RECORDS)])
        yield broker


@pytest.fixture
def home(broker: KafkaBroker, tmp_path: Path) -> AirflowHome:
    dags = tmp_path / "dags"
    dags.mkdir()
    shutil.copy(Path(__file__).parent / "examples" / f"{_DAG_ID}.py", dags)
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    home = AirflowHome(
        tmp_path / "airflow",
        dags,
        scratch,
        connections={
            "kafka_default": {"conn_type": "kafka", "extra": {"bootstrap.servers": broker.bootstrap_servers}},
            "spark_default": {"conn_type": "spark", "host": "local[2]"},
        },
        settings={
            "AIRFLOW_VAR_SPARK_JOBS": str(tmp_path / "jobs"),
            "AIRFLOW_VAR_SPARK_REPORTS": str(tmp_path / "reports"),
            "AIRFLOW_VAR_KAFKA_CONNECTOR": ",".join(map(str, connector_jars(None))),
        },
    )
    home.migrate()
    return home


def test_the_example_copies_and_proves(broker: KafkaBroker, home: AirflowHome, tmp_path: Path) -> None:
    """And a job that fails makes the last task fail with the job's own error, which is in its log."""
    failing_log = home.logs / "failing.log"
    with DagRuns(home) as runs:
        tasks = runs.run(_DAG_ID, home.logs / "first.log")["tasks"]
        broker.delete_topic("orders_copy")
        broker.create_topic("orders_copy", 2, {"max.message.bytes": "50"})
        with pytest.raises(LocalServiceError):
            runs.run(_DAG_ID, failing_log)
        result = tasks["prove"]["-1"]["xcom"]["return_value"]

    assert (result["records_read"], result["records_written"]) == (_RECORDS, _RECORDS)
    assert sorted(int(r["until_offset"]) - int(r["from_offset"]) for r in result["ranges"]) == [10, 10]
    assert "RecordTooLarge" in failing_log.read_text() or "TargetError" in failing_log.read_text()
    left = [path.name for path in (tmp_path / "jobs").glob("*/*")]
    # Of the job that failed.
    assert sorted(left) == ["airflow_provider_kafka_spark.zip", "batch.py", "request.json"]
