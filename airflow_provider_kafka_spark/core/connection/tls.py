"""Translate TLS trust and client certificates, given as librdkafka's or Java's properties, for both clients. No I/O.

The worker reads PEM and PKCS#12 files and passes them to both clients as text, so that they are not sent with a job.
Only a Java key store (JKS) stays a file, which only Java reads.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from airflow_provider_kafka_spark.core.connection.client_properties import ClientProperties, LoginFiles
from airflow_provider_kafka_spark.core.connection.connection_extra import (
    CODE_OF_ONE_CLIENT,
    ConnectionExtra,
    PemSource,
)
from airflow_provider_kafka_spark.core.connection.text_rules import NAMES, PATH, SECRET
from airflow_provider_kafka_spark.core.errors import ConnectionConfigError
from airflow_provider_kafka_spark.core.secrets import lines_to_mask

#: TLS settings of a JVM, which do not apply to the worker or to the login.
JAVA_ONLY = (
    "ssl.protocol",
    "ssl.enabled.protocols",
    "ssl.provider",
    "ssl.secure.random.implementation",
    "ssl.keymanager.algorithm",
    "ssl.trustmanager.algorithm",
)
#: Settings of the worker's OpenSSL, which do not apply to the login.
_WORKER_ONLY = ("ssl.providers",)
_WHOLE_JVM = "in Java it is a setting of the whole JVM, not of a client; limit it at the broker's listener"
_WITHOUT_COUNTERPART = {
    "ssl.cipher.suites": (
        "one client takes OpenSSL's names of ciphers and the other Java's; limit them at the broker's listener"
    ),
    "ssl.curves.list": _WHOLE_JVM,
    "ssl.sigalgs.list": _WHOLE_JVM,
    "ssl.crl.location": "Java's client reads no list of revoked certificates",
    "ssl.ca.certificate.stores": "it is for Windows",
    "ssl.engine.location": "a key that OpenSSL's engine keeps cannot be given to Java",
    "ssl.engine.id": "a key that OpenSSL's engine keeps cannot be given to Java",
    "ssl.certificate.verify_cb": CODE_OF_ONE_CLIENT,
    "ssl.engine.factory.class": CODE_OF_ONE_CLIENT,
}
_STORE_TYPES = ("PEM", "PKCS12", "JKS")
_ALGORITHM = "ssl.endpoint.identification.algorithm"


@dataclass(frozen=True, slots=True)
class StoreSource:
    """A file with certificates, or with a key and its certificates, in Java's properties.

    :param stem: of the names of its properties: ``ssl.truststore`` or ``ssl.keystore``.
    """

    stem: str
    location: str
    password: str | None = field(default=None, repr=False)

    @property
    def name(self) -> str:
        """The property that names it, for messages."""
        return f"{self.stem}.location"


@dataclass(frozen=True, slots=True)
class Tls:
    """The TLS settings of a connection.

    :param ca_certificates: certificates of the authorities that sign the brokers' certificates.
    :param trust_store: the same in a Java store; both may be set only if this one is JKS.
    :param certificate: the client's own, with its ``key``.
    :param key_store: the same in a Java store; both may be set only if this one is JKS.
    :param check_host_names: whether a certificate must match the host name.
    """

    conn_id: str
    ca_certificates: PemSource | None = None
    trust_store: StoreSource | None = None
    certificate: PemSource | None = None
    key: PemSource | None = None
    key_password: str | None = field(default=None, repr=False)
    key_store: StoreSource | None = None
    check_host_names: bool = True
    worker: Mapping[str, str] = field(default_factory=dict)

    def properties(self, files: LoginFiles, /) -> ClientProperties:
        """For both clients.

        :param files: the contents of the sources.
        :raises ConnectionConfigError: if one of the clients cannot use it, or two sources of one setting have the same
            kind.
        """
        java: dict[str, str] = {}
        librdkafka: dict[str, Any] = dict(self.worker)
        if files.ca_certificates:
            librdkafka["ssl.ca.pem"] = files.ca_certificates
            java |= {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": files.ca_certificates}
        if files.chain and files.key:
            librdkafka |= {"ssl.certificate.pem": files.chain, "ssl.key.pem": files.key}
            java |= {
                "ssl.keystore.type": "PEM",
                "ssl.keystore.certificate.chain": files.chain,
                "ssl.keystore.key": files.key,
            }
        stores = []
        for store, pem, is_jks in (
            (self.trust_store, self.ca_certificates, files.jks_trust_store),
            (self.key_store, self.certificate, files.jks_key_store),
        ):
            if store is not None:
                self._raise_if_both(store, pem, is_jks)
            if store is not None and is_jks:
                stores.append(store)
                # Java has the store in place of the worker's PEM.
                java = {name: value for name, value in java.items() if not name.startswith(store.stem)}
                java |= {f"{store.stem}.type": "JKS", store.name: store.location}
                java |= {f"{store.stem}.password": store.password} if store.password else {}
        if self.key_store in stores and self.key_password:
            java["ssl.key.password"] = self.key_password
        if not self.check_host_names:
            # librdkafka's "none" is an empty text in Java.
            librdkafka[_ALGORITHM], java[_ALGORITHM] = "none", ""
        return ClientProperties(librdkafka, java, self._secrets(files), tuple(store.location for store in stores))

    def _raise_if_both(self, store: StoreSource, pem: PemSource | None, is_jks: bool) -> None:
        if is_jks and pem is None:
            raise ConnectionConfigError(
                f"The connection {self.conn_id!r} has a Java key store (JKS) in {store.name}, which librdkafka on the "
                f"worker cannot read. Convert it to PKCS#12: keytool -importkeystore -srckeystore {store.location} "
                f"-destkeystore store.p12 -deststoretype PKCS12; or give the worker the same in PEM: "
                "ssl.ca.location, or ssl.certificate.location and ssl.key.location."
            )
        if not is_jks and pem is not None and pem.location != store.location:
            raise ConnectionConfigError(
                f"The connection {self.conn_id!r} sets both {store.name} and {pem.name}, which are one setting; only "
                "a Java key store (JKS) may stand beside the worker's own file. Keep one of them."
            )

    def _secrets(self, files: LoginFiles) -> tuple[str, ...]:
        stores = [store.password for store in (self.trust_store, self.key_store) if store and store.password]
        keys = [pem for pem in (self.key and self.key.pem, files.key) if pem]
        found = [*stores, *([self.key_password] if self.key_password else [])]
        return tuple(dict.fromkeys([*found, *(line for pem in keys for line in lines_to_mask(pem))]))


def parse_tls(extra: ConnectionExtra) -> Tls:
    """Parse the TLS settings of a connection, in the properties of either client.

    :raises ConnectionConfigError: if it contradicts itself, or only one of the two clients supports it.
    """
    extra.raise_if_without_counterpart(_WITHOUT_COUNTERPART)
    if (extra.take("enable.ssl.certificate.verification") or "true").lower() != "true":
        raise extra.without_counterpart(
            "enable.ssl.certificate.verification",
            "Java verifies every certificate. Trust the brokers' authority by ssl.ca.location; if only their host "
            "names differ, set ssl.endpoint.identification.algorithm to none",
        )
    check_host_names = _host_names(extra)
    ca_certificates, trust_store = _authorities(extra)
    certificate, key, key_store = _own_certificate(extra)
    key_password = extra.take("ssl.key.password", rule=SECRET)
    if key_password and key is None and key_store is None:
        raise extra.error("sets ssl.key.password, and no key. Add ssl.key.location or ssl.key.pem, or remove it.")
    worker = {name: value for name in _WORKER_ONLY if (value := extra.take(name, rule=NAMES))}
    return Tls(
        conn_id=extra.conn_id,
        ca_certificates=ca_certificates,
        trust_store=trust_store,
        certificate=certificate,
        key=key,
        key_password=key_password,
        key_store=key_store,
        check_host_names=check_host_names,
        worker=worker,
    )


def _authorities(extra: ConnectionExtra) -> tuple[PemSource | None, StoreSource | None]:
    """What signs the brokers' certificates."""
    ca_certificates = extra.take_authorities("ssl.ca.location", "ssl.ca.pem")
    inline = extra.take_pem("ssl.truststore.certificates")
    trust_store = _store(extra, "ssl.truststore", inline is not None)
    if inline:
        if ca_certificates or trust_store:
            raise _twice(extra, "ssl.truststore.certificates", ca_certificates or trust_store)
        ca_certificates = PemSource("ssl.truststore.certificates", pem=inline)
    return ca_certificates, trust_store


