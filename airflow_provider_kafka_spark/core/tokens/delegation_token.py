"""Delegation tokens (KIP-48), short-lived credentials that Kafka issues to an authenticated client. No I/O.

A token ends at its expiry time unless it is renewed; no renewal goes beyond its maximum time. All times are in ms since
1970, by the broker's clock.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any

from airflow_provider_kafka_spark.core.connection.client_properties import LoginFiles
from airflow_provider_kafka_spark.core.connection.sasl import PasswordLogin
from airflow_provider_kafka_spark.core.errors import ConnectionConfigError

#: Kafka's clients log in again at 85 to 95 % of a token's life (``sasl.login.refresh.window.factor``), so it must be
#: renewed earlier.
RENEW_AT = 0.7
_LONG_LIVED = ("sasl.", "ssl.key")


@dataclass(frozen=True, slots=True)
class TokenInfo:
    """A token as a broker describes it, without its secret.

    :param token_id: public name; the user name of a login with the token.
    :param owner: principal, such as ``"User:alice"``.
    :param renewers: principals that may renew it in addition to the owner.
    :param issue_ms: when it was created.
    :param expiry_ms: when it ends unless it is renewed.
    :param max_ms: when it ends at the latest.
    """

    token_id: str
    owner: str
    renewers: tuple[str, ...]
    issue_ms: int
    expiry_ms: int
    max_ms: int

    @property
    def at_maximum(self) -> bool:
        """Whether no renewal can prolong it."""
        return self.expiry_ms >= self.max_ms

    def remaining_ms(self, now_ms: int) -> int:
        """Time until expiry, negative after it."""
        return self.expiry_ms - now_ms

    def as_json(self) -> dict[str, Any]:
        """For XCom."""
        return {
            "token_id": self.token_id,
            "owner": self.owner,
            "renewers": list(self.renewers),
            "issue_timestamp_ms": self.issue_ms,
            "expiry_timestamp_ms": self.expiry_ms,
            "max_timestamp_ms": self.max_ms,
        }

    def __str__(self) -> str:
        return f"token {self.token_id} of {self.owner} (ends {utc(self.expiry_ms)}, at the latest {utc(self.max_ms)})"


@dataclass(frozen=True, slots=True)
class DelegationToken:
    """A token with its secret.

    :param hmac: base64, the password of a login with the token. **Secret.**
    """

    info: TokenInfo
    hmac: str = field(repr=False)

    def java_login(self, properties: Mapping[str, str], mechanism: str) -> dict[str, str]:
        """Properties of a Java client that logs in with this token. **Secret.**

        They contain nothing of the long-lived login: no SASL property, and no client certificate with its key.

        :param properties: of the login that created the token.
        :param mechanism: ``SCRAM-SHA-256`` or ``SCRAM-SHA-512``; the listener must have it.
        :raises ConnectionConfigError: if the listener has no SASL.
        """
        protocol = properties.get("security.protocol", "PLAINTEXT")
        if not protocol.startswith("SASL_"):
            raise ConnectionConfigError(
                "A login with a delegation token uses SASL/SCRAM, so the connection must lead to a SASL_SSL or "
                f"SASL_PLAINTEXT listener; its security.protocol is {protocol}."
            )
        login = PasswordLogin(mechanism, self.info.token_id, self.hmac, is_token=True).properties(LoginFiles())
        kept = {name: value for name, value in properties.items() if not name.startswith(_LONG_LIVED)}
        return {**kept, **login.java}


def utc(epoch_ms: int) -> str:
    """``2026-01-31T12:00:00Z``; Kafka's largest times lie beyond Python's calendar."""
    try:
        return datetime.fromtimestamp(epoch_ms / 1000, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (OverflowError, ValueError, OSError):
        return f"{epoch_ms} ms"


def duration(ms: int) -> str:
    """A time span in a suitable unit, such as ``90 s`` or ``3.5 h``."""
    seconds = ms / 1000
    for unit, size in (("d", 86_400), ("h", 3600), ("min", 60)):
        if abs(seconds) >= 2 * size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds:.3g} s"
