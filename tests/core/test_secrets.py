from __future__ import annotations

import re

import pytest

from airflow_provider_kafka_spark.core.connection.client_config import translate
from airflow_provider_kafka_spark.core.connection.client_properties import LoginFiles
from airflow_provider_kafka_spark.core.connection.connection_form import FormFields
from airflow_provider_kafka_spark.core.connection.jaas import JaasLine
from airflow_provider_kafka_spark.core.connection.oidc import OidcLogin
from airflow_provider_kafka_spark.core.connection.sasl import PasswordLogin
from airflow_provider_kafka_spark.core.connection.tls import StoreSource, Tls
from airflow_provider_kafka_spark.core.secrets import REDACTION, holds_secret, is_secret, redact
from airflow_provider_kafka_spark.core.spark.secret_references import by_reference
from airflow_provider_kafka_spark.core.wire.job_credentials import JobCredentials

_SECRET = """
    sasl.jaas.config sasl.oauthbearer.assertion.private.key.file sasl.oauthbearer.assertion.private.key.passphrase
    sasl.oauthbearer.client.credentials.client.secret sasl.oauthbearer.client.secret sasl.password
    SSL.KEYSTORE.PASSWORD ssl.key.password ssl.keystore.key ssl.truststore.password delegation.token.hmac
    bearer.auth.token some.reporter.api.key some.reporter.accesskey
""".split()
_PLAIN = """
    bootstrap.servers sasl.oauthbearer.client.credentials.client.id sasl.oauthbearer.sub.claim.name
    sasl.oauthbearer.token.endpoint.url ssl.keystore.certificate.chain ssl.keystore.location ssl.keystore.type
    ssl.truststore.certificates key.serializer partitioner.ignore.keys client.id
""".split()
_PATTERNS = pytest.mark.parametrize("setting", ["spark.redaction.regex", "spark.sql.redaction.options.regex"])


@pytest.mark.parametrize("name", _SECRET)
def test_what_goes_to_a_file_is_hidden_everywhere(name: str) -> None:
    option = f"kafka.{name}"
    _, in_file = by_reference({option: "s3cret"}, "f", "sink")

    assert holds_secret(name)
    assert in_file == {f"sink.{option}": "s3cret"}
    assert redact("a s3cret b", [{option: "s3cret"}]) == "a *** b"
    assert redact("a s3cret b", [in_file]) == "a *** b"
    for named in (option, f"spark.kafka.clusters.east.{name}"):
        assert is_secret(named, "s3cret")
        assert re.search(REDACTION["spark.redaction.regex"], named)
        assert re.search(REDACTION["spark.sql.redaction.options.regex"], named)


@pytest.mark.parametrize("name", _PLAIN)
def test_what_is_not_secret_stays_where_it_is(name: str) -> None:
    """A message without it says less, and protects nothing."""
    option = f"kafka.{name}"

    assert not holds_secret(name)
    assert by_reference({option: "plain"}, "f", "sink") == ({option: "plain"}, {})
    assert redact("a plain b", [{option: "plain"}]) == "a plain b"


_HIDDEN_BY_SPARK = """
    kafka.sasl.jaas.config kafka.ssl.keystore.key kafka.ssl.key.password kafka.ssl.keystore.certificate.chain
    spark.kafka.clusters.east.ssl.truststore.password spark.hadoop.fs.s3a.access.key
    spark.openlineage.transport.auth.apiKey spark.hadoop.fs.azure.account.key.store.dfs.core.windows.net
    spark.hadoop.fs.azure.sas.box.store.blob.core.windows.net spark.hadoop.fs.gs.auth.service.account.private.key
    spark.hadoop.fs.s3a.encryption.key spark.ssl.rpc.privateKeyPassphrase spark.jdbc.pwd spark.yarn.appMasterEnv.DB_PWD
    spark.mysql.passwd.main
""".split()
_SHOWN_BY_SPARK = """
    kafka.bootstrap.servers subscribe startingOffsets kafka.security.protocol spark.app.name
    spark.sql.keyOrdering.enabled spark.kafka.consumer.cache.capacity spark.hadoop.yarn.resourcemanager.principal
    spark.hadoop.fs.azure.account.auth.type spark.hadoop.fs.s3a.encryption.algorithm spark.io.encryption.keySizeBits
""".split()


@_PATTERNS
def test_values_of_these_names_are_hidden_and_of_those_are_not(setting: str) -> None:
    hidden = [name for name in (*_HIDDEN_BY_SPARK, *_SHOWN_BY_SPARK) if re.search(REDACTION[setting], name)]

    assert hidden == _HIDDEN_BY_SPARK


@pytest.mark.parametrize("value", ["http://me:hunter2@proxy:3128/", "-Dx=1 -Dy=https://u:p%21@h/x"])
@_PATTERNS
def test_a_value_with_a_password_in_a_url_is_hidden(setting: str, value: str) -> None:
    assert re.search(REDACTION[setting], value)
    assert not re.search(REDACTION["spark.redaction.regex"], re.sub("//.*@", "//", value))
    assert not re.search(REDACTION["spark.redaction.regex"], "hdfs://namenode:8020/a@b")


def test_texts_lose_their_secrets_only() -> None:
    text = (
        'x PlainLoginModule required username="alice" password="a\\"b"; y -----BEGIN PRIVATE KEY-----\nMII\n-----END '
        "PRIVATE KEY----- z"
    )
    for setting in ("spark.redaction.string.regex", "spark.sql.redaction.string.regex"):
        assert re.sub(REDACTION[setting], "*", text) == 'x PlainLoginModule required username="alice" *; y * z'


