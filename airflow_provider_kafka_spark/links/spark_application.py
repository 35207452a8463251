"""A button on the task that leads to its Spark application."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow.sdk import BaseOperatorLink

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator
    from airflow.sdk.types import TaskInstanceKey


class SparkApplicationLink(BaseOperatorLink):
    """The page of the application on the history server or on YARN, which is there when the job has ended.

    The Spark UI of the driver ends with the job, and another job may get its port: it is in the task's log only.
    """

    name = "Spark application"

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:  # noqa: ARG002 - Airflow's signature
        """The address after the job's end, or an empty text if there is none."""
        return getattr(operator, "spark_application_url", None) or ""
