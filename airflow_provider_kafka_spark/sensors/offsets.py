"""Sensors for offsets: new records, a complete window, a consumer group that has caught up."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseSensorOperator, PokeReturnValue
from airflow.sdk.configuration import conf

from airflow_provider_kafka_spark.clients.broker_poll import fetch_snapshot
from airflow_provider_kafka_spark.core.checks import (
    check_connection_id,
    check_seconds,
    given_flag,
)
from airflow_provider_kafka_spark.core.conditions.broker_snapshot import BrokerQuery, BrokerSnapshot, ConditionResult
from airflow_provider_kafka_spark.core.conditions.condition import Condition
from airflow_provider_kafka_spark.core.conditions.group_lag import GroupLag
from airflow_provider_kafka_spark.core.conditions.last_run import LATEST, first_of
from airflow_provider_kafka_spark.core.conditions.new_records import NewRecords
from airflow_provider_kafka_spark.core.conditions.outage import Outage
from airflow_provider_kafka_spark.core.conditions.since import SinceCheckpoint, names_location
from airflow_provider_kafka_spark.core.conditions.timestamp_reached import TimestampReached
from airflow_provider_kafka_spark.core.conditions.topic_scope import TopicScope
from airflow_provider_kafka_spark.core.errors import BoundError, BrokerUnavailableError
from airflow_provider_kafka_spark.core.topics.broker_state import Selection
from airflow_provider_kafka_spark.failure import no_retry_on_permanent_error, soft_failure, undated_run_explained
from airflow_provider_kafka_spark.hooks.kafka import KafkaHook
from airflow_provider_kafka_spark.state.checkpoint import read_checkpoint
from airflow_provider_kafka_spark.state.last_run import LastRunStore
from airflow_provider_kafka_spark.triggers.condition import KafkaConditionTrigger, result_of_event

if TYPE_CHECKING:
    from airflow.sdk import Context


class KafkaOffsetsSensor(BaseSensorOperator):
    """Wait for a condition on the offsets of a Kafka cluster. Use one of the subclasses, which define the condition.

    Poking, rescheduling and deferring give the same result: each evaluation uses a new snapshot of the broker, and no
    state is kept in between, except with ``since="last_run"``. An evaluation is one round of requests for all
    partitions; it starts no Spark and commits nothing. If a broker does not answer, the sensor tries again until
    ``timeout``; a refused login or permission fails the task permanently.

    :param source_conn_id: Kafka connection. (templated)
    :param isolation_level: ``read_committed`` reads up to the last stable offset, before the oldest open transaction;
        ``read_uncommitted`` up to the end of the log. (templated)
    :param missing_topic: ``"fail"``, or ``"wait"`` until every topic exists. (templated)
    :param kafka_timeout: seconds for each request to a broker. (templated)
    :param deferrable: wait in the triggerer, where all sensors with one connection share one client.
    :param kwargs: of Airflow's sensors. ``poke_interval``, ``timeout`` and ``soft_fail`` mean the same when it is
        deferred; ``exponential_backoff``, ``max_wait`` and ``silent_fail`` have no effect then.
    """

    template_fields: Sequence[str] = ("source_conn_id", "isolation_level", "missing_topic", "kafka_timeout")
    ui_color = "#e0ecf5"

    def __init__(
        self,
        *,
        source_conn_id: str = "kafka_default",
        isolation_level: str = "read_committed",
        missing_topic: str = "fail",
        kafka_timeout: float = 30.0,
        deferrable: bool = conf.getboolean("operators", "default_deferrable", fallback=False),
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.source_conn_id = source_conn_id
        self.isolation_level = isolation_level
        self.missing_topic = missing_topic
        self.kafka_timeout = kafka_timeout
        self.deferrable = deferrable
        self._outage = Outage()
        self._logged = ""

    def render_template(self, *args: Any, **kwargs: Any) -> Any:
        """Airflow's method, with an error that says what to do if a run has no data interval."""
        with undated_run_explained():
            return super().render_template(*args, **kwargs)

    def _condition(self) -> Condition:
        """:raises InvalidInputError: naming the invalid parameter."""
        return self._parse(isolation_level=self.isolation_level, missing_topic=self.missing_topic)

    @abstractmethod
    def _parse(self, **common: Any) -> Condition:
        """:param common: the parameters of every condition."""

    def execute(self, context: Context) -> Any:
        if not self.deferrable:
            return super().execute(context)
        with soft_failure(self):
            # The first evaluation is the same as when poking, with the same consequences.
            found = self.poke(context)
        if isinstance(found, PokeReturnValue):
            return found.xcom_value
        self.log.info("Waiting in the triggerer, with an evaluation every %g s.", self.poke_interval)
        trigger = KafkaConditionTrigger(
            self.source_conn_id, self._condition().to_json(), self.poke_interval, self.kafka_timeout
        )
        return self.defer(trigger=trigger, method_name="execute_complete", timeout=timedelta(seconds=self.timeout))

    @no_retry_on_permanent_error
    def poke(self, context: Context) -> bool | PokeReturnValue:
        self._check_parameters()
        condition, now_ms = self._condition(), int(time.time() * 1000)
        try:
            result = condition.check(self._ask(condition.query(now_ms)), now_ms)
        except BrokerUnavailableError as error:
            self._outage.began(error, self.log)
            return False
        self._outage.ended(self.log)
        if result.met:
            return PokeReturnValue(True, self._done(context, result))
        if result.text != self._logged:
            self.log.info("Not yet: %s.", result.text.rstrip("."))
            self._logged = result.text
        return False

    @no_retry_on_permanent_error
    def execute_complete(self, context: Context, event: object = None) -> Any:
        """Return the trigger's result.

        :raises KafkaSparkError: the trigger's error, or a
            :class:`~airflow_provider_kafka_spark.core.errors.ProtocolError` for an event of another trigger.
        """
        return self._done(context, result_of_event(event))

    def _done(self, context: Context, result: ConditionResult) -> Any:
        self.log.info("%s.", result.text)
        for warning in result.warnings:
            self.log.warning("%s", warning)
        for key, value in result.xcoms.items():
            context["ti"].xcom_push(key=key, value=value)
        return result.value

    def _ask(self, query: BrokerQuery) -> BrokerSnapshot:
        location = query.checkpoint_location
        # Read before the request to the broker; otherwise offsets that the stream finishes meanwhile would lie beyond
        # the end.
        finished = None if location is None else read_checkpoint(location)
        with KafkaHook(self.source_conn_id, self.kafka_timeout) as hook:
            snapshot = fetch_snapshot(hook, [replace(query, checkpoint_location=None)])
        return snapshot if location is None or finished is None else snapshot.with_checkpoint(location, finished)

    def _check_parameters(self) -> None:
        check_connection_id(self.source_conn_id, "source_conn_id")
        # A timeout of 0 is one evaluation for a poking sensor; a deferred one would never resume.
        for name in ("poke_interval", "kafka_timeout", *(("timeout",) if self.deferrable else ())):
            setattr(self, name, check_seconds(getattr(self, name), name))


