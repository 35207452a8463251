"""What the operators say is found in Airflow's log, while it is being written."""

from __future__ import annotations

from pathlib import Path

from tests.task_log import TaskLog

NAME = "airflow.task.operators.airflow_provider_kafka_spark.operators.batch.KafkaToKafkaBatchOperator"


def test_messages_of_our_operators_and_no_others(tmp_path: Path) -> None:
    file = tmp_path / "task.log"
    log = TaskLog(file)
    assert list(log.new_messages()) == []

    file.write_text(
        f"2026-01-01T00:00:00.1Z [info     ] Pushing xcom                   [task] loc=task_runner.py:2280\n"
        f"2026-01-01T00:00:00.2Z [info     ] The plan:\na  b\n1  2. [{NAME}] loc=kafka_to_kafka.py:280\n"
        f"noise\n2026-01-01T00:00:00.3Z [warning  ] WARN Utils: [x] [airflow.task.hooks.spark] loc=a.py:1\n"
        f"2026-01-01T00:00:00.4Z [info     ] Deliv"
    )
    assert list(log.new_messages()) == ["The plan:\na  b\n1  2."]

    with file.open("a") as more:
        more.write(f"ered: 3 records. [{NAME}] loc=kafka_to_kafka.py:440\n")
    assert list(log.new_messages()) == ["Delivered: 3 records."]
    assert list(log.new_messages()) == []
