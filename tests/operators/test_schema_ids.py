"""Promises of ``schema_id_map``: ids of Confluent's wire format are those of the target's registry, all else is as it
was.
"""

from __future__ import annotations

from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException

from airflow_provider_kafka_spark.jobs import kafka_source
from airflow_provider_kafka_spark.testing.kafka_broker import Record
from airflow_provider_kafka_spark.testing.pytest_plugin import TopicFactory
from tests.operators.copy_task import KINDS, Batch, CopyTask, NewTask, Replay, Stream, audit, covering

pytestmark = [pytest.mark.broker, pytest.mark.spark]


def framed(schema: int, content: bytes = b"avro") -> bytes:
    return b"\0" + schema.to_bytes(4, "big") + content


VALUES = [framed(3), framed(4, b""), b"plain", b"\0\0\0", b"", None, b"\1\0\0\0\3"]
MAPPED = [framed(17), framed(2**31 - 1, b""), *VALUES[2:]]
IDS = {3: 17, "4": 2**31 - 1}


@pytest.fixture
def task(new_task: NewTask) -> Any:
    return new_task(records=[Record(framed(5, b"%d" % i), value) for i, value in enumerate(VALUES)])


def copies(task: CopyTask) -> list[Record]:
    return task.kafka.consume(task.target)


SQL: dict[str, dict[str, Any]] = {
    "none": {},
    "where": {"where": "offset >= 0"},
    "columns": {"columns": {"headers": "headers"}},
}


@pytest.mark.long
@pytest.mark.parametrize(
    ("kind", "sql", "reader"),
    covering(
        [
            (Batch, "none", "internal"), (Replay, "where", "public"), (Stream, "columns", "internal"),
        ],
        KINDS, SQL, ("internal", "public"),
    ),
)  # fmt: skip
def test_ids_are_rewritten_in_what_has_the_format(
    task: CopyTask, monkeypatch: pytest.MonkeyPatch, kind: type, sql: str, reader: str
) -> None:
    if reader == "public":
        monkeypatch.setattr(kafka_source, "read_tasks", lambda *_: None)

    task.run(kind, schema_id_map=IDS, **SQL[sql])

    # The public reader keeps no order between the ranges of a partition.
    found = sorted(copies(task), key=lambda record: int((record.key or b"")[5:]))
    assert [r.value for r in found] == MAPPED
    assert [r.key for r in found] == [framed(5, b"%d" % i) for i in range(len(VALUES))]


def test_keys_have_a_map_of_their_own_and_an_expression_decides_itself(task: CopyTask) -> None:
    both = '{"keys": {"5": 9}, "values": {"3": 17, "4": 18}}'
    audited = audit(task.run(schema_id_map=both, columns={"value": "value"}))

    assert [r.value for r in copies(task)] == VALUES
    assert [r.key for r in copies(task)] == [framed(9, b"%d" % i) for i in range(len(VALUES))]
    assert (audited["once"], audited["compared"]) == (len(VALUES), False)


def test_an_unknown_id_fails_by_name_and_a_dead_letter_keeps_its_own(task: CopyTask, topic: TopicFactory) -> None:
    with pytest.raises(AirflowFailException, match=r"^OptionError: .*no id for schema 4 of the value .*\[0\]@1"):
        task.run(schema_id_map={3: 17})
    assert copies(task) == []

    dead = topic(suffix="dead")
    task.clear(schema_id_map={3: 17}, reject_when="offset = 1", dead_letter_topic=dead)
    assert [r.value for r in task.kafka.consume(dead)] == [framed(4, b"")]
    assert [r.value for r in copies(task)] == [framed(17), *VALUES[2:]]
