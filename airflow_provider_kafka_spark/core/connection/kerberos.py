"""Kerberos: a keytab or a ticket cache, for both clients. No I/O."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from airflow_provider_kafka_spark.core.connection.client_properties import ClientProperties, LoginFiles
from airflow_provider_kafka_spark.core.connection.connection_extra import ConnectionExtra
from airflow_provider_kafka_spark.core.connection.jaas import JaasLine, parse_jaas
from airflow_provider_kafka_spark.core.connection.text_rules import NAME, PATH, PRINCIPAL
from airflow_provider_kafka_spark.core.errors import ConnectionConfigError

_MODULE = "com.sun.security.auth.module.Krb5LoginModule"
#: Options that others in the line imply, or that a client ignores.
_IMPLIED = ("useKeyTab", "useTicketCache", "storeKey", "doNotPrompt", "isInitiator", "debug", "refreshKrb5Config")
_RELOGIN = "sasl.kerberos.min.time.before.relogin"
_JAVA_ONLY = ("sasl.kerberos.ticket.renew.jitter", "sasl.kerberos.ticket.renew.window.factor")
_COMMAND = "sasl.kerberos.kinit.cmd"
_KEYTAB_MAGIC = b"\x05\x02"


@dataclass(frozen=True, slots=True)
class KerberosLogin:
    """A Kerberos principal, with a keytab or with a ticket cache that is renewed elsewhere.

    :param service_name: first part of the brokers' principals.
    :param principal: needed with a keytab.
    :param keytab: path; None to use the worker's ticket cache.
    :param ticket_cache: path of the ticket cache, if the connection names one.
    :param librdkafka: librdkafka's settings for renewal.
    :param java: Java's settings for renewal.
    """

    service_name: str
    principal: str | None
    keytab: str | None
    ticket_cache: str | None
    librdkafka: Mapping[str, Any] = field(default_factory=dict)
    java: Mapping[str, str] = field(default_factory=dict)

    @property
    def mechanism(self) -> str:
        """Its name."""
        return "GSSAPI"

    @property
    def user(self) -> str:
        """For messages."""
        return self.principal or "the worker's Kerberos ticket"

    def properties(self, files: LoginFiles, /) -> ClientProperties:
        """For both clients.

        :param files: with the path of the ticket cache, if there is no keytab.
        """
        librdkafka: dict[str, Any] = {
            "sasl.mechanism": "GSSAPI",
            "sasl.kerberos.service.name": self.service_name,
            **({"sasl.kerberos.principal": self.principal} if self.principal else {}),
        }
        # Otherwise librdkafka calls kinit with a keytab that does not exist.
        librdkafka |= {"sasl.kerberos.keytab": self.keytab} if self.keytab else {_RELOGIN: 0}
        java = {"sasl.mechanism": "GSSAPI", "sasl.kerberos.service.name": self.service_name, **self.java}
        java["sasl.jaas.config"] = self._line(self.ticket_cache or files.ticket_cache).format()
        return ClientProperties({**librdkafka, **self.librdkafka}, java, files=(self.keytab,) if self.keytab else ())

    def _line(self, ticket_cache: str | None) -> JaasLine:
        owner = {"principal": self.principal} if self.principal else {}
        if self.keytab:
            options = {"useKeyTab": "true", "storeKey": "true", "useTicketCache": "false", "doNotPrompt": "true"}
            return JaasLine(_MODULE, {**options, "keyTab": self.keytab, **owner})
        cache = {"ticketCache": ticket_cache} if ticket_cache else {}
        return JaasLine(_MODULE, {"useTicketCache": "true", "doNotPrompt": "true", **cache, **owner})


def jaas_elsewhere(conn_id: str, line: str, names: Mapping[str, str]) -> str:
    """A JAAS line for another machine.

    :param names: paths of files that are sent with the job, and their names there.
    :raises ConnectionConfigError: if it logs in with tickets, which stay on the worker.
    """
    jaas = parse_jaas(line)
    if jaas.options.get("useTicketCache") == "true":
        raise ConnectionConfigError(
            f"The connection {conn_id!r} cannot be used by a driver or executors on other machines: its Kerberos "
            "tickets are this worker's, and soon end. Give sasl.kerberos.keytab and sasl.kerberos.principal, or let "
            "the job use a delegation token by use_delegation_token=True."
        )
    keytab = jaas.options.get("keyTab")
    if keytab is None or keytab not in names:
        return line
    return JaasLine(jaas.module, {**jaas.options, "keyTab": names[keytab]}).format()


def parse_kerberos(extra: ConnectionExtra, options: dict[str, str]) -> KerberosLogin:
    """Read a Kerberos login.

    :param options: of the JAAS line; known options are removed from it.
    :raises ConnectionConfigError: if a keytab has no principal, or a keytab is required and not named.
    """
    if extra.left.pop(_COMMAND, None):
        raise extra.without_counterpart(_COMMAND, "librdkafka runs it in a shell on the worker")
    jaas = "sasl.jaas.config"
    service = extra.take_one("sasl.kerberos.service.name", options.pop("serviceName", None), jaas, NAME) or "kafka"
    principal = extra.take_one("sasl.kerberos.principal", options.pop("principal", None), jaas, PRINCIPAL)
    keytab = extra.take_one("sasl.kerberos.keytab", options.pop("keyTab", None), jaas, PATH)
    keytab = keytab.removeprefix("FILE:") if keytab else None
    ticket_cache = options.pop("ticketCache", None)
    if ticket_cache:
        extra.check(f"ticketCache (in {jaas})", ticket_cache, PATH)
    if options.get("useKeyTab", "").lower() == "true" and not keytab:
        raise extra.error(
            "has useKeyTab=true in sasl.jaas.config and no keyTab, which means the default keytab of the machine; "
            "librdkafka knows none, and it does not travel with a job. Name "
            'the keytab, as keyTab="/path" there or as sasl.kerberos.keytab; or remove useKeyTab to log in with the '
            "worker's tickets."
        )
    for name in _IMPLIED:
        options.pop(name, None)
    if keytab and not principal:
        raise extra.error(
            "needs sasl.kerberos.principal, such as 'copier@EXAMPLE.COM', for the keys in sasl.kerberos.keytab "
            f"({keytab}). `klist -k {keytab}` lists whose they are."
        )
    if keytab and ticket_cache:
        raise extra.error("has both a keytab and ticketCache in its Kerberos login. Keep one of them.")
    relogin = extra.take(_RELOGIN)
    librdkafka = {_RELOGIN: relogin} if relogin and keytab else {}
    settings = {name: value for name in _JAVA_ONLY if (value := extra.take(name))}
    java = settings | ({_RELOGIN: relogin} if relogin and relogin != "0" else {})
    return KerberosLogin(
        service, principal, keytab, ticket_cache.removeprefix("FILE:") if ticket_cache else None, librdkafka, java
    )


def ticket_cache_path(conn_id: str, variable: str | None, user_id: int) -> str:
    """The file of the worker's Kerberos tickets.

    >>> ticket_cache_path("c", "FILE:/run/tickets", 1000), ticket_cache_path("c", None, 1000)
    ('/run/tickets', '/tmp/krb5cc_1000')

    :param variable: ``KRB5CCNAME`` of the worker.
    :param user_id: of the worker's process.
    :raises ConnectionConfigError: if they are not in a file, since Java reads files only.
    """
    if not variable:
        return f"/tmp/krb5cc_{user_id}"  # noqa: S108 - where Kerberos itself keeps them
    kind, colon, path = variable.partition(":")
    if colon and "/" not in kind and kind != "FILE":
        raise ConnectionConfigError(
            f"The Kerberos login of connection {conn_id!r} must have its tickets in a file, since Java reads no other "
            f"cache; KRB5CCNAME of this worker is {variable!r}. Set KRB5CCNAME=FILE:/path for the worker and kinit, "
            "or give sasl.kerberos.keytab and sasl.kerberos.principal."
        )
    return path if kind == "FILE" else variable


def refuse_other_tickets(conn_id: str, ticket_cache: str | None, variable: str | None, path: str) -> None:
    """Check that both clients log in with the same tickets.

    :param ticket_cache: the file that the connection names for Java, or None.
    :param variable: ``KRB5CCNAME`` of the worker.
    :param path: the file of the worker's tickets, which librdkafka uses.
    :raises ConnectionConfigError: if the connection names another file.
    """
    if ticket_cache is not None and ticket_cache != path:
        raise ConnectionConfigError(
            f"ticketCache in sasl.jaas.config of connection {conn_id!r} must be the file of this worker's own "
            f"tickets, {path} (KRB5CCNAME is {_shown(variable)}), since librdkafka knows no others, and worker and "
            f"Spark could be different principals; got {ticket_cache}. Remove ticketCache, or set "
            f"KRB5CCNAME=FILE:{ticket_cache} for the worker."
        )


def no_tickets(conn_id: str, variable: str | None, path: str, where: str) -> ConnectionConfigError:
    """The error if the file of the worker's tickets does not exist.

    :param variable: ``KRB5CCNAME`` of the worker.
    :param where: the worker and its user.
    """
    elsewhere = (
        ""
        if variable
        else " Tickets that `klist` still shows are at default_ccache_name of krb5.conf, such as KEYRING: or KCM:, "
        "which Java does not read."
    )
    return ConnectionConfigError(
        f"The Kerberos login of connection {conn_id!r} has no sasl.kerberos.keytab, so its ticket cache must be a "
        f"file that is there {where}; KRB5CCNAME is {_shown(variable)}, and {path} does not exist.{elsewhere} Put "
        "tickets into a file: run kinit -c FILE:/path, and set KRB5CCNAME=FILE:/path for the worker; or give "
        "sasl.kerberos.keytab and sasl.kerberos.principal."
    )


def _shown(variable: str | None) -> str:
    return repr(variable) if variable else "not set"


def refuse_other_principals(conn_id: str, principal: str, keytab: str, content: bytes) -> None:
    """Check that a keytab has keys of the principal that logs in with it.

    :param content: the keytab's bytes.
    :raises ConnectionConfigError: if it is not a keytab, or has only keys of other principals.
    """
    try:
        owners = keytab_principals(content)
    except ValueError as error:
        raise ConnectionConfigError(
            f"sasl.kerberos.keytab of connection {conn_id!r} must be a keytab as `ktutil` or `kadmin ktadd` writes "
            f"it; {keytab} is none: {error}. Copy it again; it is binary."
        ) from None
    # Without a realm Kerberos takes the default one of this machine.
    if not any(owner == principal or owner.rpartition("@")[0] == principal for owner in owners):
        raise ConnectionConfigError(
            f"sasl.kerberos.keytab of connection {conn_id!r} must hold keys of {principal!r}; {keytab} holds keys of "
            f"{', '.join(owners) or 'no principal'}. Correct sasl.kerberos.principal, or name the keytab of that "
            "principal."
        )


def keytab_principals(content: bytes) -> Sequence[str]:
    """The principals of the keys in a keytab, each once.

    :raises ValueError: if it is not a keytab of the current format.
    """
    if not content.startswith(_KEYTAB_MAGIC):
        # A connection may name any file, so its contents are not shown.
        raise ValueError(f"it does not begin with {_KEYTAB_MAGIC!r}")
    owners: dict[str, None] = {}
    position = len(_KEYTAB_MAGIC)
    try:
        while position < len(content):
            (size,) = struct.unpack_from(">i", content, position)
            position += 4
            # A negative size is a hole where a key was deleted.
            if size > 0:
                owners[_principal(content, position)] = None
            if size == 0:
                break
            position += abs(size)
    except (struct.error, UnicodeDecodeError) as error:
        raise ValueError(f"it breaks off or is damaged at byte {position}") from error
    return tuple(owners)


def _principal(content: bytes, position: int) -> str:
    (count,) = struct.unpack_from(">H", content, position)
    position += 2
    texts = []
    for _ in range(count + 1):
        (length,) = struct.unpack_from(">H", content, position)
        (text,) = struct.unpack_from(f">{length}s", content, position + 2)
        texts.append(text.decode())
        position += 2 + length
    realm, *names = texts
    return f"{'/'.join(names)}@{realm}"
