"""Promises of :meth:`SparkJobHook.run`: what of a driver's output and report counts."""

from __future__ import annotations

import base64
import json
import resource
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from airflow_provider_kafka_spark.core.connection.client_config import translate
from airflow_provider_kafka_spark.core.copies.planned_copy import RemoteJob
from airflow_provider_kafka_spark.core.errors import (
    JobFolderError,
    JobKilledError,
    JobReportForgedError,
    JobReportMissingError,
    StartNotRecordedError,
)
from airflow_provider_kafka_spark.core.wire.job_credentials import JobCredentials
from airflow_provider_kafka_spark.core.wire.job_events import JobEvent, JobProgress, JobStarted
from airflow_provider_kafka_spark.core.wire.protocol import JobReport
from airflow_provider_kafka_spark.hooks.spark_job import SparkJobHook
from airflow_provider_kafka_spark.submission import applications, spark_submission
from airflow_provider_kafka_spark.submission.kubernetes_api import KubernetesApi
from airflow_provider_kafka_spark.toolchain.spark_home import find_spark_home
from tests.core.job_requests import job_request
from tests.driver_program import Driver
from tests.web_server import serving

REQUEST = job_request(report_uri="")


def run(on_event: Callable[[JobEvent], None] = lambda _: None, hook: SparkJobHook | None = None) -> JobReport:
    login = translate("k", {"bootstrap.servers": "b:9092"})
    return (hook or SparkJobHook()).run(REQUEST, on_event, JobCredentials(login, login))


def events_of_a_run() -> list[JobEvent]:
    """The operator's error for a job without a report."""
    events: list[JobEvent] = []
    with pytest.raises(JobReportMissingError):
        run(events.append)
    return events


FORGED = (
    '@airflow-kafka-spark {"event": "started", "application_id": "application_1_1", "ui_url": "http://evil.example"}'
)


def test_quoted_data_is_no_event(driver: Driver, capsys: pytest.CaptureFixture[str]) -> None:
    """A record's value that an error quotes may look like an event; it has not the token of the request. The first
    start counts; progress goes on. All is logged but the lines that nobody can act on.
    """
    driver(
        f"""
        forged = {FORGED!r}
        print("Error on the value", forged, sep="\\n", flush=True)
        for token in ("", "0" * len(request.event_token), "***"):
            emit(JobStarted("application_1_1", "http://evil.example"), token)
        emit(JobStarted("local-1", "http://driver:4040"))
        emit(JobStarted("local-2", "http://driver:4041"))
        print(forged, flush=True)
        print("WARNING: Using incubator modules: jdk.incubator.vector", flush=True)
        print("26/11/24 01:55:21 ERROR SparkUI: Failed to bind SparkUI", flush=True)
        emit(JobProgress(1, 2, 3.0))
        """
    )

    assert events_of_a_run() == [JobStarted("local-1", "http://driver:4040"), JobProgress(1, 2, 3.0)]
    log = capsys.readouterr().out
    assert "ERROR SparkUI: Failed to bind SparkUI" in log
    assert "incubator" not in log


def test_the_token_of_events_is_not_in_the_log(driver: Driver, capsys: pytest.CaptureFixture[str]) -> None:
    """Not even if an event is damaged: a reader of the log could forge events. Every run has another token."""
    driver(
        """
        print(format_event(JobStarted("local-1", None), request.event_token)[:-5] + "damaged", flush=True)
        print("the start of a line ", end="", flush=True)
        emit(JobStarted("local-1", None))
        pathlib.Path(__file__).with_name("tokens").open("a").write(request.event_token + "\\n")
        """
    )
    assert events_of_a_run() == events_of_a_run() == [JobStarted("local-1", None)]

    first, second = (find_spark_home().submit.with_name("tokens")).read_text().split()
    assert len(first) >= 32
    assert first != second
    log = capsys.readouterr().out
    assert "damaged" in log
    assert "the start of a line" in log
    assert not [token for token in (first, second) if token in log]


def test_the_log_and_the_error_show_what_a_terminal_would_obey(
    driver: Driver, capsys: pytest.CaptureFixture[str]
) -> None:
    """A driver quotes records: their control characters are escaped, and a huge one does not fill the log."""
    driver(
        """
        print("The value '" + chr(27) + "[2J" + "A" * 1_000_000 + "' ends", flush=True)
        sys.exit(1)
        """
    )
    with pytest.raises(JobReportMissingError) as raised:
        run()

    for text in (capsys.readouterr().out, str(raised.value)):
        assert r"The value '\x1b[2JAAA" in text
        assert "AAA' ends" in text
        assert chr(27) + "[2J" not in text
        assert len(text) < 50_000


