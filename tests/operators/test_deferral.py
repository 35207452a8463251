"""Promises of ``deferrable``: where no trigger can follow a job, a task says so before anything is planned."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException
from requests.auth import HTTPBasicAuth

from airflow_provider_kafka_spark.operators.replay import ReplayOffsetRangesOperator
from airflow_provider_kafka_spark.testing.kafka_broker import KafkaBroker, Record
from airflow_provider_kafka_spark.testing.pytest_plugin import TopicFactory
from tests.airflow_fakes import task_context
from tests.in_process_jobs import InProcessSpark

pytestmark = [pytest.mark.broker]

_MANAGER = {"yarn_resourcemanager_webapp_address": "http://rm.example.com:8088"}


def run(**parameters: Any) -> dict[str, Any]:
    given = {"task_id": "task", "target_topic": "copy", "offset_ranges": ["orders:0:0:10"], **parameters}
    operator = ReplayOffsetRangesOperator(**given)
    context: Any = task_context()
    return operator.execute(context)


def test_what_cannot_be_deferred_is_refused(
    connection: Callable[..., None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With what to do; nothing secret is shown."""
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
    cluster = {"deploy-mode": "cluster"}
    with_password = {"yarn_resourcemanager_webapp_address": "http://user:hunter2@rm:8088"}
    login = {"yarn_rm_auth": HTTPBasicAuth("user", "hunter2")}
    refused: list[tuple[str, dict[str, str], dict[str, Any], str]] = [
        ("local[2]", {}, {}, "needs a driver that does not end with the worker"),
        ("yarn", {}, {}, "needs a driver that does not end with the worker"),
        ("yarn", {**cluster, **_MANAGER}, {"use_delegation_token": True}, "nobody to renew the job's own delegation"),
        ("yarn", {**cluster, **_MANAGER}, login, "cannot hand yarn_rm_auth to the triggerer"),
        ("yarn", cluster, {}, "needs YARN's address for the triggerer"),
        ("yarn", {**cluster, **with_password}, {}, "must have no password"),
        # Airflow would resume the other task.
        ("yarn", {**cluster, **_MANAGER}, {"task_id": "called"}, "one that is called within another task cannot be r"),
    ]
    for host, extra, parameters, says in refused:
        connection("spark_default", conn_type="spark", host=host, extra=extra)
        with pytest.raises(AirflowFailException, match=f"^OptionError: deferrable=True .*{says}") as raised:
            run(deferrable=True, report_location=tmp_path.as_uri(), **parameters)
        assert "hunter2" not in str(raised.value)


@pytest.mark.spark
def test_airflows_default_defers_only_what_can_be_deferred(
    kafka: KafkaBroker, topic: TopicFactory, in_process_spark: InProcessSpark, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW__OPERATORS__DEFAULT_DEFERRABLE", "True")
    source, target = topic(suffix="source"), topic(suffix="target")
    kafka.produce(source, [Record(value=b"v")])

    assert run(offset_ranges=[f"{source}:0:0:1"], target_topic=target)["records_written"] == 1
