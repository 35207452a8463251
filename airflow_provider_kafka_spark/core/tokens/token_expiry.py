"""Whether delegation tokens expire soon. No I/O."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from airflow_provider_kafka_spark.core.errors import OptionError
from airflow_provider_kafka_spark.core.tokens.delegation_token import TokenInfo, duration
from airflow_provider_kafka_spark.core.tokens.token_selection import TokenSelection

EXPIRING = "expiring"
VALID = "valid"
MODES = (EXPIRING, VALID)


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
