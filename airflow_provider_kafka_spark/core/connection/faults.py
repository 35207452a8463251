"""Error messages of OpenSSL, librdkafka, Java and Kerberos, with the cause and what to do about it. No I/O."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime

from airflow_provider_kafka_spark.core.errors import (
    BrokerAuthenticationError,
    BrokerError,
    BrokerTlsError,
    BrokerUnavailableError,
)

TCP, TLS, LOGIN, IDENTITY_PROVIDER, SETUP = "TCP", "TLS", "login", "identity provider", "set-up"


@dataclass(frozen=True, slots=True)
class LoginFault:
    """Why a login failed.

    :param step: ``TCP``, ``TLS``, ``login``, ``identity provider``, or ``set-up`` of the worker.
    :param what: a sentence that names it.
    :param advice: what to do.
    :param pattern: of the messages that have this cause; a group's text is put into ``what``.
    :param transient: a server did not answer, and may answer later.
    :param by_certificate: the broker refused the client's certificate.
    :param inconclusive: the message does not have the reason; another request may find it.
    """

    step: str
    what: str
    advice: str
    pattern: str = field(default="", repr=False)
    transient: bool = False
    by_certificate: bool = False
    inconclusive: bool = False

    @property
    def error(self) -> type[BrokerError]:
        """The error to raise for it."""
        if self.transient:
            return BrokerUnavailableError
        return {TCP: BrokerError, TLS: BrokerTlsError}.get(self.step, BrokerAuthenticationError)

    def __str__(self) -> str:
        return f"{self.what} {self.advice}"


SPEAKS_NO_TLS = LoginFault(
    TLS,
    "The broker's listener does not speak TLS.",
    "Set security.protocol to the listener's own, or name the port of the SSL listener.",
    pattern=r"wrong version number|packet length too long|record layer failure|Unsupported or unrecognized SSL message",
)
SPEAKS_TLS = LoginFault(
    TLS,
    "The broker's listener speaks TLS, and the connection does not.",
    "Set security.protocol to SSL or SASL_SSL, or name the port of a listener without TLS.",
    pattern=r"connecting to a SSL listener",
)
_NO_KEY = LoginFault(
    LOGIN,
    "The keytab has no key of the principal.",
    "Compare `klist -k` of the keytab with sasl.kerberos.principal.",
    pattern=(
        r"Unable to obtain password|Key table entry not found|No key to store|Keytab contains no suitable keys|no "
        r"suitable keys for"
    ),
)
_NO_TICKET = LoginFault(
    LOGIN,
    "There is no valid Kerberos ticket.",
    "Run kinit for the worker's user, as sasl.kerberos.principal if that is named, or give sasl.kerberos.keytab "
    "and sasl.kerberos.principal.",
    # Without a configured principal, Java only knows the owner of a ticket.
    pattern=(
        r"Unable to obtain Principal Name|Ticket expired|Ticket is expired|Credentials? cache .{0,80}not found|No "
        r"Kerberos credentials available|no credentials cache|No credentials were supplied|Unable to "
        r"obtain.{0,40}ticket|Failed to find any Kerberos tgt"
    ),
)
_NO_NEW_TOKEN = LoginFault(
    IDENTITY_PROVIDER,
    "The cloud's library on the worker made no new token.",
    "The task's log names the failure. Check the role or service account of the worker, and that it reaches the cloud.",
    pattern=r"OAuth callback raised exception",
    transient=True,
)
#: The first match is the cause. For one cause, the messages of OpenSSL and librdkafka come before those of Java.
_FAULTS = (
    _NO_NEW_TOKEN,
    LoginFault(
        SETUP,
        "This process has as many open files as it may have, so it cannot connect.",
        "Raise the limit (ulimit -n, LimitNOFILE), or run fewer tasks or triggers in one process.",
        pattern=r"Too many open files",
        transient=True,
    ),
    LoginFault(
        TCP,
        "A web server (HTTP) answers where a Kafka broker is expected.",
        "Name host and port of the brokers' listener in bootstrap.servers.",
        # The first four bytes of "HTTP/1.1 400" or of "<!DOCTYPE", read as a number.
        pattern=r"Invalid (response size|receive \(size =) (1213486160|1008813135)\b",
    ),
    LoginFault(
        IDENTITY_PROVIDER,
        "The certificate of the identity provider cannot be verified.",
        "Name the authority that signed it in https.ca.location (or https.ca.pem).",
        pattern=r"OAUTHBEARER token: .{0,200}(SSL|certificate)",
    ),
    LoginFault(
        IDENTITY_PROVIDER,
        "The identity provider does not answer.",
        "Check sasl.oauthbearer.token.endpoint.url, and that the worker and Spark reach the provider.",
        pattern=(
            r"OAUTHBEARER token: .{0,200}(Failed to connect|Could ?n.t connect|Could not (connect|resolve)|[Tt]imed "
            r"out|[Tt]imeout)"
        ),
        transient=True,
    ),
    LoginFault(
        IDENTITY_PROVIDER,
        "The identity provider does not answer, or gives an invalid answer. Java's client gives no details.",
        "Check sasl.oauthbearer.token.endpoint.url, that the worker and Spark reach the provider, that Java trusts its "
        "certificate, and the provider's own log.",
        pattern=r"An internal error occurred while retrieving token from callback handler",
        transient=True,
    ),
    LoginFault(
        IDENTITY_PROVIDER,
        "The identity provider cannot give a token now.",
        "Look at the provider's own log, or try again later.",
        # librdkafka logs the answer without its status. It repeats answers after which it tries again (429, 5xx).
        pattern=(
            r"OAUTHBEARER token: ([\s\S]{0,400}?(?i:\"error\" ?: ?\"(server_error|temporarily_unavailable|slow_down)\"|"
            r"Internal Server Error|Bad Gateway|Service (Temporarily )?Unavailable|Too Many Requests)|"
            r"(?P<answer>[\s\S]{8,}?)(?P=answer){3,}$)|\bresponse code (429|5\d\d)\b"
        ),
        transient=True,
    ),
    LoginFault(
        LOGIN,
        "The broker refused the token that the identity provider gave.",
        "Compare audience, issuer and scope of the tokens with what the broker expects "
        "(sasl.oauthbearer.expected.audience, ...issuer), and the clocks.",
        pattern=r"\"status\" ?: ?\"(invalid_token|insufficient_scope)",
    ),
    LoginFault(
        SETUP,
        "The confluent-kafka of this worker cannot log in by {0}: the wheels on PyPI are built without Kerberos.",
        "Install libsasl2-dev, libkrb5-dev, libsasl2-modules-gssapi-mit and krb5-user, a librdkafka of the same "
        "version built with them, and then: pip install --no-binary confluent-kafka confluent-kafka.",
        pattern=r"No provider for SASL mechanism (\S+?):",
    ),
    LoginFault(
        TLS,
        "The certificate that the broker shows, or that of its authority, has expired.",
        "Renew it on the broker.",
        pattern=r"certificate has expired|CertificateExpiredException|NotAfter: ",
    ),
    LoginFault(
        TLS,
        "The certificate that the broker shows is not yet valid.",
        "Compare its dates with the worker's clock.",
        pattern=r"certificate is not yet valid|CertificateNotYetValidException",
    ),
    LoginFault(
        TLS,
        "The certificate that the broker shows is for another host name.",
        "Use the host name of the certificate in bootstrap.servers and in the broker's advertised.listeners, have the "
        "certificate made for this one, or set ssl.endpoint.identification.algorithm to none.",
        pattern=(
            r"[Hh]ostname mismatch|IP address mismatch|No subject alternative|No name matching|doesn't "
            r"match the (host|common)"
        ),
    ),
    LoginFault(
        TLS,
        "The certificate that the broker shows is signed by an unknown authority (CA).",
        "Name the authority that signed it in ssl.ca.location (or ssl.ca.pem).",
        pattern=(
            r"self[- ]signed certificate|unable to get (local )?issuer certificate|unable to find valid certification "
            r"path|Path does not chain with any of the trust anchors"
        ),
    ),
    LoginFault(
        TLS,
        "The broker requires a client certificate, and got none that it accepts.",
        "Add ssl.certificate.location and ssl.key.location (or ..pem).",
        pattern=(
            r"certificate required|client SSL authentication might be required|alert bad certificate|Received fatal "
            r"alert: (certificate_required|bad_certificate)"
        ),
        by_certificate=True,
    ),
    LoginFault(
        TLS,
        "The broker refused the client's certificate: it has expired, or the broker does not trust its authority.",
        "Check ssl.certificate.location and ssl.key.location (or ..pem), and that the broker trusts the authority that "
        "signed the certificate.",
        pattern=(
            r"alert (unknown ca|certificate (unknown|expired|revoked))|Received fatal alert: (unknown_ca|certificate_("
            r"unknown|expired|revoked))"
        ),
        by_certificate=True,
    ),
    LoginFault(
        TLS,
        "The certificate that the broker shows cannot be verified.",
        "Name the authority that signed it in ssl.ca.location (or ssl.ca.pem), and look at its dates and host names.",
        pattern=r"certificate verify failed|certificate could not be verified|CertPathValidatorException",
        inconclusive=True,
    ),
    LoginFault(
        TLS,
        "The client and the broker have no version or cipher of TLS in common.",
        "Allow TLS 1.2 or 1.3 on the broker's listener (ssl.enabled.protocols).",
        pattern=(
            r"no protocols available|unsupported protocol|alert (protocol version|handshake failure)|no shared "
            r"cipher|Received fatal alert: (handshake_failure|protocol_version)"
        ),
    ),
    SPEAKS_NO_TLS,
    replace(SPEAKS_NO_TLS, pattern=r"connecting to a PLAINTEXT broker", inconclusive=True),
    replace(SPEAKS_TLS, inconclusive=True),
    LoginFault(
        LOGIN,
        "The broker's listener asks for no login.",
        "Set security.protocol to PLAINTEXT or SSL, or name the port of a SASL listener.",
        pattern=r"Request not valid in current SASL state|IllegalSaslStateException",
    ),
    LoginFault(
        LOGIN,
        "The broker's listener does not have this sasl.mechanism; it has: {0}.",
        "Set sasl.mechanism to one of them, or enable it on the broker (sasl.enabled.mechanisms).",
        pattern=(
            r"Unsupported SASL mechanism: broker's supported mechanisms: ?(?P<has>[\w, -]*)|not enabled in the server, "
            r"enabled mechanisms are \[(?P<have>[^\]]*)\]"
        ),
    ),
    LoginFault(
        LOGIN,
        "The clocks of this machine and of the Kerberos servers differ by more than Kerberos permits (5 minutes, clock "
        "skew).",
        "Set the clocks of worker, broker and KDC by NTP.",
        pattern=r"Clock skew too great|clock skew|KRB_AP_ERR_SKEW|Ticket not yet valid",
    ),
    LoginFault(
        LOGIN,
        "Kerberos does not know the broker under the requested name.",
        "sasl.kerberos.service.name must be the first part of the broker's principal, and the host in "
        "bootstrap.servers the second, to the letter: a name, not an address.",
        pattern=(
            r"Server (\S+ )?not found in Kerberos database|SERVER_NOT_FOUND|not found in Kerberos database.{0,20}server"
        ),
    ),
    LoginFault(
        LOGIN,
        "Kerberos does not know the principal.",
        "Correct sasl.kerberos.principal.",
        pattern=r"Client .{0,80}not found in Kerberos database|Client not found in Kerberos database",
    ),
    LoginFault(
        LOGIN,
        "The keys in the keytab are not those of the principal (any more).",
        "Create the keytab again (kadmin ktadd); a changed password invalidates older keytabs.",
        pattern=(
            r"Integrity check on decrypted field failed|Checksum failed|Preauthentication failed|Pre-authentication "
            r"information was invalid|PREAUTH_FAILED|Password incorrect"
        ),
    ),
    _NO_KEY,
    LoginFault(
        LOGIN,
        "Kerberos gives no ticket for the broker.",
        "Check that krb5.conf of this machine maps the broker's host to its realm ([domain_realm], [realms]), that the "
        "realms trust each other, and that sasl.kerberos.service.name is the first part of the broker's principal.",
        pattern=r"No service creds",
    ),
    _NO_TICKET,
    LoginFault(
        LOGIN,
        "The Kerberos server (KDC) has none of the requested encryption types.",
        "Compare those of the keytab (`klist -ke`) with those of the KDC and of krb5.conf.",
        pattern=r"KDC has no support for",
    ),
    LoginFault(
        LOGIN,
        "Kerberos has no default realm.",
        "Set default_realm in krb5.conf of this machine (KRB5_CONFIG).",
        pattern=r"Cannot locate default realm",
    ),
    LoginFault(
        LOGIN,
        "The Kerberos server (KDC) of the realm is not known or does not answer.",
        "Look at krb5.conf of this machine (KRB5_CONFIG), and whether the KDC is up.",
        # If no KDC answers, Java's login error does not mention Kerberos: its cause is a connection error.
        pattern=(
            r"Cannot (contact|find|locate) (any )?KDC|Cannot get kdc for realm|ICMP Port Unreachable|Receive timed "
            r"out.{0,60}(kdc|krb)|\bLoginException(: [^\n]*)?\n(ConnectException|NoRouteToHostException|"
            r"PortUnreachableException|SocketException|SocketTimeoutException|UnknownHostException)\b|Mechanism level: "
            r"[^)\n]{0,200}(Connection refused|timed out|Port Unreachable|No route to host|Network is unreachable|Name "
            r"or service not known)"
        ),
        transient=True,
    ),
    LoginFault(
        IDENTITY_PROVIDER,
        "The identity provider gave no token.",
        "Check sasl.oauthbearer.token.endpoint.url, sasl.oauthbearer.client.id and sasl.oauthbearer.client.secret, and "
        "that the worker and Spark reach the provider.",
        pattern=(
            r"(Failed to|Couldn't) (retrieve|acquire|obtain|get).{0,200}(token|OIDC)|token endpoint|OIDC|"
            r"invalid_client|unauthorized_client|Could not retrieve.{0,40}token|OAuth"
        ),
    ),
    LoginFault(
        LOGIN,
        "The broker refused the Kerberos login.",
        "The broker does not give a reason: compare the clocks of worker, broker and KDC (they may differ by 5 "
        "minutes), and look at `klist` and `kinit` as the worker's user, at the broker's "
        "sasl.kerberos.principal.to.local.rules, and at its log.",
        pattern=r"SASL mechanism GSSAPI",
    ),
    LoginFault(
        LOGIN,
        "The broker refused the user or the password.",
        "Correct sasl.username and sasl.password.",
        pattern=(
            r"(?i)invalid credentials|authentication failed|SASL authentication error|invalid username or password|"
            r"SaslAuthenticationException"
        ),
    ),
)


def find_login_fault(text: str, *, by_ticket: bool = False) -> LoginFault | None:
    """The fault that a text describes, or None if it is not about a login.

    :param text: error of OpenSSL, librdkafka, or Java with its causes.
    :param by_ticket: the login uses a Kerberos ticket cache, for which Java has the same messages as for a keytab.
    """
    for fault in _FAULTS:
        if found := re.search(fault.pattern, text):
            if fault is _NO_KEY and by_ticket:
                return _NO_TICKET
            named = next((group.strip() for group in found.groups() if group), "")
            return replace(fault, what=fault.what.format(named))
    return None


def worst_login_fault(texts: Iterable[str]) -> LoginFault | None:
    """The fault of several errors of one client: the first one with a reason, or else the first one.

    Where no new token was made, the broker has refused the old one by now.
    """
    faults = [fault for text in texts if (fault := find_login_fault(text))]
    if _NO_NEW_TOKEN in faults:
        return _NO_NEW_TOKEN
    return next((fault for fault in faults if not fault.inconclusive), faults[0] if faults else None)


def asks_for_login(enabled: Iterable[str]) -> LoginFault:
    """The fault if the listener requires a login, and the connection has none.

    :param enabled: the listener's mechanisms.
    """
    return LoginFault(
        LOGIN,
        "The broker's listener asks for a login, and the connection has none; its mechanisms are: "
        f"{', '.join(sorted(enabled)) or 'none'}.",
        "Set security.protocol to SASL_SSL or SASL_PLAINTEXT, with sasl.mechanism and its login, or name the port of "
        "another listener.",
    )


def of_expired_certificate(fault: LoginFault, ends: datetime | None, now: datetime) -> LoginFault:
    """The fault with a reason that brokers do not return: the client's certificate has expired.

    :param ends: when it expires, None if there is none.
    """
    if not fault.by_certificate or ends is None or ends > now:
        return fault
    return replace(
        fault,
        what=f"The broker refused the client's certificate, which expired at {ends:%Y-%m-%d %H:%M} UTC.",
        advice="Renew it (ssl.certificate.location and ssl.key.location, or ..pem).",
    )