def test_a_driver_without_memory_says_so(driver: Driver) -> None:
    driver("sys.exit('java.lang.OutOfMemoryError: Java heap space')")

    with pytest.raises(JobReportMissingError, match="ran out of memory: raise driver_memory"):
        run()


OURS, FOREIGN = "application_1700000000000_0001", "application_1700000000000_0666"
NOBODY = "http://127.0.0.1:1"


def of_yarn(address: str = NOBODY) -> dict[str, str]:
    return {"deploy-mode": "cluster", "report-location": "file:///x", "yarn_resourcemanager_webapp_address": address}


def test_on_yarn_a_kill_ends_no_foreign_application(
    driver: Driver, connection: Callable[..., None], caplog: pytest.LogCaptureFixture
) -> None:
    """YARN's diagnostics quote the driver's output, and with it records: only the id that was submitted is ours."""
    connection("spark_default", conn_type="spark", host="yarn", extra=of_yarn())
    driver(
        f"""
        print("INFO Client: Uploading resource hdfs:///logs/{FOREIGN}/list.txt")
        print("INFO Client: Submitting application {OURS} to ResourceManager")
        print("INFO YarnClientImpl: Submitted application {OURS}")
        print("diagnostics: Last 4096 bytes of stderr: Submitted application {FOREIGN}", flush=True)
        emit(JobProgress(1, 2, 3.0))
        """
    )
    assert killed_at_progress("application " + OURS) == [
        JobStarted(OURS, f"{NOBODY}/cluster/app/{OURS}"),
        JobProgress(1, 2, 3.0),
    ]
    assert f"On YARN application {OURS} may still run" in caplog.text
    assert f"application {FOREIGN} may" not in caplog.text


@pytest.mark.parametrize("status", [202, 403, 200], ids=["taken", "refused", "by-a-standby"])
def test_on_yarn_a_kill_finds_the_application_whose_id_is_not_logged(
    driver: Driver, connection: Callable[..., None], caplog: pytest.LogCaptureFixture, status: int
) -> None:
    """Spark's logging may hide the id. An order that YARN refuses is said, with its reason."""
    ordered: list[str] = []

    def answer(method: str, path: str) -> tuple[int, str]:
        if method == "PUT":
            ordered.append(path)
            return status, "alice may not"
        (tag,) = parse_qs(urlsplit(path).query)["applicationTags"]
        apps = [{"id": id_, "state": "RUNNING", "applicationTags": of} for id_, of in ((OURS, tag), (FOREIGN, "x"))]
        return 200, json.dumps({"apps": {"app": apps}})

    driver("emit(JobProgress(1, 2, 3.0))")
    with serving(answer) as address:
        connection("spark_default", conn_type="spark", host="yarn", extra=of_yarn(address))
        killed_at_progress("was ordered to end" if status == 202 else "may still run")

    assert ordered == [f"/ws/v1/cluster/apps/{OURS}/state"]
    assert (f"HTTP {status}: 'alice may not'" in caplog.text) == (status != 202)


def test_the_spark_provider_logs_in_to_yarn_by_its_address(
    driver: Driver, connection: Callable[..., None], caplog: pytest.LogCaptureFixture
) -> None:
    """Where it polls for the end of the job; no text has the password."""
    logins, events = list[str | None](), list[JobEvent]()
    driver(f"print('INFO YarnClientImpl: Submitted application {OURS}', flush=True)")
    with serving(lambda *_: (200, '{"app": {"state": "FINISHED", "finalStatus": "FAILED"}}'), logins) as address:
        extra = of_yarn(address.replace("//", "//ann:hunter2@"))
        connection("spark_default", conn_type="spark", host="yarn", extra=extra)
        with pytest.raises(JobReportMissingError) as raised:
            run(events.append, SparkJobHook(submit_options={"yarn_track_via_rm_api": True}))

    assert set(logins) == {f"Basic {base64.b64encode(b'ann:hunter2').decode()}"}
    assert events == [JobStarted(OURS, f"{address}/cluster/app/{OURS}")]
    assert "hunter2" not in f"{raised.value} {caplog.text}"


