"""Promises of reading a connection's files: whatever is wrong with one is named before anything is submitted."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ed25519
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from airflow_provider_kafka_spark.clients.connection.files import configure
from airflow_provider_kafka_spark.core.connection.client_config import KafkaClientConfig
from airflow_provider_kafka_spark.core.errors import ConnectionConfigError
from airflow_provider_kafka_spark.toolchain.java import find_java
from tests.services.certificates import Certificate, CertificateAuthority

Extra = dict[str, Any]
_AUTHORITY = CertificateAuthority()
_WRITER = _AUTHORITY.issue("writer")
_ENCRYPTED = _AUTHORITY.issue("locked", password="k3y-pass")


def _configure(**properties: Any) -> KafkaClientConfig:
    named = {name.replace("__", "."): value for name, value in properties.items()}
    return configure("my_kafka", {"bootstrap.servers": "b:9093", "security.protocol": "SSL", **named})


def _identity(folder: Path, certificate: Certificate = _WRITER) -> Extra:
    files = certificate.write(folder)
    return {"ssl__certificate__location": str(files.certificate), "ssl__key__location": str(files.key)}


def _error(**properties: Any) -> str:
    with pytest.raises(ConnectionConfigError) as raised:
        _configure(**properties)
    message = str(raised.value)
    assert "connection 'my_kafka'" in message
    for secret in ("-pass", *(c.key_pem.splitlines()[1] for c in (_WRITER, _ENCRYPTED))):
        assert secret not in message
    return message


def test_files_become_text_for_both_clients(tmp_path: Path) -> None:
    """So that no file of PEM has to travel, nor be there when Spark looks for it. Of a folder of authorities all
    certificates are taken, whatever their names; what is none is left out.
    """
    other = CertificateAuthority("Other CA")
    folder = tmp_path / "authorities"
    folder.mkdir()
    (folder / "a.pem").write_text(_AUTHORITY.ca_pem)
    (folder / "b.crt").write_text(other.ca_pem)
    (folder / "readme").write_text("certificates")
    config = _configure(ssl__ca__location=str(folder), **_identity(tmp_path))

    both = _AUTHORITY.ca_pem + other.ca_pem
    assert config.librdkafka["ssl.ca.pem"] == config.java["ssl.truststore.certificates"] == both
    assert config.java["ssl.keystore.certificate.chain"] == _WRITER.certificate_pem
    assert config.java["ssl.keystore.key"] == config.librdkafka["ssl.key.pem"] == _WRITER.plain_key_pem
    assert config.files == ()
    assert _WRITER.plain_key_pem in config.secrets


@pytest.mark.parametrize("name", ["key_pem", "traditional_key_pem"])
def test_every_key_is_given_in_the_form_that_java_reads(name: str) -> None:
    """Encrypted ones and older forms too."""
    certificate = _ENCRYPTED if name == "key_pem" else _WRITER
    config = _configure(
        ssl__certificate__pem=certificate.certificate_pem,
        ssl__key__pem=getattr(certificate, name),
        ssl__key__password=certificate.password,
    )

    assert config.java["ssl.keystore.key"] == certificate.plain_key_pem


def test_the_end_of_the_clients_certificate_is_known(tmp_path: Path) -> None:
    """Brokers do not return this reason. One that has ended is no fault of the file: the brokers decide. It comes first
    in whatever order the file has them, and a password for a key that has none does no harm. Without TLS no disk is
    touched.
    """
    ends = datetime(2026, 1, 2, tzinfo=timezone.utc)
    old = _AUTHORITY.issue("old", valid_until=ends)
    identity = _identity(tmp_path, old)
    Path(identity["ssl__certificate__location"]).write_text(_AUTHORITY.ca_pem + old.certificate_pem)
    config = _configure(**identity, ssl__key__password="k3y-pass")

    assert config.certificate_expires_at == ends
    assert config.java["ssl.keystore.certificate.chain"] == old.certificate_pem + _AUTHORITY.ca_pem
    assert configure("my_kafka", {"bootstrap.servers": "b:9093"}).certificate_expires_at is None


def _with_key(text: str) -> Callable[[Path], Extra]:
    def change(folder: Path) -> Extra:
        identity = _identity(folder)
        Path(identity["ssl__key__location"]).write_text(text)
        return identity

    return change


def _with_ca(content: bytes) -> Callable[[Path], Extra]:
    def change(folder: Path) -> Extra:
        (folder / "ca").write_bytes(content)
        return {"ssl__ca__location": str(folder / "ca")}

    return change


def _pipe(folder: Path) -> Extra:
    os.mkfifo(folder / "pipe")
    return {"ssl__ca__location": str(folder / "pipe")}


def _sparse(folder: Path) -> Extra:
    with (folder / "sparse").open("wb") as file:
        file.truncate(1 << 40)
    return {"ssl__ca__location": str(folder / "sparse")}


def _many_files(folder: Path) -> Extra:
    for number in range(1_001):
        (folder / str(number)).touch()
    return {"ssl__ca__location": str(folder)}


def _many_bytes(folder: Path) -> Extra:
    for number in range(9):
        (folder / str(number)).write_bytes(bytes(1 << 20))
    return {"ssl__ca__location": str(folder)}


def _with_no_keytab(folder: Path) -> Extra:
    (folder / "c").write_text("copier")
    return {**_GSSAPI, "sasl__kerberos__principal": "c@R", "sasl__kerberos__keytab": str(folder / "c")}


def _with_no_ca_of_the_provider(folder: Path) -> Extra:
    return {
        "security__protocol": "SASL_PLAINTEXT",
        "sasl__mechanism": "OAUTHBEARER",
        "sasl__oauthbearer__method": "oidc",
        "sasl__oauthbearer__token__endpoint__url": "https://id/token",
        "sasl__oauthbearer__client__id": "id",
        "sasl__oauthbearer__client__secret": "s3cret-pass",
        "https__ca__location": str(folder / "ca.crt"),
    }


_GSSAPI = {"security__protocol": "SASL_PLAINTEXT", "sasl__mechanism": "GSSAPI"}
_DAMAGED = _WRITER.plain_key_pem.replace(_WRITER.plain_key_pem.splitlines()[1], "AAAA" * 16)
_ED25519 = ed25519.Ed25519PrivateKey.generate().private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda f: {"ssl__ca__location": str(f / "no.pem")},
         ["ssl.ca.location", "no.pem: No such file or directory", "on this worker"]),
        (lambda f: {"ssl__ca__location": str(f)}, ["ssl.ca.location", "has none"]),
        (lambda f: {**_identity(f), "ssl__key__location": str(f)}, ["ssl.key.location", "no regular file"]),
        (_pipe, ["ssl.ca.location", "no regular file"]),
        (lambda _: {"ssl__ca__location": "/dev/zero"}, ["no regular file"]),
        (_sparse, ["ssl.ca.location", "larger than 1 MiB"]),
        (_many_files, ["ssl.ca.location", "more than 1,000 files"]),
        (_many_bytes, ["ssl.ca.location", "more than 8 MiB"]),
        (_with_ca(b""), ["certificates in PEM", "it has none", "openssl x509 -inform der"]),
        (_with_ca(b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"), ["none that can be read"]),
        (_with_key("no key"), ["ssl.key.location", "private key in PEM", "; got: "]),
        (_with_key(_DAMAGED), ["ssl.key.location", "Could not deserialize key data."]),
        (_with_key(_AUTHORITY.issue("x").key_pem), ["must be the key of the certificate", "key of another one"]),
        (_with_key(_ED25519.decode()), ["RSA, EC or DSA", "got Ed25519"]),
        (lambda f: _identity(f, _ENCRYPTED), ["key is encrypted", "ssl.key.password"]),
        (lambda f: {**_identity(f, _ENCRYPTED), "ssl__key__password": "other-pass"}, ["if it is encrypted; got: "]),
        (lambda f: {**_GSSAPI, "sasl__kerberos__principal": "c@R", "sasl__kerberos__keytab": str(f / "c")},
         ["No such file"]),
        (_with_no_keytab, ["Copy it again"]),
        (_with_no_ca_of_the_provider, ["https.ca.location"]),
    ],
)  # fmt: skip
def test_a_file_that_is_not_good_is_named(tmp_path: Path, change: Callable[[Path], Extra], words: list[str]) -> None:
    """With the property, the reason and what to do."""
    message = _error(**change(tmp_path))
    for word in words:
        assert word in message


def test_a_file_that_may_not_be_read_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the worker's user, which the message names; the tests' own user may read everything."""
    ca = _AUTHORITY.write(tmp_path)

    def refuse(*_: object) -> int:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "open", refuse)
    message = _error(ssl__ca__location=str(ca))

    assert f"{ca}: Permission denied" in message
    assert f"user {os.geteuid()}" in message
    assert "permissions of the file" in message


