"""Clusters that jobs log in to, how, and with what files, for the tests of each kind of master."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

from airflow_provider_kafka_spark.core.wire.job_credentials import JobCredentials
from airflow_provider_kafka_spark.core.wire.protocol import JobReport
from airflow_provider_kafka_spark.hooks.spark_job import SparkJobHook
from airflow_provider_kafka_spark.testing.kafka_broker import KafkaBroker
from airflow_provider_kafka_spark.toolchain.java import find_java
from tests.jobs.runs import copy_request
from tests.services.certificates import CertificateAuthority
from tests.services.kerberos import Kdc

RECORDS = 20
PASSWORD = "changeit"


@dataclass(frozen=True)
class Cluster:
    """A broker and its authority: each cluster has its own."""

    broker: KafkaBroker
    authority: CertificateAuthority


def certificate_in_files(source: Cluster, folder: Path) -> dict[str, Any]:
    certificate = source.authority.issue("alice")
    files = certificate.write(folder)
    return {
        "bootstrap.servers": source.broker.ssl_bootstrap_servers,
        "security.protocol": "SSL",
        "ssl.ca.location": str(source.authority.write(folder)),
        "ssl.certificate.location": str(files.certificate),
        "ssl.key.location": str(files.key),
    }


def java_key_stores(source: Cluster, folder: Path) -> dict[str, Any]:
    """Beside the same in PEM, for the worker."""
    pem = certificate_in_files(source, folder)
    p12 = folder / "alice.p12"
    command = [
        "openssl",
        "pkcs12",
        "-export",
        "-in",
        pem["ssl.certificate.location"],
        "-inkey",
        pem["ssl.key.location"],
    ]
    subprocess.run([*command, "-out", str(p12), "-passout", f"pass:{PASSWORD}"], check=True)
    store = ["-srckeystore", str(p12), "-srcstoretype", "PKCS12", "-srcstorepass", PASSWORD]
    keytool("-importkeystore", *store, "-destkeystore", str(folder / "alice.jks"), "-deststoretype", "JKS")
    return {
        **pem,
        **trust_store(source.authority, folder),
        "ssl.keystore.location": str(folder / "alice.jks"),
        "ssl.keystore.password": PASSWORD,
    }


def trust_store(authority: CertificateAuthority, folder: Path) -> dict[str, str]:
    """A Java trust store, and the same for the worker, which cannot read it."""
    ca, jks = authority.write(folder), folder / "trust.jks"
    keytool("-importcert", "-noprompt", "-file", str(ca), "-keystore", str(jks), "-storetype", "JKS")
    return {
        "ssl.ca.location": str(ca),
        "ssl.truststore.location": str(jks),
        "ssl.truststore.type": "JKS",
        "ssl.truststore.password": PASSWORD,
    }


def keytool(*arguments: str) -> None:
    option = "-deststorepass" if "-importkeystore" in arguments else "-storepass"
    program = find_java().executable.with_name("keytool")
    subprocess.run([str(program), *arguments, option, PASSWORD], check=True, capture_output=True)


def keytab_of_the_tests_own(realm: Cluster, kdc: Kdc, folder: Path) -> dict[str, Any]:
    """A login by Kerberos, whose keytab and trust store are in this folder only."""
    extra = realm.broker.sasl_client_config("copier", "GSSAPI", tls=True)
    extra.pop("ssl.ca.pem")
    keytab = folder / "only-here.keytab"
    keytab.write_bytes(kdc.keytab("copier").read_bytes())
    return {**extra, **trust_store(realm.authority, folder), "sasl.kerberos.keytab": str(keytab)}


def values(broker: KafkaBroker, topic: str) -> list[bytes | None]:
    return [record.value for record in broker.consume(topic)]


def submit(spark: SparkJobHook, logins: JobCredentials, topic: str) -> JobReport:
    """Copy all of ``orders`` without asking any broker before."""
    request = copy_request(
        None,
        [f"orders:0:0:{RECORDS}"],
        instance=os.urandom(8).hex(),
        submission=1,
        run_id=uuid4().hex[:16],
        topic=topic,
        source_options=logins.source_options(),
        sink_options=logins.sink_options(),
    )
    return spark.run(request, lambda _: None, logins)