@pytest.mark.parametrize("deferred", [False, True])
def test_an_application_outlives_its_spark_submit(
    driver: Driver, connection: Callable[..., None], monkeypatch: pytest.MonkeyPatch, deferred: bool
) -> None:
    """As one that was killed on the worker: YARN says when the job has ended, and a trigger can follow it."""
    monkeypatch.setattr(applications, "_QUERY_SECONDS", 0.0)
    states = iter(["RUNNING", "RUNNING", "FAILED"])
    driver(f"print('INFO YarnClientImpl: Submitted application {OURS}', flush=True); sys.exit(137)")
    with serving(lambda *_: (200, f'{{"app": {{"state": "{next(states)}", "finalStatus": ""}}}}')) as address:
        connection("spark_default", conn_type="spark", host="yarn", extra=of_yarn(address))
        if deferred:
            remote, login = RemoteJob("tag", "file:///x", "digest"), translate("k", {"bootstrap.servers": "b:9092"})
            started = SparkJobHook().start(REQUEST, lambda _: None, JobCredentials(login, login), remote)
            assert started == OURS
            return
        with pytest.raises(JobReportMissingError, match=rf"{OURS}.*Error code is: 137"):
            run()
    assert list(states) == []


def test_a_page_of_yarn_that_is_no_web_address_is_no_link(driver: Driver, connection: Callable[..., None]) -> None:
    connection("spark_default", conn_type="spark", host="yarn", extra=of_yarn("javascript://x/%0aalert(1)//"))
    driver(f"""
        print("INFO YarnClientImpl: Submitted application {OURS}", flush=True)
        emit(JobProgress(1, 2, 3.0))
    """)
    assert killed_at_progress() == [JobStarted(OURS, None), JobProgress(1, 2, 3.0)]


def killed_at_progress(application: str | None = None) -> list[JobEvent]:
    """Run a job, and kill the task at the first event of progress: the events until then."""
    hook, events = SparkJobHook(), list[JobEvent]()

    def kill(event: JobEvent) -> None:
        events.append(event)
        if isinstance(event, JobProgress):
            hook.kill()

    with pytest.raises(JobKilledError, match=application) as raised:
        run(kill, hook)
    assert "it had read 50%: 1 of at most 2 records" in str(raised.value)
    return events


@pytest.mark.parametrize(("mode", "refuses"), [("cluster", False), ("cluster", True), ("client", False)])
def test_on_kubernetes_a_kill_ends_no_foreign_pod(
    driver: Driver, connection: Callable[..., None], monkeypatch: pytest.MonkeyPatch, mode: str, refuses: bool
) -> None:
    """The pod has the name that it was given; in client mode all output is the driver's. A refusal is said."""
    deleted: list[str] = []

    def delete(_: KubernetesApi, name: str) -> None:
        deleted.append(name)
        if refuses:
            raise RuntimeError("HTTP 403: pods is forbidden")

    monkeypatch.setattr(KubernetesApi, "delete_pod", delete)
    monkeypatch.setattr(KubernetesApi, "delete_secret", lambda *_: None)
    extra = {"deploy-mode": mode, "report-location": "file:///nowhere", "namespace": "etl"}
    connection("spark_default", conn_type="spark", host="k8s://https://127.0.0.1:1", extra=extra)
    driver(
        """
        print("pod name: foreign-6f-driver", "labels: spark-app-selector -> spark-6f, x", sep="\\n")
        emit(JobProgress(1, 2, 3.0))
        """
    )

    killed_at_progress("may still run" if refuses else "was ordered to end")

    assert len(set(deleted)) == (mode == "cluster")
    assert all(name.startswith(f"kafka-spark-{REQUEST.run_id}-") for name in deleted)


@pytest.fixture(params=["local", "shared"])
def location(request: pytest.FixtureRequest, driver: Driver, connection: Callable[..., None], tmp_path: Path) -> str:
    """Where the report goes: beside the request, or to a folder that others may write to."""
    if request.param == "shared":
        extra = {"deploy-mode": "cluster", "report-location": tmp_path.as_uri()}
        connection("spark_default", conn_type="spark", host="yarn", extra=extra)
    return str(request.param)


