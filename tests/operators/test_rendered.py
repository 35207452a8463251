"""What templates and forms render: flags, numbers and moments are read, or are an error that shows them; and what a run
without a data interval says of templates that ask for it.
"""

from __future__ import annotations

from datetime import datetime, timezone
from itertools import product
from typing import Any

import pytest
from airflow.sdk import DAG
from airflow.sdk.bases.operator import BaseOperator
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException
from jinja2.exceptions import UndefinedError

from airflow_provider_kafka_spark.core.errors import JobReportMissingError, OptionError
from airflow_provider_kafka_spark.operators.audit import AuditReplayOperator
from airflow_provider_kafka_spark.operators.spark_job import SparkJobOperator
from airflow_provider_kafka_spark.sensors.offsets import (
    ConsumerGroupLagSensor,
    KafkaNewRecordsSensor,
    KafkaTimestampReachedSensor,
)
from airflow_provider_kafka_spark.testing.kafka_broker import KafkaBroker, Record
from airflow_provider_kafka_spark.testing.pytest_plugin import TopicFactory
from tests.airflow_fakes import task_context
from tests.operators.conftest import RecordingSpark
from tests.operators.copy_task import Batch, Replay, Stream

_BATCH = (Batch, {"topics": ["orders"], "target_topic": "copy"})
_REPLAY = (Replay, {"offset_ranges": ["orders:0:0:1"], "target_topic": "copy"})
_STREAM = (Stream, {"topics": ["orders"], "target_topic": "copy", "checkpoint_location": "/nowhere/checkpoint"})
_AUDIT = (AuditReplayOperator, {"of": "dag.task"})
_NEW = (KafkaNewRecordsSensor, {"topics": ["orders"], "since": "earliest"})
_LAG = (ConsumerGroupLagSensor, {"topics": ["orders"], "group_id": "g", "max_lag": 0})
_GIVEN = "{{ params.given }}"
_FLAGS = [
    pytest.param(kind, name, id=f"{kind[0].__name__}-{name}")
    for kind, names in (
        (_BATCH, "allow_same_topic preserve_partition preserve_timestamps include_headers"),
        (_BATCH, "allow_duplicates fail_on_data_loss plan_only preserve_order exact_window"),
        (_REPLAY, "merge_overlaps plan_only"),
        (_STREAM, "plan_only allow_same_topic"),
        (_AUDIT, "read_to_end fail_on_finding"),
        (_NEW, "fail_on_data_loss"),
        (_LAG, "per_partition"),
    )
    for name in names.split()
]
_NUMBERS = [
    pytest.param(_BATCH, "max_records_per_partition", ["0", "1.5", "-1", "many", 0, True], id="records"),
    pytest.param(_STREAM, "max_offsets_per_trigger", ["0", "1.5", "-1", "many", 0, True], id="offsets"),
    pytest.param(_BATCH, "kafka_timeout", ["0", "-1", "soon", "", None, 0], id="kafka_timeout"),
    pytest.param(_BATCH, "progress_seconds", ["0", "inf", "nan", "", None], id="progress_seconds"),
]
Kind = tuple[type[BaseOperator], dict[str, Any]]


def run(kind: Kind, given: object, *, is_native: bool = False, **parameters: Any) -> Any:
    """Render and run a task as Airflow does, with ``params.given`` of the DAG run."""
    task, common = kind
    with DAG("dag", render_template_as_native_obj=is_native):
        operator = task(task_id="task", **{**common, **parameters})
    context = {**task_context(), "params": {"given": given}, "task_instance_key_str": "key"}
    operator.render_template_fields(context)  # type: ignore[arg-type]
    return operator.execute(context)  # type: ignore[arg-type]


@pytest.mark.parametrize(("kind", "name"), _FLAGS)
def test_a_flag_is_no_other_text(kind: Kind, name: str) -> None:
    """In a DAG it is an error at once; from a template when it is rendered, before a broker is asked."""
    message = rf"{name} must be True or False.*got '(maybe|)'"
    if issubclass(kind[0], SparkJobOperator):
        with pytest.raises(OptionError, match=message):
            kind[0](task_id="task", **{**kind[1], name: "maybe"})
    for given in ("maybe", ""):
        with pytest.raises(AirflowFailException, match=message):
            run(kind, given, **{name: _GIVEN})


@pytest.mark.parametrize(("kind", "name", "values"), _NUMBERS)
def test_a_number_is_no_other_text(kind: Kind, name: str, values: list[object]) -> None:
    for given in values:
        with pytest.raises(AirflowFailException, match=f"{name} must be .*got "):
            run(kind, given, is_native=True, **{name: _GIVEN})


@pytest.mark.parametrize("name", ["starting_timestamp", "ending_timestamp"])
def test_an_empty_date_is_no_open_end(name: str) -> None:
    """With native rendering an empty field of a form is None, which was the whole topic."""
    for given, is_native in product(("", None), (False, True)):
        with pytest.raises(AirflowFailException, match=f"{name} must be a moment; its template gave"):
            run(_BATCH, given, is_native=is_native, **{name: _GIVEN})


