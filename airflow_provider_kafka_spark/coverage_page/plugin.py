"""The plugin that adds the page "Kafka coverage" to Airflow's interface."""

from __future__ import annotations

from typing import Any

from airflow.plugins_manager import AirflowPlugin

from airflow_provider_kafka_spark.coverage_page.static_site import StaticSite

#: Without a slash at its start, the address is relative to the API server's own path, such as ``/airflow``.
_PATH = "kafka-coverage"


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
