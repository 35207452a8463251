"""Kafka's Java AdminClient, called from Python: for what no Python client has. One JVM for a sequence of calls, and
always ended.
"""

from __future__ import annotations

import logging
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from py4j.java_gateway import GatewayParameters, JavaGateway, find_jar_path
from py4j.protocol import Py4JError, Py4JJavaError

from airflow_provider_kafka_spark.core.connection.faults import TLS, find_login_fault
from airflow_provider_kafka_spark.core.connection.jaas import parse_jaas
from airflow_provider_kafka_spark.core.errors import (
    BrokerAuthenticationError,
    BrokerAuthorizationError,
    BrokerError,
    BrokerTlsError,
    BrokerUnavailableError,
    ConnectionConfigError,
    DelegationTokenError,
    DelegationTokenExpiredError,
    JarError,
    JavaStartError,
    KafkaSparkError,
)
from airflow_provider_kafka_spark.hooks.managed_resource import ManagedResource
from airflow_provider_kafka_spark.hooks.runtime.child_environment import child_environment
from airflow_provider_kafka_spark.hooks.runtime.connector import client_jars
from airflow_provider_kafka_spark.hooks.runtime.java import find_java

START_SECONDS = 30.0
_STOP_SECONDS = 5.0
#: How long a JVM that does not answer may take to be gone.
_END_SECONDS = 1.0
#: A short life, little memory: the first compiler and the simplest collector.
JVM_OPTIONS = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto", "-Xmx128m")
#: What Kafka's exceptions mean here, by the name of their class, with what to do about it.
_MEANINGS: Mapping[str, tuple[type[KafkaSparkError], str]] = {
    "SaslAuthenticationException": (BrokerAuthenticationError, "Correct the login of the connection."),
    "UnsupportedSaslMechanismException": (BrokerAuthenticationError, "Choose a mechanism that the listener has."),
    "IllegalSaslStateException": (BrokerAuthenticationError, "Is the listener a SASL listener?"),
    "SslAuthenticationException": (
        BrokerAuthenticationError, "Check the CA, the host names and the dates of the certificates.",
    ),
    "LoginException": (BrokerAuthenticationError, "Correct the login of the connection."),
    "TimeoutException": (BrokerUnavailableError, "Is the broker up, and reachable from this machine?"),
    "DisconnectException": (BrokerUnavailableError, "Is the broker up, and the protocol the listener's?"),
    "ClusterAuthorizationException": (BrokerAuthorizationError, "Grant the login what it lacks."),
    "DelegationTokenAuthorizationException": (
        BrokerAuthorizationError,
        "Only the owner and the renewers of a token may renew or expire it, and only they and those with DESCRIBE on "
        "the token may see it.",
    ),
    "DelegationTokenOwnerMismatchException": (
        BrokerAuthorizationError, "Only the owner and the renewers of a token may renew or expire it.",
    ),
    "DelegationTokenNotFoundException": (DelegationTokenExpiredError, "It has ended and been removed, or was expired."),
    "DelegationTokenExpiredException": (
        DelegationTokenExpiredError, "A token that has ended cannot be renewed; make a new one.",
    ),
    "DelegationTokenDisabledException": (
        DelegationTokenError,
        "This broker has no delegation tokens: it needs delegation.token.secret.key in its properties.",
    ),
    "UnsupportedByAuthenticationException": (
        DelegationTokenError,
        "Token requests need a connection with a login (SASL, or SSL with a client certificate) that is not itself a "
        "delegation token.",
    ),
    "InvalidPrincipalTypeException": (
        DelegationTokenError, "Owners and renewers are of the type User, such as 'User:alice'.",
    ),
    "UnsupportedVersionException": (BrokerError, "The broker is too old for this request."),
}  # fmt: skip


