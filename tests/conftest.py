"""What all tests share: an Airflow home of their own, connections, and the real broker and Spark."""

from __future__ import annotations

import json
import logging
import os
import socket
import sys
import tempfile
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings

from airflow_provider_kafka_spark.testing.short_lived_jvm import OPTIONS_VARIABLE, SHORT_LIVED

# Property tests say the same on every machine: no database of earlier failures, no time limit of an example.
settings.register_profile("same everywhere", database=None, deadline=None, max_examples=60)
settings.load_profile("same everywhere")

# Airflow reads its environment when it is first imported, which the imports of the tests do.
_HOME = tempfile.TemporaryDirectory(prefix="airflow-home-")
os.environ.update(
    AIRFLOW_HOME=_HOME.name,
    AIRFLOW__CORE__LOAD_EXAMPLES="False",
    AIRFLOW__CORE__DAGS_FOLDER=str(Path(__file__).parent.parent / "dags"),
    AIRFLOW__LOGGING__LOGGING_LEVEL="INFO",
    # Without it the first copy would store a variable, and there is no Airflow around a task.
    AIRFLOW__KAFKA_SPARK__DEPLOYMENT="tests",
    AIRFLOW__KAFKA_SPARK__STATE_KEY="the key of the tests' own state",
    **{OPTIONS_VARIABLE: " ".join(SHORT_LIVED)},
)

from airflow_provider_kafka_spark.testing.broker_process import BrokerProcess  # noqa: E402
from airflow_provider_kafka_spark.testing.kafka_broker import KafkaBroker  # noqa: E402
from airflow_provider_kafka_spark.testing.kafka_cluster import NODES, KafkaCluster  # noqa: E402
from airflow_provider_kafka_spark.testing.owned_process import OwnedProcess  # noqa: E402
from airflow_provider_kafka_spark.toolchain import jars  # noqa: E402
from tests.rings import EXPRESSIONS, LONG_RING, QUICK_RING, WHOLE_RING, has_only_slow_tests  # noqa: E402
from tests.services import kubernetes_binaries  # noqa: E402
from tests.services.kubernetes_cluster import KubernetesCluster  # noqa: E402
from tests.services.yarn_cluster import COORDINATES, YarnCluster  # noqa: E402

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytest_plugins = [
    "airflow_provider_kafka_spark.testing.pytest_plugin",
    "tests.driver_program",
    "tests.outcome",
    "tests.secured_brokers",
]

#: Services of which one must do, by their fixtures: the tests of one run in one process. Spark and the broker are not
#: among them: each process has its own, so that no process waits for another.
_SERVICES = {
    "yarn_cluster": "yarn",
    "kubernetes_cluster": "kubernetes",
    "standalone_cluster": "standalone",
    "shop": "shop",
    # Airflow is heavy enough that one of them at a time is started.
    "marked": "shop",
    "airflow_api": "the page's Airflow",
    "other_broker": "another broker",
    "secured_broker": "secured brokers",
    "misconfigured_broker": "secured brokers",
    "broker_without_tokens": "secured brokers",
}
#: When a test is begun, by its first marker of these. Kubernetes is built beside the others, so its tests come late.
_ORDER = {"kubernetes": 3, "airflow": 0, "spark": 1, "packaging": 2, "broker": 4}
_LAST = 5


def pytest_configure(config: pytest.Config) -> None:
    """Fetch the jars of brokers and of YARN and build Kubernetes, which take minutes the first time, while processes
    side by side run the other tests.
    """
    is_controller = config.getoption("numprocesses", None) and "PYTEST_XDIST_WORKER" not in os.environ
    rings = (EXPRESSIONS[WHOLE_RING], EXPRESSIONS[LONG_RING])
    if is_controller and config.getoption("markexpr") in rings and config.args == config.getini("testpaths"):
        # One fetch after the other, and those that most tests wait for first.
        fetch = (
            f"from {BrokerProcess.__module__} import BrokerProcess; BrokerProcess.jars();"
            f"from {jars.__name__} import resolve; resolve({COORDINATES!r})"
        )
        _run_beside(config, [sys.executable, "-c", fetch], "fetch")
        if kubernetes_binaries.has_go():
            _run_beside(config, ["nice", sys.executable, "-m", kubernetes_binaries.__name__], "build")


def _run_beside(config: pytest.Config, command: list[str], name: str) -> None:
    """Start a command that ends at the latest with the tests."""
    process = OwnedProcess(command, Path(_HOME.name) / f"{name}.log", name=name, cwd=Path(__file__).parents[1])
    process.start()
    config.add_cleanup(process.stop)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """The quick ring imports no file that has none of its tests."""
    if config.getoption("markexpr") != EXPRESSIONS[QUICK_RING] or collection_path.suffix != ".py":
        return None
    return has_only_slow_tests(collection_path.read_text()) or None


@pytest.hookimpl(wrapper=True)
def pytest_collect_file() -> Generator[None, list[pytest.Collector], list[pytest.Collector]]:
    """Examples in docstrings are tests in the package, not here: to look for them costs a second."""
    return [found for found in (yield) if type(found).__name__ != "DoctestModule"]


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Group modules by the service that their tests share, and begin with the groups that take longest.

    Processes side by side (``-n 2``) each take the next group; the short ones fill what is left at the end.
    """
    ranks: dict[str, int] = {}
    groups: dict[pytest.Item, str] = {}
    needed: dict[str, set[str]] = {}
    for item in items:
        needed.setdefault(item.nodeid.partition("::")[0], set()).update(getattr(item, "fixturenames", ()))
    for item in items:
        module = item.nodeid.partition("::")[0]
        group = next((group for fixture, group in _SERVICES.items() if fixture in needed[module]), module)
        item.add_marker(pytest.mark.xdist_group(group))
        rank = next((rank for name, rank in _ORDER.items() if item.get_closest_marker(name)), _LAST)
        groups[item], ranks[group] = group, min(rank, ranks.get(group, rank))
    # Of the others, triggers and the model take longest, and the core's rules are short.
    places = {group: -i if rank == _LAST else i for i, (group, rank) in enumerate(ranks.items())}
    items.sort(key=lambda item: (ranks[groups[item]], places[groups[item]]))


@pytest.fixture(autouse=True)
def _masked_for_one_test() -> Iterator[None]:
    """A secret of one test is a common word in another's fields."""
    # The process that only hands out the tests to others waits two seconds less without Airflow.
    from airflow.sdk._shared.secrets_masker import reset_secrets_masker

    yield
    reset_secrets_masker()


