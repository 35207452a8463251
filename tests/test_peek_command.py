"""Promises of ``airflow kafka-spark peek``, on a real broker."""

from __future__ import annotations

import pytest

from airflow_provider_kafka_spark import peek
from airflow_provider_kafka_spark.testing.kafka_broker import KafkaBroker, Record
from airflow_provider_kafka_spark.testing.pytest_plugin import TopicFactory
from tests.raw_batches import log_of, make_strange


@pytest.mark.broker
def test_the_first_records_of_a_range_are_printed(
    kafka: KafkaBroker, topic: TopicFactory, capsys: pytest.CaptureFixture[str]
) -> None:
    """Escaped, each text bounded, and values only on request. What holds no record is an answer too."""
    name = topic(config={"message.timestamp.after.max.ms": str(2**63 - 1)})
    headers = (("trace", b"1"), ("red", b"\x1b[31m\xff\n"), ("none", None))
    kafka.produce(name, [Record(b"k" * 300, b"secret-0", headers, 1_700_000_000_000, 0)])
    kafka.produce_transaction(name, [Record(None, b"secret-1", partition=0)])
    kafka.produce_transaction(name, [Record(None, b"aborted", partition=0)], commit=False)
    kafka.produce(name, [Record(None, None, partition=0)])

    assert peek.main([f"{name}:0:0:99"]) == 0
    printed = capsys.readouterr().out
    assert printed.splitlines()[:5] == [
        f"{name}[0]@0  2023-11-14T22:13:20.000+00:00  value 8 bytes",
        f'  key "{"k" * 200}" ... (300 bytes)',
        '  header "trace" "1"',
        r'  header "red" "\x1b[31m\xff\n"',
        '  header "none" null',
    ]
    assert [line.partition("  ")[0] for line in printed.splitlines() if "@" in line] == [
        f"{name}[0]@{offset}" for offset in (0, 1, 5)
    ]
    assert "secret" not in printed
    assert printed.count("value null") == 1

    assert peek.main([f"{name}:0:1:99", "--values", "--max", "1", "--max-bytes", "4"]) == 0
    printed = capsys.readouterr().out
    assert '  value "secr" ... (8 bytes)\n' in printed
    assert printed.count("@") == 1
    assert peek.main([f"{name}:0:2:5"]) == 1
    assert "has no record" in capsys.readouterr().err
    assert peek.main([f"{name}:0:2:5", "--read-uncommitted"]) == 0
    assert peek.main([f"{name}:0:6:9"]) == 2
    assert "which has the offsets 0 to 6 of" in capsys.readouterr().err
    kafka.produce(name, [Record(None, None, (), 2**62, 0)])
    assert peek.main([f"{name}:0:6:7"]) == 0
    assert f"@6  {2**62} ms since 1970  value null" in capsys.readouterr().out
    assert peek.main([f"{name}x:0:0:1"]) == 2
    assert f"Did you mean '{name}'" in capsys.readouterr().err


@pytest.mark.broker
def test_a_header_whose_name_is_no_utf_8(
    kafka: KafkaBroker, topic: TopicFactory, capsys: pytest.CaptureFixture[str]
) -> None:
    """Python's client cannot read it; other readers of headers take such a record for one of others."""
    name = topic()
    kafka.produce(name, [Record(b"k", b"v", (("name", b"1"),), partition=0)])
    make_strange(log_of(kafka, name), names={b"name": b"\xff\xfe\x00e"})

    assert peek.main([f"{name}:0:0:1"]) == 0
    assert "  headers that are not shown: the name of one is not UTF-8" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["orders"], "offset range"),
        (["orders:0:0:1", "--max", "0"], "--max must be from 1 to 1,000, such as 10; got 0"),
        (["orders:0:0:1", "--max-bytes", "99999"], "--max-bytes must be from 1 to 10,000"),
        (["orders:0:0:1", "--conn-id", ""], "--conn-id"),
        (["orders:0:0:1", "--kafka-timeout", "0"], "--kafka-timeout"),
    ],
)
def test_bad_input_has_a_name(capsys: pytest.CaptureFixture[str], arguments: list[str], said: str) -> None:
    assert peek.main(arguments) == 2
    assert said in capsys.readouterr().err
