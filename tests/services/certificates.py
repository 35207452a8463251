"""Certificates for tests, by trustme: an authority that signs any certificate, including expired ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

import trustme
from cryptography.hazmat.primitives import serialization

from airflow_provider_kafka_spark.testing.broker_properties import write_secret
from airflow_provider_kafka_spark.testing.ports import LOOPBACK

#: The host names of test brokers.
LOCAL_HOSTS = (LOOPBACK, "localhost")


class CertificateFiles(NamedTuple):
    """The files of :meth:`Certificate.write`: a certificate and its key, both in PEM."""

    certificate: Path
    key: Path


@dataclass(frozen=True, slots=True)
class Certificate:
    """A certificate with its private key, all in PEM.

    :param common_name: for test brokers the principal is ``User:CN=`` and this
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

    :param name: distinguishes several authorities of one test
    """

    def __init__(self, name: str = "Testing CA") -> None:
        self._authority = trustme.CA(organization_unit_name=name)

    @property
    def ca_pem(self) -> str:
        """The authority's own certificate."""
        return self._authority.cert_pem.bytes().decode()

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
        valid_until: datetime | None = None,
        password: str | None = None,
        rsa_key: bool = False,
    ) -> Certificate:
        """Return a new certificate, good for a server and for a client.

        :param common_name: a name that is also a good file name, such as ``"broker"`` or ``"alice"``
        :param hosts: the names and IP addresses under which a client may reach the server
        :param valid_until: in the past for an expired certificate
        :param password: encrypts ``key_pem``
        :param rsa_key: an RSA key of 2048 bits instead of one on the curve P-256
        """
        issued = self._authority.issue_cert(
            *hosts,
            common_name=common_name,
            not_after=valid_until,
            key_type=trustme.KeyType.RSA if rsa_key else trustme.KeyType.ECDSA,
        )
        traditional = issued.private_key_pem.bytes()
        return Certificate(
            common_name=common_name,
            certificate_pem=issued.cert_chain_pems[0].bytes().decode(),
            key_pem=_pkcs8(traditional, password),
            plain_key_pem=_pkcs8(traditional),
            traditional_key_pem=traditional.decode(),
            password=password,
        )


def _pkcs8(key_pem: bytes, password: str | None = None) -> str:
    key = serialization.load_pem_private_key(key_pem, None)
    encryption = serialization.BestAvailableEncryption(password.encode()) if password else serialization.NoEncryption()
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption).decode()
