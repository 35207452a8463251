"""A button on the task that leads to its Spark application."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow.sdk import BaseOperatorLink

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator
    from airflow.sdk.types import TaskInstanceKey


class SparkApplicationLink(BaseOperatorLink):
    """The Spark UI of the driver, or the page on YARN; after the job, the page on the history server or on YARN.

    Without such a page, the link ends with the job: another job may get the driver's port. The operator pushes the
    address as soon as the application has started; Airflow calls :meth:`get_link` when the task has ended.
    """

    name = "Spark application"

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:  # noqa: ARG002 - Airflow's signature
        """The address after the job's end, or an empty text if there is none."""
        return getattr(operator, "spark_application_url", None) or ""
