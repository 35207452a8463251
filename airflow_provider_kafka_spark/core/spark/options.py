"""Spark's Kafka options: which there are, which Spark refuses or ignores, and which this package sets itself.

Spark reads options without regard to case and ignores the ones it does not know, so a typo has no effect and causes no
error (``KafkaSourceProvider``). This module checks every option before Spark starts. No I/O.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from typing import Any

from airflow_provider_kafka_spark.core.errors import OptionError

#: Kafka's Java client replaces ``${file:PATH:NAME}`` in its properties by a value from a file on its machine.
REFERENCE = "${"

_OURS = "the plan sets it"
_LOGIN = "the Airflow connection sets it"

#: Options of a source that the author may set, as Spark spells them.
_SOURCE = ("kafkaConsumer.pollTimeoutMs", "fetchOffset.numRetries", "fetchOffset.retryIntervalMs", "groupIdPrefix")
#: Options of a batch source that may not be set, with the reason.
_SOURCE_REFUSED = {
    "assign": f"{_OURS}; use the operator's topics, topic_pattern or assign",
    "subscribe": f"{_OURS}; use the operator's topics",
    "subscribePattern": f"{_OURS}; use the operator's topic_pattern, which must match the whole name",
    "startingOffsets": f"{_OURS}; use starting_offsets",
    "endingOffsets": f"{_OURS}; use ending_offsets",
    "startingTimestamp": f"{_OURS}; use starting_timestamp",
    "endingTimestamp": f"{_OURS}; use ending_timestamp",
    "startingOffsetsByTimestamp": f"{_OURS}; use starting_timestamp",
    "endingOffsetsByTimestamp": f"{_OURS}; use ending_timestamp",
    "startingOffsetsByTimestampStrategy": f"{_OURS}; a partition without records in the window is an empty range",
    "failOnDataLoss": "use fail_on_data_loss",
    "includeHeaders": "use include_headers",
    "minPartitions": "with it Spark splits partitions and loses their order; "
    "use max_records_per_partition with preserve_order=False",
    "maxRecordsPerPartition": "use max_records_per_partition",
    "maxOffsetsPerTrigger": "Spark ignores it in a batch; it belongs to KafkaToKafkaAvailableNowOperator",
    "minOffsetsPerTrigger": "Spark ignores it in a batch",
    "maxTriggerDelay": "Spark ignores it in a batch",
    "topic": "it belongs to the sink; use target_topic",
    "kafka.bootstrap.servers": f"{_LOGIN}; use source_conn_id",
    "kafka.group.id": "Spark's executors assign their partitions, so a group has no meaning; "
    "quotas go by user and kafka.client.id",
    "kafka.isolation.level": (
        "read_committed is what keeps aborted records out of the copy; pass isolation_level='read_uncommitted' to "
        "copy them"
    ),
    "kafka.auto.offset.reset": "Spark refuses it: the offsets are explicit",
    "kafka.key.deserializer": "Spark refuses it: keys are bytes; use columns to change them",
    "kafka.value.deserializer": "Spark refuses it: values are bytes; use columns to change them",
    "kafka.enable.auto.commit": "Spark refuses it: nobody commits to Kafka",
    "kafka.interceptor.classes": "Spark refuses it",
}
#: Differences for a stream.
_STREAM_REFUSED = {
    **_SOURCE_REFUSED,
    "endingOffsets": "Spark refuses it: a run ends where the topics end when it starts",
    "endingTimestamp": "Spark ignores it in a stream; a run ends where the topics end when it starts",
    "endingOffsetsByTimestamp": "Spark refuses it: a run ends where the topics end when it starts",
    "startingTimestamp": "use starting_offsets, which takes a moment too",
    "startingOffsetsByTimestamp": "use starting_offsets, which takes a moment too",
    "startingOffsetsByTimestampStrategy": "use starting_offsets; "
    "a partition without records from then on starts at its end",
    "maxOffsetsPerTrigger": "use max_offsets_per_trigger",
    "minOffsetsPerTrigger": "an availableNow stream would end successfully with a tail unread",
    "maxTriggerDelay": "an availableNow stream would end successfully with a tail unread",
    "minPartitions": "with it Spark splits partitions and loses their order",
    "maxRecordsPerPartition": "with it Spark splits partitions and loses their order",
}
_SINK: Sequence[str] = ()
_SINK_REFUSED = {
    "topic": "use target_topic or target_topic_expr",
    "checkpointLocation": "use checkpoint_location",
    "includeHeaders": "use include_headers",
    "kafka.bootstrap.servers": f"{_LOGIN}; use target_conn_id",
    "kafka.key.serializer": "Spark refuses it: keys are bytes; use columns to change them",
    "kafka.value.serializer": "Spark refuses it: values are bytes; use columns to change them",
    "kafka.transactional.id": "it belongs to run and task, so that a retry goes on where the try before came to",
    "kafka.acks": "acks=all is what makes a green task mean delivered",
    "kafka.enable.idempotence": "idempotence is what keeps the producer's own retries from doubling records",
}
_LOGIN_PREFIXES = ("kafka.sasl.", "kafka.ssl.", "kafka.security.")

#: Properties of the Java consumer and producer (Apache Kafka 4.2 documentation) that make sense on an executor.
_CLIENT_COMMON = frozenset(
    (
        "client.dns.lookup client.id client.rack connections.max.idle.ms metadata.max.age.ms metric.reporters "
        "metrics.num.samples metrics.recording.level metrics.sample.window.ms receive.buffer.bytes "
        "reconnect.backoff.max.ms reconnect.backoff.ms request.timeout.ms retry.backoff.max.ms retry.backoff.ms "
        "send.buffer.bytes socket.connection.setup.timeout.max.ms socket.connection.setup.timeout.ms "
        "enable.metrics.push metadata.recovery.strategy metadata.recovery.rebootstrap.trigger.ms"
    ).split()
)
_CONSUMER = _CLIENT_COMMON | frozenset(
    (
        "allow.auto.create.topics check.crcs default.api.timeout.ms exclude.internal.topics fetch.max.bytes "
        "fetch.max.wait.ms fetch.min.bytes heartbeat.interval.ms max.partition.fetch.bytes max.poll.interval.ms "
        "max.poll.records session.timeout.ms"
    ).split()
)
_PRODUCER = _CLIENT_COMMON | frozenset(
    (
        "batch.size buffer.memory compression.type compression.gzip.level compression.lz4.level "
        "compression.zstd.level delivery.timeout.ms interceptor.classes linger.ms max.block.ms "
        "max.in.flight.requests.per.connection max.request.size metadata.max.idle.ms "
        "partitioner.adaptive.partitioning.enable partitioner.availability.timeout.ms partitioner.class "
        "partitioner.ignore.keys retries transaction.timeout.ms"
    ).split()
)

#: Permitted options whose values are names of classes. (Those of logins, serializers and the like are refused.)
CLASSES = frozenset({"kafka.interceptor.classes", "kafka.metric.reporters", "kafka.partitioner.class"})


def check_source_options(options: Mapping[str, Any] | None, *, stream: bool = False) -> dict[str, str]:
    """The source options to hand to Spark, spelt as Spark spells them.

    :param stream: of an availableNow stream, in place of a batch.
    :raises OptionError: if one is misspelt, belongs elsewhere, would be ignored or is refused by Spark, or is given
        twice.
    """
    return _check(options, "source_options", _SOURCE, _STREAM_REFUSED if stream else _SOURCE_REFUSED, _CONSUMER)


def check_sink_options(options: Mapping[str, Any] | None) -> dict[str, str]:
    """The sink options to hand to Spark.

    :raises OptionError: as :func:`check_source_options`.
    """
    return _check(options, "sink_options", _SINK, _SINK_REFUSED, _PRODUCER)


def check_client_classes(source_options: Mapping[str, Any] | None, sink_options: Mapping[str, Any] | None) -> None:
    """Check that no option makes a client load a class, which then runs in driver and executors.

    :raises OptionError: naming the option.
    """
    for parameter, options in (("source_options", source_options), ("sink_options", sink_options)):
        for given in options or {}:
            if str(given).lower() in CLASSES:
                raise OptionError(
                    f"{parameter} must name no classes, which would run in driver and executors; got {given!r}. Remove "
                    "it, or let who runs the workers set [kafka_spark] allow_client_classes = True."
                )


def _check(
    options: Mapping[str, Any] | None,
    parameter: str,
    known: Sequence[str],
    refused: Mapping[str, str],
    client_properties: frozenset[str],
) -> dict[str, str]:
    if options is not None and not isinstance(options, Mapping):
        raise OptionError(f"{parameter} must be a mapping such as {{'kafka.client.id': 'copy'}}; got {options!r}.")
    reasons = {name.lower(): reason for name, reason in refused.items()}
    spellings = {name.lower(): name for name in (*known, *(f"kafka.{p}" for p in client_properties), *refused)}
    checked: dict[str, str] = {}
    faults: list[str] = []
    for given, value in (options or {}).items():
        name = str(given).lower()
        spelt = spellings.get(name)
        if name in reasons:
            in_sparks_spelling = f" ({spelt})" if spelt != given else ""
            faults.append(f"{parameter} must not set {given!r}{in_sparks_spelling}: {reasons[name]}.")
        elif name.startswith(_LOGIN_PREFIXES):
            faults.append(f"{parameter} must not set {given!r}: {_LOGIN}, which keeps secrets out of the DAG.")
        elif spelt is None:
            faults.append(_unknown(parameter, given, spellings, reasons))
        elif spelt in checked:
            faults.append(f"{parameter} gives {spelt!r} twice: Spark compares options without regard to case.")
        elif value is None or isinstance(value, (dict, list, tuple, set, bytes)):
            faults.append(f"{parameter}[{given!r}] must be text or a number; got {value!r}.")
        elif REFERENCE in str(value):
            faults.append(_reference(f"{parameter}[{given!r}]", str(value)))
        else:
            checked[spelt] = str(value).lower() if isinstance(value, bool) else str(value)
    if faults:
        raise OptionError(" ".join(faults))
    return checked


def _unknown(parameter: str, given: object, spellings: Mapping[str, str], reasons: Mapping[str, str]) -> str:
    close = difflib.get_close_matches(str(given).lower().replace("_", ""), spellings, n=1)
    close = close or difflib.get_close_matches(str(given).lower(), spellings, n=1)
    hint = f"Did you mean {spellings[close[0]]!r}?" if close else "Kafka's own properties start with 'kafka.'."
    reason = f" It must not be set either: {reasons[close[0]]}." if close and close[0] in reasons else ""
    return f"{parameter} has no option {given!r}; Spark would silently ignore it. {hint}{reason}"


def check_plain(name: str, value: str) -> None:
    """:raises OptionError: if the value has a reference that makes a client read a file on its machine."""
    if REFERENCE in value:
        raise OptionError(_reference(name, value))


def _reference(name: str, value: str) -> str:
    return (
        f"{name} must be a plain value, such as '1048576'; got {value!r}, which Kafka's client would replace by what "
        "a file of the driver has. Write the value itself."
    )
