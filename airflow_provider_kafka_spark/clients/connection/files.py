"""Read the files of a connection's login on this worker: certificates, keys, key stores, a keytab, tickets."""

from __future__ import annotations

import hashlib
import os
import socket
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import dsa, ec, rsa
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
    pkcs12,
)

from airflow_provider_kafka_spark.clients.connection.login_file import read_login_file, read_login_folder
from airflow_provider_kafka_spark.core.connection.client_config import KafkaClientConfig, translate
from airflow_provider_kafka_spark.core.connection.client_properties import LoginFiles
from airflow_provider_kafka_spark.core.connection.connection_extra import PemSource
from airflow_provider_kafka_spark.core.connection.kerberos import (
    KerberosLogin,
    no_tickets,
    ticket_cache_path,
    validate_principals,
)
from airflow_provider_kafka_spark.core.connection.oidc import OidcLogin
from airflow_provider_kafka_spark.core.connection.sasl import Login
from airflow_provider_kafka_spark.core.connection.tls import StoreSource, Tls
from airflow_provider_kafka_spark.core.errors import ConnectionConfigError
from airflow_provider_kafka_spark.toolchain.settings import TOKEN_ENDPOINT_HOSTS, token_endpoint_hosts

_Key = rsa.RSAPrivateKey | dsa.DSAPrivateKey | ec.EllipticCurvePrivateKey
_JKS_MAGIC = b"\xfe\xed\xfe\xed"


def configure(conn_id: str, extra: Mapping[str, Any]) -> KafkaClientConfig:
    """The configurations of both clients, with the contents of the connection's files.

    :param extra: a librdkafka configuration, or one with Java's names.
    :raises ConnectionConfigError: if the connection cannot be translated, or one of its files is missing, unreadable,
        damaged, or of another kind; with property, path and reason.
    """
    return translate(conn_id, extra, _Reader(conn_id).read)


