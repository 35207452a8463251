"""Operators that renew and expire delegation tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator

from airflow_provider_kafka_spark.core.errors import DelegationTokenExpiredError, InvalidInputError
from airflow_provider_kafka_spark.core.parameters import check_connection_id, milliseconds
from airflow_provider_kafka_spark.core.tokens.delegation_token import (
    TokenInfo,
    TokenSelection,
    duration,
    meant_owner,
    utc,
)
from airflow_provider_kafka_spark.core.tokens.token_fields import TokenFields
from airflow_provider_kafka_spark.hooks.delegation_token import DelegationTokenHook
from airflow_provider_kafka_spark.hooks.failure import no_retry_on_permanent_error

if TYPE_CHECKING:
    from airflow.sdk import Context

#: Of the task: ids of the tokens that it has found alive.
_SEEN_KEY = "kafka_spark_tokens_to_expire"


class DelegationTokensOperator(TokenFields, BaseOperator):
    """What both operators on delegation tokens share. Use one of the subclasses.

    :param conn_id: Kafka connection; its login must be the owner or a renewer of each token. (templated)
    :param token_owner: principal whose tokens are meant, such as ``"User:alice"``. Given as ``owner``, it needs its
        type: any other ``owner`` is Airflow's own, which is often in ``default_args``. (templated)
    :param token_ids: ids of the tokens that are meant, for example those that a
        :class:`~airflow_provider_kafka_spark.sensors.delegation_token.DelegationTokenExpirySensor` returned; or its
        whole result. (templated)
    :param ending_within: timedelta, or seconds: of those tokens, the ones that end within it. Given alone, of all that
        the login may see.
    :param kafka_timeout: seconds for each call.
    :param kafka_connector: where Kafka's Java client comes from: None fetches the jars of the Spark connector that fits
        the Spark in use, and keeps them, as does ``"provided"``; or a folder or glob of those jars, or a Maven
        coordinate.
    """

    template_fields: Sequence[str] = ("conn_id", "token_owner", "token_ids", "kafka_connector")
    ui_color = "#f5e3d0"

    def __init__(
        self,
        *,
        conn_id: str = "kafka_default",
        token_owner: str | None = None,
        token_ids: list[str] | str | dict[str, Any] | None = None,
        ending_within: timedelta | float | None = None,
        kafka_timeout: float = 20.0,
        kafka_connector: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.conn_id = conn_id
        self.show_token_fields()
        self.token_owner = meant_owner(token_owner, self.owner)
        self.token_ids = token_ids
        self.ending_within = ending_within
        self.kafka_timeout = kafka_timeout
        self.kafka_connector = kafka_connector

    def _hook(self) -> DelegationTokenHook:
        return DelegationTokenHook.of_connector(self.conn_id, self.kafka_timeout, self.kafka_connector)

    def _selection(self) -> TokenSelection:
        """:raises InvalidInputError: if no token is named in any way, or in a way that cannot be right."""
        check_connection_id(self.conn_id, "conn_id")
        if self.token_owner is None and self.token_ids is None and self.ending_within is None:
            raise InvalidInputError(
                "Say which delegation tokens are meant: token_owner='User:alice', token_ids=[...], or "
                "ending_within=timedelta(hours=6)."
            )
        return TokenSelection.parse(self.token_owner, self.token_ids)

    def _meant(self, listed: list[TokenInfo], selection: TokenSelection, now_ms: int) -> list[TokenInfo]:
        """The tokens that are meant and have not ended.

        :param now_ms: the broker's clock.
        """
        tokens = selection.pick(listed)
        ended = [t for t in tokens if t.remaining_ms(now_ms) <= 0]
        for token in ended:
            self.log.info("Has ended already: %s.", token)
        if ended and selection.token_ids is not None:
            self._refuse_ended(ended)
        within = None if self.ending_within is None else milliseconds(self.ending_within, "ending_within")
        return [t for t in tokens if t not in ended and (within is None or t.remaining_ms(now_ms) <= within)]

    def _refuse_ended(self, ended: list[TokenInfo]) -> None:
        """What it means that a token which was named by its id has ended."""


class RenewDelegationTokensOperator(DelegationTokensOperator):
    """Prolong delegation tokens.

    A token keeps its id and its secret, so jobs that use it live on. None is made to end sooner than it does. No token
    can be prolonged beyond its maximum time: the log says when one has reached it, and one that is there already is
    left as it is.

    The task returns ``{"tokens": [...], "at_maximum": [ids]}``, without secrets.

    :param renew_for: timedelta, or seconds, from now on; the broker's ``delegation.token.expiry.time.ms`` by default,
        which is also the longest.

    Further parameters: :class:`DelegationTokensOperator`.
    """

    def __init__(self, *, renew_for: timedelta | float | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.renew_for = renew_for

    @no_retry_on_permanent_error
    def execute(self, context: Context) -> dict[str, Any]:  # noqa: ARG002 - Airflow's
        """Renew them one after the other.

        :raises AirflowFailException: if one has ended, does not exist, or is not the login's to renew.
        """
        selection = self._selection()
        period_ms = None if self.renew_for is None else milliseconds(self.renew_for, "renew_for")
        with self._hook() as hook:
            now_ms = hook.now_ms()
            meant = self._meant(hook.describe(selection.owner), selection, now_ms)
            # A broker would take a shorter period than what is left, too.
            longer = [t for t in meant if period_ms is not None and t.remaining_ms(now_ms) > period_ms]
            renewed = [t for t in meant if t.at_maximum]
            wanted = tuple(t.token_id for t in meant if t not in renewed and t not in longer)
            if wanted:
                renewed += hook.renew(TokenSelection(selection.owner, wanted), period_ms=period_ms)
        for token in renewed:
            left = duration(token.remaining_ms(now_ms))
            if token.at_maximum:
                self.log.warning(
                    "%s has reached its maximum time: it ends in %s, at %s, and no renewal changes that. Make a new "
                    "one before, and give it to its jobs.",
                    token,
                    left,
                    utc(token.max_ms),
                )
            elif token.token_id in wanted:
                self.log.info("Renewed for %s: %s.", left, token)
        for token in longer:
            self.log.info("Lives longer than renew_for already: %s.", token)
        if not renewed:
            self.log.info("Nothing to renew: there are no %s for which it is time.", selection)
        return {
            "tokens": [t.as_json() for t in renewed],
            "at_maximum": [t.token_id for t in renewed if t.at_maximum],
        }

    def _refuse_ended(self, ended: list[TokenInfo]) -> None:
        raise DelegationTokenExpiredError(
            f"A token that has ended cannot be renewed: {'; '.join(map(str, ended))}. Make a new one, and renew it "
            "earlier: DelegationTokenExpirySensor tells when."
        )


class ExpireDelegationTokensOperator(DelegationTokensOperator):
    """End delegation tokens, at once or in a while. Jobs that use one lose their login. None is made to live longer
    than it does.

    The task returns ``{"tokens": [...]}``, with their new times and without secrets.

    :param expire_in: timedelta, or seconds, from now on; at once by default.

    Further parameters: :class:`DelegationTokensOperator`.
    """

    def __init__(self, *, expire_in: timedelta | float | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.expire_in = expire_in

    @no_retry_on_permanent_error
    def execute(self, context: Context) -> dict[str, Any]:
        """Expire them one after the other. One that is gone since an earlier try of this task has been expired.

        :raises AirflowFailException: if one does not exist, or is not the login's to expire; after the others are
            expired.
        """
        wished = self._selection()
        period_ms = None if self.expire_in is None else milliseconds(self.expire_in, "expire_in")
        memory = context["task_state_store"]
        with self._hook() as hook:
            now_ms, listed = hook.now_ms(), hook.describe(wished.owner)
            there = {token.token_id for token in listed}
            selection = wished.among(there)
            meant = self._meant(listed, selection, now_ms)
            earlier = memory.get(_SEEN_KEY)
            seen = {token.token_id for token in meant}
            seen |= {str(name) for name in (earlier if isinstance(earlier, list) else ())}
            # Brokers forget a token when it is expired, and a try may end before it hears of that.
            memory.set(_SEEN_KEY, [*sorted(seen)])
            # A broker would take a longer period than what is left, too.
            sooner = [t for t in meant if period_ms is not None and t.remaining_ms(now_ms) <= period_ms]
            ids = tuple(t.token_id for t in meant if t not in sooner)
            expired = hook.expire(TokenSelection(selection.owner, ids), period_ms=period_ms) if ids else []
        for token in sooner:
            self.log.info("Ends sooner than expire_in already: %s.", token)
        for token in expired:
            self.log.info("Ends now, or when it was told to: %s.", token)
        unknown = tuple(name for name in wished.token_ids or () if name not in there | seen)
        if unknown:
            replace(wished, token_ids=unknown).pick(())
        if not expired:
            self.log.info("Nothing to expire: there are no %s that have not ended.", selection)
        return {"tokens": [t.as_json() for t in expired]}
