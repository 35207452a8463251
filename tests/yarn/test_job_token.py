"""A job on YARN that logs in with a delegation token of the worker's, where Spark itself has no Kerberos to obtain one
by.
"""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path, PurePath
from uuid import uuid4

import pytest

from airflow_provider_kafka_spark.hooks.delegation_token import DelegationTokenHook
from airflow_provider_kafka_spark.operators.replay import ReplayOffsetRangesOperator
from airflow_provider_kafka_spark.testing.kafka_broker import KafkaBroker, Record
from tests.airflow_fakes import task_context
from tests.e2e.secret_search import FolderWatch, ProcessWatch, Seed, in_processes
from tests.services.yarn_cluster import YarnCluster
from tests.yarn.watched_job import files_of, watch_job

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.timeout(900)]

PASSWORD = f"alice<{uuid4().hex}>&'/+%"
LOGINS = "kafka-logins.properties"


@pytest.fixture
def secured() -> Iterator[KafkaBroker]:
    with KafkaBroker(sasl_users={"alice": PASSWORD}) as broker:
        for name in ("orders", "copy"):
            broker.create_topic(name, 2)
        broker.produce("orders", [Record(b"k", b"v%d" % i, partition=i % 2) for i in range(100)])
        yield broker


def test_driver_and_executors_log_in_by_the_token(
    secured: KafkaBroker,
    yarn_cluster: YarnCluster,
    connection: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    tmp_path: Path,
) -> None:
    """In cluster mode, on other machines than the worker's. The token has ended with the job; while it ran, the token
    was in the job's private file only, and the password nowhere.
    """
    caplog.set_level(logging.INFO)
    for name, value in {**yarn_cluster.environment(), "PYSPARK_PYTHON": sys.executable}.items():
        monkeypatch.setenv(name, value)
    connection("spark_default", conn_type="spark", host="yarn", extra={"deploy-mode": "cluster"})
    connection("kafka_default", extra=secured.sasl_client_config("alice"))
    operator = ReplayOffsetRangesOperator(
        task_id="t",
        offset_ranges=["orders:0:0:50", "orders:1:0:50"],
        target_topic="copy",
        use_delegation_token=True,
        report_location=tmp_path.as_uri(),
        conf=yarn_cluster.spark_conf(),
        num_executors=1,
        driver_memory="512m",
        executor_memory="512m",
        name="token-on-yarn",
    )
    job, yarn = watch_job([Seed("password", PASSWORD)], monkeypatch), yarn_cluster.conf_dir.parent
    with ProcessWatch() as processes, FolderWatch(job.search, yarn) as files:
        result = operator.execute(task_context())
        application = result["application_id"]
        _wait_until_cleaned(yarn, application)

    assert result["records_written"] == 100
    assert len(secured.consume("copy")) == 100
    with DelegationTokenHook() as hook:
        assert hook.describe() == []
    assert len(job.tokens) == 1

    # What there was to be found.
    commands = [" ".join(process.arguments) for process in processes.seen]
    for what in (
        "deploy.SparkSubmit --master yarn",
        "deploy.yarn.ApplicationMaster",
        "YarnCoarseGrainedExecutorBackend",
    ):
        assert any(what in command for command in commands), what
    assert any(
        b"SPARK_YARN_STAGING_DIR" in process.environ and application.encode() in process.environ
        for process in processes.seen
    )
    assert any("Submitted application" in line for line in job.lines)
    logs = {PurePath(where).name: where for where in files.names if where.startswith(f"logs/{application}/")}
    assert {"stderr", "stdout", "launch_container.sh"} <= logs.keys()
    assert "sasl.jaas.config = [hidden]" in yarn_cluster.application_log(application)
    assert any(where.startswith("staging/") and where.endswith("__spark_conf__.zip") for where in files.names)
    found = files_of(files.hits)
    assert {PurePath(where).parts[0] for where in found} == {"staging", "local"}

    assert {PurePath(where).name for where in found} == {LOGINS}
    assert all(seeds == {"hmac"} for seeds in found.values())
    assert files.open_to_others & found.keys() == set()
    assert in_processes(job.search, processes.seen) == []
    assert job.in_lines() == []
    assert job.search.in_bytes("logs and result", f"{caplog.text}{result}".encode()) == []
    assert job.search.in_files(tmp_path) == []
    # YARN keeps a user's files for the next application that may want them; the token in this one has ended.
    left = files_of(job.search.in_files(yarn))
    assert all(PurePath(where).relative_to(yarn).match(f"local/usercache/*/filecache/*/{LOGINS}") for where in left)


def _wait_until_cleaned(yarn: Path, application: str) -> None:
    """YARN removes what an application alone had some time after its end."""
    deadline = time.monotonic() + 120
    while left := list(yarn.glob(f"local/usercache/*/appcache/{application}")) + list(
        yarn.glob(f"staging/*/.sparkStaging/{application}")
    ):
        assert time.monotonic() < deadline, left
        time.sleep(0.5)
