"""What Spark, a log and a report must not show of a job. No I/O."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from airflow_provider_kafka_spark.core.secret_names import SECRET_NAMES, holds_secret, secrets_in_url

#: What Spark's properties have besides. Spark's own pattern (``secret|password|token|access[.]?key``, and ``url`` for
#: options) leaves out Kafka's logins.
_SPARKS_WORDS = (
    *(r"[._-]pwd\b", "token", "credential", "keystore", "authorization"),
    # Values are searched too, and containers are given that file.
    "(?<!/etc/)passwd",
    "account[._-]?key",
    # Not spark.io.encryption.keySizeBits.
    r"encryption\.key$",
    r"fs\.azure\.sas\.",
)
_NAMES = f"(?i){'|'.join((SECRET_NAMES, *_SPARKS_WORDS))}"
#: Secrets inside of texts: a JAAS line, a PEM key.
_TEXTS = (
    r'(?is)(password|clientSecret|keyTab)\s*=\s*"(\\.|[^"\\])*"'
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----.*?-----END [A-Z ]*PRIVATE KEY-----"
)

#: Spark settings, by which its UI, event log and plan descriptions show none. An author who sets one of them replaces
#: it.
REDACTION: Mapping[str, str] = {
    "spark.redaction.regex": _NAMES,
    "spark.redaction.string.regex": _TEXTS,
    "spark.sql.redaction.options.regex": f"{_NAMES}|url",
    "spark.sql.redaction.string.regex": _TEXTS,
}


def is_secret(name: str, value: str) -> bool:
    """Whether a Spark property is to be kept from everybody's eyes: by its name, or, as Spark has it, by what its value
    speaks of.
    """
    if name in REDACTION:
        return False
    return any(re.search(pattern, text) for pattern in (_NAMES, _TEXTS) for text in (name, value))


#: In characters; Airflow itself masks nothing shorter than 5.
_SHORTEST_SECRET = 3


def redact(text: str, options: Iterable[Mapping[str, str]]) -> str:
    """Take the values of secret options, and what is secret within an address, out of a text that goes to a log or a
    report.
    """
    named = [(name, value) for mapping in options for name, value in mapping.items() if value]
    secrets = {value for name, value in named if holds_secret(name)}
    in_jaas = [
        quoted for value in secrets for quoted in re.findall(r'(?:password|clientSecret)="((?:[^"\\]|\\.)+)"', value)
    ]
    # A message may show one line of a key; a short last line could be anything.
    secrets |= {line for value in secrets if "-----" in value for line in value.split() if len(line) >= 40}
    # As it stands in the JAAS line, and as it was before it was quoted for it.
    secrets |= {*in_jaas, *(re.sub(r"\\(.)", r"\1", quoted) for quoted in in_jaas)}
    for name, value in named:
        if not holds_secret(name):
            secrets |= secrets_in_url(value)
    # A text without the letter "a" says nothing any more, and "a" is no secret to anybody.
    secrets = {secret for secret in secrets if len(secret) >= _SHORTEST_SECRET}
    # The longest first, or a secret within another would leave the rest of that in the text.
    for secret in sorted(secrets, key=len, reverse=True):
        text = text.replace(secret, "***")
    return text
