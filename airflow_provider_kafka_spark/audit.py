"""``python -m airflow_provider_kafka_spark.audit RESULT.json``: what a past copy delivered, missed and duplicated.

The same audit as :class:`~airflow_provider_kafka_spark.operators.audit.AuditReplayOperator`, from a shell.
``airflow kafka-spark audit`` is the same command.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Mapping
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

from airflow_provider_kafka_spark.command_line import Command
from airflow_provider_kafka_spark.core.errors import InvalidInputError, KafkaSparkError

COMPLETE_CODE, FINDINGS_CODE, INPUT_CODE, FAILED_CODE = 0, 1, 2, 3
DESCRIPTION = (
    "Say of each record that a past run has copied whether the target has it once, and as it was. The run is named by "
    "the result of its task: a file, or --run, for which Airflow's API is asked with a login from the environment: "
    "AIRFLOW_API_TOKEN, or AIRFLOW_API_USERNAME and AIRFLOW_API_PASSWORD. Spark runs as its connection says, by "
    "default on this machine."
)
EPILOG = (
    "Exit code: 0 if nothing is missing, duplicated or different (what aged out is reported as unknown), 1 if "
    "something is, 2 for bad input, 3 if the audit could not be made."
)


ARGUMENTS: Mapping[str, Mapping[str, Any]] = {
    "results": {
        "metavar": "RESULT.json",
        "nargs": "*",
        "help": "result of a copy, and of the replays that repaired it",
    },
    "--run": {
        "metavar": ("DAG_ID", "RUN_ID", "TASK_ID"),
        "nargs": 3,
        "action": "append",
        "default": [],
        "help": "take the result of this task; may be given several times",
    },
    "--url": {
        "metavar": "URL",
        "help": "of Airflow's API server, for --run (default: AIRFLOW_API_URL, or base_url in Airflow's section api)",
    },
    "--source-conn-id": {"metavar": "ID", "default": "kafka_default", "help": "default: kafka_default"},
    "--target-conn-id": {"metavar": "ID", "help": "default: that of the source"},
    "--spark-conn-id": {"metavar": "ID", "default": "spark_default", "help": "default: spark_default"},
    "--only-where-written": {
        "action": "store_true",
        "help": "read the target only where the run wrote; later copies of the same records are then not seen",
    },
    "--kafka-timeout": {"metavar": "SECONDS", "type": float, "default": 30.0, "help": "default: 30"},
    "--json": {"action": "store_true", "help": "print the whole result as JSON"},
}


def show(options: argparse.Namespace) -> int:
    """Audit, and print what was found.

    :param options: with the values of ``ARGUMENTS``.
    :return: the exit code.
    """
    # Connections are those of Airflow's environment and database, as for its own commands.
    os.environ.setdefault("_AIRFLOW_PROCESS_CONTEXT", "server")
    try:
        # Airflow and Spark log to the standard output, which is for the result.
        with redirect_stdout(sys.stderr):
            result = _audit(options)
    except KafkaSparkError as error:
        sys.stderr.write(f"{type(error).__name__}: {error}\n")
        return INPUT_CODE if isinstance(error, InvalidInputError) else FAILED_CODE
    from airflow_provider_kafka_spark.core.audits.audit_result import FINDINGS, summary, table

    text = json.dumps(result, indent=2) if options.json else f"{table(result)}\n{summary(result)}: {result['state']}."
    sys.stdout.write(f"{text}\n")
    return FINDINGS_CODE if result["state"] == FINDINGS else COMPLETE_CODE


def _audit(options: argparse.Namespace) -> dict[str, Any]:
    from airflow_provider_kafka_spark.core.audits.audit_result import result_of_nothing
    from airflow_provider_kafka_spark.core.audits.past_copy import parse_results
    from airflow_provider_kafka_spark.core.checks import check_connection_id, check_seconds
    from airflow_provider_kafka_spark.core.wire.job_credentials import JobCredentials
    from airflow_provider_kafka_spark.hooks.kafka import KafkaHook
    from airflow_provider_kafka_spark.hooks.spark_job import SparkJobHook
    from airflow_provider_kafka_spark.operators.audit import audit_request, planned_audit, proved_result

    past = parse_results(_results(options))
    target_conn_id = options.target_conn_id or options.source_conn_id
    for name in ("source_conn_id", "spark_conn_id"):
        check_connection_id(getattr(options, name), f"--{name.replace('_', '-')}")
    timeout = check_seconds(options.kafka_timeout, "--kafka-timeout")
    if past.is_empty:
        return result_of_nothing(past)
    spark = SparkJobHook(options.spark_conn_id, submit_options={"name": "kafka-audit"})
    spark.check()
    with KafkaHook(options.source_conn_id, timeout, waits_for_start=False) as source:
        is_same = target_conn_id == options.source_conn_id
        with source if is_same else KafkaHook(target_conn_id, timeout, waits_for_start=False) as sink:
            plan = planned_audit(past, source, sink, read_to_end=not options.only_where_written)
            deployment = spark.cluster.deployment
            logins = JobCredentials(
                source.config,
                sink.config,
                by_name=not deployment.executors_on_worker,
                folder=deployment.login_folder,
            )
            request = audit_request(plan, logins, {}, progress_seconds=5.0)
            report = spark.run(request, _write_event, logins)
            return proved_result(report, plan, source, sink)


def _results(options: argparse.Namespace) -> list[object]:
    """:raises InvalidInputError: if none is named, or one is not there."""
    if not options.results and not options.run:
        raise InvalidInputError("RESULT.json or --run must name the result of a copy; got neither.")
    found = [_read(Path(name)) for name in options.results]
    if options.run:
        from airflow_provider_kafka_spark.state.ledger_api import LedgerApi

        api = LedgerApi.from_environment(options.url)
        found += [api.result(*run) for run in options.run]
    return found


def _write_event(event: object) -> None:
    sys.stderr.write(f"{event}\n")


def _read(path: Path) -> object:
    """:raises InvalidInputError: if it is no file with JSON."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise InvalidInputError(
            f"RESULT.json must be a file with the result of a copy as JSON; reading {str(path)!r} failed: "
            f"{str(error)[:200]}."
        ) from error


COMMAND = Command("audit", DESCRIPTION, EPILOG, ARGUMENTS, show)
main, command = COMMAND.main, COMMAND.of_airflow


if __name__ == "__main__":
    sys.exit(main())
