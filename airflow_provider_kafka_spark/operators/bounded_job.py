"""The job of a batch or a replay: what earlier ones have left, and what its report proves."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from typing import Any

from airflow_provider_kafka_spark.clients.run_mark import judge_run, remove_progress, run_mark
from airflow_provider_kafka_spark.core.copies.planned_copy import PlannedCopy, RemoteJob
from airflow_provider_kafka_spark.core.errors import (
    BrokerError,
    DeliveryError,
    JobReportMissingError,
    KafkaSparkError,
)
from airflow_provider_kafka_spark.core.topics.broker_state import TopicState
from airflow_provider_kafka_spark.core.wire.job_events import JobEvent
from airflow_provider_kafka_spark.core.wire.protocol import JobReport
from airflow_provider_kafka_spark.operators.deferral import report_of_ended
from airflow_provider_kafka_spark.operators.proof import LOST_STATE, proved_result, recreated_target
from airflow_provider_kafka_spark.operators.task_try import TaskTry
from airflow_provider_kafka_spark.state.run_state import RunState, RunStateStore
from airflow_provider_kafka_spark.submission.progress_file import followed_progress


def known_number(task_try: TaskTry, store: RunStateStore, state: RunState, planned: PlannedCopy) -> int:
    """The number of the run's latest submission, by the mark at the target's brokers; 0 without one.

    :raises JobReportMissingError: if the task's state is older than that submission, which is stored before the job can
        begin. A retry has lost it.
    """
    mark = run_mark(task_try.sink, planned.instance, planned.transform.targets)
    if mark is not None and mark.run_id == state.run_id and mark.number > state.submission and not state.adopts_run:
        store.forget()
        raise JobReportMissingError(
            f"Airflow must have the state of this run's latest submission, number {mark.number}; it has that of "
            f"number {state.submission}. Somebody has written an older one by Airflow's API, an earlier try has "
            "woken up, or the database was restored. It is forgotten: a retry asks the target what was delivered."
        )
    return 0 if mark is None else mark.number


def report_of_earlier(
    task_try: TaskTry,
    state: RunState,
    planned: PlannedCopy,
    on_event: Callable[[JobEvent], None],
    *,
    is_own: bool,
) -> JobReport | None:
    """Wait for the end of a job that was submitted before, if one runs.

    :param on_event: called for each progress meanwhile.
    :param is_own: a trigger has followed it for this try.
    :return: its report, if nobody has read it and it answers what this try would ask; otherwise None.
    :raises KafkaSparkError: of this try's own job: why it proves nothing.
    """
    remote, application_id = state.remote, state.application_id
    if remote is not None and application_id is None:
        application_id = task_try.spark.applications.find(remote.tag)
    if application_id is not None:
        with nullcontext() if remote is None else followed_progress(remote.report_uri, on_event):
            task_try.spark.applications.wait_for(application_id)
    if remote is None:
        return None
    # A storage or a broker that does not answer is no answer: another try asks again.
    found = report_of_ended(task_try, remote)
    now = {} if isinstance(found, KafkaSparkError) else task_try.sink.state(found.target_topics).topics
    report = found if isinstance(found, KafkaSparkError) else _judged(found, remote, planned, now)
    if isinstance(report, KafkaSparkError):
        task_try.spark.remove_report(remote)
        if is_own:
            raise report
        task_try.log.warning("The job of an earlier try proves nothing: %s", report)
        return None
    task_try.log.info("Application %s has delivered everything; no other one is started.", report.application_id)
    return report


def _judged(
    report: JobReport, remote: RemoteJob, planned: PlannedCopy, now: Mapping[str, TopicState]
) -> JobReport | KafkaSparkError:
    """The report, or why it does not count for this plan.

    :param now: the targets, as far as they exist.
    """
    if remote.digest != planned.digest:
        return DeliveryError(
            f"The report must be of the copy that is planned now; application {report.application_id} was asked "
            "for another one. A retry looks at what it has delivered."
        )
    return recreated_target(report, now) or report


def collected(
    task_try: TaskTry, store: RunStateStore, submitted: RunState, planned: PlannedCopy, report: JobReport
) -> dict[str, Any]:
    """The result of a report that proves the delivery.

    :raises BrokerError: if nobody can tell; a retry finds everything as the job has left it.
    :raises KafkaSparkError: if it does not; the next try then looks at the target itself.
    """
    of_run = (planned.instance, submitted.submission, report.run_id, report.target_topics)
    try:
        result = proved_result(task_try.source, planned, report, allow_duplicates=task_try.worker.allow_duplicates)
    except BrokerError:
        # No answer is no verdict.
        raise
    except KafkaSparkError:
        store.distrusted(submitted)
        if submitted.remote is not None:
            task_try.spark.remove_report(submitted.remote)
        judge_run(task_try.sink, *of_run, proved=False)
        raise
    store.finished(submitted, result, report)
    if submitted.remote is not None:
        task_try.spark.remove_report(submitted.remote)
    judge_run(task_try.sink, *of_run, proved=True, leaves=report.leaves_mark)
    remove_progress(task_try.sink, report.progress_groups)
    return result


def announce_retry(task_try: TaskTry, state: RunState, planned: PlannedCopy) -> None:
    """Log what becomes of that which earlier tries have delivered, if there were any."""
    if not state.has_submitted:
        return
    parameters = planned.parameters
    if state.is_lost:
        task_try.log.warning("%s", LOST_STATE)
    elif state.adopts_run:
        task_try.log.info(
            "This map index is new in a DAG run that was cleared: if its item had another index before, that run is "
            "continued."
        )
    elif planned.earlier is not None:
        task_try.log.info("The target is searched for what this task has delivered before.")
    elif parameters.is_exactly_once:
        task_try.log.info(
            "An earlier try of this run may have written records: this one resumes from its committed progress."
        )
    elif parameters.transform.provenance.in_headers:
        task_try.log.info(
            "An earlier try of this run may have delivered records: the target is searched for them first."
        )
    else:
        task_try.log.warning(
            "An earlier try of this run may have delivered records, and without provenance headers there is no way to "
            "find which: they are written again."
        )
