from __future__ import annotations

import re

import pytest

from airflow_provider_kafka_spark.core.submission.redaction import REDACTION, is_secret


@pytest.mark.parametrize(
    "name",
    [
        "kafka.sasl.jaas.config",
        "kafka.ssl.keystore.key",
        "kafka.ssl.key.password",
        "kafka.ssl.keystore.certificate.chain",
        "spark.kafka.clusters.east.ssl.truststore.password",
        "spark.hadoop.fs.s3a.access.key",
        "spark.openlineage.transport.auth.apiKey",
        "spark.hadoop.fs.azure.account.key.store.dfs.core.windows.net",
        "spark.hadoop.fs.azure.sas.box.store.blob.core.windows.net",
        "spark.hadoop.fs.gs.auth.service.account.private.key",
        "spark.hadoop.fs.s3a.encryption.key",
        "spark.ssl.rpc.privateKeyPassphrase",
        "spark.jdbc.pwd",
        "spark.yarn.appMasterEnv.DB_PWD",
        "spark.mysql.passwd.main",
    ],
)
@pytest.mark.parametrize("setting", ["spark.redaction.regex", "spark.sql.redaction.options.regex"])
def test_values_of_these_are_hidden(setting: str, name: str) -> None:
    assert re.search(REDACTION[setting], name)


@pytest.mark.parametrize(
    "name",
    [
        "kafka.bootstrap.servers",
        "subscribe",
        "startingOffsets",
        "kafka.security.protocol",
        "spark.app.name",
        "spark.sql.keyOrdering.enabled",
        "spark.kafka.consumer.cache.capacity",
        "spark.hadoop.yarn.resourcemanager.principal",
        "spark.hadoop.fs.azure.account.auth.type",
        "spark.hadoop.fs.s3a.encryption.algorithm",
        "spark.io.encryption.keySizeBits",
    ],
)
@pytest.mark.parametrize("setting", ["spark.redaction.regex", "spark.sql.redaction.options.regex"])
def test_values_of_these_are_not(setting: str, name: str) -> None:
    assert not re.search(REDACTION[setting], name)


def test_texts_lose_their_secrets_only() -> None:
    text = 'x PlainLoginModule required username="alice" password="a\\"b"; y -----BEGIN PRIVATE KEY-----\nMII\n-----END PRIVATE KEY----- z'
    for setting in ("spark.redaction.string.regex", "spark.sql.redaction.string.regex"):
        assert re.sub(REDACTION[setting], "*", text) == 'x PlainLoginModule required username="alice" *; y * z'


@pytest.mark.parametrize(
    ("name", "value", "secret"),
    [
        pytest.param("spark.hadoop.fs.s3a.secret.key", "x", True, id="by-name"),
        pytest.param("spark.driver.extraJavaOptions", "-Djavax.net.ssl.keyStorePassword=x", True, id="by-value"),
        pytest.param("spark.x", "-----BEGIN PRIVATE KEY-----\nMII\n-----END PRIVATE KEY-----", True, id="key"),
        pytest.param("spark.x", "DefaultEndpointsProtocol=https;AccountKey=x", True, id="by-value-of-azure"),
        pytest.param("spark.executor.memory", "2g", False, id="plain"),
        pytest.param("spark.executorEnv.HOME", "{{PWD}}/home", False, id="yarns-working-directory"),
        pytest.param("spark.executorEnv.MOUNTS", "/etc/passwd:/etc/passwd:ro", False, id="a-containers-users"),
        pytest.param("spark.redaction.regex", "(?i)password", False, id="a-pattern"),
    ],
)
def test_which_properties_are_secret(name: str, value: str, secret: bool) -> None:
    assert is_secret(name, value) is secret
