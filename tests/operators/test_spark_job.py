"""Promises of :class:`SparkJobOperator`: what is shown of a job, and what is refused before it is planned.

And what templates and forms render: flags, numbers and moments are read, or are an error that shows them; and what a
run without a data interval says of templates that ask for it.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timezone
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import DAG
from airflow.sdk.bases.operator import BaseOperator
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException
from jinja2.exceptions import UndefinedError
from requests.auth import HTTPBasicAuth

from airflow_provider_kafka_spark.core.errors import ConnectionConfigError, JarError, JobReportMissingError, OptionError
from airflow_provider_kafka_spark.hooks.kafka import KafkaHook
from airflow_provider_kafka_spark.operators.audit import AuditReplayOperator
from airflow_provider_kafka_spark.operators.spark_job import SparkJobOperator
from airflow_provider_kafka_spark.operators.token_policy import DelegationTokenPolicy
from airflow_provider_kafka_spark.sensors.offsets import (
    ConsumerGroupLagSensor,
    KafkaNewRecordsSensor,
    KafkaTimestampReachedSensor,
)
from airflow_provider_kafka_spark.submission.spark_cluster import SparkCluster
from airflow_provider_kafka_spark.testing.kafka_broker import KafkaBroker, Record
from airflow_provider_kafka_spark.testing.pytest_plugin import TopicFactory
from tests.airflow_fakes import TaskInstance, task_context
from tests.driver_program import Driver
from tests.in_process_jobs import InProcessSpark
from tests.operators.conftest import RecordingSpark
from tests.operators.copy_task import Batch, Replay, Stream, execute

_HISTORY = "http://history.example.com:18080"


@pytest.mark.broker
@pytest.mark.parametrize(
    ("extra", "after"),
    [
        pytest.param({}, None, id="no-history-server"),
        pytest.param({"history-server": _HISTORY}, f"{_HISTORY}/history/local-1/", id="history-server"),
    ],
)
def test_the_link_after_a_local_job(
    kafka: KafkaBroker,
    topic: TopicFactory,
    driver: Driver,
    connection: Callable[..., None],
    capsys: pytest.CaptureFixture[str],
    extra: dict[str, str],
    after: str | None,
) -> None:
    """It leads to the history server, or there is none: the driver's port may be another job's soon."""
    source, target = topic(suffix="source"), topic(suffix="target")
    kafka.produce(source, [Record(value=b"v")])
    connection("spark_default", conn_type="spark", host="local[2]", extra=extra)
    driver("emit(JobStarted('local-1', 'http://driver:4040'))")
    ti = TaskInstance()
    operator = Replay(
        task_id="task",
        offset_ranges=[f"{source}:0:0:1"],
        target_topic=target,
        conf={"spark.eventLog.enabled": "true", "spark.eventLog.dir": "file:///events"},
    )

    (link,) = operator.operator_extra_links
    context: Any = task_context(ti=ti)
    operator.pre_execute(context)
    with pytest.raises(JobReportMissingError):
        operator.execute(context)

    assert ti.pushed.get(link.xcom_key) == after
    # What Airflow stores when the task has ended.
    assert [each.get_link(operator, ti_key=None) for each in operator.operator_extra_links] == (
        [after] if after else []
    )  # type: ignore[arg-type]
    assert "Spark application local-1 is running: http://driver:4040" in capsys.readouterr().out


def test_what_a_template_may_have_rendered_to() -> None:
    """One named error before a broker is asked."""
    rendered: list[tuple[dict[str, Any], str]] = [
        ({"name": "a\0b"}, "name must be a text"),
        ({"name": 5}, "name must be a text"),
        ({"properties_file": ["a.conf"]}, "properties_file must be a text"),
        ({"conf": {"spark.x": "a\0b"}}, r"conf\['spark.x'\] must have no zero character"),
        ({"env_vars": {"X": "a\0b"}}, r"env_vars\['X'\] must have no zero"),
        ({"env_vars": "X=1"}, "env_vars must map names"),
        ({"conf": ["spark.x"]}, r"conf must map Spark properties to values.*got \['spark.x'\]"),
        ({"delivery": "exactly_one"}, "got 'exactly_one'. Did you mean 'exactly_once'"),
    ]
    for options, says in rendered:
        operator = Replay(task_id="task", offset_ranges=["orders:0:0:1"], target_topic="replayed", retries=0, **options)
        with pytest.raises(AirflowFailException, match=says) as refused:
            operator.execute(task_context())  # type: ignore[arg-type]
        assert isinstance(refused.value.__context__, OptionError)


_MANAGER = {"yarn_resourcemanager_webapp_address": "http://rm.example.com:8088"}


def replay(**parameters: Any) -> dict[str, Any]:
    given = {"task_id": "task", "target_topic": "copy", "offset_ranges": ["orders:0:0:10"], **parameters}
    return execute(Replay(**given))


def test_what_cannot_be_deferred_is_refused(
    connection: Callable[..., None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With what to do; nothing secret is shown."""
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
    cluster = {"deploy-mode": "cluster"}
    with_password = {"yarn_resourcemanager_webapp_address": "http://user:hunter2@rm:8088"}
    login = {"yarn_rm_auth": HTTPBasicAuth("user", "hunter2")}
    refused: list[tuple[str, dict[str, str], dict[str, Any], str]] = [
        ("local[2]", {}, {}, "needs a driver that does not end with the worker"),
        ("yarn", {}, {}, "needs a driver that does not end with the worker"),
        ("yarn", {**cluster, **_MANAGER}, {"use_delegation_token": True}, "nobody to renew the job's own delegation"),
        ("yarn", {**cluster, **_MANAGER}, login, "cannot hand yarn_rm_auth to the triggerer"),
        ("yarn", cluster, {}, "needs YARN's address for the triggerer"),
        ("yarn", {**cluster, **with_password}, {}, "must have no password"),
        # Airflow would resume the other task.
        ("yarn", {**cluster, **_MANAGER}, {"task_id": "called"}, "one that is called within another task cannot be r"),
    ]
    for host, extra, parameters, says in refused:
        connection("spark_default", conn_type="spark", host=host, extra=extra)
        with pytest.raises(AirflowFailException, match=f"^OptionError: deferrable=True .*{says}") as raised:
            replay(deferrable=True, report_location=tmp_path.as_uri(), **parameters)
        assert "hunter2" not in str(raised.value)


