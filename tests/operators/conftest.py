"""A Spark that is never started, and the proof that it was not; one that is there already, and a task that uses it."""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import psutil
import pytest

from airflow_provider_kafka_spark.core.wire.protocol import JobRequest
from airflow_provider_kafka_spark.toolchain.spark_home import find_spark_home
from tests.airflow_fakes import TaskStateStore, Variables, use_variables
from tests.in_process_jobs import in_process_spark as in_process_spark
from tests.operators.copy_task import NewTask as NewTask
from tests.operators.copy_task import new_task as new_task


@dataclass(frozen=True)
class RecordingSpark:
    """A Spark distribution whose ``spark-submit`` keeps the request it is given, says nothing, and ends well."""

    home: Path
    recorded: Path

    @property
    def requests(self) -> list[JobRequest]:
        """The request of each start, in order, with the logins that it refers to."""
        files = sorted(self.recorded.glob("*.json"), key=lambda file: int(file.stem))
        return [self._with_logins(JobRequest.from_json(file.read_text()), file) for file in files]

    def _with_logins(self, request: JobRequest, file: Path) -> JobRequest:
        try:
            lines = file.with_suffix(".logins").read_text().splitlines()
        except FileNotFoundError:
            return request
        secrets = dict(line.split("=", 1) for line in lines)

        def resolved(options: Mapping[str, str]) -> dict[str, str]:
            found = {name: re.fullmatch(r"\$\{file:.*:(.+)\}", value) for name, value in options.items()}
            # The escapes of a properties file, as far as logins have any.
            return {
                name: re.sub(r"\\(.)", r"\1", secrets[reference[1]].replace("\\n", "\n"))
                if (reference := found[name])
                else value
                for name, value in options.items()
                if not name.startswith("kafka.config.providers")
            }

        options = {"source_options": resolved(request.source_options), "sink_options": resolved(request.sink_options)}
        return replace(request, **options)


@pytest.fixture
def recording_spark(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> RecordingSpark:
    """``SPARK_HOME`` leads to a :class:`RecordingSpark` of the installed Spark's version."""
    home, recorded = tmp_path / "spark", tmp_path / "recorded"
    (home / "bin").mkdir(parents=True)
    recorded.mkdir()
    (home / "jars").symlink_to(find_spark_home().jars)
    submit = home / "bin" / "spark-submit"
    # The request is the last argument.
    submit.write_text(
        f'#!/bin/sh\nfor last; do :; done\nn=$(ls {recorded}/*.json 2>/dev/null | wc -l)\ncp "$last" '
        f'{recorded}/$n.json\nlogins=$(dirname "$last")/kafka-logins.properties\n[ ! -e "$logins" ] || cp "$logins" '
        f"{recorded}/$n.logins\n"
    )
    submit.chmod(0o755)
    monkeypatch.setenv("SPARK_HOME", str(home))
    return RecordingSpark(home, recorded)


def has_submitted_nothing(store: TaskStateStore) -> bool:
    """A task that was refused has stored no more than that it began."""
    return all(stored["value"].keys() == {"begun", "item"} for stored in store.values.values())


@dataclass(frozen=True)
class Traces:
    """What a task could leave: files in its temporary folder, and processes that know that folder."""

    folder: Path

    @property
    def files(self) -> list[str]:
        # Spark's own JVM keeps counters here while it runs; they are gone with it.
        return sorted(str(path.relative_to(self.folder)) for path in self.folder.rglob("*"))

    @property
    def processes(self) -> list[str]:
        found = []
        for process in psutil.process_iter(["cmdline", "status"]):
            command = json.dumps(process.info["cmdline"] or [])
            if str(self.folder) in command and process.info["status"] != psutil.STATUS_ZOMBIE:
                found.append(command)
        return found


@pytest.fixture
def traces(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Traces:
    """Temporary files of this test go to a folder that nobody else uses."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return Traces(folder)


@pytest.fixture(autouse=True)
def variables(monkeypatch: pytest.MonkeyPatch) -> Variables:
    """Airflow's variables, in which cuts between windows are kept."""
    return use_variables(monkeypatch, Variables())
