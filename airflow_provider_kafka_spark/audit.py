"""``python -m airflow_provider_kafka_spark.audit RESULT.json``: what a past copy delivered, missed and doubled.

The same audit as :class:`~airflow_provider_kafka_spark.operators.audit.AuditReplayOperator`, from a shell.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from airflow_provider_kafka_spark.core.errors import InvalidInputError, KafkaSparkError

COMPLETE_CODE, FINDINGS_CODE, INPUT_CODE, FAILED_CODE = 0, 1, 2, 3
_EPILOG = (
    "Exit code: 0 if nothing is missing, doubled or different (what aged out is reported as unknown), 1 if something "
    "is, 2 for bad input, 3 if the audit could not be made."
)


def main(argv: Sequence[str] | None = None) -> int:
    """Audit the results in the files that are named, and print a table or JSON.

    :return: the exit code.
    """
    options = _parse(argv)
    # Connections are those of Airflow's environment and database, as for its own commands.
    os.environ.setdefault("_AIRFLOW_PROCESS_CONTEXT", "server")
    try:
        with _output_on_stderr():
            result = _audit(options)
    except KafkaSparkError as error:
        sys.stderr.write(f"{type(error).__name__}: {error}\n")
        return INPUT_CODE if isinstance(error, InvalidInputError) else FAILED_CODE
    from airflow_provider_kafka_spark.core.audit_result import FINDINGS, summary, table

    text = json.dumps(result, indent=2) if options.json else f"{table(result)}\n{summary(result)}: {result['state']}."
    sys.stdout.write(f"{text}\n")
    return FINDINGS_CODE if result["state"] == FINDINGS else COMPLETE_CODE


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m airflow_provider_kafka_spark.audit",
        description="Say of each record that a past run has copied whether the target has it once, and as it was.",
        epilog=_EPILOG,
    )
    parser.add_argument(
        "results", metavar="RESULT.json", nargs="+", help="result of a copy, and of the replays that repaired it"
    )
    parser.add_argument("--source-conn-id", default="kafka_default", metavar="ID", help="default: kafka_default")
    parser.add_argument("--target-conn-id", default=None, metavar="ID", help="default: that of the source")
    parser.add_argument("--spark-conn-id", default="spark_default", metavar="ID", help="default: spark_default")
    parser.add_argument(
        "--only-where-written",
        action="store_true",
        help="read the target only where the run wrote; later copies of the same records are then not seen",
    )
    parser.add_argument("--kafka-timeout", type=float, default=30.0, metavar="SECONDS", help="default: 30")
    parser.add_argument("--json", action="store_true", help="print the whole result as JSON")
    return parser.parse_args(argv)


@contextmanager
def _output_on_stderr() -> Iterator[None]:
    """Airflow and Spark log to the standard output, which is for the result."""
    from contextlib import redirect_stdout

    with redirect_stdout(sys.stderr):
        yield


def _audit(options: argparse.Namespace) -> dict[str, Any]:
    from airflow_provider_kafka_spark.core.audit_result import result_of_nothing
    from airflow_provider_kafka_spark.core.handoff.job_credentials import JobCredentials
    from airflow_provider_kafka_spark.core.parameters import check_connection_id, check_seconds
    from airflow_provider_kafka_spark.core.past_copy import parse_results
    from airflow_provider_kafka_spark.hooks.kafka import KafkaHook
    from airflow_provider_kafka_spark.hooks.spark_job import SparkJobHook
    from airflow_provider_kafka_spark.operators.audit import audit_request, planned_audit, proved_result

    past = parse_results([_read(Path(name)) for name in options.results])
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
            report = spark.run(request, "audit", _write_event, logins)
            return proved_result(report, plan, source, sink)


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


if __name__ == "__main__":
    sys.exit(main())
