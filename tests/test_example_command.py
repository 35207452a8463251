"""Promises of ``airflow kafka-spark example``; the wheel has the examples (``test_provider``)."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_provider_kafka_spark import example

_DAGS = Path(__file__).resolve().parents[1] / "dags"


def test_an_example_is_printed_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert example.main(["replay_incident"]) == 0
    assert capsys.readouterr().out == (_DAGS / "replay_incident.py").read_text()

    assert example.main([]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == sorted(file.stem for file in _DAGS.glob("*.py"))
    assert "replay_gaps              Replay what no run has copied." in lines

    assert example.main(["replay_inciden"]) == 2
    captured = capsys.readouterr()
    assert (captured.out, "Did you mean 'replay_incident'" in captured.err) == ("", True)
