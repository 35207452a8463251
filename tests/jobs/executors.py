"""Two executors as processes of their own, on which one driver runs job after job: their start takes longer than most
jobs.

As a program, ``spark-submit executors.py PIPE``, it is that driver.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

from airflow_provider_kafka_spark.core.wire.protocol import JobReport, JobRequest
from airflow_provider_kafka_spark.core.wire.report_mac import verified
from airflow_provider_kafka_spark.testing.managed_server import ManagedServer
from tests.faults.drivers import SECONDS, spark_submit


class Executors(ManagedServer):
    """Two executors with two cores each, inside ``with``.

    :param folder: for the files of driver, executors and jobs.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._pipe = folder / "requests"

    @property
    def log(self) -> str:
        """Of the driver, with all its jobs."""
        return (self._folder / "log").read_text(errors="replace")

    def start(self) -> None:
        os.mkfifo(self._pipe, 0o600)
        self._process = spark_submit(self._folder, "local-cluster[2,2,1024]", Path(__file__), self._pipe, {})
        # Opened for reading and writing, it does not wait for a reader.
        self._requests = os.fdopen(os.open(self._pipe, os.O_RDWR), "w")

    def stop(self) -> None:
        self._requests.close()
        # All of its session.
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait(30)

    def run(self, request: JobRequest) -> JobReport:
        """Run a job to its end."""
        file = self._folder / f"{uuid4().hex}.json"
        report, done = file.with_suffix(".report"), file.with_suffix(".done")
        file.write_text(replace(request, report_uri=str(report)).to_json())
        self._requests.write(f"{file}\n")
        self._requests.flush()
        deadline = time.monotonic() + SECONDS
        while not done.exists():
            assert self._process.poll() is None, self.log[-3000:]
            assert time.monotonic() < deadline, self.log[-3000:]
            time.sleep(0.05)
        return JobReport.from_json(verified(report.read_text(), request.report_key))


def serve(pipe: Path) -> None:
    """Run the request in each file that the pipe names, until its other end is closed."""
    from pyspark.sql import SparkSession

    from airflow_provider_kafka_spark.jobs import audit, batch
    from airflow_provider_kafka_spark.jobs.driver import run_job

    spark = SparkSession.builder.getOrCreate()
    with pipe.open() as lines:
        for line in lines:
            file = Path(line.strip())
            is_audit = JobRequest.from_json(file.read_text()).audit is not None
            run_job(audit.audit if is_audit else batch.copy, [str(file)], spark)
            file.with_suffix(".done").touch()


if __name__ == "__main__":
    serve(Path(sys.argv[1]))