def _own_certificate(extra: ConnectionExtra) -> tuple[PemSource | None, PemSource | None, StoreSource | None]:
    """The client's certificate and its key, or the store that has both."""
    certificate = extra.take_pem_source("ssl.certificate.location", "ssl.certificate.pem")
    key = extra.take_pem_source("ssl.key.location", "ssl.key.pem")
    chain_pem, key_pem = extra.take_pem("ssl.keystore.certificate.chain"), extra.take_pem("ssl.keystore.key")
    key_store = _store(extra, "ssl.keystore", chain_pem is not None)
    if chain_pem or key_pem:
        if certificate or key or key_store:
            raise _twice(extra, "ssl.keystore.certificate.chain", certificate or key or key_store)
        certificate = PemSource("ssl.keystore.certificate.chain", pem=chain_pem) if chain_pem else None
        key = PemSource("ssl.keystore.key", pem=key_pem) if key_pem else None
    if (certificate is None) != (key is None):
        there, absent = ("the client's certificate", "its key") if certificate else ("a key", "its certificate")
        raise extra.error(
            f"has {there} and not {absent}: it needs both ssl.certificate.location (or .pem) and ssl.key.location (or "
            ".pem)."
        )
    return certificate, key, key_store


def _host_names(extra: ConnectionExtra) -> bool:
    # Java's value for "none" is an empty text, which counts as missing elsewhere.
    if extra.left.get(_ALGORITHM) == "":
        del extra.left[_ALGORITHM]
        return False
    algorithm = extra.take(_ALGORITHM) or "https"
    if algorithm.lower() not in ("https", "none"):
        raise extra.error(f"must have 'https' or 'none' for {_ALGORITHM}; got {algorithm!r}.")
    return algorithm.lower() == "https"


def _store(extra: ConnectionExtra, stem: str, is_inline: bool) -> StoreSource | None:
    location, kind = extra.take(f"{stem}.location", rule=PATH), extra.take(f"{stem}.type")
    password = extra.take(f"{stem}.password", rule=SECRET)
    if kind and kind.upper() not in _STORE_TYPES:
        raise extra.error(f"must have one of {', '.join(_STORE_TYPES)} for {stem}.type; got {kind!r}.")
    if location:
        return StoreSource(stem, location, password)
    if password or (kind and not (is_inline and kind.upper() == "PEM")):
        raise extra.error(f"sets {stem}.{'password' if password else 'type'}, and no {stem}.location that it is for.")
    return None


def _twice(extra: ConnectionExtra, name: str, other: PemSource | StoreSource | None) -> ConnectionConfigError:
    return extra.error(f"sets both {name} and {other.name if other else ''}, which are one setting. Keep one of them.")