class KafkaNewRecordsSensor(KafkaOffsetsSensor):
    """Wait until there are new records since a given position, and return their ranges.

    The task returns a list of ``{"topic", "partition", "from_offset", "until_offset", "topic_id"}``, as
    :class:`~airflow_provider_kafka_spark.operators.replay.ReplayOffsetRangesOperator` takes it, and pushes as XCom
    ``offsets`` the end of *every* partition, as the next ``since``.

    .. warning::
        Records are counted by offsets, including transaction markers, aborted and compacted records.

    :param topics: names of topics. (templated)
    :param topic_pattern: a regular expression that matches whole names; exactly one of the two. (templated)
    :param since: ``"last_run"``, what no earlier run of this task has found; or offsets ``{"offsets": {"orders": {"0":
        23}}}``, the result of another task of this package (``copy.output``), ``{"checkpoint_location": ...}``,
        ``{"group_id": ...}`` or ``{"timestamp": ...}``; the reference of sensors has shorter forms. A
        partition that it does not know counts from its beginning. (templated)
    :param min_records: minimum number of new records. (templated)
    :param max_wait_for_min: seconds after the timestamp of the first new record, or a timedelta, after which fewer are
        enough. (templated)
    :param fail_on_data_loss: records since then that have aged out fail the task; otherwise a warning names them.
        (templated)

    Further parameters: :class:`KafkaOffsetsSensor`.
    """

    template_fields: Sequence[str] = (
        "topics",
        "topic_pattern",
        "since",
        "min_records",
        "max_wait_for_min",
        "fail_on_data_loss",
        *KafkaOffsetsSensor.template_fields,
    )
    template_fields_renderers = {"since": "json"}  # noqa: RUF012 - Airflow's

    def __init__(
        self,
        *,
        topics: list[str] | None = None,
        topic_pattern: str | None = None,
        since: Any,
        min_records: int = 1,
        max_wait_for_min: float | timedelta | None = None,
        fail_on_data_loss: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.topics = topics
        self.topic_pattern = topic_pattern
        self.since = since
        self._names_location = names_location(since)
        self.min_records = min_records
        self.max_wait_for_min = max_wait_for_min
        self.fail_on_data_loss = given_flag(fail_on_data_loss, "fail_on_data_loss")
        #: Where the last run ended, with ``since="last_run"``.
        self._position: object = None

    @no_retry_on_permanent_error
    def poke(self, context: Context) -> bool | PokeReturnValue:
        first = first_of(self.since)
        if first is not None:
            store = self._store(context)
            before = store.load()
            if (result := before.found_by(store.run_id)) is not None:
                return PokeReturnValue(True, super()._done(context, result))
            selection = Selection(self.topics, self.topic_pattern, None)
            if first == LATEST:
                first = "earliest"
                if store.is_new:
                    scope = TopicScope.parse(
                        self.topics,
                        self.topic_pattern,
                        isolation_level=self.isolation_level,
                        missing_topic=self.missing_topic,
                    )
                    try:
                        before = before.at_end(self._identified(), scope)
                    except BrokerUnavailableError as error:
                        self._outage.began(error, self.log)
                        return False
                    store.save(before)
            self._position = before.since(first, selection)
        return super().poke(context)

    def _done(self, context: Context, result: ConditionResult) -> Any:
        if first_of(self.since) is not None:
            self._store(context).add(result)
        return super()._done(context, result)

    def _store(self, context: Context) -> LastRunStore:
        topics = Selection(self.topics, self.topic_pattern, None).to_json()
        return LastRunStore(context, {**topics, "source_conn_id": self.source_conn_id})

    def _identified(self) -> BrokerSnapshot:
        """The topics as they are now, with their ids."""
        self._check_parameters()
        names = None if self.topics is None else tuple(self.topics)
        with KafkaHook(self.source_conn_id, self.kafka_timeout) as hook:
            return fetch_snapshot(hook, [BrokerQuery(names, self.topic_pattern)])

    def _parse(self, **common: Any) -> NewRecords:
        condition = NewRecords.parse(
            topics=self.topics,
            topic_pattern=self.topic_pattern,
            since=self.since if self._position is None else self._position,
            min_records=self.min_records,
            max_wait_for_min=self.max_wait_for_min,
            fail_on_data_loss=self.fail_on_data_loss,
            **common,
        )
        if isinstance(condition.since, SinceCheckpoint) and not self._names_location:
            raise BoundError(
                "since must be a checkpoint by what the DAG file has, such as {'checkpoint_location': '{{ "
                f"var.value.checkpoints }}}}/orders'}}; got {condition.since.location!r} from a template or the result "
                "of another task, which may not decide which storage is read. Write it so."
            )
        return condition


class KafkaTimestampReachedSensor(KafkaOffsetsSensor):
    """Wait until every partition has a record at or after a moment, so that a window which ends there is complete.

    The task returns the offset of that record for every partition, and the topic's id, as ``ending_offsets`` takes it:
    ``{"orders": {"0": 1200, "topic_id": "..."}}``.

    .. warning::
        Kafka does not detect late records: a producer may still write an older timestamp after a newer one.

    :param topics: names of topics. (templated)
    :param timestamp: ISO 8601 with a time zone, an aware ``datetime``, or epoch ms; it may lie in the future.
        (templated)
    :param idle_after: a partition without such a record counts as complete, and the log names it, when both the moment
        and the newest timestamp in it are this many seconds (or a timedelta) old. Without it, the sensor waits for idle
        partitions. (templated)

    Further parameters: :class:`KafkaOffsetsSensor`.
    """

    template_fields: Sequence[str] = ("topics", "timestamp", "idle_after", *KafkaOffsetsSensor.template_fields)

    def __init__(
        self,
        *,
        topics: list[str],
        timestamp: str | datetime | int,
        idle_after: float | timedelta | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.topics = topics
        self.timestamp = timestamp
        self.idle_after = idle_after

    def _parse(self, **common: Any) -> TimestampReached:
        return TimestampReached.parse(
            topics=self.topics, timestamp=self.timestamp, idle_after=self.idle_after, **common
        )


class ConsumerGroupLagSensor(KafkaOffsetsSensor):
    """Wait until the lag of a consumer group is small enough.

    The task returns the lag of every partition, ``{"orders": {"0": 5}}``. A partition without a commit counts from the
    start of its log.

    :param group_id: name of the group; one that does not exist has committed nothing. (templated)
    :param topics: names of topics. (templated)
    :param max_lag: maximum lag in offsets, at least 0. (templated)
    :param per_partition: compare the lag of every partition, not the sum. (templated)

    Further parameters: :class:`KafkaOffsetsSensor`.
    """

    template_fields: Sequence[str] = (
        "group_id",
        "topics",
        "max_lag",
        "per_partition",
        *KafkaOffsetsSensor.template_fields,
    )

    def __init__(
        self,
        *,
        group_id: str,
        topics: list[str],
        max_lag: int,
        per_partition: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.group_id = group_id
        self.topics = topics
        self.max_lag = max_lag
        self.per_partition = given_flag(per_partition, "per_partition")

    def _parse(self, **common: Any) -> GroupLag:
        return GroupLag.parse(
            topics=self.topics,
            group_id=self.group_id,
            max_lag=self.max_lag,
            per_partition=self.per_partition,
            **common,
        )
