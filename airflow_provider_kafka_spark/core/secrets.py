"""Which properties hold secrets, and texts without them and without what a token endpoint answered: for Spark, logs and
reports. No I/O.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from urllib.parse import unquote_plus

#: A pattern for both Python and Java, without regard to case.
SECRET_NAMES = "|".join(
    (
        *("jaas", "password", "passphrase", "secret", "hmac"),
        # The address of a token endpoint is not secret.
        r"token(?!\.endpoint\.url)",
        # Not the JVM's -enableassertions; Spark searches values too.
        "assertion(?!s)",
        *(r"keystore\.key$", r"access\.?key", "api[._-]?key", "private[._-]?key"),
    )
)
_SECRET = re.compile(SECRET_NAMES, re.IGNORECASE)


def holds_secret(name: str) -> bool:
    """Whether the value of a property is secret.

    >>> holds_secret("kafka.sasl.jaas.config"), holds_secret("kafka.sasl.oauthbearer.token.endpoint.url")
    (True, False)
    """
    return _SECRET.search(name) is not None


def secrets_in_url(url: str) -> set[str]:
    """The password and the secret parameters of a URL, both encoded and decoded.

    >>> sorted(secrets_in_url("https://u:pass%21@h/?api_key=k&n=1"))
    ['k', 'pass!', 'pass%21']
    """
    found = set(re.findall(r"://[^/?#:\s]*:([^/?#\s]+)@", url))
    found |= {value for name, value in re.findall(r"[?&;]([^=&;#\s]+)=([^&;#\s]+)", url) if holds_secret(name)}
    return found | {unquote_plus(secret) for secret in found}


#: What to do about a location that has one: it is stored, and shown in Airflow and Spark.
TAKE_OUT = "Take it out: the worker logs in by an Airflow connection, and Spark by its own configuration."


def without_user(address: str) -> str:
    """An address for a message, without user and password.

    >>> without_user("https://u:p@h:1/x"), without_user("h:1")
    ('https://***@h:1/x', 'h:1')
    """
    scheme, separator, rest = address.rpartition("://")
    _, at, host = rest.rpartition("@")
    return f"{scheme}{separator}{'***@' if at else ''}{host}"


#: Further names in Spark's properties. Spark's own pattern (``secret|password|token|access[.]?key``, and ``url`` for
#: options) does not match Kafka's logins.
_SPARKS_WORDS = (
    *(r"[._-]pwd\b", "token", "credential", "keystore", "authorization"),
    # Spark also matches values, and this file is passed to containers.
    "(?<!/etc/)passwd",
    "account[._-]?key",
    # Not spark.io.encryption.keySizeBits.
    r"encryption\.key$",
    r"fs\.azure\.sas\.",
)
_NAMES = f"(?i){'|'.join((SECRET_NAMES, *_SPARKS_WORDS))}"
#: Secrets within texts: a JAAS line, a PEM key.
_TEXTS = (
    r'(?is)(password|clientSecret|keyTab)\s*=\s*"(\\.|[^"\\])*"'
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----.*?-----END [A-Z ]*PRIVATE KEY-----"
)

#: A value with a user and a password in a URL; Spark matches values too.
_LOGIN_IN_URL = r"://[^/?#:\s]*:[^/?#\s@]+@"

#: Spark settings that redact secrets in its UI, event log and plan descriptions. The author's own setting replaces
#: them.
REDACTION: Mapping[str, str] = {
    "spark.redaction.regex": f"{_NAMES}|{_LOGIN_IN_URL}",
    "spark.redaction.string.regex": _TEXTS,
    "spark.sql.redaction.options.regex": f"{_NAMES}|url|{_LOGIN_IN_URL}",
    "spark.sql.redaction.string.regex": _TEXTS,
}


def is_secret(name: str, value: str) -> bool:
    """Whether a Spark property is secret, by its name or, as in Spark, by a match in its value."""
    if name in REDACTION:
        return False
    words = any(re.search(pattern, text) for pattern in (_NAMES, _TEXTS) for text in (name, value))
    return words or bool(secrets_in_url(value))


def lines_to_mask(pem: str) -> tuple[str, ...]:
    """The texts of a private key to mask in logs: the whole key and each line, since a message may show one."""
    # A short last line could match other text, and a header is not secret.
    return (pem, *(line for line in pem.split() if len(line) >= 40 and "-----" not in line))


#: Minimum length in characters; Airflow itself masks nothing shorter than 5.
_SHORTEST_SECRET = 3


def redact(text: str, options: Iterable[Mapping[str, str]]) -> str:
    """Mask the values of secret options, and the secret parts of addresses, in a text for a log or a report."""
    named = [(name, value) for mapping in options for name, value in mapping.items() if value]
    secrets = {value for name, value in named if holds_secret(name)}
    in_jaas = [
        quoted for value in secrets for quoted in re.findall(r'(?:password|clientSecret)="((?:[^"\\]|\\.)+)"', value)
    ]
    secrets |= {line for value in secrets if "-----" in value for line in lines_to_mask(value)}
    # Both as quoted in the JAAS line and unquoted.
    secrets |= {*in_jaas, *(re.sub(r"\\(.)", r"\1", quoted) for quoted in in_jaas)}
    for name, value in named:
        if not holds_secret(name):
            secrets |= secrets_in_url(value)
    # Masking a secret such as "a" would make the text unreadable, and "a" is not worth it.
    secrets = {secret for secret in secrets if len(secret) >= _SHORTEST_SECRET}
    # The longest first, or masking a secret within a longer one would leave the rest of the longer one.
    for secret in sorted(secrets, key=len, reverse=True):
        text = text.replace(secret, "***")
    return text


#: Where the messages of librdkafka and of Java's client quote what the token endpoint answered.
_TOKEN_ANSWERS = (
    re.compile(r"(?<=SASL OAUTHBEARER token: ).+", re.DOTALL),
    re.compile(r"(?<= and error message ).*?(?= was encountered reading the token endpoint response|$)", re.DOTALL),
    re.compile(r"(?<= and error response ).*?(?= was encountered reading the token endpoint response|$)", re.DOTALL),
    re.compile(r"(?<=an access_token value\. Response: ).*", re.DOTALL),
)
#: Messages of librdkafka and curl in place of an answer.
_NO_ANSWER = re.compile(
    r"(Failed to (connect|parse JSON|decode JWT)|Could ?n.t connect|Could not (connect|resolve)|SSL |Expected JSON "
    r"response|Operation timed out|Resolving timed out|Connection timed out)[\w .,:()\"\[\]'/-]{0,160}"
)
#: An error code of OAuth (RFC 6749, 5.2, and those of later ones), as the endpoint gives it, and as Java shows it.
_OAUTH_CODE = re.compile(
    r"[\"{]((?:invalid|unauthorized|unsupported|access|server|temporarily|slow|authorization|expired|consent|login|"
    r"interaction|account|request|registration|insufficient)_[a-z_]{1,30})\b"
)


def without_token_answer(text: str) -> str:
    """A client's message without what the token endpoint answered, except for the status and OAuth's error code.

    A connection may name any address as its token endpoint, also that of an internal service.

    >>> without_token_answer('Failed to acquire SASL OAUTHBEARER token: {"error":"invalid_client","x":"y"}')
    'Failed to acquire SASL OAUTHBEARER token: (invalid_client)'
    """
    for pattern in _TOKEN_ANSWERS:
        text = pattern.sub(lambda found: _without_content(found[0]), text, count=1)
    return text


def _without_content(answer: str) -> str:
    if _NO_ANSWER.fullmatch(answer):
        return answer
    code = _OAUTH_CODE.search(answer)
    return f"({code[1]})" if code else "(an answer without an error code of OAuth)"
