"""Each parameter of a copying operator is declared; and what each one of a stream may do between two runs: the table
has all of them, or a test fails.
"""

from __future__ import annotations

from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException

from airflow_provider_kafka_spark.core.copies.copy_parameters import CopyParameters
from airflow_provider_kafka_spark.core.copies.declaration import Decides
from airflow_provider_kafka_spark.core.copies.identity import BatchForm, Binding
from airflow_provider_kafka_spark.operators.available_now import KafkaToKafkaAvailableNowOperator
from airflow_provider_kafka_spark.operators.batch import KafkaToKafkaBatchOperator
from airflow_provider_kafka_spark.operators.deferral import DeferrableOperator
from airflow_provider_kafka_spark.operators.kafka_to_kafka import KafkaToKafkaOperator
from airflow_provider_kafka_spark.operators.replay import ReplayOffsetRangesOperator
from airflow_provider_kafka_spark.operators.sealed_plan import defaults_of
from airflow_provider_kafka_spark.testing.kafka_broker import KafkaBroker, Record
from airflow_provider_kafka_spark.testing.pytest_plugin import TopicFactory
from tests.airflow_fakes import TaskStateStore
from tests.docs.test_parameters import own_parameters
from tests.operators.copy_task import CopyTask, NewTask, Stream, large

#: Another value of each parameter, by what it decides. Those of a checkpoint: which records are copied, and to where.
OF_A_CHECKPOINT: dict[str, Any] = {
    "topics": ["payments"],
    "topic_pattern": "orders.*",
    "assign": {"orders": [0]},
    "target_topic": "elsewhere",
    "target_topic_expr": "concat(topic, '_copy')",
    "topic_map": {"orders": "elsewhere"},
    "where": "offset >= 5",
    "keys": ["a"],
    "headers": {"tenant": ["acme"]},
    "reject_when": "value is null",
    "dead_letter_topic": "rejected",
    "columns": {"value": "upper(string(value))"},
    "schema_id_map": {3: 17},
    "preserve_partition": True,
}
#: Those of a batch: how each record is written, or whether progress counts.
OF_A_BATCH: dict[str, Any] = {
    "provenance": "headers",
    "include_headers": False,
    "preserve_timestamps": False,
    "isolation_level": "read_uncommitted",
    "delivery": "at_least_once",
}
#: Of a run: how the copy is made, and what is allowed.
OF_A_RUN: dict[str, Any] = {
    "allow_same_topic": True,
    "allow_duplicates": True,
    "fail_on_data_loss": False,
    "reader": "source",
    "create_target_topics": True,
    "new_topic_partitions": 3,
    "on_refused_config": "leave_out",
    "source_options": {"kafka.max.poll.records": "7"},
    "sink_options": {"kafka.linger.ms": "1"},
    "max_offsets_per_trigger": 7,
    "max_records_per_second": 100_000,
    "max_bytes_per_second": 10_000_000,
    "max_pause": 60,
    "max_planned_records": 1_000_000,
    "starting_offsets": "latest",
    "on_empty": "skip",
    "kafka_timeout": 20.0,
    "progress_seconds": 1.0,
    "outlets": [],
}
#: What the tests below leave as it is, each for its reason.
LEFT_AS_IT_IS = {
    "source_conn_id": "the cluster's id is bound to the checkpoint",
    "target_conn_id": "likewise",
    "checkpoint_location": "another one is another stream",
    "reset_checkpoint_to": "begins anew",
    "commit_group_id": "only names a group of a lag monitor",
    "pause_while_lag": "needs a group; max_pause belongs to it",
    "on_rerun": "has one value",
    "plan_only": "writes nothing",
    "use_delegation_token": "only how clients log in",
    "min_token_lifetime": "likewise",
}
_DEFAULTS: dict[str, Any] = {
    "topics": ["orders"], "target_topic": "copy", "checkpoint_location": "/c", "provenance": None,
}  # fmt: skip
_DEAD = {"reject_when": "key is null", "dead_letter_topic": "dead"}


def test_each_parameter_is_in_one_class() -> None:
    """A new one has to say when it may change. Those of the submission only say how Spark is started."""
    classes = [OF_A_CHECKPOINT, OF_A_BATCH, OF_A_RUN, LEFT_AS_IT_IS]

    named = [name for names in classes for name in names]
    of_the_submission = own_parameters(DeferrableOperator).keys() - {*named}
    assert sorted(named) == sorted(own_parameters(Stream).keys() - of_the_submission)


def _parsed(**changed: Any) -> CopyParameters:
    given = {**_DEFAULTS, **changed}
    if {"topic_pattern", "assign"} & changed.keys():
        del given["topics"]
    if {"target_topic_expr", "topic_map"} & changed.keys():
        del given["target_topic"]
    return Stream(task_id="copy", **given)._parsed()  # noqa: SLF001 - what a try does first


@pytest.mark.parametrize("name", [*OF_A_CHECKPOINT, *OF_A_BATCH, *OF_A_RUN])
def test_what_a_change_is_compared_with(name: str) -> None:
    """The binding has what must never change, the form of a batch what must not change within one, and the rest is in
    neither.
    """
    value = {**OF_A_CHECKPOINT, **OF_A_BATCH, **OF_A_RUN}[name]
    # Those two go together.
    others = _DEAD if name in _DEAD else {}
    before, after = _parsed(**others), _parsed(**{**others, name: value})

    bound = Binding.of(before, "A", "B").differences(Binding.of(after, "A", "B"))
    of_a_batch = BatchForm.of(before).changes(BatchForm.of(after))

    assert (bool(bound), bool(of_a_batch)) == (name in OF_A_CHECKPOINT, name in OF_A_BATCH)


