"""A real Kafka broker on this machine that needs only Java: for tests, the demo, and users' own DAG tests."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from typing import Any

from airflow_provider_kafka_spark.core.errors import LocalServiceError, OptionError
from airflow_provider_kafka_spark.testing.broker_client import BrokerClient
from airflow_provider_kafka_spark.testing.broker_process import KAFKA_VERSION, BrokerProcess, new_cluster_id
from airflow_provider_kafka_spark.testing.broker_properties import (
    BrokerSecurity,
    BrokerTls,
    Certificate,
    KerberosRealm,
    OidcProvider,
    check_users,
    server_properties,
    write_tls_stores,
)
from airflow_provider_kafka_spark.testing.client_logins import certificate_config, login_config
from airflow_provider_kafka_spark.testing.managed_server import ManagedServer
from airflow_provider_kafka_spark.testing.ports import free_ports, start_on_free_ports
from airflow_provider_kafka_spark.testing.record import Record
from airflow_provider_kafka_spark.testing.short_lived_jvm import SHORT_LIVED

__all__ = ["BOOTSTRAP_VARIABLE", "BrokerTls", "KafkaBroker", "Record"]

BOOTSTRAP_VARIABLE = "KAFKA_BOOTSTRAP"
DEFAULT_JVM_OPTIONS = ("-Xms256m", "-Xmx768m", *SHORT_LIVED)
_NODE = 1


class KafkaBroker(BrokerClient, ManagedServer):
    """One Kafka broker in KRaft mode, which runs inside ``with`` and ends after it, with all its data.

    It ends with this process, even after SIGKILL. It listens on the loopback interface only, on free ports, and creates
    no topics automatically.

    Its first listener is PLAINTEXT, without a login: its clients are super users, for the test itself. Further
    listeners depend on the parameters: SASL_PLAINTEXT with ``sasl_users``, ``kerberos`` or an ``identity_provider``,
    SSL with ``tls``, and SASL_SSL with both.

    :param properties: server properties to add or to replace, such as ``{"log.retention.ms": "1000"}``, or, by None, to
        leave out, such as ``{"delegation.token.secret.key": None}`` for a broker without delegation tokens
    :param sasl_users: user names and passwords, which log in by PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512; see
        :attr:`sasl_bootstrap_servers`
    :param tls: certificate and trust, for the listeners :attr:`ssl_bootstrap_servers` and
        :attr:`sasl_ssl_bootstrap_servers`
    :param kerberos: a running KDC, whose principals log in by GSSAPI. The broker's own is ``kafka/localhost``
    :param identity_provider: a running one, whose clients log in by OAUTHBEARER
    :param authorizer: whether users need ACLs, see :meth:`add_acl`
    :param super_users: principals that need none, such as ``"User:admin"``
    :param jvm_options: such as ``["-Xmx2g"]``, instead of a small heap
    :param port: the port of the plain listener; by default any free one
    :param version: Kafka's, 3.9 or newer
    :param start_timeout: seconds until the broker has to answer
    :raises LocalServiceError: on entering, if it does not answer in time
    :raises JavaNotFoundError: on entering, if there is no Java 17
    :raises JarError: on entering, if its jars are unavailable
    """

    def __init__(
        self,
        *,
        properties: Mapping[str, str | None] | None = None,
        sasl_users: Mapping[str, str] | None = None,
        tls: BrokerTls | None = None,
        kerberos: KerberosRealm | None = None,
        identity_provider: OidcProvider | None = None,
        authorizer: bool = False,
        super_users: Sequence[str] = (),
        jvm_options: Sequence[str] = DEFAULT_JVM_OPTIONS,
        port: int | None = None,
        version: str = KAFKA_VERSION,
        start_timeout: float = 60.0,
    ) -> None:
        super().__init__("")
        self.properties = dict(properties or {})
        self.sasl_users = dict(sasl_users or {})
        self.tls = tls
        self.kerberos = kerberos
        self.identity_provider = identity_provider
        self.authorizer = authorizer
        self.super_users = tuple(super_users)
        self.jvm_options = tuple(jvm_options)
        self.port = port
        self.version = version
        self.start_timeout = start_timeout
        self.sasl_bootstrap_servers = ""
        self.ssl_bootstrap_servers = ""
        self.sasl_ssl_bootstrap_servers = ""
        self.cluster_id = ""
        self._process: BrokerProcess | None = None
        self._is_existing = False

    @classmethod
    def existing(cls, bootstrap_servers: str, client_config: Mapping[str, Any] | None = None) -> KafkaBroker:
        """Return a client of an existing broker. ``start`` only waits for an answer, ``stop`` leaves it running."""
        broker = cls()
        broker.bootstrap_servers = bootstrap_servers
        broker.client_config = dict(client_config or {})
        broker._is_existing = True
        return broker

    @classmethod
    def from_environment(cls) -> KafkaBroker:
        """Return the broker that the environment variable ``KAFKA_BOOTSTRAP`` names, or else a new one."""
        bootstrap_servers = os.environ.get(BOOTSTRAP_VARIABLE)
        return cls.existing(bootstrap_servers) if bootstrap_servers else cls()

    @property
    def running(self) -> bool:
        """Whether the broker's process runs; it may not answer yet. False for an existing broker."""
        return self._process is not None and self._process.running

    @property
    def log(self) -> str:
        """The end of the broker's log, for the message of a failing test."""
        return self._process.tail() if self._process else f"(no log: broker {self.bootstrap_servers} is not ours)"

    def ssl_client_config(self, certificate: Certificate | None = None) -> dict[str, Any]:
        """Return the librdkafka properties of a client of the listener SSL, bootstrap servers included.

        :param certificate: the client's own, which makes it ``User:CN=<common name>``; without it the client is
            ANONYMOUS, as on the listener without a login, and so a super user
        :raises OptionError: the broker has no such listener
        """
        return self._listener_config("SSL") | ({} if certificate is None else certificate_config(certificate))

    def sasl_client_config(self, user: str, mechanism: str = "SCRAM-SHA-256", *, tls: bool = False) -> dict[str, Any]:
        """Return the librdkafka properties with which ``user`` logs in, bootstrap servers included.

        :param user: one of ``sasl_users``; for OAUTHBEARER a client of the identity provider; for GSSAPI a principal,
            which is created if it is missing
        :param mechanism: one that the broker has
        :param tls: at the listener SASL_SSL instead of SASL_PLAINTEXT
        :raises OptionError: the broker has no such listener, mechanism or user
        """
        config = self._listener_config("SASL_SSL" if tls else "SASL_PLAINTEXT")
        return config | login_config(self._security(), user, mechanism)

    def start(self) -> None:
        """Start the broker and return when it has answered a metadata request.

        :raises LocalServiceError: it did not in time; nothing is left running
        """
        if self._is_existing:
            self._wait_for_existing()
            return
        if self._process is not None:
            raise self._already_running(self.bootstrap_servers)
        check_users(self.sasl_users)
        start_on_free_ports(
            self._start_once,
            self.stop,
            lambda: self._process.tail(200) if self._process else "",
            # A given port does not become free by a retry.
            attempts=1 if self.port else 3,
        )

    def stop(self) -> None:
        """End the broker and remove its data. Calling it again does nothing.

        :raises LocalServiceError: the system did not let it end in time
        """
        process, self._process = self._process, None
        if process is not None:
            try:
                process.stop()
            finally:
                process.remove()

    def kill(self) -> None:
        """End the broker by SIGKILL, as a crash would. Its data stays for :meth:`restart`."""
        if self._process is not None:
            self._process.kill()

    def restart(self) -> None:
        """Start the broker again, with its data and at its ports; if it runs, it is stopped first.

        :raises LocalServiceError: it was never started, or does not answer in time
        """
        if self._process is None:
            raise self._not_running()
        self._process.stop()
        self._process.start()
        self._process.wait_until_ready(self._admin, self.cluster_id, self.start_timeout)

    def _start_once(self) -> None:
        security = self._security()
        self._process = process = BrokerProcess(_NODE, [*self.jvm_options, *security.jvm_options()], self.version)
        listeners = ("PLAINTEXT", "CONTROLLER", *security.listeners())
        ports = dict(zip(listeners, free_ports(len(listeners)), strict=True))
        ports["PLAINTEXT"] = self.port or ports["PLAINTEXT"]
        addresses = {name: f"{security.host(name)}:{port}" for name, port in ports.items()}
        self.bootstrap_servers = addresses["PLAINTEXT"]
        self.sasl_bootstrap_servers = addresses.get("SASL_PLAINTEXT", "")
        self.ssl_bootstrap_servers = addresses.get("SSL", "")
        self.sasl_ssl_bootstrap_servers = addresses.get("SASL_SSL", "")
        self.cluster_id = new_cluster_id()

        if self.tls:
            write_tls_stores(process.folder, self.tls)
        process.configure(server_properties(process.folder, ports, security, node=_NODE) | self.properties)
        # Fetching the jars, the first time, does not count.
        deadline = time.monotonic() + self.start_timeout
        process.start_format(self.cluster_id, self.sasl_users)
        process.wait_for_format(deadline)
        process.start()
        process.wait_until_ready(self._admin, self.cluster_id, deadline - time.monotonic())

    def _security(self) -> BrokerSecurity:
        return BrokerSecurity(
            sasl_users=self.sasl_users,
            tls=self.tls,
            kerberos=self.kerberos,
            identity_provider=self.identity_provider,
            authorizer=self.authorizer,
            super_users=self.super_users,
        )

    def _listener_config(self, listener: str) -> dict[str, Any]:
        servers = {
            "SASL_PLAINTEXT": self.sasl_bootstrap_servers,
            "SSL": self.ssl_bootstrap_servers,
            "SASL_SSL": self.sasl_ssl_bootstrap_servers,
        }[listener]
        if not servers:
            raise OptionError(
                f"The broker must run and have a listener {listener}; there is none. SASL_PLAINTEXT needs "
                "sasl_users, kerberos or an identity_provider, SSL needs tls, and SASL_SSL both."
            )
        config = {"bootstrap.servers": servers, "security.protocol": listener}
        return config | {"ssl.ca.pem": self.tls.ca_pem} if self.tls and listener.endswith("SSL") else config

    def _wait_for_existing(self) -> None:
        from confluent_kafka import KafkaException

        admin = self._admin()
        deadline = time.monotonic() + self.start_timeout
        got: object = "no answer"
        while time.monotonic() < deadline:
            try:
                if admin.list_topics(timeout=0.5).brokers:
                    return
            except KafkaException as error:
                got = error
        raise LocalServiceError(
            f"A Kafka broker must answer at {self.bootstrap_servers} within {self.start_timeout:g} seconds; got "
            f"{got}. Start it."
        )