@pytest.fixture
def connection(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Define an Airflow connection for this test: ``connection("kafka_default", extra={...})``."""

    def define(conn_id: str, **fields: object) -> None:
        monkeypatch.setenv(f"AIRFLOW_CONN_{conn_id.upper()}", json.dumps({"conn_type": "kafka", **fields}))

    return define


@pytest.fixture
def closed_port() -> Iterator[int]:
    """A port of this machine where nobody listens, kept from being handed to anybody else."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield taken.getsockname()[1]


def _as_long_as_wanted(fixture_name: str, config: pytest.Config) -> Any:
    """The scope of a service that one module of the whole ring uses: a cluster costs something also while it idles."""
    return "module" if config.getoption("markexpr") == EXPRESSIONS[WHOLE_RING] else "session"


@pytest.fixture(scope=_as_long_as_wanted)
def yarn_cluster() -> Iterator[YarnCluster]:
    """The YARN cluster of this test session, with one node."""
    with YarnCluster() as cluster:
        yield cluster


@pytest.fixture(scope="session")
def kubernetes_cluster() -> Iterator[KubernetesCluster]:
    """The Kubernetes API of this test session, with one node."""
    with KubernetesCluster() as cluster:
        yield cluster


@pytest.fixture(scope="session")
def other_broker() -> Iterator[KafkaBroker]:
    """Another cluster than that of ``kafka_broker``, which a test may kill and start again.

    A broker that is started again waits until its earlier session has expired: 9 seconds by default.
    """
    properties = {"broker.session.timeout.ms": "3000", "broker.heartbeat.interval.ms": "500"}
    with KafkaBroker(properties=properties) as broker:
        yield broker


@pytest.fixture
def kafka(kafka_broker: KafkaBroker, connection: Callable[..., None]) -> KafkaBroker:
    """The broker, with ``kafka_default`` leading to it and ``spark_default`` to a local Spark."""
    connection("kafka_default", extra={"bootstrap.servers": kafka_broker.bootstrap_servers})
    connection("spark_default", conn_type="spark", host="local[2]")
    return kafka_broker


@pytest.fixture(scope="module")
def _running_cluster() -> Iterator[KafkaCluster]:
    with KafkaCluster() as cluster:
        yield cluster


@pytest.fixture
def kafka_cluster(_running_cluster: KafkaCluster) -> KafkaCluster:
    """Three brokers, which all run and are in sync when a test starts, whatever an earlier one did to them."""
    for node in set(NODES) - set(_running_cluster.running()):
        _running_cluster.start_node(node)
    _running_cluster.wait_until_in_sync()
    return _running_cluster


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """A local Spark of two cores with the Kafka connector, in the tests' own process: what a driver has, without the
    start of one for every test.
    """
    from pyspark.sql import SparkSession

    from airflow_provider_kafka_spark.core.spark.tuning import spark_defaults
    from airflow_provider_kafka_spark.submission.prepared_job import DEFAULT_CONF
    from airflow_provider_kafka_spark.toolchain.connector import connector_jars

    builder = SparkSession.builder.master("local[2]")
    for name, value in {**DEFAULT_CONF, **spark_defaults()}.items():
        builder = builder.config(name, value)
    builder = (
        builder.config("spark.driver.extraClassPath", ":".join(map(str, connector_jars(None))))
        .config("spark.ui.enabled", "false")
        # A copy needs no Python on the executors.
        .config("spark.pyspark.python", "/bin/false")
        .config("spark.log.level", "ERROR")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.executor.heartbeatInterval", "200ms")
    )
    # Of the JVM, not of what later tests start.
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
        session = builder.getOrCreate()
    # It says goodbye at exit, when pytest has closed what it would say it to.
    logging.getLogger("py4j").setLevel(logging.WARNING)
    with pytest.MonkeyPatch.context() as patch:
        _remember_packages(session, patch)
        yield session
    session.stop()


def _remember_packages(session: SparkSession, patch: pytest.MonkeyPatch) -> None:
    """What was a package in this JVM stays one. py4j asks for each part of each name whether it is a class, for which
    the JVM searches all jars of its class path: half of the time of a copy of a few records.
    """
    from py4j.java_gateway import JavaPackage, JVMView

    client = vars(session.sparkContext._gateway)["_gateway_client"]
    known: dict[tuple[str, str], JavaPackage] = {}

    def remember(kind: type, ask: Callable[[Any, str], Any]) -> None:
        def attribute(parent: Any, name: str) -> Any:
            place = (vars(parent).get("_fqn", ""), name)
            if vars(parent)["_gateway_client"] is not client:
                return ask(parent, name)
            found = known.get(place) or ask(parent, name)
            if isinstance(found, JavaPackage):
                known[place] = found
            return found

        patch.setattr(kind, "__getattr__", attribute)

    for kind in (JVMView, JavaPackage):
        remember(kind, kind.__getattr__)
