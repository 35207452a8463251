"""What Spark must not show of a job: its own patterns know passwords and tokens, and not Kafka's logins. No I/O."""

from __future__ import annotations

import re
from collections.abc import Mapping

#: Names of properties and options whose values are secret. Spark's own: ``secret|password|token|access[.]?key``, and ``url`` for options.
_WORDS = (
    *("secret", "password", "passphrase", r"[._-]pwd\b", "token", "jaas", "credential", "keystore", "hmac"),
    "authorization",
    # Values are searched too, and containers are given that file.
    "(?<!/etc/)passwd",
    *("access[.]?key", "api[._-]?key", "private[._-]?key", "account[._-]?key"),
    # Not spark.io.encryption.keySizeBits.
    r"encryption\.key$",
    r"fs\.azure\.sas\.",
)
_NAMES = f"(?i){'|'.join(_WORDS)}"
#: Secrets inside of texts: a JAAS line, a PEM key.
_TEXTS = r"""(?is)(password|clientSecret|keyTab)\s*=\s*"(\\.|[^"\\])*"|-----BEGIN [A-Z ]*PRIVATE KEY-----.*?-----END [A-Z ]*PRIVATE KEY-----"""

#: Spark settings, by which its UI, event log and plan descriptions show none. An author who sets one of them replaces it.
REDACTION: Mapping[str, str] = {
    "spark.redaction.regex": _NAMES,
    "spark.redaction.string.regex": _TEXTS,
    "spark.sql.redaction.options.regex": f"{_NAMES}|url",
    "spark.sql.redaction.string.regex": _TEXTS,
}


def is_secret(name: str, value: str) -> bool:
    """Whether a Spark property is to be kept from everybody's eyes: by its name, or, as Spark has it, by what its value speaks of."""
    if name in REDACTION:
        return False
    return any(re.search(pattern, text) for pattern in (_NAMES, _TEXTS) for text in (name, value))
