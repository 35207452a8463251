"""The parameters of the operators: each is declared here once, with its kind and with what it decides. No I/O.

From the declarations come an operator's template fields and how Airflow renders them, how a value of a DAG or of a form
is read, what a retry takes from its first try, and what an approved plan fixes. Defaults are those of the signatures.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

from airflow_provider_kafka_spark.core.checks import (
    DELIVERIES,
    ISOLATION_LEVELS,
    ON_RERUN,
    check_connection_id,
    check_group_id,
    check_seconds,
    flag,
    is_template,
    list_of,
    mapping_of,
    milliseconds,
    one_of,
    optional_integer,
    parse_reader,
    text_or_none,
)
from airflow_provider_kafka_spark.core.copies.copy_parameters import parse_pause
from airflow_provider_kafka_spark.core.errors import InvalidInputError, KafkaSparkError, TargetError
from airflow_provider_kafka_spark.core.offsets.offset_range import is_topic_name
from airflow_provider_kafka_spark.core.records.record_filter import check_headers, check_keys
from airflow_provider_kafka_spark.core.records.schema_ids import check_schema_id_map
from airflow_provider_kafka_spark.core.records.topic_map import check_topic_map
from airflow_provider_kafka_spark.core.records.trace import Trace
from airflow_provider_kafka_spark.core.spark.options import check_sink_options, check_source_options
from airflow_provider_kafka_spark.core.topics.broker_state import Selection
from airflow_provider_kafka_spark.core.topics.new_topics import ON_REFUSED_CONFIG


class Decides(Enum):
    """What a parameter decides, and so where its value comes from."""

    #: Which records are read. A retry takes it from the first try, and a plan says it instead.
    RECORDS = auto()
    #: What is done with a record. A retry takes it from the first try, and a plan fixes it.
    COPY = auto()
    #: How it is done. Each try takes its own, unless a plan fixes it.
    HOW = auto()
    #: Each try takes its own.
    TRY = auto()


@dataclass(frozen=True, slots=True)
class Kind:
    """What the values of a parameter are.

    :param read: reads a value as it was given, or as a template rendered it, by the parameter's name. It may read what
        it has read.
    :param renderer: by which Airflow shows it; empty for text.
    :param is_early: a value that is no template is read when the DAG is.
    """

    read: Callable[[Any, str], Any]
    renderer: str = ""
    is_early: bool = False


@dataclass(frozen=True, slots=True)
class Declared:
    """A parameter."""

    name: str
    kind: Kind
    decides: Decides

    def read(self, value: Any) -> Any:
        """The value, checked, in the one form of its meaning.

        :raises KafkaSparkError: if it is malformed.
        """
        return self.kind.read(value, self.name)

    def read_default(self, value: Any) -> Any:
        """As :meth:`read`; a default that only a subclass can read is left as it is."""
        try:
            return self.read(value)
        except KafkaSparkError:
            return value

    def read_in_dag(self, value: Any) -> Any:
        """What of that can be done when the DAG is read."""
        return self.read(value) if self.kind.is_early and not is_template(value) else value


def _text(value: Any, name: str) -> str:
    if not isinstance(value, str) or not value.strip():
        why = (
            "With render_template_as_native_obj=True a text of digits becomes a number."
            if isinstance(value, int | float) and not isinstance(value, bool)
            else "If it is a template, check what it rendered to."
        )
        raise InvalidInputError(f"{name} must be text that is not blank; got {value!r}. {why}")
    return value


def _optional_text(value: Any, name: str) -> str | None:
    return None if text_or_none(value) is None else _text(value, name)


def _expressions(value: Any, name: str) -> dict[str, str]:
    columns = mapping_of(value, name) or {}
    if not isinstance(columns, Mapping) or not all(isinstance(s, str) and s.strip() for s in columns.values()):
        raise InvalidInputError(
            f"{name} must map columns to SQL expressions, such as {{'value': 'upper(string(value))'}}; got {columns!r}."
        )
    if unknown := sorted(set(columns) - {"key", "value", "headers", "partition"}):
        raise InvalidInputError(
            f"{name} may set key, value, headers, partition; got {unknown}. (The timestamp is kept by "
            "preserve_timestamps, and the topic is target_topic_expr.)"
        )
    return dict(sorted(columns.items()))


def _connection(value: Any, name: str) -> str:
    check_connection_id(value, name)
    return str(value)


def _topic(value: Any, name: str) -> str | None:
    value = text_or_none(value)
    if value is not None and (not isinstance(value, str) or not is_topic_name(value)):
        raise TargetError(f"{name} must be the name of a topic, such as 'orders_v2'; got {value!r}.")
    return value


def _pause(value: Any, _: str) -> dict[str, Any] | None:
    pause = parse_pause(value, max_pause=1)
    return None if pause is None else {"group_id": pause.group_id, "max_lag": pause.max_lag}


def _one_of(*choices: str) -> Kind:
    return Kind(lambda value, name: one_of(value, name, *choices))


#: Read elsewhere, where it is known what it is compared with.
PLAIN = Kind(lambda value, _: value)
JSON = Kind(lambda value, _: value, "json")
TEXT = Kind(_text)
OPTIONAL_TEXT = Kind(_optional_text)
SQL = Kind(_optional_text, "sql")
CONNECTION = Kind(_connection)
OPTIONAL_CONNECTION = Kind(lambda value, name: None if text_or_none(value) is None else _connection(value, name))
TOPIC = Kind(_topic)
TOPICS = Kind(
    lambda value, name: None if (read := list_of(value, name)) is None else sorted(Selection(read).topics or ())
)
GROUP = Kind(check_group_id)
OPTIONAL_GROUP = Kind(lambda value, name: None if text_or_none(value) is None else check_group_id(value, name))
COLUMNS = Kind(_expressions, "json")
FLAG = Kind(flag, is_early=True)
OPTIONAL_FLAG = Kind(lambda value, name: None if value is None else flag(value, name), is_early=True)
COUNT = Kind(optional_integer, is_early=True)
SECONDS = Kind(check_seconds)
TIME_SPAN = Kind(lambda value, name: milliseconds(value, name) / 1000)
LIST = Kind(list_of)
MAPPING = Kind(mapping_of)
SOURCE_OPTIONS = Kind(lambda value, name: check_source_options(mapping_of(value, name)), "json")
STREAM_OPTIONS = Kind(lambda value, name: check_source_options(mapping_of(value, name), stream=True), "json")
SINK_OPTIONS = Kind(lambda value, name: check_sink_options(mapping_of(value, name)), "json")
TOPIC_MAP = Kind(lambda value, name: check_topic_map(read) if (read := mapping_of(value, name)) else {}, "json")
OPTIONAL_TOPIC_MAP = Kind(
    lambda value, name: None if (read := mapping_of(value, name)) is None else check_topic_map(read), "json"
)
KEYS = Kind(lambda value, name: check_keys(list_of(value, name)), "json")
HEADERS = Kind(lambda value, name: check_headers(mapping_of(value, name)), "json")
SCHEMA_IDS = Kind(lambda value, name: check_schema_id_map(mapping_of(value, name)), "json")
PAUSE = Kind(_pause, "json")

COMMON = (
    Declared("source_conn_id", TEXT, Decides.COPY),
    Declared("target_conn_id", OPTIONAL_TEXT, Decides.COPY),
    Declared("target_topic", OPTIONAL_TEXT, Decides.COPY),
    Declared("topic_map", TOPIC_MAP, Decides.COPY),
    Declared("target_topic_expr", OPTIONAL_TEXT, Decides.COPY),
    Declared("create_target_topics", FLAG, Decides.HOW),
    Declared("new_topic_partitions", COUNT, Decides.HOW),
    Declared("on_refused_config", _one_of(*ON_REFUSED_CONFIG), Decides.HOW),
    Declared("allow_same_topic", FLAG, Decides.HOW),
    Declared("where", SQL, Decides.COPY),
    Declared("keys", KEYS, Decides.COPY),
    Declared("headers", HEADERS, Decides.COPY),
    Declared("reject_when", SQL, Decides.COPY),
    Declared("dead_letter_topic", OPTIONAL_TEXT, Decides.COPY),
    Declared("columns", COLUMNS, Decides.COPY),
    Declared("schema_id_map", SCHEMA_IDS, Decides.COPY),
    Declared("preserve_partition", FLAG, Decides.COPY),
    Declared("preserve_timestamps", FLAG, Decides.COPY),
    Declared("include_headers", FLAG, Decides.COPY),
    Declared("provenance", Kind(lambda value, _: Trace.parse(value)), Decides.COPY),
    Declared("delivery", _one_of(*DELIVERIES), Decides.COPY),
    Declared("isolation_level", _one_of(*ISOLATION_LEVELS), Decides.COPY),
    Declared("sink_options", SINK_OPTIONS, Decides.COPY),
    Declared("reader", Kind(lambda value, _: parse_reader(value)), Decides.HOW),
    Declared("fail_on_data_loss", FLAG, Decides.HOW),
    Declared("max_records_per_second", COUNT, Decides.HOW),
    Declared("max_bytes_per_second", COUNT, Decides.HOW),
    Declared("pause_while_lag", PAUSE, Decides.HOW),
    Declared("max_pause", TIME_SPAN, Decides.HOW),
    Declared("max_planned_records", COUNT, Decides.TRY),
    Declared("allow_duplicates", FLAG, Decides.TRY),
    Declared("plan_only", FLAG, Decides.TRY),
    Declared("on_empty", _one_of("succeed", "skip"), Decides.TRY),
    Declared("on_rerun", _one_of(*ON_RERUN), Decides.TRY),
    Declared("use_delegation_token", PLAIN, Decides.TRY),
    Declared("min_token_lifetime", PLAIN, Decides.TRY),
    Declared("kafka_timeout", SECONDS, Decides.TRY),
    Declared("progress_seconds", SECONDS, Decides.TRY),
)
#: Beside those, of batches and replays.
BOUNDED = (
    Declared("plan", JSON, Decides.TRY),
    Declared("max_records_per_partition", COUNT, Decides.HOW),
    Declared("preserve_order", FLAG, Decides.HOW),
    Declared("source_options", SOURCE_OPTIONS, Decides.COPY),
)
_TOPICS = (
    Declared("topics", LIST, Decides.RECORDS),
    Declared("topic_pattern", OPTIONAL_TEXT, Decides.RECORDS),
    Declared("assign", MAPPING, Decides.RECORDS),
)
BATCH = (
    *_TOPICS,
    *(
        Declared(name, PLAIN, Decides.RECORDS)
        for name in ("starting_offsets", "ending_offsets", "starting_timestamp", "ending_timestamp")
    ),
    Declared("exact_window", OPTIONAL_FLAG, Decides.RECORDS),
)
REPLAY = (
    Declared("offset_ranges", JSON, Decides.RECORDS),
    # Beside a plan it says nothing.
    Declared("merge_overlaps", FLAG, Decides.TRY),
)
STREAM = (
    *_TOPICS,
    Declared("checkpoint_location", PLAIN, Decides.RECORDS),
    Declared("starting_offsets", PLAIN, Decides.RECORDS),
    Declared("max_offsets_per_trigger", COUNT, Decides.TRY),
    Declared("commit_group_id", OPTIONAL_GROUP, Decides.RECORDS),
    Declared("reset_checkpoint_to", PLAIN, Decides.RECORDS),
    Declared("source_options", STREAM_OPTIONS, Decides.COPY),
)
#: Of an audit.
AUDIT = (
    Declared("of", JSON, Decides.RECORDS),
    Declared("source_conn_id", CONNECTION, Decides.RECORDS),
    Declared("target_conn_id", OPTIONAL_CONNECTION, Decides.RECORDS),
    Declared("read_to_end", FLAG, Decides.RECORDS),
    Declared("source_options", SOURCE_OPTIONS, Decides.HOW),
    Declared("fail_on_finding", FLAG, Decides.TRY),
    Declared("use_delegation_token", PLAIN, Decides.TRY),
    Declared("min_token_lifetime", PLAIN, Decides.TRY),
    Declared("kafka_timeout", SECONDS, Decides.TRY),
    Declared("progress_seconds", SECONDS, Decides.TRY),
)
#: Of the move of a consumer group.
GROUP_MOVE = (
    Declared("group_id", GROUP, Decides.RECORDS),
    Declared("target_group_id", OPTIONAL_GROUP, Decides.RECORDS),
    Declared("source_conn_id", CONNECTION, Decides.RECORDS),
    Declared("target_conn_id", OPTIONAL_CONNECTION, Decides.RECORDS),
    Declared("topics", TOPICS, Decides.RECORDS),
    Declared("target_topic", TOPIC, Decides.RECORDS),
    Declared("topic_map", OPTIONAL_TOPIC_MAP, Decides.RECORDS),
    Declared("of", JSON, Decides.RECORDS),
    Declared("fail_on_data_loss", FLAG, Decides.TRY),
    Declared("move_back", FLAG, Decides.TRY),
    Declared("plan_only", FLAG, Decides.TRY),
    Declared("kafka_timeout", SECONDS, Decides.TRY),
)


def names(declared: Iterable[Declared], *decides: Decides) -> tuple[str, ...]:
    """The names of those that decide one of these; of all, if none is given."""
    return tuple(p.name for p in declared if not decides or p.decides in decides)


def renderers(declared: Iterable[Declared]) -> dict[str, str]:
    """How Airflow shows them, by name."""
    return {p.name: p.kind.renderer for p in declared if p.kind.renderer}


def read(declared: Iterable[Declared], owner: object, *decides: Decides) -> dict[str, Any]:
    """The values of an operator's attributes that decide one of these, read.

    :raises KafkaSparkError: if one is malformed.
    """
    return {p.name: p.read(getattr(owner, p.name)) for p in declared if p.decides in decides}


def read_rendered(declared: Iterable[Declared], owner: object, *decides: Decides) -> None:
    """Read those of an operator's attributes, as a template has rendered them; all, if none is given.

    :raises KafkaSparkError: if one is malformed.
    """
    for name, value in read(declared, owner, *(decides or Decides)).items():
        setattr(owner, name, value)


def read_in_dag(declared: Iterable[Declared], owner: object) -> None:
    """Read those of an operator's attributes that can be read when its DAG is.

    :raises KafkaSparkError: if one is malformed.
    """
    for p in declared:
        setattr(owner, p.name, p.read_in_dag(getattr(owner, p.name)))
