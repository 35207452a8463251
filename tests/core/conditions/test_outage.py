from __future__ import annotations

import logging

import pytest

from airflow_provider_kafka_spark.core.conditions.outage import Outage


def test_one_line_at_the_start_and_one_at_the_end_of_each_outage(caplog: pytest.LogCaptureFixture) -> None:
    outage, log = Outage(), logging.getLogger("sensor")
    caplog.set_level(logging.INFO)

    for _ in range(2):
        outage.ended(log)
        outage.began(OSError("no answer"), log)
        outage.began(OSError("no answer"), log)
        outage.ended(log)

    assert [(r.levelname, r.getMessage()) for r in caplog.records] == 2 * [
        ("WARNING", "The broker does not answer; it is asked again at every interval. no answer"),
        ("INFO", "The broker answers again."),
    ]
