"""A sensor for the expiry of delegation tokens."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

from airflow.providers.standard.triggers.temporal import DateTimeTrigger
from airflow.sdk import BaseSensorOperator, PokeReturnValue
from airflow.sdk.configuration import conf

from airflow_provider_kafka_spark.core.checks import check_connection_id, milliseconds
from airflow_provider_kafka_spark.core.conditions.outage import Outage
from airflow_provider_kafka_spark.core.errors import (
    BrokerUnavailableError,
    JavaStartError,
    OptionError,
)
from airflow_provider_kafka_spark.core.tokens.token_expiry import EXPIRING, MODES, check_expiry
from airflow_provider_kafka_spark.core.tokens.token_fields import TokenFields
from airflow_provider_kafka_spark.core.tokens.token_selection import TokenSelection, selected_owner_of
from airflow_provider_kafka_spark.failure import no_retry_on_permanent_error, soft_failure
from airflow_provider_kafka_spark.hooks.delegation_token import DelegationTokenHook

if TYPE_CHECKING:
    from airflow.sdk import Context

#: Not too early by rounding, or the check would find nothing.
_MARGIN = timedelta(milliseconds=500)


class DelegationTokenExpirySensor(TokenFields, BaseSensorOperator):
    """Wait until delegation tokens expire soon, to renew them, or until all are valid for long enough, as a gate before
    a long job.

    It checks the tokens, and then sleeps until the first one will be within ``min_remaining`` of its end. Deferred, it
    needs neither a worker nor a JVM meanwhile. Changes by an action (a renewal in mode ``valid``, a first token) are
    checked every ``poke_interval``. Times are compared with the broker's clock if it is available.

    The task returns the tokens it found, as ``{"tokens": [{"token_id", "owner", "renewers", "issue_timestamp_ms",
    "expiry_timestamp_ms", "max_timestamp_ms"}], "now_ms":
    ...}``: in mode ``expiring`` those that end soon, in mode ``valid`` all. It never contains a secret.

    :param conn_id: Kafka connection. (templated)
    :param token_owner: principal whose tokens are selected, such as ``"User:alice"``; all that the login may see by
        default. Given as ``owner``, it needs its type: any other ``owner`` is Airflow's own, which is often in
        ``default_args``. (templated)
    :param token_ids: ids of the selected tokens. One that does not exist fails the task. (templated)
    :param min_remaining: timedelta, or seconds.
    :param mode: the condition, as ``wait_for``; or Airflow's own mode, ``"poke"`` or ``"reschedule"``, which is often
        in ``default_args``. Rescheduled, it starts a JVM for a check every ``poke_interval``.
    :param wait_for: ``"expiring"`` (default): a token is within ``min_remaining`` of its end. ``"valid"``: every token
        lives for that long.
    :param kafka_timeout: seconds for each call.
    :param kafka_connector: where Kafka's Java client comes from, as for the operators on tokens. (templated)
    :param deferrable: wait in the triggerer.
    :param kwargs: of Airflow's sensors.
    """

    template_fields: Sequence[str] = ("conn_id", "token_owner", "token_ids", "kafka_connector")
    ui_color = "#e0ecf5"

    def __init__(
        self,
        *,
        conn_id: str = "kafka_default",
        token_owner: str | None = None,
        token_ids: list[str] | str | None = None,
        min_remaining: timedelta | float,
        mode: str | None = None,
        wait_for: str | None = None,
        kafka_timeout: float = 20.0,
        kafka_connector: str | None = None,
        deferrable: bool = conf.getboolean("operators", "default_deferrable", fallback=False),
        **kwargs: Any,
    ) -> None:
        is_airflows = mode in tuple(self.valid_modes)
        super().__init__(mode=mode if is_airflows and mode else "poke", **kwargs)
        self.conn_id = conn_id
        self.show_token_fields()
        self.token_owner = selected_owner_of(token_owner, self.owner)
        self.token_ids = token_ids
        self.min_remaining = min_remaining
        self.wait_for = wait_for or (EXPIRING if is_airflows or mode is None else mode)
        self._contradicted = None if is_airflows or mode is None or mode == self.wait_for else mode
        self.kafka_timeout = kafka_timeout
        self.kafka_connector = kafka_connector
        self.deferrable = deferrable
        self._outage = Outage()
        self._asleep_until: datetime | None = None

    def execute(self, context: Context) -> Any:
        """Check until the condition holds.

        :return: the tokens, as above.
        """
        return self._check_or_defer(timedelta(seconds=self.timeout)) if self.deferrable else super().execute(context)

    def execute_complete(self, context: Context, event: object = None, until: float = 0.0) -> Any:  # noqa: ARG002 - Airflow's
        """Check again after the sleep.

        :param until: the sensor's deadline, in seconds since 1970.
        """
        return self._check_or_defer(datetime.fromtimestamp(until, timezone.utc) - _now())

    @no_retry_on_permanent_error
    def poke(self, context: Context) -> bool | PokeReturnValue:  # noqa: ARG002 - Airflow's
        if self._asleep_until is not None and _now() < self._asleep_until:
            return False
        found = self._check()
        if isinstance(found, dict):
            return PokeReturnValue(True, found)
        # Rescheduled tasks lose it, and check at each poke.
        self._asleep_until = _now() + found
        return False

    def _check_or_defer(self, left: timedelta) -> Any:
        with soft_failure(self):
            found = no_retry_on_permanent_error(self._check)()
        if isinstance(found, dict):
            return found
        moment, until = _now() + found + _MARGIN, _now() + left
        self.log.info("Sleeping until %s.", moment.isoformat(timespec="seconds"))
        return self.defer(
            trigger=DateTimeTrigger(moment=moment),
            method_name="execute_complete",
            kwargs={"until": until.timestamp()},
            timeout=left,
        )

    def _check(self) -> dict[str, Any] | timedelta:
        """The result, or how long to sleep."""
        selection, min_remaining_ms = self._check_parameters()
        try:
            with DelegationTokenHook.of_connector(self.conn_id, self.kafka_timeout, self.kafka_connector) as hook:
                # The clock first: a delay then makes tokens appear to live a moment longer, and the gate a moment
                # narrower.
                now_ms = hook.now_ms()
                result = check_expiry(
                    hook.describe(selection.owner), selection, min_remaining_ms, self.wait_for, now_ms
                )
        except (BrokerUnavailableError, JavaStartError) as error:
            self._outage.began(error, self.log)
            return timedelta(seconds=self.poke_interval)
        self._outage.ended(self.log)
        self.log.info("%s", result.text)
        if result.met:
            return {"tokens": [token.as_json() for token in result.tokens], "now_ms": now_ms}
        if result.wait_ms is None:
            return timedelta(seconds=self.poke_interval)
        # A manually expired token, or a new one that ends sooner, is not foreseen: check at least once a day.
        return min(timedelta(milliseconds=result.wait_ms), timedelta(days=1))

    def _check_parameters(self) -> tuple[TokenSelection, int]:
        check_connection_id(self.conn_id, "conn_id")
        if self.wait_for not in MODES or self._contradicted:
            got = f"{self.wait_for!r} and mode={self._contradicted!r}" if self._contradicted else f"{self.wait_for!r}"
            raise OptionError(f"wait_for (or mode) must be one of {MODES}; got {got}.")
        return TokenSelection.parse(self.token_owner, self.token_ids), milliseconds(self.min_remaining, "min_remaining")


def _now() -> datetime:
    return datetime.now(timezone.utc)
