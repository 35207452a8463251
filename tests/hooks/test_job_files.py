"""Promises of :mod:`airflow_provider_kafka_spark.hooks.job_files`: what travels with a job, and that nothing stays behind."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from airflow_provider_kafka_spark.core.protocol import JobRequest, Transform
from airflow_provider_kafka_spark.hooks.job_files import job_folder, job_script, write_code, write_request

REQUEST = JobRequest(
    run_id="0123456789abcdef",
    plan_digest="digest",
    ranges=(),
    spans=(),
    transform=Transform(),
    source_options={"kafka.sasl.jaas.config": "s3cr3t"},
    sink_options={},
    report_uri="report.json",
)


def test_only_this_user_reads_the_request() -> None:
    """The folder has mode 0700 and the request 0600, whatever the umask, and the request reads back the same."""
    with job_folder() as folder:
        path = write_request(folder, REQUEST)

        assert (folder.stat().st_mode & 0o777, path.stat().st_mode & 0o777) == (0o700, 0o600)
        assert JobRequest.from_json(path.read_text()) == REQUEST


def test_the_folder_is_gone_afterwards() -> None:
    """The folder goes with all that is in it, also after a failure."""
    folders = []

    def fail() -> None:
        with job_folder() as folder:
            folders.append(folder)
            write_request(folder, REQUEST)
            write_code(folder)
            raise KeyError

    with pytest.raises(KeyError):
        fail()

    assert [folder.exists() for folder in folders] == [False]


def test_a_request_is_never_written_over(tmp_path: Path) -> None:
    """A file that somebody else put in its place is not written to."""
    (tmp_path / "request.json").write_text("somebody else's")

    with pytest.raises(FileExistsError):
        write_request(tmp_path, REQUEST)


def test_only_rules_and_jobs_travel(tmp_path: Path) -> None:
    """The archive holds the package's core and jobs, whole, and nothing of Airflow's side."""
    with zipfile.ZipFile(write_code(tmp_path)) as archive:
        names = set(archive.namelist())

    package = Path(job_script("batch")).parents[1]
    assert names == {f"{package.name}/__init__.py"} | {
        f"{package.name}/{folder}/{module.name}"
        for folder in ("core", "jobs")
        for module in (package / folder).glob("*.py")
    }
    assert f"{package.name}/jobs/batch.py" in names


def test_the_code_runs_from_the_archive_alone(tmp_path: Path) -> None:
    """A Python without this package imports every rule from the archive, and neither Airflow nor a Kafka client with it."""
    archive = write_code(tmp_path)
    with zipfile.ZipFile(archive) as content:
        modules = sorted(
            n.removesuffix(".py").replace("/", ".") for n in content.namelist() if "/core/" in n and "__init__" not in n
        )
    program = (
        f"import sys, importlib; sys.path.insert(0, {str(archive)!r})\n"
        f"for name in {modules!r}: importlib.import_module(name)\n"
        "print(sorted({name.partition('.')[0] for name in sys.modules} & {'airflow', 'confluent_kafka', 'pyspark'}))"
    )

    # -S keeps site-packages, and with them the installed package, out.
    done = subprocess.run([sys.executable, "-I", "-S", "-c", program], capture_output=True, text=True, check=False)

    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, "[]", "")
    assert len(modules) > 10


def test_the_script_is_the_jobs_module() -> None:
    """What spark-submit starts exists and has a main."""
    assert "def main(" in job_script("batch").read_text()
