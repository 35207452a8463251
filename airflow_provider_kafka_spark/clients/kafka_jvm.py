"""Kafka's Java AdminClient, called from Python for requests that no Python client supports. One JVM serves a sequence
of calls, and always ends.
"""

from __future__ import annotations

import logging
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from py4j.java_gateway import GatewayParameters, JavaGateway, find_jar_path
from py4j.protocol import Py4JError, Py4JJavaError

from airflow_provider_kafka_spark.clients.managed_resource import ManagedResource
from airflow_provider_kafka_spark.core.connection.faults import find_login_fault
from airflow_provider_kafka_spark.core.connection.jaas import parse_jaas
from airflow_provider_kafka_spark.core.errors import (
    BrokerAuthenticationError,
    BrokerAuthorizationError,
    BrokerError,
    BrokerUnavailableError,
    ConnectionConfigError,
    DelegationTokenError,
    DelegationTokenExpiredError,
    JarError,
    JavaStartError,
    KafkaSparkError,
)
from airflow_provider_kafka_spark.core.secrets import without_token_answer
from airflow_provider_kafka_spark.toolchain.child_environment import child_environment
from airflow_provider_kafka_spark.toolchain.connector import client_jars
from airflow_provider_kafka_spark.toolchain.java import Java, find_java
from airflow_provider_kafka_spark.toolchain.private_folder import PRIVATE_UMASK
from airflow_provider_kafka_spark.toolchain.temporary_folder import temporary_folder

