"""Every task with exactly the ACLs that docs/reference/permissions.md lists, and without each one of them.

The broker has an authorizer. The job runs in a Spark of this process, in place of ``spark-submit``; where a permission
lacks, no job is to be started at all.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import pkgutil
import re
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import py4j.java_gateway
import py4j.protocol
import pytest
from airflow.sdk import BaseOperator, BaseSensorOperator, PokeReturnValue
from airflow.sdk.exceptions import AirflowFailException

from airflow_provider_kafka_spark import operators, sensors
from airflow_provider_kafka_spark.clients.consumer_group import ConsumerGroup
from airflow_provider_kafka_spark.clients.kafka_jvm import KafkaJvm
from airflow_provider_kafka_spark.core.errors import JobReportMissingError
from airflow_provider_kafka_spark.core.offsets.offset_range import TopicPartition
from airflow_provider_kafka_spark.core.offsets.provenance import PROVENANCE_HEADER, Provenance
from airflow_provider_kafka_spark.core.wire.protocol import JobReport
from airflow_provider_kafka_spark.hooks.delegation_token import DelegationTokenHook
from airflow_provider_kafka_spark.hooks.kafka import KafkaHook
from airflow_provider_kafka_spark.hooks.spark_job import SparkJobHook
from airflow_provider_kafka_spark.operators.audit import AuditReplayOperator
from airflow_provider_kafka_spark.operators.consumer_group import TranslateGroupOffsetsOperator
from airflow_provider_kafka_spark.operators.delegation_token import (
    ExpireDelegationTokensOperator,
    RenewDelegationTokensOperator,
)
from airflow_provider_kafka_spark.sensors.delegation_token import DelegationTokenExpirySensor
from airflow_provider_kafka_spark.sensors.offsets import (
    ConsumerGroupLagSensor,
    KafkaNewRecordsSensor,
    KafkaTimestampReachedSensor,
)
from airflow_provider_kafka_spark.testing.kafka_broker import KafkaBroker, Record
from tests.acls import OPTIONAL, PREFIXED, Acl, documented, granted, needed, withdrawn
from tests.airflow_fakes import AssetStateStore, TaskStateStore, task_context
from tests.in_process_jobs import InProcessSpark, jobs_in_process
from tests.operators.copy_task import Batch, Replay, Stream
from tests.triggers.conftest import until
from tests.triggers.triggerer import Triggerer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.broker, pytest.mark.spark]

PRINCIPALS = {"source": "User:reader", "target": "User:writer", "connection": "User:watcher"}
NAMES = {
    "source": "orders",
    "target": "copy",
    "prefix": "airflow-kafka-spark-",
    "commit_group_id": "copy-of-orders",
    "group_id": "shop",
    "target_group_id": "moved-shop",
}
COPY: dict[str, Any] = {
    "task_id": "t",
    "source_conn_id": "reader",
    "target_conn_id": "writer",
    "target_topic": "copy",
    "kafka_timeout": 10,
}
#: 10 records, an aborted one, and the markers of two transactions.
RECORDS, END = 10, 13


@dataclass
class World:
    """What a task finds."""

    broker: KafkaBroker
    folder: Path
    unfinished: Path
    started: list[str]
    copied: Callable[[], dict[str, Any]] = dict
    store: TaskStateStore = field(default_factory=TaskStateStore)
    clear_number: int = 0

    def begin_anew(self) -> None:
        """As a task of another DAG run, with another checkpoint."""
        self.store, self.clear_number = TaskStateStore(), 0
        shutil.rmtree(self.folder / "checkpoint", ignore_errors=True)

    def run(self, operator: Any) -> Any:
        context = task_context(self.store, clear_number=self.clear_number)
        result = operator.execute(context)
        for callback in operator.on_success_callback:
            callback({"task": operator, **context})
        return result

    def stream(self, **parameters: Any) -> Any:
        given = {**COPY, "checkpoint_location": str(self.folder / "checkpoint"), **parameters}
        return self.run(Stream(topics=["orders"], starting_offsets="earliest", **given))


@pytest.fixture(scope="module")
def broker() -> Iterator[KafkaBroker]:
    users = {name: f"password-of-{name}" for name in ("reader", "writer", "watcher", "alice", "admin")}
    with KafkaBroker(sasl_users=users, authorizer=True, super_users=["User:admin"]) as running:
        for name in ("orders", "copy"):
            running.create_topic(name)
        running.produce_transaction("orders", [Record(b"k", b"v%d" % i) for i in range(RECORDS)])
        running.produce_transaction("orders", [Record(b"k", b"aborted")], commit=False)
        yield running


@pytest.fixture(autouse=True)
def connections(broker: KafkaBroker, connection: Callable[..., None]) -> None:
    for user in broker.sasl_users:
        connection(user, extra=broker.sasl_client_config(user))
    connection("spark_default", conn_type="spark", host="local[2]")


@contextmanager
def as_admin(broker: KafkaBroker) -> Iterator[None]:
    """All connections have a login that may do everything, inside ``with``."""
    login = json.dumps({"conn_type": "kafka", "extra": broker.sasl_client_config("admin")})
    with pytest.MonkeyPatch.context() as patch:
        for name in ("READER", "WRITER"):
            patch.setenv(f"AIRFLOW_CONN_{name}", login)
        patch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps({"conn_type": "spark", "host": "local[2]"}))
        yield


@contextmanager
def without_pyspark() -> Iterator[None]:
    """A Spark session in a process replaces the error handler of all py4j gateways, not only of its own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(py4j.java_gateway, "get_return_value", py4j.protocol.get_return_value)
        yield


