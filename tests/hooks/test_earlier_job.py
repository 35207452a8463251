"""Promises of :meth:`Applications.wait_for`: no second job beside one that may still run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partialmethod

import pytest

from airflow_provider_kafka_spark.core.errors import EarlierJobUnknownError, JobKilledError
from airflow_provider_kafka_spark.core.spark.driver_pod import DriverPod
from airflow_provider_kafka_spark.hooks.spark_job import SparkJobHook
from airflow_provider_kafka_spark.submission import applications
from airflow_provider_kafka_spark.submission.kubernetes_api import KubernetesApi
from tests.web_server import serving

ID = "application_1700000000000_0001"
RUNNING = (200, '{"app": {"state": "RUNNING", "finalStatus": "UNDEFINED"}}')
OUTAGE = (503, "standby")
#: As YARN 3.4 answers.
NOT_KNOWN = (
    404,
    '{"RemoteException":{"exception":"NotFoundException","message":"java.lang.Exception: app with id: '
    + ID
    + ' not found","javaClassName":"org.apache.hadoop.yarn.webapp.NotFoundException"}}',
)


def ended(state: str, final: str) -> tuple[int, str]:
    return 200, f'{{"app": {{"state": "{state}", "finalStatus": "{final}"}}}}'


@dataclass
class ResourceManager:
    """Gives its answers in order, and the last one for ever."""

    url: str = ""
    answers: list[tuple[int, str]] = field(default_factory=list)
    asked: int = 0
    killed: list[str] = field(default_factory=list)

    def answer(self, method: str, path: str) -> tuple[int, str]:
        if method == "PUT":
            self.killed.append(path)
            return 202, ""
        self.asked += 1
        return self.answers[min(self.asked, len(self.answers)) - 1]


@dataclass
class Clock:
    """Goes on only while somebody sleeps."""

    now: float = 0.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(applications, "time", clock)
    return clock


@pytest.fixture
def yarn(connection: Callable[..., None], clock: Clock) -> Iterator[ResourceManager]:
    """``spark_default`` leads to it; queries follow each other at once."""

    manager = ResourceManager()
    with serving(manager.answer) as manager.url:
        extra = {"deploy-mode": "cluster", "yarn_resourcemanager_webapp_address": manager.url}
        connection("spark_default", conn_type="spark", host="yarn", extra=extra)
        yield manager


@pytest.mark.parametrize(
    "end",
    [ended("FINISHED", "SUCCEEDED"), ended("FINISHED", "FAILED"), ended("KILLED", "KILLED"), NOT_KNOWN],
    ids=["succeeded", "failed", "killed", "not-known"],
)
def test_it_goes_on_after_the_end(yarn: ResourceManager, end: tuple[int, str]) -> None:
    yarn.answers = [RUNNING, RUNNING, end]

    SparkJobHook().applications.wait_for(ID)

    assert yarn.asked == 3


@pytest.mark.parametrize(
    "answer",
    [OUTAGE, (404, "<html>Not Found</html>"), (200, "<html>Log in</html>")],
    ids=["outage", "somebody-elses-404", "a-proxy"],
)
def test_it_does_not_go_on_without_an_answer(yarn: ResourceManager, clock: Clock, answer: tuple[int, str]) -> None:
    """After a bounded time the try fails, with what to do; a retry may find YARN well."""
    yarn.answers = [RUNNING, answer]

    with pytest.raises(EarlierJobUnknownError, match=rf"{ID}.*worker reaches.*yarn application -kill {ID}") as raised:
        SparkJobHook().applications.wait_for(ID)

    assert raised.value.retriable
    assert yarn.asked > 2
    assert clock.now == 600


def test_outages_are_waited_for(yarn: ResourceManager, clock: Clock) -> None:
    """Each is measured from the last answer; together they may last longer than one may."""
    yarn.answers = [*[OUTAGE] * 80, RUNNING] * 2 + [ended("FINISHED", "FAILED")]

    SparkJobHook().applications.wait_for(ID)

    assert yarn.asked == 163
    assert clock.now > 600


def test_a_worker_that_cannot_ask(connection: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> None:
    """It says so at once: no address will appear."""
    for variable in ("YARN_CONF_DIR", "HADOOP_CONF_DIR"):
        monkeypatch.delenv(variable, raising=False)
    connection("spark_default", conn_type="spark", host="yarn")

    words = "'yarn_resourcemanager_webapp_address' in the Extra of connection"
    with pytest.raises(EarlierJobUnknownError, match=words):
        SparkJobHook().applications.wait_for(ID)


def test_a_kill_ends_the_wait_and_the_application(
    yarn: ResourceManager, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also while YARN does not answer. Airflow kills in a signal handler, so most likely in the middle of a sleep."""
    hook = SparkJobHook()
    yarn.answers = [OUTAGE]

    def sleep(seconds: float) -> None:
        clock.now += seconds
        hook.kill()

    monkeypatch.setattr(clock, "sleep", sleep)

    with pytest.raises(JobKilledError, match=ID):
        hook.applications.wait_for(ID)

    assert yarn.asked == 1
    assert [path for path in yarn.killed if ID in path]
    # Five seconds after its signal Airflow ends the worker.
    assert clock.now < 1


