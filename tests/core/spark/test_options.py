from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from airflow_provider_kafka_spark.core.connection.client_config import translate
from airflow_provider_kafka_spark.core.errors import ConnectionConfigError, OptionError
from airflow_provider_kafka_spark.core.offsets.offset_range import OffsetRange
from airflow_provider_kafka_spark.core.spark.options import (
    check_client_classes,
    check_sink_options,
    check_source_options,
)
from airflow_provider_kafka_spark.core.spark.tuning import sink_defaults, source_defaults
from tests.core.refusals import refuses

Check = Callable[[Mapping[str, Any] | None], dict[str, str]]

_BOTH = pytest.mark.parametrize(
    ("check", "parameter"),
    [
        pytest.param(check_source_options, "source_options", id="source"),
        pytest.param(check_sink_options, "sink_options", id="sink"),
    ],
)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        pytest.param(None, {}, id="none-given"),
        pytest.param({"fetchoffset.numretries": 8}, {"fetchOffset.numRetries": "8"}, id="spelt-as-spark-does"),
        pytest.param({"KAFKA.Max.Poll.Records": 500}, {"kafka.max.poll.records": "500"}, id="case-of-kafkas"),
        pytest.param({"kafka.check.crcs": False}, {"kafka.check.crcs": "false"}, id="java-boolean"),
    ],
)
def test_passes_on_what_spark_knows(options: dict[str, Any] | None, expected: dict[str, str]) -> None:
    assert check_source_options(options) == expected


@pytest.mark.parametrize(
    ("check", "given", "meant"),
    [
        pytest.param(check_source_options, "groupIdPrefx", "groupIdPrefix", id="spark"),
        pytest.param(check_source_options, "group_id_prefix", "groupIdPrefix", id="snake-case"),
        pytest.param(check_source_options, "max.poll.records", "kafka.max.poll.records", id="prefix-left-out"),
        pytest.param(check_sink_options, "kafka.lingerms", "kafka.linger.ms", id="dot-left-out"),
    ],
)
def test_a_typo_gets_did_you_mean(check: Check, given: str, meant: str) -> None:
    """Spark would ignore it in silence; the message names what was likely meant."""
    with refuses(OptionError, f"has no option {given!r}", f"Did you mean {meant!r}?"):
        check({given: 1})


@pytest.mark.parametrize(
    ("given", "meant", "instead"),
    [
        ("failOnDataLos", "failOnDataLoss", "fail_on_data_loss"),
        ("starting_offsets", "startingOffsets", "starting_offsets"),
        ("min_partitions", "minPartitions", "max_records_per_partition"),
    ],
)
def test_a_typo_of_an_option_that_is_refused(given: str, meant: str, instead: str) -> None:
    """It is spelt as Spark spells it, and the message says at once what to use instead."""
    with refuses(OptionError, f"Did you mean {meant!r}?") as error:
        check_source_options({given: 1})

    assert meant.lower() not in str(error.value)
    assert instead in str(error.value).partition("Did you mean")[2]


def test_all_that_is_wrong_is_said_at_once() -> None:
    wrong = {
        "colour": 1,
        "failOnDataLoss": False,
        "kafka.linger.ms": 5,
        "groupIdPrefix": None,
        "kafka.sasl.mechanism": "P",
    }
    with pytest.raises(OptionError) as error:
        check_source_options({**wrong, "kafka.client.id": "copy", "kafka.fetch.min.bytes": "${file:a:b}"})

    assert [name for name in (*wrong, "kafka.fetch.min.bytes") if repr(name) not in str(error.value)] == []
    assert "kafka.client.id" not in str(error.value).replace("such as {'kafka.client.id'", "")
    assert "\n" not in str(error.value)


@_BOTH
@pytest.mark.parametrize("given", ["colour", None])
def test_an_unknown_option_that_resembles_none_is_an_error_too(check: Check, parameter: str, given: Any) -> None:
    with refuses(OptionError, f"{parameter} has no option {given!r}", "start with 'kafka.'"):
        check({given: 1})


@pytest.mark.parametrize(
    ("check", "name", "reason"),
    [
        (check_source_options, "assign", "topics, topic_pattern or assign"),
        (check_source_options, "subscribe", "topics"),
        (check_source_options, "startingOffsets", "starting_offsets"),
        (check_source_options, "startingTimestamp", "starting_timestamp"),
        (check_source_options, "startingOffsetsByTimestampStrategy", "empty range"),
        (check_source_options, "failOnDataLoss", "fail_on_data_loss"),
        (check_source_options, "includeHeaders", "include_headers"),
        (check_source_options, "maxRecordsPerPartition", "max_records_per_partition"),
        (check_source_options, "maxOffsetsPerTrigger", "ignores it in a batch"),
        (check_source_options, "topic", "target_topic"),
        (check_source_options, "kafka.bootstrap.servers", "source_conn_id"),
        (check_source_options, "kafka.group.id", "quotas go by user and kafka.client.id"),
        (check_source_options, "kafka.isolation.level", "isolation_level='read_uncommitted'"),
        (check_source_options, "kafka.auto.offset.reset", "Spark refuses it"),
        (check_sink_options, "topic", "target_topic_expr"),
        (check_sink_options, "checkpointLocation", "use checkpoint_location"),
        (check_sink_options, "kafka.bootstrap.servers", "target_conn_id"),
        (check_sink_options, "kafka.transactional.id", "it belongs to run and task"),
        (check_sink_options, "kafka.acks", "acks=all"),
        (check_sink_options, "kafka.enable.idempotence", "doubling"),
    ],
)
def test_refuses_what_spark_refuses_or_ignores_or_what_is_ours(check: Check, name: str, reason: str) -> None:
    for spelling in (name, name.upper()):
        with refuses(OptionError, f"must not set {spelling!r}", name, reason):
            check({spelling: "x"})


