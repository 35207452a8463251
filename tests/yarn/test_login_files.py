"""A login whose files are on the worker only, in a job that runs on YARN."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from airflow_provider_kafka_spark.core.handoff.job_credentials import JobCredentials
from airflow_provider_kafka_spark.hooks.kafka import KafkaHook
from airflow_provider_kafka_spark.hooks.spark_job import SparkJobHook
from airflow_provider_kafka_spark.testing.kafka_broker import BrokerTls, KafkaBroker, Record
from airflow_provider_kafka_spark.testing.pytest_plugin import TopicFactory
from tests.login_clusters import RECORDS, Cluster, keytab_of_the_tests_own, submit, values
from tests.required_tools import needs_kdc
from tests.services.certificates import CertificateAuthority
from tests.services.kerberos import Kdc
from tests.services.yarn_cluster import YarnCluster

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.timeout(900)]


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
    topic: TopicFactory,
    connection: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    """They travel with the job and are found by their base names; their paths on the worker are nowhere in what the job
    is logged.
    """
    for name, value in {**yarn_cluster.environment(), "PYSPARK_PYTHON": sys.executable}.items():
        monkeypatch.setenv(name, value)
    reports, secrets = tmp_path / "reports", tmp_path / "secrets"
    reports.mkdir()
    secrets.mkdir(mode=0o700)
    connection("spark_default", conn_type="spark", host="yarn", extra={"deploy-mode": "cluster"})
    connection("source", extra=keytab_of_the_tests_own(realm, kdc, secrets))
    # Where a machine finds its realm is the machine's own affair.
    find_realm = f"-Djava.security.krb5.conf={kdc.krb5_conf}"
    conf = {f"spark.{role}.extraJavaOptions": find_realm for role in ("driver", "executor")}
    spark = SparkJobHook(
        report_location=reports.as_uri(),
        submit_options={
            "name": "login-files-on-yarn",
            "conf": {**yarn_cluster.spark_conf(), **conf},
            "num_executors": 1,
            "driver_memory": "512m",
            "executor_memory": "512m",
        },
    )
    logins = JobCredentials(KafkaHook("source").config, KafkaHook("kafka_default").config, by_name=True)
    assert sorted(map(os.path.basename, logins.files)) == ["only-here.keytab", "trust.jks"]
    assert str(secrets) not in str(logins.source_options())

    target = topic()
    report = submit(spark, logins, target)

    assert report.records_written == RECORDS
    assert values(kafka, target) == values(realm.broker, "orders")
    # No copies of the keytab are left.
    assert [path for path in yarn_cluster.staging_dir.rglob("*") if path.suffix in (".keytab", ".jks")] == []
