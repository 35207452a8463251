from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest

from airflow_provider_kafka_spark.core.connection.faults import (
    IDENTITY_PROVIDER,
    LOGIN,
    SETUP,
    TLS,
    asks_for_login,
    find_login_fault,
    of_expired_certificate,
    worst_login_fault,
)

_NOW = datetime(2026, 11, 21, tzinfo=timezone.utc)
_PYTHON = "[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: "


@pytest.mark.parametrize(
    ("text", "step", "words"),
    [
        # librdkafka
        (
            "ssl://b:1/bootstrap: SSL handshake failed: error:0A000086:SSL routines::certificate verify failed: "
            "broker certificate could not be verified, verify that ssl.ca.location is correctly configured",
            TLS, "cannot be verified",
        ),
        (
            "ssl://b:1/bootstrap: Receive failed: error:0A000412:SSL routines::ssl/tls alert bad certificate: SSL "
            "alert number 42",
            TLS, "requires a client certificate",
        ),
        (
            "ssl://b:1/bootstrap: Receive failed: error:0A000416:SSL routines::ssl/tls alert certificate unknown: SSL "
            "alert number 46",
            TLS, "refused the client's certificate",
        ),
        (
            "ssl://b:1/bootstrap: SSL handshake failed: Disconnected: SSL connection closed by peer: connecting to a "
            "PLAINTEXT broker listener?",
            TLS, "does not speak TLS",
        ),
        (
            "SASL authentication error: Authentication failed: Invalid username or password (after 316ms in state "
            "AUTH_REQ)",
            LOGIN, "user or the password",
        ),
        (
            "SASL authentication error: Authentication failed during authentication due to invalid credentials with "
            "SASL mechanism SCRAM-SHA-256",
            LOGIN, "user or the password",
        ),
        (
            "SASL PLAIN mechanism handshake failed: Broker: Unsupported SASL mechanism: broker's supported "
            "mechanisms: SCRAM-SHA-512,OAUTHBEARER (after 3ms)",
            LOGIN, "it has: SCRAM-SHA-512,OAUTHBEARER.",
        ),
        (
            "SASL PLAIN mechanism handshake failed: Broker: Request not valid in current SASL state: broker's "
            "supported mechanisms:  (after 2ms)",
            LOGIN, "asks for no login",
        ),
        ('Failed to acquire SASL OAUTHBEARER token: {"error": "invalid_client"}', IDENTITY_PROVIDER, "gave no token"),
        (
            "Failed to acquire SASL OAUTHBEARER token: SSL certificate problem: unable to get local issuer certificate",
            IDENTITY_PROVIDER, "certificate of the identity provider",
        ),
        ('SASL authentication error: {"status":"invalid_token"}', LOGIN, "refused the token"),
        (
            "Failed to create admin client: No provider for SASL mechanism GSSAPI: recompile librdkafka with libsasl2",
            SETUP, "cannot log in by GSSAPI",
        ),
        # Python's OpenSSL
        (f"{_PYTHON}self-signed certificate in certificate chain", TLS, "unknown authority"),
        (f"{_PYTHON}unable to get local issuer certificate", TLS, "unknown authority"),
        (f"{_PYTHON}certificate has expired", TLS, "has expired"),
        (f"{_PYTHON}certificate is not yet valid", TLS, "not yet valid"),
        (f"{_PYTHON}Hostname mismatch, certificate is not valid for 'b'.", TLS, "another host"),
        (f"{_PYTHON}IP address mismatch, certificate is not valid for '::1'.", TLS, "another host"),
        ("[SSL: WRONG_VERSION_NUMBER] wrong version number", TLS, "does not speak TLS"),
        (
            "[SSL: TLSV13_ALERT_CERTIFICATE_REQUIRED] tlsv13 alert certificate required", TLS,
            "requires a client certificate",
        ),
        ("[SSL: TLSV1_ALERT_UNKNOWN_CA] tlsv1 alert unknown ca", TLS, "does not trust its authority"),
        ("[SSL: TLSV1_ALERT_PROTOCOL_VERSION] tlsv1 alert protocol version", TLS, "version or cipher"),
        # Java
        (
            "SslAuthenticationException: SSL handshake failed: SSLHandshakeException: PKIX path building failed: "
            "unable to find valid certification path to requested target",
            TLS, "unknown authority",
        ),
        (
            "CertPathValidatorException: validity check failed: CertificateExpiredException: NotAfter: Sat Nov 21", TLS,
            "has expired",
        ),
        ("CertificateException: No subject alternative names matching IP address 127.0.0.1 found", TLS, "another host"),
        (
            "UnsupportedSaslMechanismException: Client SASL mechanism 'PLAIN' not enabled in the server, enabled "
            "mechanisms are [GSSAPI, OAUTHBEARER]",
            LOGIN, "it has: GSSAPI, OAUTHBEARER.",
        ),
        ("SaslAuthenticationException: Authentication failed during authentication", LOGIN, "user or the password"),
        # Kerberos
        ("LoginException: Clock skew too great (37) - PREAUTH_FAILED", LOGIN, "clocks"),
        (
            "GSSException: Failure unspecified at GSS-API level (Mechanism level: Clock skew too great (37))", LOGIN,
            "clocks",
        ),
        ("kinit: Clock skew too great while getting initial credentials", LOGIN, "clocks"),
        ("LoginException: Checksum failed", LOGIN, "keys in the keytab are not those"),
        (
            "kinit: Preauthentication failed while getting initial credentials", LOGIN,
            "keys in the keytab are not those",
        ),
        ("LoginException: Client not found in Kerberos database (6)", LOGIN, "does not know the principal"),
        (
            "kinit: Client 'x@R' not found in Kerberos database while getting initial credentials", LOGIN,
            "does not know the principal",
        ),
        (
            "GSSAPI Error: Unspecified GSS failure.  Minor code may provide more information (Server kfk/localhost@R "
            "not found in Kerberos database)",
            LOGIN, "does not know the broker",
        ),
        (
            "GSSAPI Error: Unspecified GSS failure.  Minor code may provide more information (Ticket expired)", LOGIN,
            "no valid Kerberos ticket",
        ),
        (
            "Authentication failed during authentication due to invalid credentials with SASL mechanism GSSAPI", LOGIN,
            "refused the Kerberos login",
        ),
        ("Server not found in Kerberos database (7) - LOOKING_UP_SERVER", LOGIN, "does not know the broker"),
        ("LoginException: Unable to obtain password from user", LOGIN, "no key of the principal"),
        (
            "kinit: Keytab contains no suitable keys for x@R while getting initial credentials", LOGIN,
            "no key of the principal",
        ),
        ("No Kerberos credentials available (default cache: FILE:/tmp/krb5cc_0)", LOGIN, "no valid Kerberos ticket"),
        ("LoginException: Unable to obtain Principal Name for authentication", LOGIN, "no valid Kerberos ticket"),
        (
            "GSSException: No valid credentials provided (Mechanism level: Fail to create credential. (63) - No "
            "service creds)",
            LOGIN, "no ticket for the broker",
        ),
        ("kinit: Cannot contact any KDC for realm 'R'", LOGIN, "(KDC)"),
    ],
)  # fmt: skip
def test_each_is_named_with_advice(text: str, step: str, words: str) -> None:
    fault = find_login_fault(text)

    assert fault is not None
    assert fault.step == step
    assert words in fault.what
    assert fault.advice


