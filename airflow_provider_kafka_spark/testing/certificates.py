"""Certificates for tests: a test authority that signs any certificate, including expired ones."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from airflow_provider_kafka_spark.core.errors import OptionError
from airflow_provider_kafka_spark.testing.ports import LOOPBACK

#: The host names of test brokers.
LOCAL_HOSTS = (LOOPBACK, "localhost")

# The clock of the verifying program may be a little slow.
_PAST = timedelta(hours=1)
_LIFE = timedelta(days=1)

_PrivateKey = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey


class CertificateFiles(NamedTuple):
    """The files of :meth:`Certificate.write`: a certificate and its key, both in PEM."""

    certificate: Path
    key: Path


@dataclass(frozen=True, slots=True)
class Certificate:
    """A certificate with its private key, all in PEM.

    :param common_name: the subject is ``CN=`` and this, so Kafka's principal is ``User:CN=`` and this
    :param certificate_pem: the certificate alone
    :param key_pem: the key as PKCS#8, encrypted if there is a password. OpenSSL reads both, and writes the same
        encryption by default (PBES2)
    :param plain_key_pem: the key as PKCS#8, never encrypted: the only form that Kafka's Java side reads, since it knows
        no PBES2
    :param traditional_key_pem: the key in its older form, never encrypted: ``BEGIN RSA PRIVATE KEY`` (PKCS#1), or
        ``BEGIN EC PRIVATE KEY``
    :param password: of ``key_pem``, None if that is not encrypted
    """

    common_name: str
    certificate_pem: str
    key_pem: str = field(repr=False)
    plain_key_pem: str = field(repr=False)
    traditional_key_pem: str = field(repr=False)
    password: str | None = field(repr=False, default=None)

    def write(self, folder: Path) -> CertificateFiles:
        """Write ``<common_name>.crt`` and, readable by the owner only, ``<common_name>.key`` (PKCS#8) into a folder."""
        files = CertificateFiles(folder / f"{self.common_name}.crt", folder / f"{self.common_name}.key")
        files.certificate.write_text(self.certificate_pem)
        write_secret(files.key, self.key_pem)
        return files


class CertificateAuthority:
    """A certificate authority that exists only in this process.

    Signing takes a millisecond, an RSA key a tenth of a second.

    :param common_name: distinguishes several authorities of one test
    """

    def __init__(self, common_name: str = "Testing CA") -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        name = _name(common_name)
        now = datetime.now(timezone.utc)
        # Valid for longer than any certificate of a test.
        builder = _builder(name, name, self._key, now - timedelta(days=3650), now + timedelta(days=3650))
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        builder = builder.add_extension(_key_usage(signs_certificates=True), critical=True)
        self._certificate = builder.sign(self._key, hashes.SHA256())

    @property
    def ca_pem(self) -> str:
        """The authority's own certificate."""
        return _pem(self._certificate)

    def write(self, folder: Path) -> Path:
        """Write :attr:`ca_pem` as ``ca.crt`` into a folder and return the file."""
        file = folder / "ca.crt"
        file.write_text(self.ca_pem)
        return file

    def issue(
        self,
        common_name: str,
        *,
        hosts: Sequence[str] = LOCAL_HOSTS,
        valid_from: datetime | None = None,
        valid_until: datetime | None = None,
        password: str | None = None,
        rsa_key: bool = False,
    ) -> Certificate:
        """Return a new certificate, good for a server and for a client.

        :param common_name: a name that is also a good file name, such as ``"broker"`` or ``"alice"``
        :param hosts: the names and IP addresses under which a client may reach the server
        :param valid_from: with a time zone; an hour ago by default, or earlier if ``valid_until`` asks for it
        :param valid_until: with a time zone; a day after now by default. One in the past makes an expired certificate
        :param password: encrypts ``key_pem``
        :param rsa_key: an RSA key of 2048 bits instead of one on the curve P-256
        :raises OptionError: the certificate would end before it begins, or a time has no time zone
        """
        now = datetime.now(timezone.utc)
        until = now + _LIFE if valid_until is None else valid_until
        begin = valid_from
        if begin is None and until.tzinfo is not None:
            begin = min(now, until) - _PAST
        if begin is None or begin.tzinfo is None or until.tzinfo is None or begin >= until:
            raise OptionError(
                "Expected valid_from to be before valid_until, both with a time zone, such as "
                f"datetime.now(timezone.utc) + timedelta(days=1); got {valid_from} and {valid_until}. Correct them."
            )
        key: _PrivateKey = rsa.generate_private_key(65537, 2048) if rsa_key else ec.generate_private_key(ec.SECP256R1())
        builder = _builder(_name(common_name), self._certificate.subject, key, begin, until)
        builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        builder = builder.add_extension(_key_usage(signs_certificates=False), critical=True)
        builder = builder.add_extension(
            x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False
        )
        builder = builder.add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False
        )
        if hosts:
            names = x509.SubjectAlternativeName([_host(host) for host in hosts])
            builder = builder.add_extension(names, critical=False)
        pkcs8, traditional = serialization.PrivateFormat.PKCS8, serialization.PrivateFormat.TraditionalOpenSSL
        return Certificate(
            common_name=common_name,
            certificate_pem=_pem(builder.sign(self._key, hashes.SHA256())),
            key_pem=_key_pem(key, pkcs8, password),
            plain_key_pem=_key_pem(key, pkcs8),
            traditional_key_pem=_key_pem(key, traditional),
            password=password,
        )


def write_secret(file: Path, text: str) -> None:
    """Write a file that at any time only its owner may read."""
    file.unlink(missing_ok=True)
    file.touch(mode=0o600)
    file.write_text(text)


def _builder(
    subject: x509.Name, issuer: x509.Name, key: _PrivateKey, begin: datetime, until: datetime
) -> x509.CertificateBuilder:
    builder = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer).public_key(key.public_key())
    builder = builder.serial_number(x509.random_serial_number()).not_valid_before(begin).not_valid_after(until)
    return builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _key_usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        key_encipherment=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _pem(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(serialization.Encoding.PEM).decode()


def _key_pem(key: _PrivateKey, form: serialization.PrivateFormat, password: str | None = None) -> str:
    encryption = serialization.BestAvailableEncryption(password.encode()) if password else serialization.NoEncryption()
    return key.private_bytes(serialization.Encoding.PEM, form, encryption).decode()
