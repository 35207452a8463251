"""Kerberos: a keytab or a ticket cache, for both clients. No I/O."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from airflow_provider_kafka_spark.core.connection.client_properties import ClientProperties, LoginFiles
from airflow_provider_kafka_spark.core.connection.connection_extra import ConnectionExtra
from airflow_provider_kafka_spark.core.connection.jaas import JaasLine, parse_jaas
from airflow_provider_kafka_spark.core.connection.text_rules import NAME, PATH, PRINCIPAL
from airflow_provider_kafka_spark.core.errors import ConnectionConfigError

#: Java's login module.
MODULE = "com.sun.security.auth.module.Krb5LoginModule"
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

    mechanism: ClassVar[str] = "GSSAPI"

    service_name: str
    principal: str | None
    keytab: str | None
    ticket_cache: str | None
    librdkafka: Mapping[str, Any] = field(default_factory=dict)
    java: Mapping[str, str] = field(default_factory=dict)

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
            return JaasLine(MODULE, {**options, "keyTab": self.keytab, **owner})
        cache = {"ticketCache": ticket_cache} if ticket_cache else {}
        return JaasLine(MODULE, {"useTicketCache": "true", "doNotPrompt": "true", **cache, **owner})


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
    service = extra.take_or_jaas("sasl.kerberos.service.name", in_jaas=options.pop("serviceName", None), rule=NAME)
    principal = extra.take_or_jaas("sasl.kerberos.principal", in_jaas=options.pop("principal", None), rule=PRINCIPAL)
    keytab = extra.take_or_jaas("sasl.kerberos.keytab", in_jaas=options.pop("keyTab", None), rule=PATH)
    keytab = keytab.removeprefix("FILE:") if keytab else None
    ticket_cache = options.pop("ticketCache", None)
    if ticket_cache:
        extra.check("ticketCache (in sasl.jaas.config)", ticket_cache, PATH)
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
        service_name=service or "kafka",
        principal=principal,
        keytab=keytab,
        ticket_cache=ticket_cache.removeprefix("FILE:") if ticket_cache else None,
        librdkafka=librdkafka,
        java=java,
    )


def ticket_cache_path(login: KerberosLogin, conn_id: str, variable: str | None, user_id: int) -> str:
    """The file of the worker's Kerberos tickets, with which both clients log in.

    :param variable: ``KRB5CCNAME`` of the worker.
    :param user_id: of the worker's process.
    :raises ConnectionConfigError: if the worker's tickets are not in a file, or the connection names another one.
    """
    # Where Kerberos itself keeps them.
    kind, colon, path = (variable or f"FILE:/tmp/krb5cc_{user_id}").partition(":")
    if not colon or "/" in kind:
        kind, path = "FILE", str(variable)
    if kind != "FILE":
        raise no_tickets(conn_id, variable, f"{kind}: is no file")
    if login.ticket_cache not in (None, path):
        raise no_tickets(conn_id, variable, f"ticketCache in sasl.jaas.config is {login.ticket_cache}, and not {path}")
    return path


def no_tickets(conn_id: str, variable: str | None, reason: str) -> ConnectionConfigError:
    """The error if there is no file of tickets that both clients use.

    :param variable: ``KRB5CCNAME`` of the worker.
    """
    return ConnectionConfigError(
        f"The Kerberos login of connection {conn_id!r} must have its tickets in a file, such as "
        f"KRB5CCNAME=FILE:/path, since librdkafka reads only those of KRB5CCNAME, and Java only files; got KRB5CCNAME "
        f"{repr(variable) if variable else 'not set'}: {reason}. Run kinit -c FILE:/path and set KRB5CCNAME=FILE:/path "
        "for the worker, or give sasl.kerberos.keytab and sasl.kerberos.principal."
    )


def validate_principals(conn_id: str, principal: str, keytab: str, content: bytes) -> None:
    """Check that a keytab has keys of the principal that logs in with it. librdkafka does not show why ``kinit`` fails.

    :param content: the keytab's bytes.
    :raises ConnectionConfigError: if it is not a keytab, or has only keys of other principals.
    """
    name, _, realm = principal.partition("@")
    # Without a realm Kerberos takes the default one of this machine.
    texts = [text.encode() for text in (*([realm] if realm else []), *name.split("/"))]
    if not content.startswith(_KEYTAB_MAGIC):
        rule, fault, advice = "be a keytab as `kadmin ktadd` writes it", "is none", "Copy it again; it is binary."
    elif b"".join(len(text).to_bytes(2, "big") + text for text in texts) not in content:
        rule, fault = f"hold keys of {principal!r}", "has none of them"
        advice = f"Compare sasl.kerberos.principal with `klist -k {keytab}`."
    else:
        return
    # A connection may name any file, so its contents are not shown.
    raise ConnectionConfigError(
        f"sasl.kerberos.keytab of connection {conn_id!r} must {rule}; {keytab} {fault}. {advice}"
    )
