"""Copies between two clusters that a job logs in to in different ways, by real ``spark-submit``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from airflow_provider_kafka_spark.testing.kafka_broker import BrokerTls, KafkaBroker, Record
from tests.login_clusters import RECORDS, Cluster, certificate_in_files, values
from tests.operators.conftest import Traces
from tests.operators.copy_task import Batch, execute
from tests.services.certificates import CertificateAuthority
from tests.services.identity_provider import IdentityProvider

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


@pytest.mark.long
def test_two_clusters_two_logins(
    source: Cluster, target: Cluster, connection: Callable[..., None], tmp_path: Path, traces: Traces
) -> None:
    """Worker, driver and executors log in to each cluster in its own way, by a certificate in files and by an identity
    provider, and leave nothing.
    """
    folder = tmp_path / "secrets"
    folder.mkdir()
    copy_topic = target.broker.create_topic("copy")
    connection("spark_default", conn_type="spark", host="local[1]")
    connection("source", extra=certificate_in_files(source, folder))
    connection("target", extra=target.broker.sasl_client_config("copier", "OAUTHBEARER", tls=True))

    given = {"topics": ["orders"], "target_topic": copy_topic, "source_conn_id": "source", "target_conn_id": "target"}
    result = execute(Batch(task_id="t", **given))

    assert result["records_written"] == RECORDS
    assert values(target.broker, copy_topic) == values(source.broker, "orders")
    assert (traces.files, traces.processes) == ([], [])
