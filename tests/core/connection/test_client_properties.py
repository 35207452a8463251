from __future__ import annotations

import pytest

from airflow_provider_kafka_spark.core.connection.client_properties import Server, parse_servers


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(" b-1.example.com:1 ,b_2:65535,", [Server("b-1.example.com", 1), Server("b_2", 65535)], id="some"),
        pytest.param("b", [Server("b", 9092)], id="default-port"),
        pytest.param("[::1]:9093,fe80::1", [Server("::1", 9093), Server("fe80::1", 9092)], id="ipv6"),
        pytest.param("SASL_SSL://b:9093", [Server("b", 9093)], id="with-protocol"),
    ],
)
def test_reads_what_both_clients_read(text: str, expected: list[Server]) -> None:
    assert parse_servers(text) == expected
    assert parse_servers(",".join(map(str, expected))) == expected


@pytest.mark.parametrize("bad", ["b:0", "b:65536", "b:port", "b 1:9092", "[::1", ":9092"])
def test_names_the_first_that_is_none(bad: str) -> None:
    with pytest.raises(ValueError, match="is no host:port") as raised:
        parse_servers(f"good:9092,{bad},b:x")
    assert repr(bad) in str(raised.value)


@pytest.mark.parametrize("bad", ["https://ann:hunter2@b:9092", "ann:hunter2@b:9092", "ann:hun@ter2@b:9092"])
def test_shows_no_password(bad: str) -> None:
    """The error is in the task's log."""
    with pytest.raises(ValueError, match=r"\*\*\*@b:9092' is no host:port") as raised:
        parse_servers(bad)
    assert "ter2" not in str(raised.value)