@_BOTH
@pytest.mark.parametrize(
    "name", ["kafka.sasl.mechanism", "kafka.ssl.keystore.password", "kafka.security.protocol", "Kafka.SASL.jaas.config"]
)
def test_logins_belong_to_the_connection(check: Check, parameter: str, name: str) -> None:
    """A secret in a DAG file is refused, and not repeated in the message."""
    with refuses(OptionError, parameter, name, "connection") as error:
        check({name: "hunter2"})

    assert "hunter2" not in str(error.value)


def test_an_option_given_twice_is_an_error() -> None:
    """Spark compares options without regard to case, so one of two spellings would win by chance."""
    with pytest.raises(OptionError, match="'groupIdPrefix' twice"):
        check_source_options({"groupIdPrefix": 1, "GROUPIDPREFIX": 2})


@pytest.mark.parametrize("value", [None, {"a": 1}, [1], (1,), {1}, b"5"], ids=repr)
def test_refuses_a_value_that_is_no_text(value: object) -> None:
    with refuses(OptionError, "source_options['groupIdPrefix'] must be text or a number", repr(value)):
        check_source_options({"groupIdPrefix": value})


@_BOTH
@pytest.mark.parametrize("options", ["minPartitions=5", ["minPartitions"]])
def test_refuses_options_that_are_no_mapping(check: Check, parameter: str, options: Any) -> None:
    with pytest.raises(OptionError, match=f"{parameter} must be a mapping such as"):
        check(options)


def test_every_default_that_the_author_may_change_is_a_known_option() -> None:
    """Each setting that is tuned can be overridden, but for those that make delivery certain."""
    ours = {"kafka.isolation.level", "kafka.acks", "kafka.enable.idempotence"}
    source = {
        k: v for k, v in source_defaults([OffsetRange("o", 0, 0, 1)], read_committed=True).items() if k not in ours
    }
    sink = {k: v for k, v in sink_defaults().items() if k not in ours}

    assert check_source_options(source) == source
    assert check_sink_options(sink) == sink


@pytest.mark.parametrize(
    ("option", "reason"),
    [
        pytest.param("minOffsetsPerTrigger", "a tail unread", id="ends-early"),
        pytest.param("maxTriggerDelay", "a tail unread", id="ends-early-by-time"),
        pytest.param("endingTimestamp", "ignores it in a stream", id="ignored"),
        pytest.param("endingOffsets", "a run ends where the topics end", id="refused-by-spark"),
        pytest.param("startingTimestamp", "use starting_offsets, which takes a moment too", id="start"),
        pytest.param("maxOffsetsPerTrigger", "use max_offsets_per_trigger", id="parameter"),
        pytest.param("minPartitions", "loses their order", id="order"),
        pytest.param("maxRecordsPerPartition", "loses their order", id="order-by-size"),
    ],
)
def test_a_stream_has_rules_of_its_own(option: str, reason: str) -> None:
    """What availableNow ignores, and what makes it end early, is refused with the reason."""
    with pytest.raises(OptionError, match=reason):
        check_source_options({option: 5}, stream=True)


@pytest.mark.parametrize("value", ["${file:/etc/passwd:root}", "1${env:HOME}", "${"])
@pytest.mark.parametrize(
    ("check", "option"),
    [
        pytest.param(check_source_options, "kafka.fetch.min.bytes", id="source"),
        pytest.param(check_source_options, "groupIdPrefix", id="source-of-spark"),
        pytest.param(check_sink_options, "kafka.client.id", id="sink"),
    ],
)
def test_no_option_refers_to_a_file(check: Callable[[Any], dict[str, str]], option: str, value: str) -> None:
    """Kafka's clients would replace a reference by what a file of the driver has."""
    with refuses(OptionError, option, repr(value), "such as"):
        check({option: value})


#: Every option of consumer, producer and admin client whose type in ConfigDef is CLASS, or a list of classes
#: (kafka-clients 3.9.0 and 4.2.0).
_CLASS_OPTIONS = """
    config.providers interceptor.classes key.deserializer key.serializer metric.reporters
    partition.assignment.strategy partitioner.class sasl.client.callback.handler.class
    sasl.login.callback.handler.class sasl.login.class sasl.oauthbearer.jwt.retriever.class
    sasl.oauthbearer.jwt.validator.class security.providers ssl.engine.factory.class value.deserializer value.serializer
""".split()


@pytest.mark.parametrize("name", _CLASS_OPTIONS)
@pytest.mark.parametrize("parameter", ["source_options", "sink_options"])
def test_no_option_names_a_class_that_a_client_loads(parameter: str, name: str) -> None:
    """Options may come from a template; a class is code that runs with the logins."""
    options = {f"kafka.{name}".upper(): "com.example.Sent"}

    with refuses(OptionError, f"kafka.{name}".upper()) as error:
        (check_source_options if parameter == "source_options" else check_sink_options)(options)
        check_client_classes(**{"source_options": None, "sink_options": None, parameter: options})
    assert "com.example.Sent" not in str(error.value)


@pytest.mark.parametrize("name", _CLASS_OPTIONS)
def test_no_connection_names_a_class_that_a_client_loads(name: str) -> None:
    """Except for librdkafka's strategies of consumer groups, which are no classes and are not passed on to Java."""
    extra = {"bootstrap.servers": "b:1", "security.protocol": "SSL", name: "com.example.Sent"}
    if name == "partition.assignment.strategy":
        assert name not in translate("c", extra).java
        return
    with refuses(ConnectionConfigError, name):
        translate("c", extra)
