"""What clusters with every login are made of; each module has its own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from airflow_provider_kafka_spark.testing.certificates import CertificateAuthority
from airflow_provider_kafka_spark.testing.identity_provider import IdentityProvider
from airflow_provider_kafka_spark.testing.kerberos import Kdc


@pytest.fixture(scope="module")
def authority() -> CertificateAuthority:
    return CertificateAuthority()


@pytest.fixture(scope="module")
def provider() -> Iterator[IdentityProvider]:
    with IdentityProvider({"copier": "s3cret-of-copier"}) as provider:
        yield provider


@pytest.fixture(scope="module")
def kdc() -> Iterator[Kdc | None]:
    if not Kdc.is_available():
        yield None
        return
    with Kdc() as kdc:
        yield kdc