@pytest.fixture
def stopped(new_task: NewTask) -> Any:
    """A stream that writes no headers, whose first run has died at the last of 41 records of its first batch."""
    records = [Record(b"k", b"%d" % i, (("h", b"1"),)) for i in range(40)]
    task = new_task(records=[*records, large()], provenance=None)
    assert 0 < task.fail_at_large(lambda: task.run(Stream)).total() < 41
    return task


def _next_run(task: CopyTask, **changed: Any) -> dict[str, Any]:
    """Another run of the DAG, which has nothing but the checkpoint."""
    task.store, task.tries = TaskStateStore(), 0
    return task.run(Stream, **changed)


def _assert_once(task: CopyTask, records: int) -> None:
    found = task.values()
    assert (len(found), set(found.values())) == (records, {1})


@pytest.mark.broker
@pytest.mark.spark
def test_a_batch_is_finished_as_it_was_begun(stopped: CopyTask) -> None:
    """Whatever was changed meanwhile: a change of what a batch needs is refused by name, and made after it."""
    for name, value in {**OF_A_BATCH, "preserve_partition": True, "where": "offset >= 0"}.items():
        with pytest.raises(AirflowFailException, match=rf"^CheckpointError: .*{name} (must stay .*; got|is) {value!r}"):
            _next_run(stopped, **{name: value})

    finished = _next_run(stopped)
    stopped.kafka.produce(stopped.source, [Record(b"k", b"new")])
    changed = _next_run(stopped, provenance="headers", include_headers=False)

    _assert_once(stopped, 42)
    assert [b["replayed"] for b in finished["batches"]] == [True]
    assert finished["delivered_before"] > 0
    assert changed["records_written"] == 1
    assert not any("written again" in warning for warning in finished["warnings"])


@pytest.mark.broker
@pytest.mark.spark
def test_all_else_may_change_within_a_batch(stopped: CopyTask) -> None:
    """The progress that was committed with its records still counts, although the target cannot be read back."""
    finished = _next_run(stopped, **OF_A_RUN)

    _assert_once(stopped, 41)
    assert finished["delivered_before"] > 0


@pytest.mark.broker
@pytest.mark.spark
def test_maps_may_grow_within_a_batch(kafka: KafkaBroker, topic: TopicFactory, new_task: NewTask) -> None:
    """A batch that met an unknown schema id goes on when the map has it, whatever else is mapped by then. Each topic
    goes to its own target.
    """
    task, targets = new_task(topics=None, target_topic=None, provenance=None), [topic(suffix="to"), topic(suffix="to")]
    first, task.given["topic_pattern"] = task.source, f"{task.source[:-8]}.*"
    kafka.produce(first, [Record(b"k", b"\0\0\0\0\x03%d" % i) for i in range(30)])
    kafka.produce(first, [Record(b"k", b"\0\0\0\0\x04last")])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("airflow_provider_kafka_spark.jobs.write.COMMIT_RECORDS", 10)
        with pytest.raises(Exception, match="has no id for schema 4"):
            task.run(Stream, topic_map={first: targets[0]}, schema_id_map={3: 17})
    second = topic(suffix="source")
    # The next batch has both topics.
    kafka.produce(first, [Record(b"k", b"\0\0\0\0\x04more")])
    kafka.produce(second, [Record(b"k", b"\0\0\0\0\x03of the second")])

    result = _next_run(task, topic_map={first: targets[0], second: targets[1]}, schema_id_map={3: 17, 4: 18})

    last = {b"\0\0\0\0\x12last": 1, b"\0\0\0\0\x12more": 1}
    assert task.values(targets[0]) == {b"\0\0\0\0\x11%d" % i: 1 for i in range(30)} | last
    assert task.values(targets[1]) == {b"\0\0\0\0\x11of the second": 1}
    assert result["delivered_before"] > 0


#: Of Airflow, which reads it when the DAG is read.
_OUTLETS = {"outlets"}


@pytest.mark.parametrize(
    "kind", [KafkaToKafkaBatchOperator, ReplayOffsetRangesOperator, KafkaToKafkaAvailableNowOperator]
)
def test_signature_and_declaration_are_the_same(kind: type[KafkaToKafkaOperator]) -> None:
    of_kind = kind._declared  # noqa: SLF001
    declared = {p.name: p for p in of_kind}

    assert len(declared) == len(of_kind)
    assert declared.keys() == own_parameters(kind).keys() - own_parameters(DeferrableOperator).keys() - _OUTLETS
    assert declared.keys() <= set(kind.template_fields)
    defaults = defaults_of(kind)
    for name, p in declared.items():
        if p.decides is not Decides.RECORDS and name in defaults:
            read = p.read(defaults[name])
            assert p.read(read) == read, name


def test_a_default_of_a_subclass_may_be_one_that_only_it_reads() -> None:
    """It is then compared as it is, where a plan says the parameter."""
    declared = {p.name: p for p in ReplayOffsetRangesOperator._declared}  # noqa: SLF001

    assert declared["source_conn_id"].read_default(None) is None
    assert declared["preserve_partition"].read_default("{{ params.p }}") == "{{ params.p }}"
    assert declared["columns"].read_default(None) == {}
