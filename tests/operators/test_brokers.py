"""Copies on the oldest and the newest broker that is supported, and the requests that brokers get, which are those of
the documentation.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from airflow_provider_kafka_spark.testing import broker_process
from airflow_provider_kafka_spark.testing.broker_process import KAFKA_VERSION
from airflow_provider_kafka_spark.testing.kafka_broker import KafkaBroker, Record
from tests.airflow_fakes import TaskStateStore, Try
from tests.operators.copy_task import Batch, execute, once

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.long]

_PAGE = Path(__file__).parents[2] / "docs/reference/versions.md"
_REQUEST_LOG = """\
log4j.logger.kafka.request.logger=DEBUG, requests
log4j.additivity.kafka.request.logger=false
log4j.appender.requests=org.apache.log4j.FileAppender
log4j.appender.requests.File={file}
log4j.appender.requests.layout=org.apache.log4j.PatternLayout
log4j.appender.requests.layout.ConversionPattern=%m%n
"""


@pytest.fixture(scope="module")
def requests(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("broker") / "requests.log"


@pytest.fixture(scope="module", params=["3.9.2", KAFKA_VERSION])
def broker(request: pytest.FixtureRequest, requests: Path) -> Iterator[KafkaBroker]:
    """It logs every request. Those of the tests come by another listener than those of copies."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(broker_process, "LOG4J", broker_process.LOG4J + _REQUEST_LOG.format(file=requests))
        with KafkaBroker(version=request.param, sasl_users={"alice": "password-of-alice"}) as running:
            running.create_topic("orders", 2)
            running.produce("orders", [Record(b"k", b"%d" % i, partition=i % 2) for i in range(50)])
            yield running


def _documented(*rows: str) -> set[str]:
    """The requests of the rows of the page that have these words."""
    section = _PAGE.read_text().partition("## Brokers")[2].partition("\n## ")[0]
    found = [line.split("|")[1:3] for line in section.splitlines() if line.startswith("| `")]
    assert len(found) == 3
    return {name for names, needed_by in found if any(row in needed_by for row in rows) for name in _names(names)}


def _names(text: str) -> list[str]:
    return re.findall(r"`(\w+)`", text)


@pytest.mark.usefixtures("in_process_spark")
@pytest.mark.parametrize(("delivery", "use_token"), [("exactly_once", True), ("at_least_once", False)])
def test_a_copy_and_its_clear(
    broker: KafkaBroker, requests: Path, connection: Callable[..., None], delivery: str, use_token: bool
) -> None:
    connection("kafka_default", extra=broker.sasl_client_config("alice"))
    connection("spark_default", conn_type="spark", host="local[2]")
    target, store = f"copy-{delivery}-{use_token}", TaskStateStore()
    broker.create_topic(target, 2)
    seen = len(requests.read_text())
    for number in range(2):
        how = {"delivery": delivery, "use_delegation_token": use_token}
        operator = Batch(task_id="copy", topics=["orders"], target_topic=target, **how)
        result = execute(operator, store, clear_number=number, ti=Try(try_number=number + 1, max_tries=number))
        assert (result["missing"], result["records_written"]) == (0, 50)
        # A broker that does not know what a retry asks must fail the first try.
        assert ("LIST_TRANSACTIONS" in requests.read_text()[seen:]) or delivery == "at_least_once"
    assert Counter(r.value for r in broker.consume(target)) == once(0, 50)

    lines = [line for line in requests.read_text()[seen:].splitlines() if '"listener":"SASL_PLAINTEXT"' in line]
    asked = {name.replace("_", "").lower() for name in re.findall(r'"requestApiKeyName":"(\w+)"', "".join(lines))}
    rows = ["every copy", *([delivery] if delivery == "exactly_once" else []), *(["use_delegation_token"] * use_token)]
    documented = {name.lower() for name in _documented(*rows)}
    # Only a long copy renews its token. Without transactions, no answer about earlier ones is needed.
    optional = {"renewdelegationtoken", *({"listtransactions"} if delivery == "at_least_once" else ())}
    assert asked - optional == documented - optional
