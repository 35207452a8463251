"""Delegation tokens (KIP-48), short-lived credentials that Kafka issues to an authenticated client: selection and
expiry. No I/O.

A token ends at its expiry time unless it is renewed; no renewal goes beyond its maximum time. All times are in ms since
1970, by the broker's clock.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from typing import Any

from airflow_provider_kafka_spark.core.connection.client_properties import LoginFiles
from airflow_provider_kafka_spark.core.connection.sasl import PasswordLogin
from airflow_provider_kafka_spark.core.errors import (
    ConnectionConfigError,
    DelegationTokenError,
    InvalidInputError,
    OptionError,
)

EXPIRING = "expiring"
VALID = "valid"
MODES = (EXPIRING, VALID)
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


@dataclass(frozen=True, slots=True)
class TokenSelection:
    """A selection of tokens: those with these ids, or those of an owner, or all that the login may see.

    :param owner: principal with its type, such as ``"User:alice"``, or None.
    :param token_ids: or None.
    """

    owner: str | None = None
    token_ids: tuple[str, ...] | None = None

    @classmethod
    def parse(cls, owner: object = None, token_ids: object = None) -> TokenSelection:
        """:raises InvalidInputError: if the owner or the ids are invalid."""
        if owner is not None and (not isinstance(owner, str) or not owner.strip()):
            raise InvalidInputError(
                f"token_owner must be a Kafka principal such as 'User:alice' or 'alice'; got {owner!r}."
            )
        ids: tuple[str, ...] | None = None
        if token_ids is not None:
            texts = [token_ids] if isinstance(token_ids, str) else token_ids
            if not isinstance(texts, (list, tuple)) or not texts or not all(isinstance(i, str) and i for i in texts):
                raise InvalidInputError(
                    "token_ids must be a list of one or more ids of tokens, such as ['Fnb0YrRxQ8C0YjWbl0aMsA']; got "
                    f"{token_ids!r}. If it is a template, check what it rendered to."
                )
            ids = tuple(dict.fromkeys(texts))
        return cls(principal(owner) if owner is not None else None, ids)

    def pick(self, tokens: Iterable[TokenInfo]) -> list[TokenInfo]:
        """The selected tokens, sorted by expiry.

        :raises DelegationTokenError: if a selected id does not exist.
        """
        seen = [t for t in tokens if self.owner is None or t.owner == self.owner]
        if self.token_ids is not None:
            missing = sorted(set(self.token_ids) - {t.token_id for t in seen})
            if missing:
                raise DelegationTokenError(
                    f"The delegation tokens {missing} must "
                    f"exist{f' and belong to {self.owner}' if self.owner else ''}, and be visible to the login (its "
                    "owner, a renewer, or one with DESCRIBE on the token); the broker returned none. They may have "
                    "ended and been removed, or been expired."
                )
            seen = [t for t in seen if t.token_id in self.token_ids]
        return sorted(seen, key=lambda t: (t.expiry_ms, t.token_id))

    def among(self, token_ids: Collection[str]) -> TokenSelection:
        """The selection without other ids than these."""
        if self.token_ids is None:
            return self
        return replace(self, token_ids=tuple(name for name in self.token_ids if name in token_ids))

    def __str__(self) -> str:
        by_owner = f"of {self.owner}" if self.owner else "that the login may see"
        return f"tokens {', '.join(self.token_ids)}" if self.token_ids is not None else f"tokens {by_owner}"


@dataclass(frozen=True, slots=True)
class TokenCheckResult:
    """The result of a check of tokens.

    :param met: whether the condition holds.
    :param tokens: that were checked.
    :param text: for the log.
    :param wait_ms: time until the result changes by itself; None if only an action can change it.
    """

    met: bool
    tokens: tuple[TokenInfo, ...]
    text: str
    wait_ms: int | None = None


def check_expiry(
    tokens: Sequence[TokenInfo], selection: TokenSelection, min_remaining_ms: int, mode: str, now_ms: int
) -> TokenCheckResult:
    """Check whether a token expires soon (``expiring``), or all are valid for long enough (``valid``).

    Brokers list tokens that have ended until their next clean-up, up to an hour. Such tokens of an owner do not count,
    as they cannot be renewed; a token that is selected by its id does.

    :param tokens: all tokens that the broker returned.
    :param min_remaining_ms: the required remaining time.
    :param now_ms: the broker's clock.
    :raises DelegationTokenError: if a token that is selected by its id does not exist.
    :raises OptionError: if the mode is unknown.
    """
    if mode not in MODES:
        raise OptionError(f"mode must be one of {MODES}; got {mode!r}.")
    meant = selection.pick(tokens)
    ended = [] if selection.token_ids is not None else [t for t in meant if t.remaining_ms(now_ms) <= 0]
    counted = [t for t in meant if t not in ended]
    left_out = f" Ended and not yet removed: {', '.join(t.token_id for t in ended)}." if ended else ""
    if not counted:
        text = f"There are no {selection} that have not ended.{left_out}"
        return TokenCheckResult(mode == EXPIRING and bool(ended), tuple(ended), text)
    soon = [t for t in counted if t.remaining_ms(now_ms) <= min_remaining_ms]
    named = "; ".join(str(t) for t in soon or counted[:1])
    span = duration(min_remaining_ms)
    if mode == EXPIRING:
        if soon:
            return TokenCheckResult(True, tuple(soon), f"Within {span} of its end: {named}.{left_out}")
        wait_ms = counted[0].remaining_ms(now_ms) - min_remaining_ms
        return TokenCheckResult(
            False,
            tuple(counted),
            f"First to end: {named}, in {duration(counted[0].remaining_ms(now_ms))}.{left_out}",
            wait_ms,
        )
    if soon:
        return TokenCheckResult(
            False, tuple(counted), f"Not valid for {span} any more: {named}. Somebody must renew them.{left_out}"
        )
    return TokenCheckResult(
        True, tuple(counted), f"All {len(counted)} are valid for {span} at least; first to end: {named}.{left_out}"
    )


def principal(name: str) -> str:
    """``"alice"`` -> ``"User:alice"``, as Kafka writes principals.

    :raises InvalidInputError: for a type other than User, which Kafka's tokens do not have.
    """
    kind, colon, user = name.strip().partition(":")
    if colon and (kind != "User" or not user):
        raise InvalidInputError(
            f"Owners and renewers of delegation tokens are of the type User, such as 'User:alice'; got {name!r}."
        )
    return name.strip() if colon else f"User:{kind}"


def selected_owner_of(token_owner: str | None, airflow_owner: str) -> str | None:
    """The owner of the tokens that a task selects. ``owner`` is Airflow's own parameter, often a team in
    ``default_args``; it counts if it is written as a principal.

    >>> selected_owner_of(None, "User:alice"), selected_owner_of("bob", "data-team")
    ('User:alice', 'bob')
    >>> selected_owner_of(None, "data-team")
    """
    is_principal = isinstance(airflow_owner, str) and airflow_owner.startswith("User:")
    return airflow_owner if token_owner is None and is_principal else token_owner


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
