"""How each fault is made to happen, and what heals it."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import replace

from airflow_provider_kafka_spark.core.errors import (
    BrokerUnavailableError,
    DataLossError,
    JobFailedError,
    RunTakenOverError,
    SourceStalledError,
    TargetRecreatedError,
)
from airflow_provider_kafka_spark.core.runs.run_identity import owner_group, run_prefix
from airflow_provider_kafka_spark.testing.kafka_broker import KafkaBroker
from airflow_provider_kafka_spark.testing.kafka_cluster import NODES, KafkaCluster
from tests.faults.cases import Fault, Kind
from tests.faults.drivers import Driver, suspended, wait_for_copies
from tests.faults.scene import Scene, assert_failed
from tests.faults.slow_copy import END, PARTITIONS, impatient, with_options

_RETRY, _CLIENTS = "the retry", "Kafka's clients"
#: The exit code of a driver whose checkpoint is another's.
_LOST_LOCK = 75


def kill_executor(scene: Scene) -> None:
    """The same application heals it. At least once Spark runs no task again that may have killed its executor."""
    driver = scene.start()
    scene.wait_for_moment()
    driver.kill_executor()
    if not scene.case.delivery.is_exactly_once:
        assert_failed(driver.wait(), JobFailedError)
        scene.check(scene.start(), _RETRY)
    else:
        scene.check(driver, "Spark's next attempt of the task")


def killing(kill: Callable[[Driver], None]) -> Callable[[Scene], None]:
    """The retry goes on from the committed progress. What of the driver lives on until it notices is fenced."""

    def inject(scene: Scene) -> None:
        first = scene.start()
        scene.wait_for_moment()
        kill(first)
        scene.check(scene.start(), _RETRY)

    return inject


def kill_worker(scene: Scene) -> None:
    """The driver ends, the JVM first."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as worker:
        first = scene.start(replace(scene.request(), owner_pid=worker.pid))
        scene.wait_for_moment()
        worker.kill()
    second = scene.start()
    scene.check(second, _RETRY)
    # SIGTERM ended its JVM: neither the copy nor the fence by the retry did.
    assert first.exit_code() == 128 + signal.SIGTERM
    first.wait_until_gone()


def suspend_driver(scene: Scene) -> None:
    """When it wakes up it is fenced, fails by name, and writes nothing more."""
    first = scene.start()
    scene.wait_for_moment()
    first.signal(signal.SIGSTOP)
    second = scene.start()
    report = second.wait()
    first.signal(signal.SIGCONT)
    late = first.wait()
    scene.check(second, _RETRY, report)
    if scene.case.kind is Kind.STREAM and late is None:
        # It has seen first that the lock of its checkpoint is gone.
        assert first.exit_code() == _LOST_LOCK
    else:
        assert_failed(late, RunTakenOverError)


def suspend_broker(scene: Scene) -> None:
    """For less than the timeouts of clients: they wait, and go on."""
    driver = scene.start()
    scene.wait_for_moment()
    with _suspended(scene):
        time.sleep(scene.chance.uniform(1, 8))
    scene.check(driver, _CLIENTS)


def hang_broker(scene: Scene) -> None:
    """For longer. Where there is one broker, the first try fails by name; where there are three, another one leads."""
    if isinstance(scene.brokers, KafkaCluster):
        soon = {"kafka.request.timeout.ms": "2000"}
        driver = scene.start(with_options(scene.request(), soon, soon))
        scene.wait_for_moment()
        with _suspended(scene):
            report = driver.wait()
        scene.brokers.wait_until_in_sync(scene.copy.target)
        scene.check(driver, _CLIENTS, report)
        return
    first = scene.start(impatient(scene.request()))
    scene.wait_for_moment()
    with _suspended(scene):
        report = first.wait()
    # It has source and target.
    assert_failed(report, BrokerUnavailableError, SourceStalledError)
    scene.check(scene.start(), _RETRY)


def kill_broker(scene: Scene) -> None:
    """Clients connect again, or find the next leader, and the transactions go on."""
    driver = scene.start()
    scene.wait_for_moment()
    away = scene.chance.uniform(0, 3)
    if isinstance(scene.brokers, KafkaCluster):
        leader = scene.brokers.leader(scene.copy.target, 0)
        scene.brokers.kill(leader)
        time.sleep(away)
        scene.brokers.start_node(leader)
    else:
        scene.brokers.kill()
        time.sleep(away)
        scene.brokers.restart()
    scene.check(driver, _CLIENTS)


def kill_coordinator(scene: Scene) -> None:
    """Its successor knows the open transactions, and the mark of the run. It stays away until the copy has ended."""
    cluster, driver = _cluster(scene), scene.start()
    scene.wait_for_moment()
    instance = scene.copy.request.instance
    if not scene.case.delivery.is_exactly_once:
        coordinator = cluster.group_coordinator(owner_group(instance))
    else:
        coordinator = cluster.transaction_coordinator(_transactional_id(cluster, instance))
    scene.assert_unfinished()
    cluster.kill(coordinator)
    scene.check(driver, _CLIENTS)


