"""A button on the task that leads to its Spark application."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow.sdk import BaseOperatorLink

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator
    from airflow.sdk.types import TaskInstanceKey


class SparkApplicationLink(BaseOperatorLink):
    """The Spark UI of the driver, or the application's page on YARN.

    The operator pushes it as soon as the application is up; Airflow itself would show links only when a task has ended.
    """

    name = "Spark application"

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:  # noqa: ARG002 - Airflow's signature
        """The address, or an empty text if no application was started."""
        return getattr(operator, "spark_application_url", None) or ""
