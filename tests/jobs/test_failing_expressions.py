"""An expression that fails on a record: the failure names the record, and quotes nothing of it anywhere."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_provider_kafka_spark.core.errors import ExpressionError, KafkaSparkError, TargetError
from airflow_provider_kafka_spark.testing.kafka_broker import KafkaBroker, Record
from airflow_provider_kafka_spark.testing.pytest_plugin import TopicFactory
from tests.jobs.conftest import Copy, Pair

pytestmark = [pytest.mark.broker, pytest.mark.spark]
_SECRET = "card 4711"
_RECORDS = [Record(b"k", b"%d" % i) for i in range(3)] + [Record(b"k", _SECRET.encode())]
_IS_BAD = "string(value) like 'card%'"
#: What fails, and the kind of error that is shown.
_FAILING: dict[str, tuple[dict[str, Any], str]] = {
    "cast": ({"columns": {"value": "string(int(string(value)))"}}, "CAST_INVALID_INPUT in int(string(value))."),
    "raised": ({"where": f"if({_IS_BAD}, raise_error(string(value)), true)"}, "USER_RAISED_EXCEPTION."),
    "not-of-spark": ({"columns": {"value": f"if({_IS_BAD}, regexp_extract(value, value), value)"}}, "REGEX"),
    "dead-letters": ({"reject_when": f"assert_true(not {_IS_BAD}, string(value)) is null"}, "USER_RAISED_EXCEPTION"),
    "topics": ({"topic_expr": "if(int(string(value)) >= 0, '{target}', null)"}, "CAST_INVALID_INPUT in "),
}


def _shows_nothing(error: KafkaSparkError) -> str:
    chain: list[str] = []
    each: BaseException | None = error
    while each is not None:
        chain.append(str(each))
        each = each.__cause__ or each.__context__
    assert _SECRET not in "\n".join(chain)
    assert "4711" not in str(error)
    return str(error)


def test_what_is_no_name_of_a_topic_is_not_shown(pair: Pair) -> None:
    """An expression of the wrong column leads to texts of records."""
    pair.fill(_RECORDS)

    with pytest.raises(TargetError, match=r"\['0', '1', '2'\], and 1 texts that are no name") as failed:
        pair.copy(4, topic_expr="string(value)", topic=None)

    _shows_nothing(failed.value)


@pytest.mark.parametrize("kind", _FAILING)
def test_a_copy_names_the_record(pair: Pair, topic: TopicFactory, kind: str) -> None:
    pair.fill(_RECORDS)
    options, shown = _FAILING[kind]
    if kind == "dead-letters":
        options = {**options, "dead_letter_topic": topic(suffix="dead")}
    if kind == "topics":
        # This pass makes rows only, so no record is known.
        options = {"topic_expr": options["topic_expr"].format(target=pair.target), "topic": None}

    with pytest.raises(ExpressionError) as failed:
        pair.copy(4, **options)

    message = _shows_nothing(failed.value)
    record = "a record" if kind == "topics" else f"record {pair.source}[0]@3"
    assert f"An expression fails on {record}: " in message
    assert shown in message
    assert "leave such records out with where" in message


def test_a_time_beyond_that_of_sql_names_the_record_and_what_reads_it(
    kafka_broker: KafkaBroker, topic: TopicFactory, run_copy: Copy
) -> None:
    """A producer that sends nanoseconds; without SQL its records are copied as they are."""
    source, target = (topic(config={"message.timestamp.after.max.ms": str(2**63 - 1)}, suffix=s) for s in "st")
    nanoseconds = 1_795_731_282_470_000_000
    kafka_broker.produce(source, [Record(b"k", b"1"), Record(b"k", b"2", timestamp=nanoseconds)])

    with pytest.raises(ExpressionError, match=r"\[0\]@1 has the timestamp 1795731282470000000 ms.* Without SQL"):
        run_copy([f"{source}:0:0:2"], topic=target, where="value is not null")

    assert run_copy([f"{source}:0:0:2"], run_id="fedcba9876543210", topic=target).records_written == 2