@pytest.mark.parametrize(
    ("name", "value", "secret"),
    [
        pytest.param("spark.hadoop.fs.s3a.secret.key", "x", True, id="by-name"),
        pytest.param("spark.driver.extraJavaOptions", "-Djavax.net.ssl.keyStorePassword=x", True, id="by-value"),
        pytest.param("spark.x", "-----BEGIN PRIVATE KEY-----\nMII\n-----END PRIVATE KEY-----", True, id="key"),
        pytest.param("spark.x", "DefaultEndpointsProtocol=https;AccountKey=x", True, id="by-value-of-azure"),
        pytest.param("spark.jars.repositories", "https://ann:s3cret@host/maven", True, id="password-in-an-address"),
        pytest.param("spark.app.page", "http://host/?access_token=s3cret", True, id="token-in-an-address"),
        pytest.param("spark.jars.repositories", "https://host:8443/maven", False, id="an-address"),
        pytest.param("spark.executor.memory", "2g", False, id="plain"),
        pytest.param("spark.executorEnv.HOME", "{{PWD}}/home", False, id="yarns-working-directory"),
        pytest.param("spark.driver.extraJavaOptions", "-enableassertions", False, id="an-option-of-the-jvm"),
        pytest.param("spark.executorEnv.MOUNTS", "/etc/passwd:/etc/passwd:ro", False, id="a-containers-users"),
        pytest.param("spark.redaction.regex", "(?i)password", False, id="a-pattern"),
    ],
)
def test_which_properties_are_secret(name: str, value: str, secret: bool) -> None:
    assert is_secret(name, value) is secret


_EXTRA = {
    "bootstrap.servers": "b:9092",
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "PLAIN",
    "sasl.username": "hunter2-of-ann",
    "sasl.password": "hunter2",
}
_OIDC = OidcLogin("https://id/token", "ann", "hunter2", None, {})


@pytest.mark.parametrize(
    "holder",
    [
        FormFields("c", login="ann", password="hunter2", extra={"a": "hunter2"}),
        JaasLine("a.B", {"password": "hunter2"}),
        PasswordLogin("PLAIN", "ann", "hunter2"),
        PasswordLogin("PLAIN", "ann", "hunter2").properties(LoginFiles()),
        _OIDC,
        _OIDC.properties(LoginFiles()),
        Tls("c", key_store=StoreSource("ssl.keystore", "/k", "hunter2"), key_password="hunter2"),
        translate("c", _EXTRA),
        JobCredentials(translate("c", _EXTRA), translate("c", _EXTRA), spark_settings={"a.token": "hunter2"}),
    ],
    ids=lambda holder: type(holder).__name__,
)
def test_nothing_secret_is_shown(holder: object) -> None:
    """In a log, or in a traceback that shows what variables hold."""
    assert "hunter2" not in f"{holder} {holder!r}"


_JAAS_LINE = 'M required clientId="copier" clientSecret="s3cr\\"et";'
_KEY_LINE = "MIG" + "x" * 61
_KEY = f"-----BEGIN PRIVATE KEY-----\n{_KEY_LINE}\n-----END PRIVATE KEY-----\n"
_NESTED = {"sasl.jaas.config": 'x required username="u" password="abc";', "ssl.key.password": "abcdef"}
_ADDRESS = {"sasl.oauthbearer.token.endpoint.url": "https://ann:s3cr%2Fet@id.example.com/token"}


@pytest.mark.parametrize(
    ("options", "text", "shown"),
    [
        pytest.param({"sasl.jaas.config": _JAAS_LINE}, 'copier s3cr"et s3cr\\"et', "copier *** ***", id="in-a-jaas"),
        pytest.param({"ssl.keystore.key": _KEY}, f"line {_KEY_LINE}", "line ***", id="each-line-of-a-key"),
        pytest.param(_NESTED, "abcdef abc", "*** ***", id="one-within-another"),
        pytest.param({"ssl.key.password": ""}, "banana", "banana", id="no-password"),
        pytest.param({"ssl.key.password": "a"}, "banana", "banana", id="a-password-of-one-letter"),
        pytest.param(_ADDRESS, "s3cr/et is wrong", "*** is wrong", id="in-an-address-and-quoted-without-it"),
    ],
)
def test_what_is_inside_of_secret_options_is_redacted(options: dict[str, str], text: str, shown: str) -> None:
    assert redact(text, [{f"kafka.{name}": value for name, value in options.items()}]) == shown


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://id.example.com/token", "https://id.example.com/token"),
        ("https://id.example.com:8443/token?audience=kafka", "https://id.example.com:8443/token?audience=kafka"),
        ("https://ann:s3cr%2Fet@id.example.com/token", "https://ann:***@id.example.com/token"),
        ("https://ann:s3@cr:et@id.example.com/token", "https://ann:***@id.example.com/token"),
        (
            "https://id.example.com/token?client_id=ann&client_secret=s3cr%2Fet&scope=x",
            "https://id.example.com/token?client_id=ann&client_secret=***&scope=x",
        ),
        ("https://id.example.com/token?client_assertion=ey.ey.s3", "https://id.example.com/token?client_assertion=***"),
        ("https://id.example.com/token?access_token=ey.ey.s3#top", "https://id.example.com/token?access_token=***#top"),
    ],
)
def test_an_address_loses_its_secrets_only(url: str, shown: str) -> None:
    """Where tokens are had is needed to understand a failed login."""
    options = {"kafka.bootstrap.servers": "b:9092", "kafka.sasl.oauthbearer.token.endpoint.url": url}

    assert redact(f"no token from {url} for b:9092", [options]) == f"no token from {shown} for b:9092"
