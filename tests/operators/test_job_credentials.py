"""Copies between two clusters that a job logs in to in different ways, by real ``spark-submit``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from airflow.sdk.exceptions import AirflowFailException

from airflow_provider_kafka_spark.core.handoff.job_credentials import JobCredentials
from airflow_provider_kafka_spark.hooks.delegation_token import DelegationTokenHook
from airflow_provider_kafka_spark.hooks.kafka import KafkaHook
from airflow_provider_kafka_spark.hooks.spark_job import SparkJobHook
from airflow_provider_kafka_spark.operators.batch import KafkaToKafkaBatchOperator
from airflow_provider_kafka_spark.testing.kafka_broker import BrokerTls, KafkaBroker, Record
from tests.airflow_fakes import task_context
from tests.login_clusters import (
    PASSWORD,
    RECORDS,
    Cluster,
    certificate_in_files,
    keytab_of_the_tests_own,
    scram_with_inline_pem,
    submit,
    values,
)
from tests.operators.conftest import RecordingSpark, Traces
from tests.required_tools import needs_kdc
from tests.services.certificates import CertificateAuthority
from tests.services.identity_provider import IdentityProvider
from tests.services.kerberos import Kdc

pytestmark = [pytest.mark.broker, pytest.mark.spark]


@pytest.fixture(scope="module")
def source() -> Iterator[Cluster]:
    """Asks clients of its listener SSL for a certificate, those of the other for a password."""
    authority = CertificateAuthority("Authority of the source")
    tls = BrokerTls(authority.issue("source"), authority.ca_pem, "required")
    with KafkaBroker(sasl_users={"alice": "password-of-alice"}, tls=tls) as broker:
        broker.create_topic("orders")
        broker.produce("orders", [Record(b"k", b"v%d" % i) for i in range(RECORDS)])
        yield Cluster(broker, authority)


@pytest.fixture(scope="module")
def target() -> Iterator[Cluster]:
    """Its users have passwords, or an identity provider that knows them."""
    authority = CertificateAuthority("Authority of the target")
    tls = BrokerTls(authority.issue("target"), authority.ca_pem)
    with (
        IdentityProvider({"copier": "s3cret-of-copier"}) as provider,
        KafkaBroker(sasl_users={"bob": "password-of-bob"}, tls=tls, identity_provider=provider) as broker,
    ):
        yield Cluster(broker, authority)


@pytest.fixture
def copy_topic(target: Cluster) -> str:
    return target.broker.create_topic(f"copy-{uuid4().hex[:8]}")


@pytest.fixture(autouse=True)
def spark_connection(connection: Callable[..., None]) -> None:
    connection("spark_default", conn_type="spark", host="local[1]")


def test_two_clusters_two_logins(
    source: Cluster, target: Cluster, copy_topic: str, connection: Callable[..., None], tmp_path: Path, traces: Traces
) -> None:
    """Worker, driver and executors log in to each cluster in its own way, by a certificate in files and by an identity
    provider, and leave nothing.
    """
    folder = tmp_path / "secrets"
    folder.mkdir()
    connection("source", extra=certificate_in_files(source, folder))
    connection("target", extra=target.broker.sasl_client_config("copier", "OAUTHBEARER", tls=True))

    result = run(KafkaToKafkaBatchOperator(topics=["orders"], target_topic=copy_topic, **COPY))

    assert result["records_written"] == RECORDS
    assert values(target.broker, copy_topic) == values(source.broker, "orders")
    assert (traces.files, traces.processes) == ([], [])


COPY: dict[str, Any] = {"task_id": "t", "source_conn_id": "source", "target_conn_id": "target"}


@pytest.fixture(scope="module")
def kdc() -> Iterator[Kdc]:
    with Kdc() as running:
        yield running


@pytest.fixture(scope="module")
def realm(kdc: Kdc) -> Iterator[Cluster]:
    """A cluster whose users are the principals of a realm."""
    authority = CertificateAuthority("Authority of the realm")
    with KafkaBroker(kerberos=kdc, tls=BrokerTls(authority.issue("realm"), authority.ca_pem)) as broker:
        broker.create_topic("orders")
        broker.produce("orders", [Record(b"k", b"v%d" % i) for i in range(RECORDS)])
        yield Cluster(broker, authority)


@pytest.mark.long
@needs_kdc
def test_kerberos_to_a_delegation_token(
    realm: Cluster,
    target: Cluster,
    copy_topic: str,
    kdc: Kdc,
    connection: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    """The job reads with a keytab and writes with a token. The worker's librdkafka has no Kerberos, and says so."""
    for name, value in kdc.environment.items():
        monkeypatch.setenv(name, value)
    connection("source", extra=keytab_of_the_tests_own(realm, kdc, tmp_path))
    connection("target", extra=scram_with_inline_pem(target))
    with pytest.raises(AirflowFailException, match=r"ConnectionConfigError: .*'source'.*cannot log in by GSSAPI"):
        run(KafkaToKafkaBatchOperator(topics=["orders"], target_topic=copy_topic, **COPY))

    login = KafkaHook("target").config
    with DelegationTokenHook("target") as hook:
        token = hook.create()
        by_token = login.with_java(token.java_login(login.java, login.token_mechanism))
        report = submit(SparkJobHook(), JobCredentials(KafkaHook("source").config, by_token), copy_topic)
        hook.expire_token(token)

    assert report.records_written == RECORDS
    assert values(target.broker, copy_topic) == values(realm.broker, "orders")


def test_a_missing_file_fails_before_anything_is_started(
    source: Cluster, connection: Callable[..., None], recording_spark: RecordingSpark, tmp_path: Path
) -> None:
    """Property, path and connection; Spark is not started."""
    extra = certificate_in_files(source, tmp_path)
    gone = {"ssl.truststore.location": str(tmp_path / "gone.jks"), "ssl.truststore.password": PASSWORD}
    connection("source", extra=extra)
    connection("target", extra={**extra, **gone})

    says = r"ConnectionConfigError: ssl\.truststore\.location of connection 'target'.*gone"
    with pytest.raises(AirflowFailException, match=says):
        run(KafkaToKafkaBatchOperator(topics=["orders"], target_topic="orders", allow_same_topic=True, **COPY))

    assert recording_spark.requests == []


def run(operator: Any) -> dict[str, Any]:
    result: dict[str, Any] = operator.execute(task_context())
    return result
