"""The settings for Spark's own delegation tokens, handed to Spark's own classes, with a real realm and two real
clusters.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from airflow_provider_kafka_spark.clients.connection.files import configure
from airflow_provider_kafka_spark.core.tokens.spark_tokens import cluster_settings, obtained_by_spark, without_login
from airflow_provider_kafka_spark.core.wire.protocol import JobReport, JobRequest
from airflow_provider_kafka_spark.core.wire.report_mac import verified
from airflow_provider_kafka_spark.testing.broker_client import Record
from airflow_provider_kafka_spark.testing.broker_properties import BrokerTls
from airflow_provider_kafka_spark.testing.kafka_broker import KafkaBroker
from tests.faults.drivers import spark_submit
from tests.jobs.runs import copy_request
from tests.required_tools import needs_kdc
from tests.services.certificates import CertificateAuthority
from tests.services.kerberos import Kdc

pytestmark = [
    pytest.mark.broker,
    pytest.mark.spark,
    needs_kdc,
]

_RECORDS = 200
_SECONDS = 120.0


@pytest.fixture(scope="module")
def clusters() -> Iterator[tuple[Kdc, KafkaBroker, KafkaBroker]]:
    """One realm, and two clusters, of which one has TLS."""
    with ExitStack() as stack:
        kdc = stack.enter_context(Kdc())
        authority = CertificateAuthority()
        tls = BrokerTls(authority.issue("broker"), authority.ca_pem)
        yield (
            kdc,
            stack.enter_context(KafkaBroker(kerberos=kdc)),
            stack.enter_context(KafkaBroker(kerberos=kdc, tls=tls)),
        )


@pytest.mark.long
def test_spark_obtains_tokens_for_two_clusters_and_copies_on_them(
    clusters: tuple[Kdc, KafkaBroker, KafkaBroker], tmp_path: Path
) -> None:
    """Nothing in the job's options says how to log in, and both listeners ask for it."""
    kdc, source, target = clusters
    source.create_topic("orders", 2)
    target.create_topic("copy", 2)
    source.produce("orders", [Record(b"%d" % n, b"v", partition=n % 2) for n in range(_RECORDS)])
    from_ = configure("from.here", source.sasl_client_config("copier", "GSSAPI"))
    to = configure("to", target.sasl_client_config("copier", "GSSAPI", tls=True))
    settings = cluster_settings(obtained_by_spark([from_, to]))
    assert {value for name, value in settings.items() if name.endswith("security.protocol")} == {
        "SASL_PLAINTEXT",
        "SASL_SSL",
    }

    request = copy_request(
        None,
        [f"orders:{p}:0:{_RECORDS // 2}" for p in range(2)],
        instance=os.urandom(8).hex(),
        submission=1,
        run_id="0123456789abcdef",
        topic="copy",
        source_options=without_login(from_).spark_options(by_name=True),
        sink_options=without_login(to).spark_options(by_name=True),
    )
    request = replace(request, report_uri=str(tmp_path / "report.json"))
    assert not [name for name in (*request.source_options, *request.sink_options) if "sasl" in name.lower()]
    said = _submit(request, settings, kdc, tmp_path)

    assert (tmp_path / "report.json").exists(), said
    report = JobReport.from_json(verified((tmp_path / "report.json").read_text(), request.report_key))
    assert report.failure is None, report.failure
    (obtained,) = [line for line in said.splitlines() if line.startswith("tokens:")]
    assert obtained == "tokens: ['kafka.server.delegation.token.from_here-0', 'kafka.server.delegation.token.to-1']"
    assert sum(r.records_written for r in report.ranges) == _RECORDS
    assert len(target.consume("copy")) == _RECORDS


def _submit(request: JobRequest, settings: dict[str, str], kdc: Kdc, folder: Path) -> str:
    """What the driver says."""
    file, keytab = folder / "request.json", {"spark.kerberos.keytab": str(kdc.keytab("copier"))}
    file.write_text(request.to_json())
    conf = {**settings, **keytab, "spark.kerberos.principal": kdc.principal("copier")}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPARK_SUBMIT_OPTS", f"-Djava.security.krb5.conf={kdc.krb5_conf}")
        process = spark_submit(folder, "local[2]", Path(__file__).with_name("obtaining_tokens.py"), file, conf)
    process.wait(_SECONDS)
    return (folder / "log").read_text()