def restart_brokers(scene: Scene) -> None:
    """As by an upgrade: each leaves in order, and the next follows when all replicas are in sync."""
    cluster, driver = _cluster(scene), scene.start()
    wait_for_copies(scene.copy.broker, scene.copy.target, 1)
    for node in scene.chance.sample(NODES, len(NODES)):
        cluster.wait_until_in_sync()
        scene.assert_unfinished()
        cluster.restart(node)
    scene.check(driver, _CLIENTS)


def move_leader(scene: Scene) -> None:
    """As by a preferred election: nothing dies."""
    cluster, driver = _cluster(scene), scene.start()
    scene.wait_for_moment()
    leader = cluster.leader(scene.copy.target, 0)
    cluster.move_leader(scene.copy.target, 0, next(node for node in NODES if node != leader))
    scene.assert_unfinished()
    scene.check(driver, _CLIENTS)


def reassign_partition(scene: Scene) -> None:
    """Its leader loses its replica to a broker that had none."""
    cluster = _cluster(scene)
    leader, follower = cluster.replicas(scene.copy.target, 0)
    (other,) = set(NODES) - {leader, follower}
    driver = scene.start()
    scene.wait_for_moment()
    cluster.reassign(scene.copy.target, 0, [other, follower])
    scene.assert_unfinished()
    scene.check(driver, _CLIENTS)


def recreate_target(scene: Scene) -> None:
    """The first try fails by name; the retry writes everything to the new topic."""
    first = scene.start(impatient(scene.request()))
    scene.wait_for_moment()
    scene.copy.broker.delete_topic(scene.copy.target)
    report = first.wait()
    scene.copy.broker.create_topic(scene.copy.target, PARTITIONS)
    assert_failed(report, TargetRecreatedError)
    scene.check(scene.start(), f"{_RETRY}, which writes everything to the new topic")


def add_partitions(scene: Scene) -> None:
    """The plan has fixed what is read; the producer learns of new partitions while it writes."""
    driver = scene.start()
    scene.wait_for_moment()
    for topic in (scene.copy.source, scene.copy.target):
        scene.copy.broker.add_partitions(topic, PARTITIONS + 1)
    scene.check(driver, "nothing to heal")


def age_out_source(scene: Scene) -> None:
    """Records that nobody can have any more are an error by name, and no retry passes over them."""
    first = scene.start()
    scene.wait_for_moment()
    scene.copy.broker.delete_records(scene.copy.source, dict.fromkeys(range(PARTITIONS), END - 1))
    reports = first.wait(), scene.start().wait()
    for report in reports:
        assert_failed(report, DataLossError)
    _, duplicated, _ = scene.copy.compare(scene.times)
    scene.copy.tell("duplicated", duplicated.total())
    scene.copy.tell("healed by", "nothing: each try fails with DataLossError")
    assert not duplicated, duplicated.most_common(3)


INJECTIONS: Mapping[Fault, Callable[[Scene], None]] = {
    Fault.EXECUTOR_KILLED: kill_executor,
    Fault.DRIVER_KILLED: killing(lambda driver: driver.signal(signal.SIGKILL)),
    Fault.JVM_KILLED: killing(Driver.kill_jvm),
    Fault.PYTHON_KILLED: killing(Driver.kill_python),
    Fault.WORKER_KILLED: kill_worker,
    Fault.DRIVER_SUSPENDED: suspend_driver,
    Fault.BROKER_SUSPENDED: suspend_broker,
    Fault.BROKER_HANGS: hang_broker,
    Fault.BROKER_KILLED: kill_broker,
    Fault.COORDINATOR_KILLED: kill_coordinator,
    Fault.ROLLING_RESTART: restart_brokers,
    Fault.LEADER_MOVED: move_leader,
    Fault.PARTITION_REASSIGNED: reassign_partition,
    Fault.TARGET_RECREATED: recreate_target,
    Fault.PARTITIONS_ADDED: add_partitions,
    Fault.SOURCE_AGED_OUT: age_out_source,
}


def _cluster(scene: Scene) -> KafkaCluster:
    assert isinstance(scene.brokers, KafkaCluster)
    return scene.brokers


def _suspended(scene: Scene) -> AbstractContextManager[None]:
    """The broker, or of three the one that leads a partition of the target."""
    if isinstance(scene.brokers, KafkaBroker):
        return suspended(scene.brokers)
    return scene.brokers.suspended(scene.brokers.leader(scene.copy.target, 0))


def _transactional_id(cluster: KafkaCluster, instance: str) -> str:
    """One of the Spark tasks, as the cluster keeps them: a key is a version of two bytes, the length of the id, and
    it.
    """
    ids = {(record.key or b"")[4:].decode() for record in cluster.consume("__transaction_state")}
    return min(found for found in ids if found.startswith(f"{run_prefix(instance)}task-"))
