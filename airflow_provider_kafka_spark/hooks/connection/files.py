"""Read the files of a connection's login on this worker: certificates, keys, key stores, a keytab, tickets."""

from __future__ import annotations

import hashlib
import os
import re
import socket
import stat
from collections.abc import Iterable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

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

from airflow_provider_kafka_spark.core.client_config import KafkaClientConfig, ParsedConnection, parse
from airflow_provider_kafka_spark.core.connection.client_properties import LoginFiles
from airflow_provider_kafka_spark.core.connection.kerberos import (
    KerberosLogin,
    no_tickets,
    refuse_other_principals,
    refuse_other_tickets,
    ticket_cache_path,
)
from airflow_provider_kafka_spark.core.connection.oidc import OidcLogin
from airflow_provider_kafka_spark.core.connection.tls import PemSource, StoreSource, Tls
from airflow_provider_kafka_spark.core.errors import ConnectionConfigError

_Key = rsa.RSAPrivateKey | dsa.DSAPrivateKey | ec.EllipticCurvePrivateKey
#: Larger than any CA bundle; a device or a log is not read to its end.
_LARGEST = 16 * 1024 * 1024
_JKS_MAGIC = b"\xfe\xed\xfe\xed"
_DER_SEQUENCE = b"\x30"
_KEY_BLOCK = re.compile(rb"-----BEGIN ([A-Z ]*PRIVATE KEY)-----.*?-----END \1-----", re.DOTALL)


def configure(conn_id: str, extra: Mapping[str, Any]) -> KafkaClientConfig:
    """The configurations of both clients, with the contents of the connection's files.

    :param extra: a librdkafka configuration, or one with Java's names.
    :raises ConnectionConfigError: if the connection cannot be translated, or one of its files is missing, unreadable,
        damaged, or of another kind.
    """
    parsed = parse(conn_id, extra)
    return parsed.config(read_login_files(parsed))


def read_login_files(parsed: ParsedConnection) -> LoginFiles:
    """Read and check the files and PEM texts of a connection.

    :raises ConnectionConfigError: naming property, path and reason.
    """
    reader = _Reader(parsed.conn_id)
    found: dict[str, Any] = reader.tls(parsed.tls) if parsed.tls else {}
    if isinstance(parsed.login, KerberosLogin):
        found |= reader.kerberos(parsed.login)
    if isinstance(parsed.login, OidcLogin):
        source = PemSource("https.ca.location", parsed.login.https_ca_location, parsed.login.https_ca_pem)
        if source.location or source.pem:
            found["https_ca_certificates"] = reader.ca_certificates(source)
    return LoginFiles(**found)


