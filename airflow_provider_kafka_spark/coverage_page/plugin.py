"""The plugin that adds the page "Kafka coverage" to Airflow's interface."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from airflow.plugins_manager import AirflowPlugin
from airflow.sdk import BaseOperatorLink

from airflow_provider_kafka_spark.coverage_page.static_site import StaticSite

#: Without a slash at its start, the address is relative to the API server's own path, such as ``/airflow``.
_PATH = "kafka-coverage"
#: Operators by their modules. Every process of Airflow imports its plugins, and these are not imported for it: Airflow
#: compares a task's operator by these two names only.
_OPERATORS = {
    "KafkaToKafkaBatchOperator": "batch",
    "ReplayOffsetRangesOperator": "replay",
    "KafkaToKafkaAvailableNowOperator": "available_now",
}


class CoverageLink(BaseOperatorLink):
    """The page with the ranges of a copy's DAG run. The API server makes it, so that a task stores nothing for it."""

    name = "Kafka coverage"
    operators = [  # noqa: RUF012 - as Airflow declares it
        type(name, (), {"__module__": f"airflow_provider_kafka_spark.operators.{module}"})
        for name, module in _OPERATORS.items()
    ]

    def get_link(self, operator: Any, *, ti_key: Any) -> str:  # noqa: ARG002 - Airflow's signature
        """The address under the path of Airflow's interface, which is the base of its links."""
        dag, run = (quote(part, safe="") for part in (ti_key.dag_id, ti_key.run_id))
        return f"dags/{dag}/runs/{run}/plugin/{_PATH}-run"


_APPS: list[Any] = [{"app": StaticSite(), "url_prefix": f"/{_PATH}", "name": "Kafka coverage"}]
_VIEWS: list[Any] = [
    {
        "name": "Kafka coverage",
        "href": f"{_PATH}/",
        "url_route": _PATH,
        "destination": "nav",
        "category": "browse",
    },
    {
        "name": "Kafka coverage",
        "href": f"{_PATH}/?dag_id={{DAG_ID}}&run_id={{RUN_ID}}",
        "url_route": f"{_PATH}-run",
        "destination": "dag_run",
    },
]


class CoveragePagePlugin(AirflowPlugin):
    """Which offsets were copied: in the navigation for all runs, and on the page of a DAG run for this one."""

    name = "kafka_spark_coverage"
    fastapi_apps = _APPS
    external_views = _VIEWS
    operator_extra_links = [CoverageLink()]  # noqa: RUF012 - as Airflow declares it