#: A bound for what hangs; a machine that starts many JVMs at once needs more than half a minute for each.
START_SECONDS = 90.0
#: The client connects again while a refused login is being reported, and another login may lock the user out.
_ONE_LOGIN = {"reconnect.backoff.ms": "1000", "reconnect.backoff.max.ms": "1000"}
_STOP_SECONDS = 5.0
#: Seconds until a JVM that does not answer is killed.
_END_SECONDS = 1.0
#: For a short life and little memory: the first compiler and the simplest collector.
JVM_OPTIONS = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto", "-Xmx128m")
#: Errors for Kafka's exceptions, by class name, with what to do.
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
    "ClusterAuthorizationException": (BrokerAuthorizationError, "Grant the login the missing permission."),
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
    """A JVM with an AdminClient, inside ``with``. It ends with this process, even after SIGKILL.

    :param properties: of the Java client. **Secret**; they are sent over an authenticated socket on the loopback
        interface, not as arguments.
    :param described: the cluster, for messages, such as ``"connection 'kafka_default', broker-1:9092"``.
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
        self._folder = ExitStack()

    def close(self) -> None:
        """End the JVM. Calling it again does nothing."""
        gateway, self._gateway = self._gateway, None
        process, self._process = self._process, None
        self._clients.clear()
        if gateway is not None:
            gateway.close(keep_callback_server=False, close_callback_server_connections=False)
        if process is not None:
            # It has nothing to save.
            process.kill()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    pipe.close()
            # SIGKILL cannot be refused.
            with suppress(subprocess.TimeoutExpired):
                process.wait(timeout=_STOP_SECONDS)
        self._folder.close()

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
        :raises BrokerAuthenticationError: if a login fails without a request to a broker, as with Kerberos.
        """
        ms = str(int(self.timeout * 1000))
        bounds = {"request.timeout.ms": ms, "default.api.timeout.ms": ms, **_ONE_LOGIN}
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
        :raises KafkaSparkError: the error for Kafka's exception, at the latest after the time-out.
        """
        with self.translate_errors(action):
            unit = self.java.java.util.concurrent.TimeUnit.MILLISECONDS
            return future.get(int(self.timeout * 1000) + 1000, unit)

    def items(self, collection: Any) -> list[Any]:
        """The items of a Java collection; only some kinds are iterable from Python."""
        return list(self.java.java.util.ArrayList(collection))

    @contextmanager
    def translate_errors(self, action: str, properties: Mapping[str, str] | None = None) -> Iterator[None]:
        """Raise Java's exceptions as errors of this package. Every call into the JVM is made inside it.

        :param action: for the message.
        :param properties: of the called client, if they differ from those of this JVM.
        :raises KafkaSparkError: the error for Java's exception, or :class:`BrokerUnavailableError` if the JVM has
            ended.
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
            # The exception is in the JVM, which has ended.
            return self._without_answer(error, action)

    def _without_answer(self, error: Exception, action: str) -> BrokerUnavailableError:
        return BrokerUnavailableError(
            f"{_sentence(action)} got no answer from Kafka's Java client ({self._described}): {self._end() or error}"
        )

    def _end(self) -> str | None:
        """How the JVM ended, or None if it runs."""
        if self._process is None:
            return None
        try:
            # It may be ending: its sockets close first.
            code = self._process.wait(timeout=_END_SECONDS)
        except subprocess.TimeoutExpired:
            return None
        # 0 is also the code if another thread waited for the process.
        how = f" ({signal.Signals(-code).name if code < 0 else f'exit code {code}'})" if code else ""
        return f"its JVM has ended{how}: it crashed, was killed, or had no memory left. The task may be tried again."

    def _meaning(self, thrown: Any, action: str, properties: Mapping[str, str]) -> KafkaSparkError:
        """The error for a Java exception, by the most specific known cause."""
        said: list[str] = []
        known: tuple[type[KafkaSparkError], str] | None = None
        while thrown is not None and len(said) < 10:
            name = str(thrown.getClass().getSimpleName())
            said.append(f"{name}: {str(thrown.getMessage()).strip()}" if thrown.getMessage() else name)
            known = (
                known if known is not None and known[0] is not BrokerUnavailableError else _MEANINGS.get(name, known)
            )
            thrown = thrown.getCause()
        # Outer exceptions only wrap an inner one. Some have its stack trace in their message.
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
                kind, advice = fault.error, str(fault)
                # Further causes may only be technical details.
                about = (line for line in reversed(lines) if find_login_fault(line, by_ticket=by_ticket) == fault)
                reason = next(about, reason)
            elif properties.get("sasl.mechanism") == "GSSAPI":
                advice += " With Kerberos, check the keytab, its principal, and the clocks."
        elif kind is BrokerUnavailableError and properties.get("sasl.mechanism") == "GSSAPI":
            # Kafka's client repeats such a login without an error.
            advice += (
                " With Kerberos, also compare the clocks of all machines, and sasl.kerberos.service.name with the "
                "broker's principal."
            )
        return kind(
            f"{_sentence(action)} failed ({self._described}): {_ended(without_token_answer(reason))} {advice}".rstrip()
        )

    def open(self) -> None:
        """Start the JVM.

        :raises JavaNotFoundError: if there is no Java, or one that is too old.
        :raises JavaStartError: if the JVM does not start in time.
        :raises JobFolderError: if its temporary folder cannot be created.
        :raises JarError: if there is no kafka-clients among the jars.
        """
        # At level DEBUG it logs every command and answer, including logins and tokens.
        log = logging.getLogger("py4j")
        log.setLevel(max(log.getEffectiveLevel(), logging.INFO))
        java = find_java(8)
        jars = list(self._jars) if self._jars is not None else client_jars(None)
        if not any("kafka-clients" in jar.name for jar in jars):
            raise JarError(
                "Delegation tokens need the kafka-clients jar that comes with Spark's Kafka connector; got "
                f"{[jar.name for jar in jars]}."
            )
        process = self._process = subprocess.Popen(
            self._command(java, jars),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=child_environment(),
            umask=PRIVATE_UMASK,
        )
        deadline = time.monotonic() + START_SECONDS
        port, secret = self._port(process, deadline), self._line(process, deadline)
        if process.stdout is not None:
            # Its further output is not read, and a full pipe would block it.
            process.stdout.close()
        self._gateway = JavaGateway(
            gateway_parameters=GatewayParameters(
                port=port,
                auth_token=secret,
                auto_convert=True,
                read_timeout=self.timeout + 10.0,
                # All objects end with the JVM; releasing each of them would fail when it has ended.
                enable_memory_management=False,
            )
        )

    def _command(self, java: Java, jars: Iterable[Path]) -> list[str]:
        class_path = os.pathsep.join([find_jar_path(), *map(str, jars)])
        # Kafka's client unpacks its compression libraries there and loads them.
        folder = self._folder.enter_context(temporary_folder())
        properties = {"java.io.tmpdir": folder, **self._system_properties}
        defined = [f"-D{name}={value}" for name, value in properties.items()]
        options = [*JVM_OPTIONS, *java.crash_options(os.devnull)]
        command = [str(java.executable), *options, *defined, "-cp", class_path, "py4j.GatewayServer"]
        # py4j ends when its standard input is closed, and so when this process ends.
        return [*command, "--die-on-broken-pipe", "--enable-auth", "0"]

    def _port(self, process: subprocess.Popen[bytes], deadline: float) -> int:
        # The JVM also writes log lines and warnings there, for example with JDK_JAVA_OPTIONS.
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
    """The Java exception that caused an error, or None.

    PySpark in the same process replaces py4j's error handling for every gateway, and queries its own JVM about
    exceptions of this one.

    :param earlier: the exception that was handled when the call started, which is not the cause.
    """
    while error is not None and error is not earlier:
        if isinstance(error, Py4JJavaError):
            thrown = error.java_exception
            # Its text is requested from the JVM whenever it is logged. py4j logs the handled exception when a call
            # fails, so with an ended JVM this would never stop.
            error.java_exception = None
            return thrown
        error = error.__context__
    return None


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]


def _ended(text: str) -> str:
    """The text with a final period, which Java's messages lack.

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
    """The system property for ``KRB5_CONFIG``, which Java does not read."""
    path = (os.environ if environ is None else environ).get("KRB5_CONFIG", "")
    return {"java.security.krb5.conf": path} if path else {}