@pytest.mark.broker
def test_a_form_says_whether_only_a_plan_is_made(
    kafka: KafkaBroker, topic: TopicFactory, recording_spark: RecordingSpark
) -> None:
    """``false`` of a form is false: the job is started."""
    source, target = topic(suffix="source"), topic(suffix="target")
    kafka.produce(source, [Record(value=b"v")])
    kind = (Batch, {"topics": [source], "target_topic": target, "plan_only": _GIVEN})

    for yes, is_native in ((True, True), ("yes", False), ("True", True), (1, False)):
        assert run(kind, yes, is_native=is_native)["state"] == "planned"
    assert recording_spark.requests == []
    for no, is_native in ((False, False), ("no", True), ("FALSE", False), (0, True)):
        with pytest.raises(JobReportMissingError):
            run(kind, no, is_native=is_native)
    assert len(recording_spark.requests) == 4


@pytest.mark.broker
def test_all_that_a_form_gives_reaches_the_job(
    kafka: KafkaBroker, topic: TopicFactory, recording_spark: RecordingSpark
) -> None:
    """Numbers, flags, lists and mappings are text then. A field that was emptied is None, which renders to text, and
    counts as not given.
    """
    sources, target = [topic(suffix="a"), topic(suffix="b")], topic(suffix="target")
    now = datetime.now(timezone.utc)
    for source in sources:
        kafka.produce(source, [Record(value=b"v", timestamp=int(now.timestamp() * 1000)) for _ in range(30)])
    empty = {
        "": ("target_conn_id", "target_topic_expr", "where"),
        " ": ("topic_pattern", "assign"),
        None: ("max_planned_records", "min_token_lifetime"),
    }
    forms = {name: value for value, names in empty.items() for name in names} | {
        "topics": f"{sources[0]}, {sources[1]}",
        "columns": '{"value": "key"}',
        "sink_options": '{"kafka.linger.ms": "7"}',
        "max_records_per_partition": "10",
        "preserve_order": "no",
        "preserve_partition": "true",
        "include_headers": "false",
        "kafka_timeout": "20.5",
        "progress_seconds": "2",
        "delivery": "at_least_once",
        "isolation_level": "read_uncommitted",
        "use_delegation_token": "false",
        "starting_timestamp": "2020-01-01T00:00:00Z",
    }
    templates = {name: "{{ params.given." + name + " }}" for name in forms}

    with pytest.raises(JobReportMissingError):
        run((Batch, {"target_topic": target}), forms, **templates)

    (request,) = recording_spark.requests
    assert ({r.topic for r in request.offset_ranges}, len(request.spans)) == (set(sources), 6)
    assert (request.transform.where, request.transform.topic_expr) == (None, None)
    assert request.transform.columns == {"value": "key"}
    assert request.sink_options["kafka.linger.ms"] == "7"
    assert (request.preserve_order, request.delivery) == (False, "at_least_once")
    assert (request.transform.preserve_partition, request.transform.include_headers) == (True, False)
    assert request.progress_seconds == 2.0


@pytest.mark.parametrize("name", ["columns", "source_options", "sink_options", "assign"])
def test_a_mapping_of_a_form_is_json(name: str) -> None:
    for given, error in (("{broken", "be JSON"), ("0", "be a mapping; got '0'"), ('{"a": [0], "a": [1]}', ".* twice")):
        with pytest.raises(AirflowFailException, match=f"{name} (must|names) ?{error}"):
            run(_BATCH, given, **{name: _GIVEN})


@pytest.mark.broker
def test_a_run_without_records_may_be_skipped(
    kafka: KafkaBroker, topic: TopicFactory, recording_spark: RecordingSpark
) -> None:
    """By default it succeeds. One whose records have all aged out is not skipped: the result names them."""
    source, target = topic(suffix="source"), topic(suffix="target")
    kind = (Batch, {"topics": [source], "target_topic": target})

    with pytest.raises(AirflowSkipException, match="No records"):
        run(kind, "skip", on_empty=_GIVEN)
    assert run(kind, "succeed", on_empty=_GIVEN)["records_read"] == 0
    with pytest.raises(AirflowFailException, match="on_empty must be 'succeed' or 'skip'; got 'never'"):
        run(kind, "never", on_empty=_GIVEN)
    kafka.produce(source, [Record(value=b"v") for _ in range(5)])
    kafka.delete_records(source, {0: 5})
    lost = (Replay, {"offset_ranges": [f"{source}:0:0:5"], "target_topic": target})
    result = run(lost, "skip", on_empty=_GIVEN, fail_on_data_loss=False)
    assert (result["missing"], result["records_read"]) == (5, 0)
    assert recording_spark.requests == []


_UNDATED = [
    pytest.param((Batch, {"starting_timestamp": "{{ data_interval_start }}"}), id="window"),
    pytest.param((Replay, {"offset_ranges": [], "where": "dt = '{{ ds }}'"}), id="expression"),
    pytest.param(
        (KafkaTimestampReachedSensor, {"topics": ["orders"], "timestamp": "{{ data_interval_end }}"}), id="sensor"
    ),
]


@pytest.mark.parametrize("kind", _UNDATED)
def test_a_template_of_a_run_without_data_interval_says_what_to_do(kind: Kind) -> None:
    """Jinja says only that a name is undefined; and no retry can give it one. Other names are left to Jinja."""
    with pytest.raises(AirflowFailException, match=r"InvalidInputError: .*no data interval.*logical-date.*backfill"):
        run(kind, None)
    with pytest.raises(UndefinedError, match="'data_interval_strat' is undefined"):
        run(_BATCH, None, starting_timestamp="{{ data_interval_strat }}")
