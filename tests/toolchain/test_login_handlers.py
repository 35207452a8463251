from __future__ import annotations

import hashlib
import zipfile
from pathlib import Path

import pytest

from airflow_provider_kafka_spark.core.connection.client_config import translate
from airflow_provider_kafka_spark.core.errors import JarError
from airflow_provider_kafka_spark.toolchain.login_handlers import fetched_handler, has_class

_MSK = "software.amazon.msk.auth.iam.IAMClientCallbackHandler"
_GOOGLE = "com.google.cloud.hosted.kafka.auth.GcpLoginCallbackHandler"


def test_msk_s_handler_is_one_jar_known_by_its_content() -> None:
    [jar] = fetched_handler(_MSK)

    assert jar.name == "aws-msk-iam-auth-2.3.5-all.jar"
    assert hashlib.sha256(jar.read_bytes()).hexdigest().startswith("bcd6020ce1ca2c3f")


def test_the_jar_has_the_classes_that_a_connection_names() -> None:
    extra = {
        "bootstrap.servers": "b-1.demo.abc.c2.kafka.eu-west-1.amazonaws.com:9098",
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "OAUTHBEARER",
    }
    config = translate("msk", extra)
    jars = fetched_handler(str(config.login_handler))

    assert has_class(jars, config.java["sasl.client.callback.handler.class"])
    assert has_class(jars, config.java["sasl.jaas.config"].split()[0])
    assert not has_class(jars, _GOOGLE)


def test_google_s_handler_is_given_by_the_author() -> None:
    with pytest.raises(JarError, match=r"GcpLoginCallbackHandler.*managed-kafka-auth-login-handler:1\.0\.5.*jars"):
        fetched_handler(_GOOGLE)


def test_what_is_no_jar_has_no_class(tmp_path: Path) -> None:
    damaged, other = tmp_path / "damaged.jar", tmp_path / "other.jar"
    damaged.write_bytes(b"PK damaged")
    with zipfile.ZipFile(other, "w") as archive:
        archive.writestr("a/B.class", b"")

    assert has_class([damaged, tmp_path / "missing.jar", other], "a.B")
    assert not has_class([damaged, other], "a.C")
