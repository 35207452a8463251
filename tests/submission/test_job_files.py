"""Promises of :mod:`airflow_provider_kafka_spark.submission.job_files`: what travels with a job."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from airflow_provider_kafka_spark.core.spark.file_names import RESERVED
from airflow_provider_kafka_spark.core.wire.protocol import JobRequest
from airflow_provider_kafka_spark.submission.job_files import (
    copy_private,
    job_script,
    write_code,
    write_request,
)
from airflow_provider_kafka_spark.toolchain.temporary_folder import temporary_folder
from tests.core.job_requests import job_request

REQUEST = job_request(source_options={"kafka.sasl.jaas.config": "s3cr3t"})


def test_only_this_user_reads_the_request() -> None:
    """The folder has mode 0700 and the request 0600, whatever the umask, and the request reads back the same."""
    with temporary_folder() as folder:
        path = write_request(folder, REQUEST)

        assert (folder.stat().st_mode & 0o777, path.stat().st_mode & 0o777) == (0o700, 0o600)
        assert JobRequest.from_json(path.read_text()) == REQUEST
        # So that no file of a login can have its name.
        assert {path.name, write_code(folder).name} < RESERVED


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
        str(module.relative_to(package.parent))
        for folder in ("core", "jobs")
        for module in (package / folder).rglob("*.*")
        if module.suffix in (".py", ".java")
    }
    some = ("jobs/batch.py", "jobs/writer/RecordWriter.java", "core/streams/stream_plan.py")
    assert {f"{package.name}/{name}" for name in some} < names


def test_the_code_runs_from_the_archive_alone(tmp_path: Path) -> None:
    """A Python without this package imports every rule from the archive, and neither Airflow nor a Kafka client with
    it.
    """
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


def test_a_private_file_is_copied_with_mode_0600(tmp_path: Path) -> None:
    """Whatever the mode of the original and the umask."""
    keytab = tmp_path / "ann.keytab"
    keytab.write_bytes(b"\x05\x02secret")
    keytab.chmod(0o644)
    before = os.umask(0)
    try:
        with temporary_folder() as folder:
            copy = copy_private(str(keytab), folder)
            modes = [path.stat().st_mode & 0o777 for path in (folder, copy, write_request(folder, REQUEST))]

            assert copy.read_bytes() == b"\x05\x02secret"
            assert modes == [0o700, 0o600, 0o600]
    finally:
        os.umask(before)