def test_javas_words_are_those_of_a_keytab_and_of_a_ticket() -> None:
    """The same message has another cause with a ticket cache."""
    words = "LoginException: Unable to obtain password from user"
    by_keytab, by_ticket = find_login_fault(words), find_login_fault(words, by_ticket=True)
    assert by_keytab is not None
    assert by_ticket is not None
    assert "no key of the principal" in by_keytab.what
    assert "no valid Kerberos ticket" in by_ticket.what
    assert "kinit" in by_ticket.advice

    other = "LoginException: Checksum failed"
    assert find_login_fault(other, by_ticket=True) == find_login_fault(other)


@pytest.mark.parametrize(
    "text",
    [
        "b:9092/bootstrap: Connect to ipv4#127.0.0.1:1 failed: Connection refused", "1/1 brokers are down", "",
        "Broker: Topic authorization failed",
    ],
)  # fmt: skip
def test_other_failures_are_no_login_faults(text: str) -> None:
    assert find_login_fault(text) is None


@pytest.mark.parametrize(
    ("text", "transient"),
    [
        (
            "Failed to acquire SASL OAUTHBEARER token: Failed to connect to 127.0.0.1:1 after 0 ms: Could not connect "
            "to server",
            True,
        ),
        ("Failed to acquire SASL OAUTHBEARER token: Could not resolve host: nowhere.invalid", True),
        ("Failed to acquire SASL OAUTHBEARER token: Operation timed out after 10 ms", True),
        ('Failed to acquire SASL OAUTHBEARER token: {"error": "invalid_client"}', False),
        ("An internal error occurred while retrieving token from callback handler", True),
        ('Failed to acquire SASL OAUTHBEARER token: {"error":"server_error"}', True),
        ('Failed to acquire SASL OAUTHBEARER token: {"error": "temporarily_unavailable"}', True),
        ('Failed to acquire SASL OAUTHBEARER token: {"error":"slow_down","error_description":"too many"}', True),
        ("Failed to acquire SASL OAUTHBEARER token: <html>\r\n<head><title>502 Bad Gateway</title></head>", True),
        ("Failed to acquire SASL OAUTHBEARER token: 503 Service Temporarily Unavailable", True),
        ("Failed to acquire SASL OAUTHBEARER token: " + '{"message":"oops"}' * 5, True),
        ('Failed to acquire SASL OAUTHBEARER token: {"message":"oops"}', False),
        ('Failed to acquire SASL OAUTHBEARER token: {"error":"access_denied"}', False),
        (
            'IOException: The response code 503 and error response {"x" - } was encountered reading the token '
            'endpoint response',
            True,
        ),
        (
            'IOException: The response code 429 and error response {"x" - } was encountered reading the token '
            'endpoint response',
            True,
        ),
        (
            'IOException: The response code 401 and error response {"x" - } was encountered reading the token '
            'endpoint response',
            False,
        ),
        ("LoginException: Connection refused\nConnectException: Connection refused", True),
        ("KafkaException: javax.security.auth.login.LoginException\nLoginException\nPortUnreachableException", True),
        ("LoginException: Receive timed out\nSocketTimeoutException: Receive timed out", True),
        ("LoginException: kdc.invalid\nUnknownHostException: kdc.invalid", True),
        ("LoginException: Cannot locate KDC\nKrbException: Cannot locate KDC", True),
        ("GSSException: No valid credentials provided (Mechanism level: Connection refused)", True),
        ("LoginException: KDC has no support for encryption type (14)", False),
        ("LoginException: Cannot locate default realm", False),
        ("kinit: Cannot contact any KDC for realm 'R'", True),
        ("certificate has expired", False),
    ],
)  # fmt: skip
def test_who_does_not_answer_may_do_so_later(text: str, transient: bool) -> None:
    """And only that is worth another try."""
    fault = find_login_fault(text)

    assert fault is not None
    assert fault.transient is transient