def test_a_pipe_that_replaces_a_file_does_not_block(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is the opened file that is looked at, so that nothing is gained by swapping the path in between."""
    ca = _AUTHORITY.write(tmp_path)
    opened = os.open

    def swap(path: str, flags: int, *more: Any, **named: Any) -> int:
        if path == str(ca):
            ca.unlink()
            os.mkfifo(ca)
        return opened(path, flags, *more, **named)

    monkeypatch.setattr(os, "open", swap)

    assert "no regular file" in _error(ssl__ca__location=str(ca))


@pytest.mark.parametrize(
    "content", [pytest.param(bytes(2 << 20), id="large"), pytest.param(b"-----BEGIN CERTIFICATE-----", id="damaged")]
)
def test_an_error_names_no_file_of_a_folder(tmp_path: Path, content: bytes) -> None:
    """A connection may name any folder; the error is no list of what is in it."""
    (tmp_path / "payroll-2026").write_bytes(content)

    message = _error(ssl__ca__location=str(tmp_path))

    assert str(tmp_path) in message
    assert "payroll" not in message


def _keytool(*arguments: object) -> None:
    command = [find_java().executable.parent / "keytool", *arguments, "-noprompt"]
    subprocess.run(list(map(str, command)), check=True, capture_output=True)


def _pkcs12(folder: Path) -> Path:
    files, store = _WRITER.write(folder), folder / "store.p12"
    command = ["openssl", "pkcs12", "-export", "-in", files.certificate, "-inkey", files.key, "-out", store]
    subprocess.run([*command, "-passout", "pass:st0re-pass"], check=True)
    return store


def test_a_pkcs12_store_is_opened_for_both(tmp_path: Path) -> None:
    """So that it needs not travel either."""
    store = _pkcs12(tmp_path)
    config = _configure(ssl__keystore__location=str(store), ssl__keystore__password="st0re-pass")

    assert config.librdkafka["ssl.certificate.pem"] == _WRITER.certificate_pem
    assert config.java["ssl.keystore.type"] == "PEM"
    assert config.files == ()
    assert "st0re-pass" in config.secrets

    for password in ("other-pass", None):
        message = _error(ssl__keystore__location=str(store), ssl__keystore__password=password)
        assert f"does not open {'by this password' if password else 'without a password'}" in message
        assert "ssl.keystore.password" in message


def test_a_java_key_store_travels_and_its_password_is_checked(tmp_path: Path) -> None:
    """Java reads it where the job runs, and librdkafka has the same in PEM."""
    ca, store = _AUTHORITY.write(tmp_path), tmp_path / "trust.jks"
    _keytool("-importcert", "-file", ca, "-keystore", store, "-storetype", "JKS", "-storepass", "st0re-pass")
    trust = {"ssl__truststore__location": str(store), "ssl__truststore__type": "JKS"}
    config = _configure(**trust, ssl__truststore__password="st0re-pass", ssl__ca__location=str(ca))

    assert config.librdkafka["ssl.ca.pem"] == _AUTHORITY.ca_pem
    assert config.java["ssl.truststore.location"] == str(store)
    assert config.files == (str(store),)
    options = config.spark_options(by_name=True)
    assert options["kafka.ssl.truststore.location"] == "trust.jks"

    assert "the password is wrong" in _error(**trust, ssl__truststore__password="other-pass", ssl__ca__location=str(ca))
    assert "Convert it to PKCS#12" in _error(**trust, ssl__truststore__password="st0re-pass")


def test_tickets_that_are_not_there_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """kinit without KRB5CCNAME may store tickets that are in no file."""
    monkeypatch.setenv("KRB5CCNAME", f"FILE:{tmp_path / 'tickets'}")
    message = _error(**_GSSAPI)
    assert f"{tmp_path}/tickets does not exist on this worker" in message
    assert "Run kinit" in message
    monkeypatch.delenv("KRB5CCNAME")
    monkeypatch.setattr(os, "getuid", lambda: 4_000_000_000)
    message = _error(**_GSSAPI)
    for words in ("KRB5CCNAME not set: /tmp/krb5cc_4000000000 does not exist", "kinit -c FILE:/path"):
        assert words in message


def test_the_identity_providers_authority_is_read(tmp_path: Path) -> None:
    _AUTHORITY.write(tmp_path)
    assert _configure(**_with_no_ca_of_the_provider(tmp_path)).librdkafka["https.ca.pem"] == _AUTHORITY.ca_pem
