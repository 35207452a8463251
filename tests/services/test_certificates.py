"""Promises of :mod:`tests.services.certificates`, checked by OpenSSL, as Python's ssl has it."""

from __future__ import annotations

import socket
import ssl
import stat
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from pathlib import Path
from threading import Thread

import pytest

from tests.services.certificates import Certificate, CertificateAuthority

_NOW = datetime.now(timezone.utc)
_HANDSHAKE_SECONDS = 10.0

Greet = Callable[..., str]


@pytest.fixture(scope="module")
def authority() -> CertificateAuthority:
    """The authority that both sides trust by default."""
    return CertificateAuthority()


@pytest.fixture
def greet(authority: CertificateAuthority, tmp_path: Path) -> Greet:
    """Do a handshake and return the client that the server saw: ``greet(server's, host, client's=None,
    trusted=authority)``.
    """

    def do(
        server: Certificate, host: str, client: Certificate | None = None, trusted: CertificateAuthority = authority
    ) -> str:
        serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        _load(serving, server, tmp_path)
        serving.load_verify_locations(cadata=authority.ca_pem)
        asking = ssl.create_default_context(cadata=trusted.ca_pem)
        if client is not None:
            serving.verify_mode = ssl.CERT_REQUIRED
            _load(asking, client, tmp_path)
        return _handshake(serving, asking, host)

    return do


@pytest.mark.parametrize("rsa_key", [False, True], ids=["ec", "rsa"])
@pytest.mark.parametrize("password", [None, "s3cret"], ids=["plain-key", "encrypted-key"])
@pytest.mark.parametrize("host", ["localhost", "127.0.0.1"])
def test_a_server_is_who_its_certificate_says(
    authority: CertificateAuthority, greet: Greet, host: str, password: str | None, rsa_key: bool
) -> None:
    """A client that trusts the authority connects, by name and by address, whatever the key's kind."""
    server = authority.issue("broker", password=password, rsa_key=rsa_key)
    assert greet(server, host) == ""
    assert ("ENCRYPTED" in server.key_pem.splitlines()[0]) == (password is not None)


def test_a_client_is_known_by_its_common_name(authority: CertificateAuthority, greet: Greet) -> None:
    """The same kind of certificate serves a client."""
    assert greet(authority.issue("broker"), "localhost", authority.issue("alice")) == "alice"


def test_a_server_of_another_name_is_refused(authority: CertificateAuthority, greet: Greet) -> None:
    """The host names are those that were given, and no others."""
    server = authority.issue("broker", hosts=["broker.example"])
    assert greet(server, "broker.example") == ""
    with pytest.raises(ssl.SSLCertVerificationError, match=r"(?i)hostname mismatch"):
        greet(server, "localhost")


def test_an_unknown_authority_is_refused(authority: CertificateAuthority, greet: Greet) -> None:
    """Two authorities have nothing in common, not even of the same name."""
    with pytest.raises(ssl.SSLCertVerificationError, match=r"self-signed certificate|unable to get local issuer"):
        greet(authority.issue("broker"), "localhost", trusted=CertificateAuthority())


@pytest.mark.parametrize(
    ("valid", "reason"),
    [
        pytest.param({"valid_until": _NOW - timedelta(minutes=1)}, "has expired", id="expired"),
        pytest.param({"valid_from": _NOW + timedelta(hours=20)}, "not yet valid", id="not-yet-valid"),
    ],
)
def test_a_certificate_is_good_for_its_time_only(
    authority: CertificateAuthority, greet: Greet, valid: dict[str, datetime], reason: str
) -> None:
    """An expired certificate needs no waiting."""
    with pytest.raises(ssl.SSLCertVerificationError, match=reason):
        greet(authority.issue("broker", **valid), "localhost")


@pytest.mark.parametrize(
    ("rsa_key", "heading"),
    [pytest.param(True, "BEGIN RSA PRIVATE KEY", id="pkcs1"), pytest.param(False, "BEGIN EC PRIVATE KEY", id="sec1")],
)
def test_a_key_has_an_older_form(authority: CertificateAuthority, tmp_path: Path, rsa_key: bool, heading: str) -> None:
    """The same key in the form that Java cannot read, for tests that expect so."""
    certificate = authority.issue("alice", password="s3cret", rsa_key=rsa_key)
    assert heading in certificate.traditional_key_pem.splitlines()[0]
    (tmp_path / "old.key").write_text(certificate.traditional_key_pem)
    (tmp_path / "alice.crt").write_text(certificate.certificate_pem)
    ssl.create_default_context().load_cert_chain(tmp_path / "alice.crt", tmp_path / "old.key")


def test_files_keep_the_key_secret(authority: CertificateAuthority, tmp_path: Path) -> None:
    """Only the owner may read a key, and neither key nor password is in a representation."""
    certificate = authority.issue("alice", password="s3cret")
    for _ in range(2):  # writing again replaces
        files = certificate.write(tmp_path)
    assert files.certificate.read_text() == certificate.certificate_pem
    assert files.key.read_text() == certificate.key_pem
    assert stat.S_IMODE(files.key.stat().st_mode) == 0o600
    assert authority.write(tmp_path).read_text() == authority.ca_pem
    assert "PRIVATE KEY" not in repr(certificate)
    assert "s3cret" not in repr(certificate)


def _load(context: ssl.SSLContext, certificate: Certificate, folder: Path) -> None:
    files = certificate.write(folder)
    context.load_cert_chain(files.certificate, files.key, certificate.password)


def _handshake(serving: ssl.SSLContext, asking: ssl.SSLContext, host: str) -> str:
    """Return the common name that the server saw, or nothing if the client showed no certificate."""
    seen: list[str] = []
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(_HANDSHAKE_SECONDS)

        def serve() -> None:
            connection, _ = server.accept()
            connection.settimeout(_HANDSHAKE_SECONDS)
            try:
                with serving.wrap_socket(connection, server_side=True) as secured:
                    subject = (secured.getpeercert() or {}).get("subject", ())
                    seen.append(dict(pair for names in subject for pair in names).get("commonName", ""))
                    secured.sendall(b"x")
            except OSError:
                connection.close()

        thread = Thread(target=serve, daemon=True)
        thread.start()
        try:
            with (
                socket.create_connection(server.getsockname()[:2], timeout=_HANDSHAKE_SECONDS) as plain,
                asking.wrap_socket(plain, server_hostname=host) as secured,
            ):
                # With TLS 1.3 the server checks the client after the client's side of the handshake has ended.
                secured.recv(1)
        finally:
            thread.join(_HANDSHAKE_SECONDS)
    return seen[0]
