from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone

import pytest

from airflow_provider_kafka_spark.core.connection.faults import (
    find_login_fault,
    of_expired_certificate,
    worst_login_fault,
)

_NOW = datetime(2026, 11, 21, tzinfo=timezone.utc)


#: The step at which a login failed, and words of what is named; below it texts of librdkafka, Python's OpenSSL, Java
#: and Kerberos that say so. A star is for what may be otherwise later.
_TEXTS = r"""
TLS: cannot be verified
  ssl://b:1/bootstrap: SSL handshake failed: certificate verify failed: broker certificate could not be verified
TLS: requires a client certificate
  ssl://b:1/bootstrap: Receive failed: error:0A000412:SSL routines::ssl/tls alert bad certificate: SSL alert number 42
  [SSL: TLSV13_ALERT_CERTIFICATE_REQUIRED] tlsv13 alert certificate required
TLS: refused the client's certificate
  ssl://b:1/bootstrap: Receive failed: SSL routines::ssl/tls alert certificate unknown: SSL alert number 46
TLS: does not trust its authority
  [SSL: TLSV1_ALERT_UNKNOWN_CA] tlsv1 alert unknown ca
TLS: does not speak TLS
  ssl://b:1/bootstrap: SSL handshake failed: SSL connection closed by peer: connecting to a PLAINTEXT broker listener?
  [SSL: WRONG_VERSION_NUMBER] wrong version number
TLS: unknown authority
  [SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: self-signed certificate in certificate chain
  [SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: unable to get local issuer certificate
  SSLHandshakeException: PKIX path building failed: unable to find valid certification path to requested target
TLS: has expired
  certificate has expired
  [SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: certificate has expired
  CertPathValidatorException: validity check failed: CertificateExpiredException: NotAfter: Sat Nov 21
TLS: not yet valid
  [SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: certificate is not yet valid
TLS: another host
  [SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: Hostname mismatch, certificate is not valid for 'b'.
  [SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: IP address mismatch, certificate is not valid for '::1'.
  CertificateException: No subject alternative names matching IP address 127.0.0.1 found
TLS: version or cipher
  [SSL: TLSV1_ALERT_PROTOCOL_VERSION] tlsv1 alert protocol version
login: user or the password
  SASL authentication error: Authentication failed: Invalid username or password (after 316ms in state AUTH_REQ)
  SASL authentication error: Authentication failed due to invalid credentials with SASL mechanism SCRAM-SHA-256
  SaslAuthenticationException: Authentication failed during authentication
login: it has: SCRAM-SHA-512,OAUTHBEARER.
  Unsupported SASL mechanism: broker's supported mechanisms: SCRAM-SHA-512,OAUTHBEARER (after 3ms)
login: it has: GSSAPI, OAUTHBEARER.
  Client SASL mechanism 'PLAIN' not enabled in the server, enabled mechanisms are [GSSAPI, OAUTHBEARER]
login: asks for no login
  Broker: Request not valid in current SASL state: broker's supported mechanisms:  (after 2ms)
login: refused the token
  SASL authentication error: {"status":"invalid_token"}
set-up: as many open files as it may have *
  b:9093/bootstrap: Failed to create socket: Too many open files (after 0ms in state CONNECT)
set-up: cannot log in by GSSAPI
  Failed to create admin client: No provider for SASL mechanism GSSAPI: recompile librdkafka with libsasl2
identity provider: gave no token
  Failed to acquire SASL OAUTHBEARER token: {"error": "invalid_client"}
  Failed to acquire SASL OAUTHBEARER token: {"message":"oops"}
  Failed to acquire SASL OAUTHBEARER token: {"error":"access_denied"}
  IOException: The response code 401 and error response {"x" - } was encountered reading the token endpoint response
identity provider: certificate of the identity provider
  Failed to acquire SASL OAUTHBEARER token: SSL certificate problem: unable to get local issuer certificate
identity provider: does not answer *
  Failed to acquire SASL OAUTHBEARER token: Failed to connect to 127.0.0.1:1 after 0 ms: Could not connect to server
  Failed to acquire SASL OAUTHBEARER token: Could not resolve host: nowhere.invalid
  Failed to acquire SASL OAUTHBEARER token: Operation timed out after 10 ms
  An internal error occurred while retrieving token from callback handler
identity provider: cannot give a token now *
  Failed to acquire SASL OAUTHBEARER token: {"error":"server_error"}
  Failed to acquire SASL OAUTHBEARER token: {"error": "temporarily_unavailable"}
  Failed to acquire SASL OAUTHBEARER token: {"error":"slow_down","error_description":"too many"}
  Failed to acquire SASL OAUTHBEARER token: <html>\r\n<head><title>502 Bad Gateway</title></head>
  Failed to acquire SASL OAUTHBEARER token: 503 Service Temporarily Unavailable
  Failed to acquire SASL OAUTHBEARER token: {"message":"o"}{"message":"o"}{"message":"o"}{"message":"o"}{"message":"o"}
  IOException: The response code 503 and error response {"x" - } was encountered reading the token endpoint response
  IOException: The response code 429 and error response {"x" - } was encountered reading the token endpoint response
login: clocks
  LoginException: Clock skew too great (37) - PREAUTH_FAILED
  GSSException: Failure unspecified at GSS-API level (Mechanism level: Clock skew too great (37))
  kinit: Clock skew too great while getting initial credentials
login: keys in the keytab are not those
  LoginException: Checksum failed
  kinit: Preauthentication failed while getting initial credentials
login: does not know the principal
  LoginException: Client not found in Kerberos database (6)
  kinit: Client 'x@R' not found in Kerberos database while getting initial credentials
login: does not know the broker
  GSSAPI Error: Unspecified GSS failure.  (Server kfk/localhost@R not found in Kerberos database)
  Server not found in Kerberos database (7) - LOOKING_UP_SERVER
login: no valid Kerberos ticket
  GSSAPI Error: Unspecified GSS failure.  Minor code may provide more information (Ticket expired)
  No Kerberos credentials available (default cache: FILE:/tmp/krb5cc_0)
  LoginException: Unable to obtain Principal Name for authentication
login: refused the Kerberos login
  Authentication failed during authentication due to invalid credentials with SASL mechanism GSSAPI
login: no key of the principal
  LoginException: Unable to obtain password from user
  kinit: Keytab contains no suitable keys for x@R while getting initial credentials
login: no ticket for the broker
  GSSException: No valid credentials provided (Mechanism level: Fail to create credential. (63) - No service creds)
login: encryption types
  LoginException: KDC has no support for encryption type (14)
login: no default realm
  LoginException: Cannot locate default realm
login: (KDC) *
  kinit: Cannot contact any KDC for realm 'R'
  LoginException: Connection refused\nConnectException: Connection refused
  KafkaException: javax.security.auth.login.LoginException\nLoginException\nPortUnreachableException
  LoginException: Receive timed out\nSocketTimeoutException: Receive timed out
  LoginException: kdc.invalid\nUnknownHostException: kdc.invalid
  LoginException: Cannot locate KDC\nKrbException: Cannot locate KDC
  GSSException: No valid credentials provided (Mechanism level: Connection refused)
"""
_NAMED = [
    (text.strip().replace(r"\r\n", "\r\n").replace(r"\n", "\n"), *heading.split(": ", 1))
    for heading, *texts in (block.splitlines() for block in re.split(r"\n(?=\S)", _TEXTS.strip()))
    for text in texts
]


@pytest.mark.parametrize(("text", "step", "words"), _NAMED)
def test_each_is_named_with_advice(text: str, step: str, words: str) -> None:
    """And only what may be otherwise later is worth another try."""
    fault = find_login_fault(text)

    assert fault is not None
    assert (fault.step, fault.transient) == (step, words.endswith("*"))
    assert words.rstrip(" *") in fault.what
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
