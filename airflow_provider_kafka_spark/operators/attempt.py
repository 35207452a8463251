"""One try of a copy, as its steps share it, and the checks of its target."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_provider_kafka_spark.clients.consumer_group import ConsumerGroup
from airflow_provider_kafka_spark.clients.edge_timestamps import edge_timestamps
from airflow_provider_kafka_spark.clients.permissions import check_topics
from airflow_provider_kafka_spark.clients.transaction_check import check_transactions
from airflow_provider_kafka_spark.core.broker_state import ClusterState
from airflow_provider_kafka_spark.core.copy_parameters import CopyParameters
from airflow_provider_kafka_spark.core.errors import OptionError
from airflow_provider_kafka_spark.core.kept_timestamps import check_times, check_timestamp_type, checks_times
from airflow_provider_kafka_spark.core.offset_range import OffsetRanges, TopicPartition
from airflow_provider_kafka_spark.core.protocol import Pace
from airflow_provider_kafka_spark.core.run_identity import TRANSACTION_TIMEOUT_MS
from airflow_provider_kafka_spark.hooks.kafka import KafkaHook
from airflow_provider_kafka_spark.hooks.spark_job import SparkJobHook

if TYPE_CHECKING:
    from airflow.sdk import Context


@dataclass(frozen=True)
class Attempt:
    """One try of a task, as its steps share it.

    :param source: of the cluster to read from.
    :param sink: of the cluster to write to; the same hook if both have one connection.
    """

    context: Context
    parameters: CopyParameters
    spark: SparkJobHook
    source: KafkaHook
    sink: KafkaHook

    def target_state(self) -> ClusterState:
        """The target's cluster, for all that is planned."""
        name = self.parameters.target_topic
        return self.sink.state([name] if name else [], operation="WRITE")

    def check_target(self, *, reads_back: bool) -> None:
        """Check that the login may write to the target; the topics of ``target_topic_expr`` are known only to the job.

        :param reads_back: the job first reads earlier deliveries there.
        :raises BrokerAuthorizationError: naming the missing permission.
        """
        parameters = self.parameters
        # Progress is committed as an offset of the target.
        reads = parameters.is_exactly_once or (reads_back and parameters.provenance_headers)
        if parameters.target_topic is not None:
            check_topics(self.sink, [parameters.target_topic], "WRITE", *(["READ"] if reads else []))
        if parameters.is_exactly_once:
            timeout = parameters.sink_options.get("kafka.transaction.timeout.ms", TRANSACTION_TIMEOUT_MS)
            check_transactions(self.sink, int(timeout), parameters.target_topic)

    def check_pace(self, pace: Pace | None, target: ClusterState) -> None:
        """Check that the group of ``pause_while_lag`` consumes the target.

        :param target: from :meth:`target_state`.
        :raises OptionError: if it does not.
        """
        if pace is None or pace.pause is None:
            return
        name, group = self.parameters.target_topic, ConsumerGroup(self.sink, pace.pause.group_id)
        if name is None:
            consumes = group.exists()
        else:
            consumes = bool(group.committed([TopicPartition(name, number) for number in target.topic(name).partitions]))
        if not consumes:
            raise OptionError(
                f"pause_while_lag must name a consumer group that has committed offsets of {name or 'the target'!r} "
                f"(connection {self.sink.conn_id!r}); {group.group_id!r} has not. Correct the name, or start its "
                "consumers first."
            )

    def check_timestamps(self, target: ClusterState, ranges: OffsetRanges) -> None:
        """Check that the target keeps the records' timestamps; the job checks the topics of ``target_topic_expr``.

        :param target: from :meth:`target_state`.
        :raises TargetError: naming the target's setting.
        """
        name = self.parameters.target_topic
        if not self.parameters.preserve_timestamps or name is None:
            return
        config = target.topic(name).config
        check_timestamp_type(name, config)
        if not checks_times(config):
            return
        if (edges := edge_timestamps(self.source, ranges)) is not None:
            check_times(name, config, *edges, target.now_ms)
