"""A copy without a worker slot: a trigger follows the job, and its end resumes the task."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from airflow.sdk.configuration import conf

from airflow_provider_kafka_spark.core.errors import OptionError
from airflow_provider_kafka_spark.triggers.spark_application import SparkApplicationTrigger

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_provider_kafka_spark.hooks.spark_job import SparkJobHook
    from airflow_provider_kafka_spark.operators.bounded_copy import BoundedCopyOperator
    from airflow_provider_kafka_spark.submission.yarn_rest import ResourceManager


def manager_for(operator: BoundedCopyOperator, spark: SparkJobHook) -> ResourceManager | None:
    """Whom the trigger asks for the end of the job; None if this worker follows it.

    :raises OptionError: if the task is to be deferred and cannot be.
    """
    wanted = operator.deferrable
    if wanted is False or (wanted is None and not conf.getboolean("operators", "default_deferrable", fallback=False)):
        return None
    hindrance = _hindrance(operator, spark)
    if hindrance is None:
        return spark.resource_manager()
    if wanted:
        raise OptionError(f"deferrable=True {hindrance}. Pass deferrable=False, or leave it out.")
    return None


def defer(operator: BoundedCopyOperator, context: Context, application_id: str, manager: ResourceManager) -> NoReturn:
    """Free the worker's slot until the application has ended; then Airflow calls ``resume``."""
    deadline, began = None, getattr(context["ti"], "start_date", None)
    if operator.execution_timeout is not None and began is not None:
        deadline = (began + operator.execution_timeout).timestamp()
    operator.log.info("A trigger waits for the end of Spark application %s; no worker slot is held.", application_id)
    trigger = SparkApplicationTrigger(application_id, manager.address, manager.auth is not None, deadline)
    operator.defer(trigger=trigger, method_name="resume")
    raise AssertionError("defer() must raise")


def _hindrance(operator: BoundedCopyOperator, spark: SparkJobHook) -> str | None:
    """Why no trigger can follow the job."""
    deployment = spark.cluster.deployment
    if deployment.driver_on_worker:
        return "needs a driver that does not end with the worker: deploy_mode='cluster' on YARN"
    if deployment.manager != "YARN":
        return "is for YARN only"
    if operator.use_delegation_token not in (None, False, "spark"):
        return "leaves nobody to renew the job's own delegation token, for which use_delegation_token asks"
    if operator.yarn_rm_auth is not None:
        return "cannot hand yarn_rm_auth to the triggerer, to which only plain values go"
    return None
