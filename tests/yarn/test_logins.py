"""Logins of jobs on YARN: by a password in client mode, by the worker's token, by files that only the worker has."""

from __future__ import annotations

import json
import logging
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path, PurePath
from typing import Any
from uuid import uuid4

import pytest

from airflow_provider_kafka_spark.core.wire.job_credentials import JobCredentials
from airflow_provider_kafka_spark.hooks.delegation_token import DelegationTokenHook
from airflow_provider_kafka_spark.hooks.kafka import KafkaHook
from airflow_provider_kafka_spark.hooks.spark_job import SparkJobHook
from airflow_provider_kafka_spark.operators.batch import KafkaToKafkaBatchOperator
from airflow_provider_kafka_spark.operators.replay import ReplayOffsetRangesOperator
from airflow_provider_kafka_spark.testing.kafka_broker import BrokerTls, KafkaBroker, Record
from airflow_provider_kafka_spark.testing.pytest_plugin import TopicFactory
from tests.airflow_fakes import task_context
from tests.e2e.secret_search import FolderWatch, ProcessWatch, Seed, in_processes
from tests.login_clusters import RECORDS, Cluster, keytab_of_the_tests_own, submit, values
from tests.required_tools import needs_kdc
from tests.services.certificates import CertificateAuthority
from tests.services.kerberos import Kdc
from tests.services.yarn_cluster import YarnCluster
from tests.yarn.watched_job import files_of, watch_job

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(900)]

PASSWORD = f"alice<{uuid4().hex}>&'/+%"
LOGINS = "kafka-logins.properties"


@pytest.fixture
def secured() -> Iterator[KafkaBroker]:
    with KafkaBroker(sasl_users={"alice": PASSWORD}) as broker:
        for name in ("orders", "copy"):
            broker.create_topic(name, 2)
        broker.produce("orders", [Record(b"k", b"v%d" % i, partition=i % 2) for i in range(100)])
        yield broker


def test_in_client_mode_a_login_reaches_driver_and_executors(
    secured: KafkaBroker, yarn_cluster: YarnCluster, on_yarn: dict[str, Any], connection: Callable[..., None]
) -> None:
    """The driver runs on this machine, executors elsewhere. By a file that is not left, here or on YARN."""
    connection("spark_default", conn_type="spark", host="yarn", extra={"deploy-mode": "client"})
    connection("kafka_default", extra=secured.sasl_client_config("alice"))
    del on_yarn["report_location"]
    # Spark attaches pages to its UI while YARN adds a filter to it, and may fail by that on a busy machine.
    on_yarn["conf"]["spark.ui.enabled"] = "false"
    operator = KafkaToKafkaBatchOperator(
        task_id="t", topics=["orders"], target_topic="copy", name="client-mode", **on_yarn
    )
    result = operator.execute(task_context())

    assert result["records_written"] == len(secured.consume("copy")) == 100
    assert PASSWORD not in json.dumps(result)
    assert [path for path in yarn_cluster.staging_dir.rglob("*") if path.suffix == ".properties"] == []


def test_driver_and_executors_log_in_by_the_token(
    secured: KafkaBroker,
    yarn_cluster: YarnCluster,
    on_yarn: dict[str, Any],
    connection: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    tmp_path: Path,
) -> None:
    """In cluster mode, on other machines than the worker's. The token has ended with the job; while it ran, the token
    was in the job's private file only, and the password nowhere.
    """
    caplog.set_level(logging.INFO)
    connection("kafka_default", extra=secured.sasl_client_config("alice"))
    operator = ReplayOffsetRangesOperator(
        task_id="t",
        offset_ranges=["orders:0:0:50", "orders:1:0:50"],
        target_topic="copy",
        use_delegation_token=True,
        name="token-on-yarn",
        **on_yarn,
    )
    job, yarn = watch_job([Seed("password", PASSWORD)], monkeypatch), yarn_cluster.conf_dir.parent
    # YARN keeps the files of other tests.
    earlier = {str(PurePath(where).relative_to(yarn)) for where in files_of(job.search.in_files(yarn))}
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
    found = {where: seeds for where, seeds in files_of(files.hits).items() if where not in earlier}
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


@pytest.fixture
def kdc() -> Iterator[Kdc]:
    with Kdc() as running:
        yield running


@pytest.fixture
def realm(kdc: Kdc) -> Iterator[Cluster]:
    authority = CertificateAuthority()
    with KafkaBroker(kerberos=kdc, tls=BrokerTls(authority.issue("realm"), authority.ca_pem)) as broker:
        broker.create_topic("orders")
        broker.produce("orders", [Record(b"k", b"v%d" % i) for i in range(RECORDS)])
        yield Cluster(broker, authority)


@needs_kdc
def test_a_keytab_and_a_trust_store_reach_driver_and_executors(
    kafka: KafkaBroker,
    realm: Cluster,
    kdc: Kdc,
    yarn_cluster: YarnCluster,
    on_yarn: dict[str, Any],
    topic: TopicFactory,
    connection: Callable[..., None],
    tmp_path: Path,
) -> None:
    """They travel with the job and are found by their base names; their paths on the worker are nowhere in what the job
    is logged.
    """
    secrets = tmp_path / "secrets"
    secrets.mkdir(mode=0o700)
    connection("source", extra=keytab_of_the_tests_own(realm, kdc, secrets))
    # Where a machine finds its realm is the machine's own affair.
    find_realm = f"-Djava.security.krb5.conf={kdc.krb5_conf}"
    conf = {f"spark.{role}.extraJavaOptions": find_realm for role in ("driver", "executor")}
    options = {**on_yarn, "name": "login-files-on-yarn", "conf": {**on_yarn["conf"], **conf}}
    spark = SparkJobHook(report_location=options.pop("report_location"), submit_options=options)
    logins = JobCredentials(KafkaHook("source").config, KafkaHook("kafka_default").config, by_name=True)
    assert sorted(map(os.path.basename, logins.files)) == ["only-here.keytab", "trust.jks"]
    assert str(secrets) not in str(logins.source_options())

    target = topic()
    report = submit(spark, logins, target)

    assert report.records_written == RECORDS
    assert values(kafka, target) == values(realm.broker, "orders")
    # No copies of the keytab are left.
    assert [path for path in yarn_cluster.staging_dir.rglob("*") if path.suffix in (".keytab", ".jks")] == []