def test_of_several_errors_the_one_with_a_reason_counts() -> None:
    inconclusive, clear = "certificate verify failed", "certificate has expired"

    assert worst_login_fault(["1/1 brokers are down", inconclusive, clear]) == find_login_fault(clear)
    assert worst_login_fault([inconclusive, "1/1 brokers are down"]) == find_login_fault(inconclusive)
    assert worst_login_fault(["1/1 brokers are down"]) is None
    # A token that was not replaced in time is refused.
    refused, no_new_token = '{"status":"invalid_token"}', "OAuth callback raised exception"
    assert worst_login_fault([refused, no_new_token, refused]) == find_login_fault(no_new_token)


def test_an_expired_client_certificate_is_distinguished_from_others() -> None:
    """Brokers only say that they do not take it."""
    refused, other = find_login_fault("alert certificate unknown"), find_login_fault("certificate has expired")
    assert refused is not None
    assert other is not None
    past, future = _NOW - timedelta(hours=1), _NOW + timedelta(hours=1)

    assert "expired at 2026-11-20 23:00 UTC" in of_expired_certificate(refused, past, _NOW).what
    assert of_expired_certificate(refused, future, _NOW) == refused
    assert of_expired_certificate(refused, None, _NOW) == refused
    assert of_expired_certificate(other, past, _NOW) == other


def test_what_a_listener_has() -> None:
    assert "its mechanisms are: OAUTHBEARER, PLAIN." in asks_for_login(["PLAIN", "OAUTHBEARER"]).what
