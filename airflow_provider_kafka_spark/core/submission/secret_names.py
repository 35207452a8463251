"""By what name a Kafka property is known to hold a secret. No I/O."""

from __future__ import annotations

import re

#: In a form that Python and Java both read; case does not matter.
SECRET_NAMES = "|".join(
    (
        *("jaas", "password", "passphrase", "secret", "hmac"),
        # The address where tokens are to be had is none.
        r"token(?!\.endpoint\.url)",
        # Not the JVM's -enableassertions; Spark searches values too.
        "assertion(?!s)",
        *(r"keystore\.key$", r"access\.?key", "api[._-]?key", "private[._-]?key"),
    )
)
_SECRET = re.compile(SECRET_NAMES, re.IGNORECASE)


def holds_secret(name: str) -> bool:
    """Whether the value of a property is to be kept from everybody's eyes.

    >>> holds_secret("kafka.sasl.jaas.config"), holds_secret("kafka.sasl.oauthbearer.token.endpoint.url")
    (True, False)
    """
    return _SECRET.search(name) is not None
