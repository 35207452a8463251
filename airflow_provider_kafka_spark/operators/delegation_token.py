"""Operators that renew and expire delegation tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator

from airflow_provider_kafka_spark.core.checks import check_connection_id, milliseconds
from airflow_provider_kafka_spark.core.errors import DelegationTokenExpiredError, InvalidInputError
from airflow_provider_kafka_spark.core.tokens.delegation_token import TokenInfo, duration, utc
from airflow_provider_kafka_spark.core.tokens.token_fields import TokenFields
from airflow_provider_kafka_spark.core.tokens.token_selection import TokenSelection, selected_owner_of
from airflow_provider_kafka_spark.failure import no_retry_on_permanent_error
from airflow_provider_kafka_spark.hooks.delegation_token import DelegationTokenHook
from airflow_provider_kafka_spark.state.task_state import TaskState

if TYPE_CHECKING:
    from airflow.sdk import Context

#: Task state: ids of the valid tokens that the task has found.
_SEEN_KEY = "kafka_spark_tokens_to_expire"


class DelegationTokensOperator(TokenFields, BaseOperator):
    """The common base of the operators on delegation tokens. Use one of the subclasses.

    :param conn_id: Kafka connection; its login must be the owner or a renewer of each token. (templated)
    :param token_owner: principal whose tokens are selected, such as ``"User:alice"``. Given as ``owner``, it needs its
        type: any other ``owner`` is Airflow's own, which is often in ``default_args``. (templated)
    :param token_ids: ids of the selected tokens, for example those that a
        :class:`~airflow_provider_kafka_spark.sensors.delegation_token.DelegationTokenExpirySensor` returned; or its
        whole result. (templated)
    :param ending_within: timedelta, or seconds: only tokens that end within it. Given alone, it selects among all
        tokens that the login may see.
    :param kafka_timeout: seconds for each call.
    :param kafka_connector: where Kafka's Java client comes from: None fetches and caches the jars of the Spark
        connector for the Spark in use, as does ``"provided"``; or a folder or glob of those jars, or a Maven
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
        self.token_owner = selected_owner_of(token_owner, self.owner)
        self.token_ids = token_ids
        self.ending_within = ending_within
        self.kafka_timeout = kafka_timeout
        self.kafka_connector = kafka_connector

    def _hook(self) -> DelegationTokenHook:
        return DelegationTokenHook.of_connector(self.conn_id, self.kafka_timeout, self.kafka_connector)

    def _selection(self) -> TokenSelection:
        """:raises InvalidInputError: if no tokens are selected, or a parameter is invalid."""
        check_connection_id(self.conn_id, "conn_id")
        if self.token_owner is None and self.token_ids is None and self.ending_within is None:
            raise InvalidInputError(
                "Select delegation tokens: token_owner='User:alice', token_ids=[...], or "
                "ending_within=timedelta(hours=6)."
            )
        return TokenSelection.parse(self.token_owner, self.token_ids)

    def _selected(self, listed: list[TokenInfo], selection: TokenSelection, now_ms: int) -> list[TokenInfo]:
        """The selected tokens that have not ended.

        :param now_ms: the broker's clock.
        """
        tokens = selection.pick(listed)
        ended = [t for t in tokens if t.remaining_ms(now_ms) <= 0]
        for token in ended:
            self.log.info("Has ended already: %s.", token)
        if ended and selection.token_ids is not None:
            self._raise_if_ended(ended)
        within = None if self.ending_within is None else milliseconds(self.ending_within, "ending_within")
        return [t for t in tokens if t not in ended and (within is None or t.remaining_ms(now_ms) <= within)]

    def _raise_if_ended(self, ended: list[TokenInfo]) -> None:
        """Handle tokens that were selected by id and have ended."""


class RenewDelegationTokensOperator(DelegationTokensOperator):
    """Renew delegation tokens.

    A renewed token keeps its id and its secret, so jobs that use it continue. A renewal never shortens a token's life.
    No token can be renewed beyond its maximum time: the log says when one has reached it, and such a token is not
    renewed again.

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
        """Renew the selected tokens one after the other.

        :raises AirflowFailException: if one has ended, does not exist, or the login may not renew it.
        """
        selection = self._selection()
        period_ms = None if self.renew_for is None else milliseconds(self.renew_for, "renew_for")
        with self._hook() as hook:
            now_ms = hook.now_ms()
            selected = self._selected(hook.describe(selection.owner), selection, now_ms)
            # A broker would also accept a period that is shorter than the remaining time.
            longer = [t for t in selected if period_ms is not None and t.remaining_ms(now_ms) > period_ms]
            renewed = [t for t in selected if t.at_maximum]
            wanted = tuple(t.token_id for t in selected if t not in renewed and t not in longer)
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

    def _raise_if_ended(self, ended: list[TokenInfo]) -> None:
        raise DelegationTokenExpiredError(
            f"A token that has ended cannot be renewed: {'; '.join(map(str, ended))}. Make a new one, and renew it "
            "earlier: DelegationTokenExpirySensor waits for the right time."
        )


class ExpireDelegationTokensOperator(DelegationTokensOperator):
    """Expire delegation tokens, at once or later. Jobs that use one lose their login. No token lives longer by it.

    The task returns ``{"tokens": [...]}``, with their new times and without secrets.

    :param expire_in: timedelta, or seconds, from now on; at once by default.

    Further parameters: :class:`DelegationTokensOperator`.
    """

    def __init__(self, *, expire_in: timedelta | float | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.expire_in = expire_in

    @no_retry_on_permanent_error
    def execute(self, context: Context) -> dict[str, Any]:
        """Expire the selected tokens one after the other. A token that is missing since an earlier try of this task
        counts as expired.

        :raises AirflowFailException: if one does not exist, or the login may not expire it; the others are expired
            first.
        """
        requested = self._selection()
        period_ms = None if self.expire_in is None else milliseconds(self.expire_in, "expire_in")
        state_store = TaskState(context, self.task_id)
        with self._hook() as hook:
            now_ms, listed = hook.now_ms(), hook.describe(requested.owner)
            there = {token.token_id for token in listed}
            selection = requested.among(there)
            selected = self._selected(listed, selection, now_ms)
            earlier = state_store.get(_SEEN_KEY)
            seen = {token.token_id for token in selected}
            seen |= {str(name) for name in (earlier if isinstance(earlier, list) else ())}
            # Brokers remove an expired token, and a try may end before it gets their answer.
            state_store.set(_SEEN_KEY, [*sorted(seen)])
            # A broker would also accept a period that is longer than the remaining time.
            sooner = [t for t in selected if period_ms is not None and t.remaining_ms(now_ms) <= period_ms]
            ids = tuple(t.token_id for t in selected if t not in sooner)
            expired = hook.expire(TokenSelection(selection.owner, ids), period_ms=period_ms) if ids else []
        for token in sooner:
            self.log.info("Already ends sooner than expire_in: %s.", token)
        for token in expired:
            self.log.info("Ends now, or after expire_in: %s.", token)
        unknown = tuple(name for name in requested.token_ids or () if name not in there | seen)
        if unknown:
            replace(requested, token_ids=unknown).pick(())
        if not expired:
            self.log.info("Nothing to expire: there are no %s that have not ended.", selection)
        return {"tokens": [t.as_json() for t in expired]}