class KafkaJvm(ManagedResource):
    """A JVM with an AdminClient, inside ``with``. It ends with this process too, even if that is ended by SIGKILL.

    :param properties: of the Java client. **Secret**; they go through an authenticated socket on the loopback
        interface, not by argv.
    :param described: what it talks to, for messages, such as ``"connection 'kafka_default', broker-1:9092"``.
    :param timeout: seconds for each call.
    :param system_properties: of the JVM. Not secret.
    :param jars: with kafka-clients among them; by default those of Spark's Kafka connector.
    """

    def __init__(
        self,
        properties: Mapping[str, str],
        described: str,
        *,
        timeout: float,
        system_properties: Mapping[str, str] | None = None,
        jars: Sequence[Path] | None = None,
    ) -> None:
        self.timeout = timeout
        self._properties = properties
        self._described = described
        self._system_properties = dict(system_properties or {})
        self._jars = jars
        self._process: subprocess.Popen[bytes] | None = None
        self._gateway: JavaGateway | None = None
        self._clients: list[Any] = []

    def close(self) -> None:
        """End the JVM. Calling it again does nothing."""
        gateway, self._gateway = self._gateway, None
        process, self._process = self._process, None
        self._clients.clear()
        if gateway is not None:
            gateway.close(keep_callback_server=False, close_callback_server_connections=False)
        if process is None:
            return
        # It has nothing to save: what a broker was asked for, it has done.
        process.kill()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()
        # It cannot refuse, and only the kernel could make it wait.
        with suppress(subprocess.TimeoutExpired):
            process.wait(timeout=_STOP_SECONDS)

    @property
    def java(self) -> Any:
        """The gateway's view of Java's packages."""
        if self._gateway is None:
            raise BrokerError("This JVM has ended; use it inside its `with`.")
        return self._gateway.jvm

    def admin(self, properties: Mapping[str, str] | None = None) -> Any:
        """A new AdminClient, which ends with the JVM.

        :param properties: in place of those of this JVM. **Secret.**
        :raises ConnectionConfigError: if Kafka's client refuses the properties.
        :raises BrokerAuthenticationError: if a login fails before a broker is asked, as with Kerberos.
        """
        ms = str(int(self.timeout * 1000))
        bounds = {"request.timeout.ms": ms, "default.api.timeout.ms": ms}
        used = properties or self._properties
        with self.translate_errors("configuring the client", used):
            config = self.java.java.util.Properties()
            for name, value in {**used, **bounds}.items():
                config.setProperty(name, value)
            client = self.java.org.apache.kafka.clients.admin.AdminClient.create(config)
        self._clients.append(client)
        return client

    def get(self, future: Any, action: str) -> Any:
        """The value of a KafkaFuture.

        :param action: for the message, such as ``"creating a delegation token"``.
        :raises KafkaSparkError: what Kafka's exception means, at the latest after the time-out.
        """
        with self.translate_errors(action):
            unit = self.java.java.util.concurrent.TimeUnit.MILLISECONDS
            return future.get(int(self.timeout * 1000) + 1000, unit)

    def items(self, collection: Any) -> list[Any]:
        """What a Java collection of any kind holds; only some kinds are iterable from Python."""
        return list(self.java.java.util.ArrayList(collection))

    @contextmanager
    def translate_errors(self, action: str, properties: Mapping[str, str] | None = None) -> Iterator[None]:
        """Every call into the JVM stands inside of it.

        :param action: for the message.
        :param properties: of the client that is called, if they are not those of this JVM.
        :raises KafkaSparkError: what Java's exception means, or :class:`BrokerUnavailableError` if the JVM is no more.
        """
        earlier = sys.exc_info()[1]
        try:
            yield
        except KafkaSparkError:
            raise
        except Exception as error:
            thrown = _thrown(error, earlier)
            if thrown is None and not isinstance(error, (Py4JError, OSError)):
                raise
            if thrown is None:
                raise self._without_answer(error, action) from None
            raise self._named(thrown, action, self._properties if properties is None else properties) from None

    def _named(self, thrown: Any, action: str, properties: Mapping[str, str]) -> KafkaSparkError:
        try:
            return self._meaning(thrown, action, properties)
        except (Py4JError, OSError) as error:
            # What was thrown stays in the JVM, which has ended since.
            return self._without_answer(error, action)

    def _without_answer(self, error: Exception, action: str) -> BrokerUnavailableError:
        return BrokerUnavailableError(
            f"{_sentence(action)} got no answer from Kafka's Java client ({self._described}): {self._end() or error}"
        )

    def _end(self) -> str | None:
        """How the JVM has ended, if it has."""
        if self._process is None:
            return None
        try:
            # It may be just about to: its sockets close before.
            code = self._process.wait(timeout=_END_SECONDS)
        except subprocess.TimeoutExpired:
            return None
        # 0 is also what is known of a process that somebody else has waited for.
        how = f" ({signal.Signals(-code).name if code < 0 else f'exit code {code}'})" if code else ""
        return f"its JVM has ended{how}: it crashed, was killed, or had no memory left. The task may be tried again."

    def _meaning(self, thrown: Any, action: str, properties: Mapping[str, str]) -> KafkaSparkError:
        """What a Java exception means; the cause that is known best decides."""
        said: list[str] = []
        known: tuple[type[KafkaSparkError], str] | None = None
        while thrown is not None and len(said) < 10:
            name = str(thrown.getClass().getSimpleName())
            said.append(f"{name}: {str(thrown.getMessage()).strip()}" if thrown.getMessage() else name)
            known = (
                known if known is not None and known[0] is not BrokerUnavailableError else _MEANINGS.get(name, known)
            )
            thrown = thrown.getCause()
        # The outer exceptions only say that there is an inner one. Some hold its stack trace in their message.
        lines = [text.partition("\n")[0] for text in said]
        reason = lines[-1]
        kind, advice = known or (
            (ConnectionConfigError, "Correct the property it names.")
            if any(text.startswith(("ConfigException", "IllegalArgumentException")) for text in said)
            else (BrokerError, "")
        )
        if kind is BrokerAuthenticationError:
            by_ticket = _is_by_ticket(properties)
            fault = find_login_fault("\n".join(said), by_ticket=by_ticket)
            if fault is not None and not fault.inconclusive:
                kind = BrokerUnavailableError if fault.transient else BrokerTlsError if fault.step == TLS else kind
                advice = str(fault)
                # Below what it is about there may be how Java noticed.
                about = (line for line in reversed(lines) if find_login_fault(line, by_ticket=by_ticket) == fault)
                reason = next(about, reason)
            elif properties.get("sasl.mechanism") == "GSSAPI":
                advice += " With Kerberos, check the keytab, its principal, and the clocks."
        elif kind is BrokerUnavailableError and properties.get("sasl.mechanism") == "GSSAPI":
            # Kafka's client tries such a login again and again, and says nothing of it.
            advice += (
                " With Kerberos, also compare the clocks of all machines, and sasl.kerberos.service.name with the "
                "broker's principal."
            )
        return kind(f"{_sentence(action)} failed ({self._described}): {_ended(reason)} {advice}".rstrip())

    def open(self) -> None:
        """Start the JVM.

        :raises JavaNotFoundError: if there is no Java, or one that is too old.
        :raises JavaStartError: if the JVM does not start in time.
        :raises JarError: if there is no kafka-clients among the jars.
        """
        # With its level at DEBUG it writes every command and answer to the log, logins and tokens among them.
        log = logging.getLogger("py4j")
        log.setLevel(max(log.getEffectiveLevel(), logging.INFO))
        java = find_java(8)
        jars = list(self._jars) if self._jars is not None else client_jars(None)
        if not any("kafka-clients" in jar.name for jar in jars):
            raise JarError(
                "Delegation tokens need the kafka-clients jar that comes with Spark's Kafka connector; got "
                f"{[jar.name for jar in jars]}."
            )
        class_path = os.pathsep.join([find_jar_path(), *map(str, jars)])
        defined = [f"-D{name}={value}" for name, value in self._system_properties.items()]
        options = [*JVM_OPTIONS, *java.crash_options(os.devnull)]
        command = [str(java.executable), *options, *defined, "-cp", class_path, "py4j.GatewayServer"]
        process = self._process = subprocess.Popen(
            # py4j ends when its standard input does, and with that when this process does.
            [*command, "--die-on-broken-pipe", "--enable-auth", "0"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=child_environment(),
        )
        deadline = time.monotonic() + START_SECONDS
        port, secret = self._port(process, deadline), self._line(process, deadline)
        if process.stdout is not None:
            # Nobody would read what else it writes there, and a full pipe would hold it up.
            process.stdout.close()
        self._gateway = JavaGateway(
            gateway_parameters=GatewayParameters(
                port=port,
                auth_token=secret,
                auto_convert=True,
                read_timeout=self.timeout + 10.0,
                # All of its objects end with the JVM; telling it one by one would fail when it is gone.
                enable_memory_management=False,
            )
        )

    def _port(self, process: subprocess.Popen[bytes], deadline: float) -> int:
        # The JVM writes its own log and warnings there too, and may be told to by JDK_JAVA_OPTIONS.
        while not (line := self._line(process, deadline)).isdigit():
            continue
        return int(line)

    def _line(self, process: subprocess.Popen[bytes], deadline: float) -> str:
        line = b""
        while not line.endswith(b"\n"):
            pipes = [process.stdout] if process.stdout else []
            ready, _, _ = select.select(pipes, [], [], max(0.0, deadline - time.monotonic()))
            character = os.read(ready[0].fileno(), 1) if ready else b""
            if not character:
                raise JavaStartError(
                    f"A JVM for Kafka's Java client must start within {START_SECONDS:.0f} s; it "
                    f"{'ended' if ready else 'did not'}. Run `java -version` on this worker; is there memory left? "
                    "The task may be tried again."
                )
            line += character
        return line.decode().strip()


def _thrown(error: BaseException | None, earlier: BaseException | None) -> Any:
    """The Java exception behind an error, if there is one.

    Where PySpark runs in the same process, it has replaced how py4j raises, for every gateway, and asks its own JVM
    about exceptions of ours.

    :param earlier: what was being handled when the call began, which is not behind it.
    """
    while error is not None and error is not earlier:
        if isinstance(error, Py4JJavaError):
            thrown = error.java_exception
            # Its text is asked of the JVM whenever it is logged. py4j logs what is being handled when a call fails, and
            # so, of a JVM that is gone, without end.
            error.java_exception = None
            return thrown
        error = error.__context__
    return None


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]


def _ended(text: str) -> str:
    """With the period that Java's messages lack.

    >>> _ended("LoginException: Checksum failed "), _ended("Is it up?")
    ('LoginException: Checksum failed.', 'Is it up?')
    """
    text = text.rstrip(" :;,")
    return text if text.endswith((".", "!", "?")) else f"{text}."


def _is_by_ticket(properties: Mapping[str, str]) -> bool:
    """Whether a client's Kerberos login has a ticket cache, and no keytab."""
    try:
        options = parse_jaas(properties.get("sasl.jaas.config", "")).options
    except ValueError:
        return False
    return _is_true(options.get("useTicketCache")) and not _is_true(options.get("useKeyTab"))


def _is_true(option: str | None) -> bool:
    return option is not None and option.lower() == "true"


def kerberos_properties(environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """Java reads no ``KRB5_CONFIG``; this is the system property that stands for it."""
    path = (os.environ if environ is None else environ).get("KRB5_CONFIG", "")
    return {"java.security.krb5.conf": path} if path and sys.platform != "win32" else {}