POD = "spark-0123456789abcdef"


@dataclass
class Kubernetes:
    """What the API server says about the driver's pod, in this order, and the last for ever; ``tests/kubernetes`` has a
    real one.
    """

    phases: list[str | Exception | None] = field(default_factory=list)
    asked: list[tuple[str, str]] = field(default_factory=list)
    #: Applications whose Secrets were deleted.
    deleted: list[str] = field(default_factory=list)

    def driver_of(self, api: KubernetesApi, application_id: str) -> DriverPod | None:
        self.asked.append((api.access.namespace, application_id))
        phase = self.phases[min(len(self.asked), len(self.phases)) - 1]
        if isinstance(phase, Exception):
            raise phase
        return None if phase is None else DriverPod("copy", "uid", application_id, phase)


def _asked(api: KubernetesApi, client: Kubernetes, application_id: str) -> DriverPod | None:
    return client.driver_of(api, application_id)


@pytest.fixture
def kubernetes(connection: Callable[..., None], clock: Clock, monkeypatch: pytest.MonkeyPatch) -> Kubernetes:
    client = Kubernetes()
    monkeypatch.setattr(KubernetesApi, "driver_of", partialmethod(_asked, client))
    monkeypatch.setattr(
        KubernetesApi, "delete_left_secrets", lambda _, application_id: client.deleted.append(application_id)
    )
    extra = {"deploy-mode": "cluster", "namespace": "etl"}
    connection("spark_default", conn_type="spark", host="k8s://https://127.0.0.1:1", extra=extra)
    return client


@pytest.mark.parametrize("end", ["Succeeded", "Failed", None, RuntimeError("connection refused")])
def test_on_kubernetes_it_goes_on_after_the_end(
    kubernetes: Kubernetes, connection: Callable[..., None], end: str | Exception | None
) -> None:
    """Not without an answer. A driver on this machine is not waited for: in client mode it ends with its worker."""
    kubernetes.phases = ["Pending", "Running", end]
    if isinstance(end, Exception):
        with pytest.raises(EarlierJobUnknownError, match=rf"connection refused.*kubectl delete pod .*{POD}"):
            SparkJobHook().applications.wait_for(POD)
        return

    SparkJobHook().applications.wait_for(POD)

    assert (kubernetes.asked, kubernetes.deleted) == ([("etl", POD)] * 3, [POD])
    connection("spark_default", conn_type="spark", host="k8s://https://127.0.0.1:1")
    SparkJobHook().applications.wait_for(POD)
    assert len(kubernetes.asked) == 3


@pytest.mark.parametrize("master", ["local[2]", "spark://127.0.0.1:1", "k8s://https://127.0.0.1:1"])
def test_an_id_is_only_waited_for_where_it_belongs(
    yarn: ResourceManager, connection: Callable[..., None], caplog: pytest.LogCaptureFixture, master: str
) -> None:
    """A connection that leads away from YARN by now has nobody to ask; the next try does not fail at that for ever."""
    extra = {"yarn_resourcemanager_webapp_address": yarn.url}
    connection("spark_default", conn_type="spark", host=master, extra=extra)

    SparkJobHook().applications.wait_for(ID)

    assert yarn.asked == 0
    assert f"{ID} of an earlier try is on YARN" in caplog.text


@pytest.mark.parametrize("id_", ["local-1700000000000", "app-20261120090000-0001", POD, f"../{ID}", f"{ID}/state"])
def test_yarn_is_asked_about_its_own_only(yarn: ResourceManager, id_: str) -> None:
    SparkJobHook().applications.wait_for(id_)

    assert yarn.asked == 0