class _Reader:
    def __init__(self, conn_id: str) -> None:
        self._conn_id = conn_id

    def tls(self, tls: Tls) -> dict[str, Any]:
        found: dict[str, Any] = {}
        if tls.ca_certificates:
            found["ca_certificates"] = self.ca_certificates(tls.ca_certificates)
        if tls.certificate and tls.key:
            chain = self._certificates(tls.certificate.name, self._pem(tls.certificate))
            key = self._key(tls.key.name, self._pem(tls.key), tls.key_password)
            found |= self._identity(tls.certificate.name, chain, tls.key.name, key)
        if tls.trust_store:
            found |= self._trust_store(tls.trust_store)
        if tls.key_store:
            found |= self._key_store(tls.key_store, tls.key_password)
        return found

    def kerberos(self, login: KerberosLogin) -> dict[str, Any]:
        if login.keytab:
            content = self._file("sasl.kerberos.keytab", login.keytab)
            refuse_other_principals(self._conn_id, login.principal or "", login.keytab, content)
            return {}
        variable = os.environ.get("KRB5CCNAME")
        path = ticket_cache_path(self._conn_id, variable, os.getuid())
        refuse_other_tickets(self._conn_id, login.ticket_cache, variable, path)
        missing = no_tickets(self._conn_id, variable, path, _here())
        self._file("The Kerberos ticket cache (no sasl.kerberos.keytab is given)", path, missing)
        return {"ticket_cache": path}

    def ca_certificates(self, source: PemSource) -> str:
        if source.location and Path(source.location).is_dir():
            return _as_pem(self._folder(source.name, Path(source.location)))
        return _as_pem(self._certificates(source.name, self._pem(source)))

    def _folder(self, name: str, folder: Path) -> list[x509.Certificate]:
        """All certificates of a folder; librdkafka alone reads only those with names by ``c_rehash``."""
        try:
            files = sorted(file for file in folder.iterdir() if file.is_file())
        except OSError as error:
            raise self._unreadable(name, str(folder), error) from error
        contents = {file: self._file(name, str(file)) for file in files}
        found = [
            certificate
            for file, content in contents.items()
            if b"-----BEGIN CERTIFICATE-----" in content
            for certificate in self._certificates(f"{name}, file {file.name}", content)
        ]
        if not found:
            raise self._error(name, f"a folder with certificates in PEM; {folder} has none in its {len(files)} files.")
        return list(dict.fromkeys(found))

    def _trust_store(self, store: StoreSource) -> dict[str, Any]:
        content = self._file(store.name, store.location)
        kind = self._kind(store, content)
        if kind == "JKS":
            self._check_jks(store, content)
            return {"jks_trust_store": True}
        if kind == "PEM":
            return {"ca_certificates": _as_pem(self._certificates(store.name, content))}
        opened = self._pkcs12(store, content)
        trusted = [c.certificate for c in (opened.cert, *opened.additional_certs) if c is not None]
        if not trusted:
            raise self._error(store.name, f"a store with trusted certificates; {store.location} has none.")
        return {"ca_certificates": _as_pem(trusted)}

    def _key_store(self, store: StoreSource, key_password: str | None) -> dict[str, Any]:
        content = self._file(store.name, store.location)
        kind = self._kind(store, content)
        if kind == "JKS":
            self._check_jks(store, content)
            return {"jks_key_store": True}
        if kind == "PEM":
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
            raise ConnectionConfigError(
                f"{key_name} of connection {self._conn_id!r} must be the key of the certificate in {chain_name} "
                f"({chain[0].subject.rfc4514_string()}); it is the key of another one. Give the two that were made "
                "together."
            )
        ends: datetime = own[0].not_valid_after_utc
        pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
        return {
            "chain": _as_pem([own[0], *(c for c in chain if c != own[0])]),
            "key": pem,
            "certificate_expires_at": ends,
        }

    def _certificates(self, name: str, pem: bytes) -> list[x509.Certificate]:
        try:
            return x509.load_pem_x509_certificates(pem)
        except ValueError:
            what = "is a Java key store" if pem.startswith(_JKS_MAGIC) else "is binary (DER or PKCS#12)"
            got = "it has none that can be read" if b"-----BEGIN" in pem else f"it {what}"
            raise self._error(
                name,
                "certificates in PEM ('-----BEGIN CERTIFICATE-----'); "
                f"{got if b'-----' in pem or not _is_text(pem) else 'it has none'}. Convert it: openssl x509 -inform "
                "der, or keytool -exportcert -rfc.",
            ) from None

    def _key(self, name: str, pem: bytes, password: str | None) -> _Key:
        block = _KEY_BLOCK.search(pem)
        if block is None:
            raise self._error(name, "a private key in PEM ('-----BEGIN PRIVATE KEY-----'); it has none.")
        try:
            return self._supported(name, _load_key(block[0], password))
        except (ValueError, TypeError, UnsupportedAlgorithm) as error:
            encrypted = isinstance(error, TypeError) or b"ENCRYPTED" in block[0]
            if encrypted and not password:
                raise self._error(name, "a key that can be opened; it is encrypted. Add ssl.key.password.") from None
            if encrypted:
                raise self._error(
                    name, "a key that ssl.key.password opens; the password is wrong, or the key is damaged."
                ) from None
            raise self._error(name, f"a private key in PEM; it is damaged: {type(error).__name__}.") from None

    def _supported(self, name: str, key: object) -> _Key:
        if not isinstance(key, (rsa.RSAPrivateKey, dsa.DSAPrivateKey, ec.EllipticCurvePrivateKey)):
            kind = type(key).__name__.removesuffix("PrivateKey").lstrip("_")
            raise self._error(
                name, f"a key of the kind RSA, EC or DSA, since Kafka's Java client reads no other; got {kind}."
            )
        return key

    def _kind(self, store: StoreSource, content: bytes) -> str:
        """The actual type of a store: Java also reads PKCS#12 under the name JKS, its former default."""
        if content.startswith(_JKS_MAGIC):
            kind = "JKS"
        elif b"-----BEGIN" in content:
            kind = "PEM"
        elif content.startswith(_DER_SEQUENCE):
            kind = "PKCS12"
        else:
            raise self._error(store.name, f"a store of the type PEM, PKCS12 or JKS; {store.location} is none of them.")
        if store.type and "PEM" in (kind, store.type) and kind != store.type:
            declared = f"{store.name.removesuffix('.location')}.type says {store.type}"
            raise self._error(store.name, f"what the connection says; {declared}, and {store.location} is {kind}.")
        return kind

    def _pkcs12(self, store: StoreSource, content: bytes) -> pkcs12.PKCS12KeyAndCertificates:
        password = store.password.encode() if store.password else None
        try:
            return pkcs12.load_pkcs12(content, password)
        except (ValueError, UnsupportedAlgorithm) as error:
            name = f"{store.name.removesuffix('.location')}.password"
            raise self._error(
                store.name,
                f"a PKCS#12 store that {name} opens; {store.location} does not open: the password is "
                f"{'wrong' if password else 'missing'}, or the file is damaged or of an old kind "
                f"({type(error).__name__}).",
            ) from None

    def _check_jks(self, store: StoreSource, content: bytes) -> None:
        if store.password is None:
            return
        # The last 20 bytes are a digest of the password, this text, and the rest.
        salted = store.password.encode("utf-16-be") + b"Mighty Aphrodite" + content[:-20]
        if hashlib.sha1(salted, usedforsecurity=False).digest() != content[-20:]:
            name = f"{store.name.removesuffix('.location')}.password"
            raise self._error(
                store.name, f"a store that {name} opens; the password is wrong, or {store.location} is damaged."
            )

    def _pem(self, source: PemSource) -> bytes:
        return source.pem.encode() if source.pem else self._file(source.name, source.location or "")

    def _file(self, name: str, location: str, missing: ConnectionConfigError | None = None) -> bytes:
        path = Path(location)
        try:
            status = path.stat()
            # Opening a named pipe would block forever.
            if not stat.S_ISREG(status.st_mode):
                raise self._error(
                    name, f"a file; {location} is {'a folder' if stat.S_ISDIR(status.st_mode) else 'no regular file'}."
                )
            if status.st_size > _LARGEST:
                raise self._error(name, f"a small file; {location} has {status.st_size} bytes.")
            return path.read_bytes()
        except OSError as error:
            if missing is not None and isinstance(error, FileNotFoundError):
                raise missing from error
            raise self._unreadable(name, location, error) from error

    def _unreadable(self, name: str, location: str, error: OSError) -> ConnectionConfigError:
        where = _here()
        if isinstance(error, FileNotFoundError):
            return self._error(
                name, f"a file that is there {where}; {location} does not exist. Put it there, or correct the path."
            )
        if isinstance(error, PermissionError):
            return self._error(
                name, f"a file that may be read {where}; {location} may not. Give the worker's user the permission."
            )
        return self._error(name, f"a file that can be read {where}; {location} cannot: {error.strerror or error}.")

    def _error(self, name: str, expected: str) -> ConnectionConfigError:
        return ConnectionConfigError(f"{name} of connection {self._conn_id!r} must be {expected}")


def _here() -> str:
    return f"on this worker ({socket.gethostname()}, user {os.geteuid()})"


def _load_key(block: bytes, password: str | None) -> object:
    try:
        return load_pem_private_key(block, password.encode() if password else None)
    except TypeError:
        if not password:
            raise
        # librdkafka ignores a password for an unencrypted key.
        return load_pem_private_key(block, None)


def _as_pem(certificates: Iterable[x509.Certificate]) -> str:
    return "".join(certificate.public_bytes(Encoding.PEM).decode() for certificate in certificates)


def _public(key: Any) -> bytes:
    encoded: bytes = key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return encoded


def _is_text(content: bytes) -> bool:
    return b"\0" not in content[:1024] and not content.startswith(_DER_SEQUENCE + b"\x82")