class _Reader:
    def __init__(self, conn_id: str) -> None:
        self._conn_id = conn_id

    def read(self, tls: Tls | None, login: Login | None) -> LoginFiles:
        found = self._tls(tls) if tls else {}
        if isinstance(login, KerberosLogin):
            found |= self._kerberos(login)
        if isinstance(login, OidcLogin):
            self._check_token_endpoint(login.url)
            if login.authorities:
                found["https_ca_certificates"] = self._authorities(login.authorities)
        return LoginFiles(**found)

    def _check_token_endpoint(self, url: str) -> None:
        """Worker, driver and executors send a request there, and who edits the connection chooses the address."""
        permitted, host = token_endpoint_hosts(), urlsplit(url).hostname
        if permitted is not None and host not in permitted:
            raise self._error(
                "sasl.oauthbearer.token.endpoint.url",
                f"an address at one of the hosts of {TOKEN_ENDPOINT_HOSTS}; got the host {host!r}. Correct the "
                "address, or have the host added to the setting.",
            )

    def _tls(self, tls: Tls) -> dict[str, Any]:
        found: dict[str, Any] = {}
        if tls.ca_certificates:
            found["ca_certificates"] = self._authorities(tls.ca_certificates)
        if tls.certificate and tls.key:
            chain = self._certificates(tls.certificate.name, self._pem(tls.certificate))
            key = self._key(tls.key.name, self._pem(tls.key), tls.key_password)
            found |= self._identity(tls.certificate.name, chain, tls.key.name, key)
        if tls.trust_store:
            found |= self._trust_store(tls.trust_store)
        if tls.key_store:
            found |= self._key_store(tls.key_store, tls.key_password)
        return found

    def _kerberos(self, login: KerberosLogin) -> dict[str, Any]:
        if login.keytab:
            content = self._file("sasl.kerberos.keytab", login.keytab)
            validate_principals(self._conn_id, login.principal or "", login.keytab, content)
            return {}
        variable = os.environ.get("KRB5CCNAME")
        path = ticket_cache_path(login, self._conn_id, variable, os.getuid())
        if not Path(path).exists():
            raise no_tickets(self._conn_id, variable, f"{path} does not exist {_here()}")
        return {"ticket_cache": path}

    def _authorities(self, source: PemSource) -> str:
        if source.location and Path(source.location).is_dir():
            return _as_pem(self._folder(source.name, Path(source.location)))
        return _as_pem(self._certificates(source.name, self._pem(source)))

    def _folder(self, name: str, folder: Path) -> list[x509.Certificate]:
        """All certificates of a folder; librdkafka alone reads only those with names by ``c_rehash``."""
        try:
            contents = read_login_folder(str(folder))
        except OSError as error:
            raise self._unreadable(name, folder, error) from error
        # A connection may name any folder, so the names of its files are not shown.
        found = [
            certificate
            for content in contents
            if b"-----BEGIN CERTIFICATE-----" in content
            for certificate in self._certificates(f"{name}, a file of the folder {folder},", content)
        ]
        if not found:
            raise self._error(name, f"a folder with certificates in PEM; {folder} has none.")
        return list(dict.fromkeys(found))

    def _trust_store(self, store: StoreSource) -> dict[str, Any]:
        content = self._file(store.name, store.location)
        if self._is_jks(store, content):
            return {"jks_trust_store": True}
        if b"-----BEGIN" in content:
            return {"ca_certificates": _as_pem(self._certificates(store.name, content))}
        opened = self._pkcs12(store, content)
        trusted = [c.certificate for c in (opened.cert, *opened.additional_certs) if c is not None]
        if not trusted:
            raise self._error(store.name, f"a store with trusted certificates; {store.location} has none.")
        return {"ca_certificates": _as_pem(trusted)}

    def _key_store(self, store: StoreSource, key_password: str | None) -> dict[str, Any]:
        content = self._file(store.name, store.location)
        if self._is_jks(store, content):
            return {"jks_key_store": True}
        if b"-----BEGIN" in content:
            chain = self._certificates(store.name, content)
            return self._identity(store.name, chain, store.name, self._key(store.name, content, key_password))
        opened = self._pkcs12(store, content)
        if opened.key is None or opened.cert is None:
            raise self._error(store.name, f"a store with a private key and its certificate; {store.location} has none.")
        chain = [opened.cert.certificate, *(c.certificate for c in opened.additional_certs)]
        return self._identity(store.name, chain, store.name, self._supported(store.name, opened.key))

    def _identity(self, chain_name: str, chain: list[x509.Certificate], key_name: str, key: _Key) -> dict[str, Any]:
        """A certificate and its key, which must match; the client's own certificate comes first."""
        own = [certificate for certificate in chain if _public(certificate.public_key()) == _public(key.public_key())]
        if not own:
            raise self._error(
                key_name,
                f"the key of the certificate in {chain_name}; it is the key of another one. Give the two that were "
                "made together.",
            )
        return {
            "chain": _as_pem([own[0], *(c for c in chain if c != own[0])]),
            "key": key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode(),
            "certificate_expires_at": own[0].not_valid_after_utc,
        }

    def _certificates(self, name: str, pem: bytes) -> list[x509.Certificate]:
        try:
            return x509.load_pem_x509_certificates(pem)
        except ValueError:
            raise self._error(
                name,
                "certificates in PEM ('-----BEGIN CERTIFICATE-----'); it has none that can be read. Convert DER by "
                "openssl x509 -inform der, or a Java key store by keytool -exportcert -rfc.",
            ) from None

    def _key(self, name: str, pem: bytes, password: str | None) -> _Key:
        try:
            # librdkafka ignores a password for an unencrypted key.
            key = load_pem_private_key(pem, password.encode() if password and b"ENCRYPTED" in pem else None)
        except (ValueError, TypeError, UnsupportedAlgorithm) as error:
            raise self._error(
                name,
                "a private key in PEM ('-----BEGIN PRIVATE KEY-----'), with its ssl.key.password if it is encrypted; "
                f"got: {_first_sentence(error)}.",
            ) from None
        return self._supported(name, key)

    def _supported(self, name: str, key: object) -> _Key:
        if not isinstance(key, (rsa.RSAPrivateKey, dsa.DSAPrivateKey, ec.EllipticCurvePrivateKey)):
            kind = type(key).__name__.removesuffix("PrivateKey").lstrip("_")
            raise self._error(
                name, f"a key of the kind RSA, EC or DSA, since Kafka's Java client reads no other; got {kind}."
            )
        return key

    def _is_jks(self, store: StoreSource, content: bytes) -> bool:
        """Whether only Java can read the store, which then checks its password on the cluster.

        Java also reads PKCS#12 under the name JKS, its former default, so the declared type does not count.
        """
        if not content.startswith(_JKS_MAGIC):
            return False
        # The last 20 bytes are a digest of the password, this text, and the rest.
        salted = (store.password or "").encode("utf-16-be") + b"Mighty Aphrodite" + content[:-20]
        if store.password and hashlib.sha1(salted, usedforsecurity=False).digest() != content[-20:]:
            raise self._error(
                store.name,
                f"a store that {store.stem}.password opens; the password is wrong, or {store.location} is damaged.",
            )
        return True

    def _pkcs12(self, store: StoreSource, content: bytes) -> pkcs12.PKCS12KeyAndCertificates:
        try:
            return pkcs12.load_pkcs12(content, store.password.encode() if store.password else None)
        except (ValueError, UnsupportedAlgorithm) as error:
            raise self._error(
                store.name,
                f"a store of the type PEM, PKCS12 or JKS that {store.stem}.password opens; {store.location} does not "
                f"open {'by this password' if store.password else 'without a password'}: {_first_sentence(error)}.",
            ) from None

    def _pem(self, source: PemSource) -> bytes:
        return source.pem.encode() if source.pem else self._file(source.name, source.location or "")

    def _file(self, name: str, location: str) -> bytes:
        try:
            return read_login_file(location)
        except OSError as error:
            raise self._unreadable(name, Path(location), error) from error

    def _unreadable(self, name: str, path: Path, error: OSError) -> ConnectionConfigError:
        return self._error(
            name,
            f"a file of at most 1 MiB that can be read {_here()}; {path}: {error.strerror or error}. Correct the path, "
            "or the permissions of the file.",
        )

    def _error(self, name: str, expected: str) -> ConnectionConfigError:
        return ConnectionConfigError(f"{name} of connection {self._conn_id!r} must be {expected}")


def _here() -> str:
    return f"on this worker ({socket.gethostname()}, user {os.geteuid()})"


def _first_sentence(error: Exception) -> str:
    return str(error).partition(". ")[0].rstrip(".?")


def _as_pem(certificates: Iterable[x509.Certificate]) -> str:
    return "".join(certificate.public_bytes(Encoding.PEM).decode() for certificate in certificates)


def _public(key: Any) -> bytes:
    encoded: bytes = key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return encoded
