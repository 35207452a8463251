"""Jobs on a real standalone cluster: executors run in folders of their own and have only the files sent to them.

What only this proves: tokens that the worker makes reach executors by a private file, and are nowhere else.
"""

from __future__ import annotations

import logging
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from airflow_provider_kafka_spark.hooks.delegation_token import DelegationTokenHook
from airflow_provider_kafka_spark.operators.batch import KafkaToKafkaBatchOperator
from airflow_provider_kafka_spark.testing.kafka_broker import BrokerTls, KafkaBroker, Record
from tests.airflow_fakes import task_context
from tests.e2e.secret_search import FolderWatch, ProcessWatch, Seed, in_processes
from tests.login_clusters import Cluster
from tests.services.certificates import CertificateAuthority
from tests.standalone.standalone_cluster import StandaloneCluster
from tests.yarn.watched_job import WatchedJob, files_of, watch_job

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.timeout(900)]

PASSWORDS = {name: f"{name}<{uuid4().hex}>&'/+%" for name in ("alice", "bob")}
RECORDS = 100
LOGINS = "kafka-logins.properties"
#: One executor on one core, in little memory.
SMALL: dict[str, Any] = {
    "total_executor_cores": 1,
    "executor_memory": "512m",
    "driver_memory": "512m",
    # A machine under load sends its heartbeats late.
    "conf": {"spark.network.timeout": "600s"},
}


@pytest.fixture(scope="module")
def source() -> Iterator[KafkaBroker]:
    with KafkaBroker(sasl_users={"alice": PASSWORDS["alice"]}) as broker:
        _fill(broker)
        yield broker


@pytest.fixture(scope="module")
def target() -> Iterator[Cluster]:
    """Wants a client's certificate by one listener, and a password by the other."""
    authority = CertificateAuthority()
    tls = BrokerTls(authority.issue("broker"), authority.ca_pem, "required")
    with KafkaBroker(sasl_users={"bob": PASSWORDS["bob"]}, tls=tls) as broker:
        _fill(broker)
        yield Cluster(broker, authority)


def _fill(broker: KafkaBroker) -> None:
    for name in ("orders", "copy"):
        broker.create_topic(name, 2)
    broker.produce("orders", [Record(b"k", b"v%d" % i, partition=i % 2) for i in range(RECORDS)])


@pytest.fixture
def job(
    standalone_cluster: StandaloneCluster,
    connection: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    tmp_path: Path,
) -> WatchedJob:
    """The next job goes to the standalone cluster, and its private folder to a place that nobody else uses."""
    caplog.set_level(logging.INFO)
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    monkeypatch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
    connection("spark_default", conn_type="spark", host=standalone_cluster.master)
    return watch_job((Seed(f"password of {name}", text) for name, text in PASSWORDS.items()), monkeypatch)


def test_both_logins_are_tokens(
    source: KafkaBroker,
    target: Cluster,
    standalone_cluster: StandaloneCluster,
    connection: Callable[..., None],
    job: WatchedJob,
    caplog: pytest.LogCaptureFixture,
    tmp_path: Path,
) -> None:
    """They have ended with the job. While it runs they are in its private file only, and of the logins that made them
    there is nothing anywhere.
    """
    connection("source", extra=source.sasl_client_config("alice"))
    connection("target", extra=target.broker.sasl_client_config("bob", "SCRAM-SHA-512", tls=True))
    operator = KafkaToKafkaBatchOperator(
        task_id="t",
        topics=["orders"],
        target_topic="copy",
        source_conn_id="source",
        target_conn_id="target",
        use_delegation_token=True,
        name="tokens-on-standalone",
        **SMALL,
    )
    with ProcessWatch() as processes, FolderWatch(job.search, standalone_cluster.folder) as files:
        result = operator.execute(task_context())
        standalone_cluster.wait_until_idle()

    assert result["records_written"] == RECORDS
    assert _values(target.broker, "copy") == _values(source, "orders")
    for conn_id in ("source", "target"):
        with DelegationTokenHook(conn_id) as hook:
            assert hook.describe() == []
    application = result["application_id"]
    assert standalone_cluster.applications()[application] == "FINISHED"
    assert len(job.tokens) == 2

    # What there was to be found.
    commands = [" ".join(process.arguments) for process in processes.seen]
    assert any("deploy.SparkSubmit --master spark://" in command for command in commands)
    assert any("CoarseGrainedExecutorBackend" in command and application in command for command in commands)
    assert any("@airflow-kafka-spark" in line for line in job.lines)
    executor = standalone_cluster.work_dir / application / "0"
    assert "sasl.jaas.config = [hidden]" in (executor / "stderr").read_text()
    assert "Launch command" in (standalone_cluster.folder / "worker.Worker.log").read_text()
    found = files_of(files.hits)
    private = f"work/{application}/0/{LOGINS}"
    assert found[private] == {"hmac"}

    # The executor fetches by a folder of its own, which goes with it.
    assert {where for where in found if not where.startswith("local/")} == {private}
    assert all(seeds == {"hmac"} for seeds in found.values())
    assert files.open_to_others & found.keys() == set()
    assert in_processes(job.search, processes.seen) == []
    assert job.in_lines() == []
    assert job.search.in_bytes("logs and result", f"{caplog.text}{result}".encode()) == []
    # Spark leaves an executor's working folder as it is; the token in it has ended.
    left = files_of(job.search.in_files(standalone_cluster.folder))
    assert left.items() <= {str(standalone_cluster.folder / private): {"hmac"}}.items()
    assert list((tmp_path / "temporary").iterdir()) == []


def _values(broker: KafkaBroker, topic: str) -> list[bytes]:
    return sorted(record.value or b"" for record in broker.consume(topic))