@pytest.fixture(scope="module")
def alices_token(broker: KafkaBroker) -> str:
    """The id of a token that is neither the watcher's nor his to renew."""
    with pytest.MonkeyPatch.context() as patch:
        extra = broker.sasl_client_config("alice")
        patch.setenv("AIRFLOW_CONN_ALICE", json.dumps({"conn_type": "kafka", "extra": extra}))
        with without_pyspark(), DelegationTokenHook("alice") as hook:
            return hook.create().info.token_id


@pytest.fixture(scope="module")
def unfinished(broker: KafkaBroker, tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Path:
    """A checkpoint whose first batch was begun and not finished."""
    folder = tmp_path_factory.mktemp("unfinished")
    with as_admin(broker), jobs_in_process(spark):
        World(broker, folder, folder, []).stream()
    (commit,) = folder.rglob("commits/0")
    commit.unlink()
    return folder / "checkpoint"


@pytest.fixture(scope="module")
def copied(
    broker: KafkaBroker, tmp_path_factory: pytest.TempPathFactory, spark: SparkSession
) -> Callable[[], dict[str, Any]]:
    """The result of a copy to the present target, by a login that may do everything."""
    folder, results = tmp_path_factory.mktemp("copied"), dict[str, dict[str, Any]]()

    def result() -> dict[str, Any]:
        with as_admin(broker):
            with KafkaHook("writer", timeout=20) as hook:
                topic_id = hook.state(["copy"]).topic("copy").topic_id or ""
            if topic_id not in results:
                with jobs_in_process(spark):
                    results[topic_id] = batch(World(broker, folder, folder, []))
        return results[topic_id]

    return result


@pytest.fixture
def world(
    broker: KafkaBroker,
    tmp_path: Path,
    in_process_spark: InProcessSpark,
    unfinished: Path,
    copied: Callable[[], dict[str, Any]],
) -> World:
    return World(broker, tmp_path, unfinished, in_process_spark.jobs, copied)


TokenAcl = Callable[[str, str, str], AbstractContextManager[None]]


@pytest.fixture
def plain_py4j() -> Iterator[None]:
    with without_pyspark():
        yield


@pytest.fixture
def token_acl(broker: KafkaBroker) -> Iterator[TokenAcl]:
    """The watcher has an ACL on a kind of resource that librdkafka does not know, inside ``with``."""
    with KafkaJvm({"bootstrap.servers": broker.bootstrap_servers}, "the broker", timeout=20) as jvm:
        admin, common = jvm.admin(), jvm.java.org.apache.kafka.common

        @contextmanager
        def given(resource_type: str, name: str, operation: str) -> Iterator[None]:
            pattern = common.resource.ResourcePattern(
                getattr(common.resource.ResourceType, resource_type), name, common.resource.PatternType.LITERAL
            )
            may = getattr(common.acl.AclOperation, operation)
            entry = common.acl.AccessControlEntry("User:watcher", "*", may, common.acl.AclPermissionType.ALLOW)
            binding = common.acl.AclBinding(pattern, entry)

            def until(is_there: bool) -> None:
                deadline = time.monotonic() + 20
                while bool(jvm.items(jvm.get(admin.describeAcls(binding.toFilter()).values(), "listing"))) != is_there:
                    assert time.monotonic() < deadline

            jvm.get(admin.createAcls([binding]).all(), "granting")
            until(True)
            try:
                yield
            finally:
                jvm.get(admin.deleteAcls([binding.toFilter()]).all(), "revoking")
                until(False)

        yield given


def batch(w: World, **parameters: Any) -> Any:
    return w.run(Batch(**{"topics": ["orders"], **COPY, **parameters}))


def by_token(task: Callable[..., Any], w: World) -> Any:
    with without_pyspark():
        return task(w, use_delegation_token=True)


def retry(w: World, clears: int = 0) -> Any:
    """An earlier try has submitted a job, and its worker died; after a clear there is a new plan."""

    def die(*_: object) -> JobReport:
        raise JobReportMissingError("died")

    with as_admin(w.broker), pytest.MonkeyPatch.context() as patch:
        patch.setattr(SparkJobHook, "run", die)
        with pytest.raises(JobReportMissingError):
            batch(w)
    w.clear_number += clears
    return batch(w)


def unfinished_stream(w: World) -> Any:
    shutil.copytree(w.unfinished, w.folder / "checkpoint")
    return w.stream()


def audit(w: World, **parameters: Any) -> Any:
    names = ("task_id", "source_conn_id", "target_conn_id", "kafka_timeout")
    result = w.run(AuditReplayOperator(of=w.copied(), **{name: COPY[name] for name in names}, **parameters))
    assert (result["once"], len(w.started)) == (RECORDS, 1)
    return result


def poke(sensor: Any) -> Any:
    found = sensor.poke(task_context())
    assert isinstance(found, PokeReturnValue)
    return found.xcom_value


def watch(kind: type[BaseSensorOperator], **parameters: Any) -> Any:
    return poke(kind(task_id="t", source_conn_id="reader", topics=["orders"], **parameters))


def move_group(w: World) -> Any:
    """The group has consumed all of the source, whose copy is in the target."""
    header = Provenance("run", "orders", 0, RECORDS - 1, 0).format()
    w.broker.produce("copy", [Record(value=b"v", headers=((PROVENANCE_HEADER, header),))])
    with as_admin(w.broker), KafkaHook("reader", timeout=20) as hook:
        ConsumerGroup(hook, "shop").move({TopicPartition("orders", 0): END})
    parameters = {"source_conn_id": "reader", "target_conn_id": "writer", "topic_map": {"orders": "copy"}}
    operator = TranslateGroupOffsetsOperator(
        task_id="t", group_id="shop", target_group_id="moved-shop", kafka_timeout=10, **parameters
    )
    return operator.execute(task_context())  # type: ignore[arg-type]


def creation(w: World) -> Any:
    """The target does not exist, and is there again afterwards."""
    w.broker.delete_topic("copy")
    try:
        return batch(w, create_target_topics=True)
    finally:
        if "copy" not in w.broker.topics():
            w.broker.create_topic("copy")


@dataclass(frozen=True)
class Scenario:
    """A task, and what of the table of its class concerns it."""

    name: str
    kind: type[BaseOperator]
    run: Callable[[World], Any]
    whens: tuple[str, ...] = ()

    @property
    def class_name(self) -> str:
        return self.kind.__name__


_NEW = KafkaNewRecordsSensor
SCENARIOS = (
    Scenario("batch", Batch, batch),
    Scenario("batch_by_token", Batch, lambda w: by_token(batch, w)),
    Scenario("creation", Batch, creation, ("create_target_topics",)),
    Scenario("replay", Replay, lambda w: w.run(Replay(offset_ranges=[f"orders:0:0:{END}"], **COPY))),
    Scenario("retry", Batch, retry),
    Scenario("clear", Batch, lambda w: retry(w, clears=1)),
    Scenario("stream", Stream, World.stream),
    Scenario("stream_with_group", Stream, lambda w: w.stream(commit_group_id="copy-of-orders"), ("commit_group_id",)),
    Scenario("unfinished_stream", Stream, unfinished_stream),
    Scenario("audit", AuditReplayOperator, audit),
    Scenario("audit_by_token", AuditReplayOperator, lambda w: by_token(audit, w)),
    Scenario("new_records", _NEW, lambda _: watch(_NEW, since="earliest")),
    Scenario("new_records_since_group", _NEW, lambda _: watch(_NEW, since={"group_id": "shop"}), ("since a group",)),
    Scenario(
        "new_records_since_checkpoint", _NEW, lambda w: watch(_NEW, since={"checkpoint_location": str(w.unfinished)})
    ),
    Scenario(
        "timestamp_reached", KafkaTimestampReachedSensor,
        lambda _: watch(KafkaTimestampReachedSensor, timestamp=1_600_000_000_000, idle_after=1),
    ),
    Scenario(
        "group_lag", ConsumerGroupLagSensor, lambda _: watch(ConsumerGroupLagSensor, group_id="shop", max_lag=END)
    ),
    Scenario("move_group", TranslateGroupOffsetsOperator, move_group),
)  # fmt: skip


def _rows() -> Iterator[Any]:
    """Each scenario with the rows of its table that none before it has; in the long ring with all of its rows."""
    seen: set[tuple[tuple[Acl, ...], Acl]] = set()
    for scenario in SCENARIOS:
        table, acls = tuple(documented(scenario.class_name)), needed(scenario.class_name, *scenario.whens)
        new = [acl for acl in acls if (table, acl) not in seen]
        seen.update((table, acl) for acl in acls)
        name, long = scenario.name, pytest.mark.long
        yield pytest.param(scenario, new, id=name, marks=long if name in ("replay", "audit_by_token") else ())
        if new != acls:
            yield pytest.param(scenario, acls, id=f"{name}-all", marks=long)


@pytest.mark.parametrize(("scenario", "rows"), list(_rows()))
def test_exactly_these_acls_are_enough(broker: KafkaBroker, world: World, scenario: Scenario, rows: list[Acl]) -> None:
    """With no other ACL on the broker, each task does its work. Without one of them the error names its operation and
    resource, and the connection whose login needs it; Spark is not started. What can be seen may still not be read or
    written: DESCRIBE in its place is not enough.
    """
    with granted(broker, needed(scenario.class_name, *scenario.whens), PRINCIPALS, NAMES):
        for lacking in rows:
            with withdrawn(broker, lacking, PRINCIPALS, NAMES):
                _refused(world, scenario, lacking)
                if lacking.operation in ("READ", "WRITE"):
                    with granted(broker, [replace(lacking, operation="DESCRIBE")], PRINCIPALS, NAMES):
                        _refused(world, scenario, lacking)
        world.begin_anew()
        result = scenario.run(world)
    assert result
    if "To" in scenario.class_name and "Operator" in scenario.class_name:
        assert (result["records_written"], result["gaps"]) == (RECORDS, END - RECORDS)
        assert len(world.started) == 1


def _refused(world: World, scenario: Scenario, lacking: Acl) -> None:
    world.begin_anew()
    with pytest.raises(AirflowFailException) as caught:
        scenario.run(world)
    _names(caught.value, lacking)
    assert world.started == [], lacking


def _names(error: BaseException, lacking: Acl) -> None:
    user = PRINCIPALS[lacking.login].removeprefix("User:")
    assert str(error).startswith("BrokerAuthorizationError: ")
    kinds = {"TransactionalId": "the transactional ids that begin with", "Group": "the groups that begin with"}
    kind = kinds[lacking.resource_type] if lacking.resource == PREFIXED else lacking.resource_type.lower()
    assert f"needs {lacking.operation} on {kind} {NAMES[lacking.resource]!r}" in str(error)
    assert f"connection {user!r}" in str(error)


def test_a_topic_that_a_stream_may_not_see_any_more_was_not_deleted(broker: KafkaBroker, world: World) -> None:
    """Taken for deleted, it would be copied again from its beginning when it can be seen again."""
    broker.produce(broker.create_topic("orders-eu"), [Record(value=b"v")])
    stream = Stream(
        topic_pattern="orders.*",
        starting_offsets="earliest",
        checkpoint_location=str(world.folder / "checkpoint"),
        fail_on_data_loss=False,
        **COPY,
    )
    with as_admin(broker):
        assert world.run(stream)["records_written"] == RECORDS + 1
    acls = needed("KafkaToKafkaAvailableNowOperator")
    with (
        granted(broker, acls, PRINCIPALS, NAMES),
        pytest.raises(AirflowFailException, match="needs READ on topic 'orders-eu'"),
    ):
        world.run(stream)
    assert world.started == ["available_now"]


def test_what_only_spark_finds_out(broker: KafkaBroker, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A permission that is taken away while the job starts: the job's error names it too."""
    acls = needed("KafkaToKafkaBatchOperator")
    (lacking,) = (a for a in acls if (a.login, a.operation, a.resource_type) == ("target", "WRITE", "Topic"))
    real, write = SparkJobHook.run, ("User:writer", "WRITE", "topic", "copy")

    def run(*arguments: Any) -> JobReport:
        broker.remove_acl(*write)
        try:
            return real(*arguments)
        finally:
            broker.add_acl(*write)

    monkeypatch.setattr(SparkJobHook, "run", run)
    describe = replace(lacking, operation="DESCRIBE")
    with granted(broker, [*acls, describe], PRINCIPALS, NAMES), pytest.raises(AirflowFailException) as caught:
        batch(world)
    assert "The login of the target needs WRITE on topic 'copy'." in str(caught.value)
    assert world.started == ["batch"]


def test_every_task_is_in_the_document() -> None:
    """One that is added later has to say what it needs."""
    for package in (operators, sensors):
        for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
            importlib.import_module(module.name)
    ours = [kind for kind in _subclasses(BaseOperator) if kind.__module__.startswith("airflow_provider_kafka_spark.")]
    # Other tests of the process may have made subclasses of their own.
    tasks = {kind.__name__ for kind in ours if not set(kind.__subclasses__()) & set(ours)}
    assert tasks >= {scenario.class_name for scenario in SCENARIOS}
    for name in tasks:
        assert documented(name)


def _subclasses(kind: type) -> Iterator[type]:
    for below in kind.__subclasses__():
        yield below
        yield from _subclasses(below)


def test_a_topic_that_only_the_expression_knows(broker: KafkaBroker, world: World) -> None:
    """Spark cannot distinguish an unauthorized topic from a missing one; the error says both."""
    acls = [acl for acl in needed("KafkaToKafkaBatchOperator") if acl.resource != "target"]
    with (
        granted(broker, acls, PRINCIPALS, NAMES),
        pytest.raises(AirflowFailException, match=r"may not see: \['copy'\].*WRITE"),
    ):
        batch(world, target_topic=None, target_topic_expr="concat('co', 'py')")
    assert world.started == ["batch"]


def test_a_plan_needs_what_the_copy_needs(broker: KafkaBroker, world: World) -> None:
    """A plan that succeeds says that the copy may run."""
    acls = needed("KafkaToKafkaBatchOperator")
    describe = {replace(acl, operation="DESCRIBE") for acl in acls}
    with granted(broker, list(describe), PRINCIPALS, NAMES), pytest.raises(AirflowFailException, match="needs READ on"):
        batch(world, plan_only=True)
    with granted(broker, acls, PRINCIPALS, NAMES):
        assert batch(world, plan_only=True)["planned_records"] == END
    assert world.started == []


def test_optional_permissions_only_lose_a_check(
    broker: KafkaBroker, world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    """The log says for which topics, and with the permission it says nothing."""
    optional = [acl for acl in documented("KafkaToKafkaBatchOperator") if acl.when == OPTIONAL]
    with granted(broker, needed("KafkaToKafkaBatchOperator"), PRINCIPALS, NAMES):
        batch(world)
        lost = set(re.findall(r"No permission to read the configuration of topic (\w+)", capsys.readouterr().out))
        with granted(broker, optional, PRINCIPALS, NAMES):
            batch(world)
    assert lost == {NAMES[acl.resource] for acl in optional} == {"orders", "copy"}
    assert "No permission" not in capsys.readouterr().out


def test_a_watcher_says_what_it_lacks(broker: KafkaBroker, world: World, capsys: pytest.CaptureFixture[str]) -> None:
    """It has no task to fail, so it logs a warning. When it is authorized, it announces the new records."""
    (lacking,) = needed("KafkaNewRecordsTrigger")

    said: list[str] = []

    def has_said(text: str) -> bool:
        said.append(capsys.readouterr().out)
        return text in "".join(said)

    async def main() -> None:
        async with Triggerer(AssetStateStore(), topics=["orders"], source_conn_id="reader").running() as watching:
            await until(lambda: has_said("needs DESCRIBE on topic 'orders'"), "the permission's name in the log")
            assert watching.events == []
            with granted(broker, [lacking], PRINCIPALS, NAMES):
                await until(lambda: watching.events, "an event")

    asyncio.run(main())


def sensor(token_ids: list[str] | None = None) -> DelegationTokenExpirySensor:
    return DelegationTokenExpirySensor(
        task_id="t", conn_id="watcher", token_ids=token_ids, token_owner="alice", min_remaining=60, mode="valid"
    )


@pytest.mark.long
@pytest.mark.usefixtures("plain_py4j")
def test_a_sensor_for_tokens_of_others(broker: KafkaBroker, alices_token: str, token_acl: TokenAcl) -> None:
    """Only their owner, their renewers and the ACL's principal see them; the latter may not renew them all the same."""
    (acl,) = needed("DelegationTokenExpirySensor", "tokens of others")
    assert (acl.operation, acl.resource_type, acl.login) == ("DESCRIBE", "DelegationToken", "connection")
    with pytest.raises(AirflowFailException, match=rf"{alices_token}.*DESCRIBE on the token"):
        sensor([alices_token]).poke(task_context())  # type: ignore[arg-type]
    with token_acl("DELEGATION_TOKEN", alices_token, "DESCRIBE"):
        assert poke(sensor([alices_token]))["tokens"][0]["owner"] == "User:alice"
        for kind in (RenewDelegationTokensOperator, ExpireDelegationTokensOperator):
            operator = kind(task_id="t", conn_id="watcher", token_ids=[alices_token])
            with pytest.raises(
                AirflowFailException, match=r"(?s)BrokerAuthorizationError.*Only the owner and the renewers"
            ):
                operator.execute(task_context())  # type: ignore[arg-type]
    with token_acl("USER", "User:alice", "DESCRIBE_TOKENS"):
        assert poke(sensor())["tokens"][0]["token_id"] == alices_token
    assert sensor().poke(task_context()) is False  # type: ignore[arg-type]
