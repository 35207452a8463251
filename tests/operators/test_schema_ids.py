"""Promises of ``schema_id_map``: ids of Confluent's wire format are those of the target's registry, all else is as it
was.
"""

from __future__ import annotations

from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException

from airflow_provider_kafka_spark.jobs import kafka_source
from airflow_provider_kafka_spark.operators.audit import AuditReplayOperator
from airflow_provider_kafka_spark.operators.available_now import KafkaToKafkaAvailableNowOperator
from airflow_provider_kafka_spark.operators.batch import KafkaToKafkaBatchOperator
from airflow_provider_kafka_spark.operators.replay import ReplayOffsetRangesOperator
from airflow_provider_kafka_spark.testing.kafka_broker import KafkaBroker, Record
from airflow_provider_kafka_spark.testing.pytest_plugin import TopicFactory
from tests.airflow_fakes import task_context
from tests.in_process_jobs import InProcessSpark

pytestmark = [pytest.mark.broker, pytest.mark.spark]

KINDS = (KafkaToKafkaBatchOperator, ReplayOffsetRangesOperator, KafkaToKafkaAvailableNowOperator)


def framed(schema: int, content: bytes = b"avro") -> bytes:
    return b"\0" + schema.to_bytes(4, "big") + content


VALUES = [framed(3), framed(4, b""), b"plain", b"\0\0\0", b"", None, b"\1\0\0\0\3"]
MAPPED = [framed(17), framed(2**31 - 1, b""), *VALUES[2:]]
IDS = {3: 17, "4": 2**31 - 1}


@pytest.fixture
def names(kafka: KafkaBroker, topic: TopicFactory) -> tuple[str, str]:
    source, target = topic(suffix="source"), topic(suffix="target")
    kafka.produce(source, [Record(framed(5, b"%d" % i), value) for i, value in enumerate(VALUES)])
    return source, target


def run(kind: type, names: tuple[str, str], tmp_path: Any, **parameters: Any) -> dict[str, Any]:
    source, target = names
    more: dict[str, Any] = {"topics": [source]}
    if kind is ReplayOffsetRangesOperator:
        more = {"offset_ranges": [f"{source}:0:0:{len(VALUES)}"]}
    if kind is KafkaToKafkaAvailableNowOperator:
        more |= {"checkpoint_location": str(tmp_path / "checkpoint"), "starting_offsets": "earliest"}
    operator = kind(task_id="task", target_topic=target, **more, **parameters)
    operator.render_template_fields({})
    result: dict[str, Any] = operator.execute(task_context())
    return result


@pytest.mark.usefixtures("in_process_spark")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("public", [False, True])
@pytest.mark.parametrize("sql", [{}, {"where": "offset >= 0"}, {"columns": {"headers": "headers"}}])
def test_ids_are_rewritten_in_what_has_the_format(
    kafka: KafkaBroker, names: tuple[str, str], tmp_path: Any, monkeypatch: pytest.MonkeyPatch, kind: type,
    public: bool, sql: dict[str, Any],
) -> None:  # fmt: skip
    if public:
        monkeypatch.setattr(kafka_source, "read_tasks", lambda *_: None)

    run(kind, names, tmp_path, schema_id_map=IDS, **sql)

    copies = kafka.consume(names[1])
    assert [r.value for r in copies] == MAPPED
    assert [r.key for r in copies] == [framed(5, b"%d" % i) for i in range(len(VALUES))]


@pytest.mark.usefixtures("in_process_spark")
def test_keys_have_a_map_of_their_own_and_an_expression_decides_itself(
    kafka: KafkaBroker, names: tuple[str, str], tmp_path: Any
) -> None:
    both = '{"keys": {"5": 9}, "values": {"3": 17, "4": 18}}'
    result = run(KafkaToKafkaBatchOperator, names, tmp_path, schema_id_map=both, columns={"value": "value"})

    copies = kafka.consume(names[1])
    assert [r.value for r in copies] == VALUES
    assert [r.key for r in copies] == [framed(9, b"%d" % i) for i in range(len(VALUES))]
    audited = AuditReplayOperator(task_id="audit", of=result).execute(task_context())  # type: ignore[arg-type]
    assert (audited["once"], audited["compared"]) == (len(VALUES), False)


@pytest.mark.usefixtures("in_process_spark")
def test_an_unknown_id_fails_by_name_and_a_dead_letter_keeps_its_own(
    kafka: KafkaBroker, names: tuple[str, str], topic: TopicFactory, tmp_path: Any
) -> None:
    with pytest.raises(AirflowFailException, match=r"^OptionError: .*no id for schema 4 of the value .*\[0\]@1"):
        run(KafkaToKafkaBatchOperator, names, tmp_path, schema_id_map={3: 17})
    assert kafka.consume(names[1]) == []

    dead = topic(suffix="dead")
    rejecting = {"reject_when": "offset = 1", "dead_letter_topic": dead}
    run(KafkaToKafkaBatchOperator, names, tmp_path, schema_id_map={3: 17}, **rejecting)
    assert [r.value for r in kafka.consume(dead)] == [framed(4, b"")]
    assert [r.value for r in kafka.consume(names[1])] == [framed(17), *VALUES[2:]]


def test_an_approved_plan_has_the_map(
    kafka: KafkaBroker, names: tuple[str, str], tmp_path: Any, in_process_spark: InProcessSpark
) -> None:
    plan = run(ReplayOffsetRangesOperator, names, tmp_path, schema_id_map=IDS, plan_only=True)
    operator = ReplayOffsetRangesOperator(task_id="task", plan=plan)
    operator.render_template_fields({})
    operator.execute(task_context())  # type: ignore[arg-type]

    assert "Schema ids of values: 3 becomes 17, 4 becomes 2147483647" in plan["text"]
    assert [r.value for r in kafka.consume(names[1])] == MAPPED
    assert len(in_process_spark.requests) == 1