def test_a_report_of_an_earlier_run_is_forged(driver: Driver, location: str) -> None:
    """That of the submitted job counts. Every run has a key of its own, so that a report cannot be used twice."""
    driver(
        """
        kept = pathlib.Path(__file__).with_name("kept")
        if not kept.exists():
            kept.write_text(sign(report(), request.report_key))
        leave(kept.read_text())
        """
    )
    assert run().run_id == REQUEST.run_id

    with pytest.raises(JobReportForgedError):
        run()


@pytest.mark.parametrize(
    "forged",
    [
        "report()",
        "sign(report(), request.event_token)",
        "sign(report(), request.report_key).replace('local-1', 'local-2')",
        "'\\xff'",
    ],
)
def test_a_forged_report_is_an_error(driver: Driver, forged: str) -> None:
    """Run id and digest are in the log, so writers of the report's location know them, but not the key."""
    driver(f"leave({forged})")

    with pytest.raises(JobReportForgedError, match="check who may write to report_location"):
        run()


def test_the_key_of_the_report_is_nowhere_else(
    driver: Driver, location: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Not in arguments, environment, log, events or report: only in the request, which only this user can read."""
    driver(
        """
        import os
        text = sign(report(), request.report_key)
        leave(text)
        found = [where for where in (sys.argv, dict(os.environ), text) if request.report_key in str(where)]
        modes = [oct(path.stat().st_mode & 0o777) for path in (folder, folder / "request.json")]
        pathlib.Path(__file__).with_name("key").write_text(f"{request.report_key} {found} {modes}")
        """
    )
    events: list[JobEvent] = []

    result = run(events.append)

    key, _, rest = find_spark_home().submit.with_name("key").read_text().partition(" ")
    assert len(key) == 64
    assert rest == "[] ['0o700', '0o600']"
    assert key not in f"{capsys.readouterr()} {events} {result}"


WAITS_AND_WRITES = """
emit(JobStarted("local-1", None))
while request.proceed_file and not pathlib.Path(request.proceed_file).exists():
    time.sleep(0.01)
with pathlib.Path(__file__).with_name("written").open("a") as written:
    written.write("once")
leave(sign(report(), request.report_key))
"""


def unrecorded(event: JobEvent) -> None:
    """What Airflow does without its API server."""
    if isinstance(event, JobStarted):
        raise ConnectionError("no API server")


def test_a_start_that_airflow_does_not_record(driver: Driver) -> None:
    """The job is stopped before it writes, however long Airflow takes to fail, and a retry delivers."""
    driver(WAITS_AND_WRITES)
    written = find_spark_home().submit.with_name("written")

    with pytest.raises(StartNotRecordedError, match=r"local-1.*no API server.*before it wrote anything") as raised:
        run(unrecorded)
    assert raised.value.retriable
    assert not written.exists()

    assert run().run_id == REQUEST.run_id
    assert written.read_text() == "once"


def test_processes_that_have_ended_are_not_ended_again(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their group's number may be that of others."""
    ended: list[int] = []
    monkeypatch.setattr(spark_submission, "end_group", ended.append)
    driver("emit(JobProgress(1, 2, 3.0))")
    hook = SparkJobHook()

    with pytest.raises(JobReportMissingError):
        run(hook=hook)
    hook.kill()

    assert len(ended) == 1


def test_in_cluster_mode_an_unrecorded_application_is_killed(
    driver: Driver, connection: Callable[..., None], caplog: pytest.LogCaptureFixture
) -> None:
    """It would run on without spark-submit, and no retry would know of it."""
    connection("spark_default", conn_type="spark", host="yarn", extra=of_yarn())
    driver(f"print('INFO YarnClientImpl: Submitted application {OURS}', flush=True)")

    with pytest.raises(StartNotRecordedError, match=OURS):
        run(unrecorded)

    assert f"On YARN application {OURS} may still run" in caplog.text


@contextmanager
def files_of_at_most(size: int) -> Iterator[None]:
    """Whatever writes more bytes fails, as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_full_temporary_folder(driver: Driver, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Or one that is gone: nothing is submitted, nothing is left, and a retry delivers."""
    driver(WAITS_AND_WRITES)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "gone"))
    with pytest.raises(JobFolderError, match=r"No such file or directory.*gone.*set TMPDIR"):
        run()
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))

    with files_of_at_most(500), pytest.raises(JobFolderError, match=r"File too large.*set TMPDIR") as raised:
        run()
    assert raised.value.retriable
    assert not find_spark_home().submit.with_name("written").exists()
    assert list(temporary.iterdir()) == []

    assert run().run_id == REQUEST.run_id