@pytest.mark.broker
@pytest.mark.spark
def test_airflows_default_defers_only_what_can_be_deferred(
    kafka: KafkaBroker, topic: TopicFactory, in_process_spark: InProcessSpark, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW__OPERATORS__DEFAULT_DEFERRABLE", "True")
    source, target = topic(suffix="source"), topic(suffix="target")
    kafka.produce(source, [Record(value=b"v")])

    assert replay(offset_ranges=[f"{source}:0:0:1"], target_topic=target)["records_written"] == 1


_LOGIN = {"security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER"}
_SERVERS = "bootstrap.demo.europe-west1.managedkafka.my-project.cloud.goog:9092"


@pytest.fixture
def cluster(connection: Callable[..., None]) -> SparkCluster:
    connection("spark_default", conn_type="spark", host="local[2]")
    connection("kafka_default", extra={"bootstrap.servers": "broker-1:9092"})
    connection("google", extra={"bootstrap.servers": _SERVERS, **_LOGIN})
    return SparkCluster("spark_default", kafka_connector=None, report_location=None, submit_options={})


@pytest.mark.parametrize(("source", "target"), [("google", "kafka_default"), ("kafka_default", "google")])
def test_a_missing_handler(cluster: SparkCluster, source: str, target: str) -> None:
    with pytest.raises(JarError, match="GcpLoginCallbackHandler"):
        DelegationTokenPolicy().check(cluster, KafkaHook(source), KafkaHook(target))


def test_a_delegation_token(cluster: SparkCluster) -> None:
    with pytest.raises(ConnectionConfigError, match=r"connection 'google' .*issues none"):
        DelegationTokenPolicy("target").check(cluster, KafkaHook("kafka_default"), KafkaHook("google"))


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
    assert ({r.topic for r in request.ranges}, len(request.spans)) == (set(sources), 6)
    assert (request.transform.where, request.transform.topic_expr) == (None, None)
    assert request.transform.columns == {"value": "key"}
    assert request.sink_options["kafka.linger.ms"] == "7"
    assert (request.how.preserve_order, request.delivery) == (False, "at_least_once")
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
    with pytest.raises(AirflowFailException, match=r"InvalidInputError: .*no data interval.*logical_date.*backfill"):
        run(kind, None)
    with pytest.raises(UndefinedError, match="'data_interval_strat' is undefined"):
        run(_BATCH, None, starting_timestamp="{{ data_interval_strat }}")
