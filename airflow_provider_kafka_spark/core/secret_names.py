"""Names of Kafka properties that hold secrets. No I/O."""

from __future__ import annotations

import re
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


def without_user(address: str) -> str:
    """An address for a message, without user and password.

    >>> without_user("https://u:p@h:1/x"), without_user("h:1")
    ('https://***@h:1/x', 'h:1')
    """
    scheme, separator, rest = address.rpartition("://")
    _, at, host = rest.rpartition("@")
    return f"{scheme}{separator}{'***@' if at else ''}{host}"
