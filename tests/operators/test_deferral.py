"""Which copies are deferred; ``e2e/test_deferred.py`` has those that are."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException

from airflow_provider_kafka_spark.core.errors import BrokerUnavailableError
from airflow_provider_kafka_spark.operators.replay import ReplayOffsetRangesOperator
from tests.airflow_fakes import TaskStateStore, task_context
from tests.web_server import serving

_TOKEN = {"spark.kubernetes.authenticate.submission.oauthToken": "t"}
_YARN = "yarn_resourcemanager_webapp_address"


@pytest.mark.parametrize(
    ("extra", "conf", "refused"),
    [
        pytest.param({"namespace": "etl"}, _TOKEN, "oauthToken", id="a-token-on-kubernetes"),
        pytest.param({}, {}, "needs YARN's address", id="no-address"),
        pytest.param({_YARN: "http://ann:hunter2@rm:8088"}, {}, "no password", id="a-password"),
        pytest.param({_YARN: "rm", "keytab": "AA==", "principal": "p"}, {}, "requests-kerberos", id="no-kerberos"),
    ],
)
def test_what_cannot_be_deferred_fails_only_where_the_author_asks_for_it(
    connection: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    extra: dict[str, Any],
    conf: dict[str, str],
    refused: str,
) -> None:
    """With Airflow's ``default_deferrable`` the worker goes on, here to a broker that is not there."""
    monkeypatch.setenv("AIRFLOW__OPERATORS__DEFAULT_DEFERRABLE", "True")
    monkeypatch.setitem(sys.modules, "requests_kerberos", None)
    for variable in ("YARN_CONF_DIR", "HADOOP_CONF_DIR"):
        monkeypatch.delenv(variable, raising=False)
    connection("kafka_default", extra={"bootstrap.servers": "127.0.0.1:1"})
    of_all = {"deploy-mode": "cluster", "kafka-connector": "provided", "report-location": "file:///reports"}

    def execute(**given: Any) -> None:
        given |= {"conf": conf, "offset_ranges": ["t:0:0:1"], "target_topic": "u", "kafka_timeout": 0.5}
        ReplayOffsetRangesOperator(task_id="task", **given).execute(task_context(TaskStateStore()))  # type: ignore[arg-type]

    with serving(lambda *_: (201, '{"status": {"allowed": true}}')) as address:
        master = f"k8s://{address}" if "namespace" in extra else "yarn"
        connection("spark_default", conn_type="spark", host=master, extra={**of_all, **extra})
        with pytest.raises(AirflowFailException, match=refused):
            execute(deferrable=True)
        with pytest.raises(BrokerUnavailableError):
            execute()

    said = capsys.readouterr().out
    assert re.search(rf"default_deferrable is set.*{refused}", said)
    assert "hunter2" not in said
