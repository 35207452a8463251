"""Examples that neither the demo nor ``test_dags.py`` runs, for real: ``dag.test()``, broker and Spark."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from contextlib import closing
from dataclasses import replace
from datetime import timedelta

import pytest
from confluent_kafka import Consumer, TopicPartition

from airflow_provider_kafka_spark.core.offsets.provenance import PROVENANCE_HEADER
from airflow_provider_kafka_spark.testing.airflow_home import AirflowHome
from airflow_provider_kafka_spark.testing.broker_client import Record
from airflow_provider_kafka_spark.testing.kafka_broker import KafkaBroker
from tests.copy_proof import prove_copy, provenance_of
from tests.e2e.conftest import NEW_ORDERS, produce_orders
from tests.e2e.shop import Shop
from tests.services.dag_runs import DagRuns

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.airflow, pytest.mark.long]


def test_each_expanded_replay_copies_its_own_ranges(shop: Shop, airflow_home: AirflowHome, dag_runs: DagRuns) -> None:
    left = dag_runs.run("replay_expanded", airflow_home.logs / "replay_expanded.log")

    results = [instance["xcom"]["return_value"] for _, instance in sorted(left["tasks"]["replay"].items())]
    target = shop.broker.consume("orders_replay")
    proofs = [prove_copy(result, {"orders": shop.orders}, target) for result in results]
    assert [[(str(p.source), p.expected) for p in proof] for proof in proofs] == [
        [("orders[0]", 10), ("orders[1]", 10)],
        [("orders[2]", 15)],
    ]
    assert all(p.holds for proof in proofs for p in proof)
    assert len({result["run_id"] for result in results}) == 2
    with closing(sqlite3.connect(airflow_home.database)) as database:
        stored = database.execute(
            "SELECT value FROM task_state_store WHERE key = 'kafka_spark_run' AND dag_id = 'replay_expanded'"
        ).fetchall()
    # Known by what is mapped, and not by their places.
    assert {json.loads(value)["item"] for (value,) in stored} == {
        '{"offset_ranges": ["orders:0:10:20", "orders:1:10:20"]}',
        '{"offset_ranges": ["orders:2:30:45"]}',
    }


def test_a_replay_is_audited_and_repaired(shop: Shop, airflow_home: AirflowHome, dag_runs: DagRuns) -> None:
    left = dag_runs.run("audit_replay", airflow_home.logs / "audit_replay.log")
    tasks = {name: tries["-1"]["xcom"].get("return_value") for name, tries in left["tasks"].items()}

    assert (tasks["audit"]["once"], tasks["audit"]["state"]) == (40, "complete")
    assert tasks["repair"]["records_written"] == 0
    assert tasks["audit_again"]["run_ids"] == [tasks["replay"]["run_id"], tasks["repair"]["run_id"]]


def test_what_was_planned_and_approved_is_what_is_copied(
    shop: Shop, airflow_home: AirflowHome, dag_runs: DagRuns
) -> None:
    left = dag_runs.run("plan_before_copy", airflow_home.logs / "plan_before_copy.log")

    plan, copy = (left["tasks"][task]["-1"]["xcom"]["return_value"] for task in ("plan", "copy"))
    assert plan["planned_records"] == len(shop.orders)
    assert (copy["records_read"], copy["records_written"]) == (len(shop.orders), len(shop.orders))
    proofs = prove_copy(copy, {"orders": shop.orders}, shop.broker.consume("orders_copy"))
    assert len(proofs) == 4
    assert all(p.holds for p in proofs)


def test_an_event_that_is_made_twice_copies_once(shop: Shop, airflow_home: AirflowHome, dag_runs: DagRuns) -> None:
    before, written = len(shop.broker.consume("orders_copy")), []
    for number in range(2):
        left = dag_runs.run("copy_what_arrives", airflow_home.logs / f"copy_what_arrives_{number}.log")
        written.append(left["tasks"]["copy"]["-1"]["xcom"]["return_value"]["records_written"])

    assert written == [len(shop.orders), 0]
    assert len(shop.broker.consume("orders_copy")) == before + len(shop.orders)


def test_another_cluster_gets_no_personal_data(shop: Shop, airflow_home: AirflowHome) -> None:
    """The key is hashed, so records of one customer are still of one partition; everything else stays."""
    # The last night that has ended.
    night = shop.end.replace(hour=2) - timedelta(days=1 if shop.end.hour < 2 else 0)
    day = night - timedelta(days=1)
    with KafkaBroker() as staging:
        staging.create_topic("orders", 4)
        connection = {"conn_type": "kafka", "extra": {"bootstrap.servers": staging.bootstrap_servers}}
        home = replace(airflow_home, connections={**airflow_home.connections, "kafka_staging": connection})
        with DagRuns(home) as dag_runs:
            log = airflow_home.logs / "copy_to_staging.log"
            left = dag_runs.run("copy_to_staging", log, logical_date=night.isoformat())
        records = staging.consume("orders")

    result = left["tasks"]["copy"]["-1"]["xcom"]["return_value"]
    source = shop.of_hours(day, 24)
    got = {}
    for record in records:
        origin = provenance_of(record)
        assert origin is not None
        got[origin.topic, origin.partition, origin.offset] = record
    assert result["records_written"] == len(got) == len(source) > 0
    assert got.keys() == source.keys()
    partitions: dict[bytes | None, set[int | None]] = {}
    for place, record in got.items():
        original = source[place]
        partitions.setdefault(original.key, set()).add(record.partition)
        assert record.key == hashlib.sha256(original.key or b"").hexdigest().encode()
        assert [name for name, _ in record.headers] == ["channel", PROVENANCE_HEADER]
        assert record.timestamp == original.timestamp
        if original.value is None:
            assert record.value is None
        else:
            expected = {**json.loads(original.value), "customer": "***", "city": "***"}
            assert json.loads(record.value or b"") == expected
    assert {len(numbers) for numbers in partitions.values()} == {1}


def test_dead_letters_go_back_and_are_parked_after_three_attempts(
    shop: Shop, airflow_home: AirflowHome, dag_runs: DagRuns
) -> None:
    for name in ("orders.DLT", "orders.parked"):
        shop.broker.create_topic(name)
    spring, connect = ("kafka_dlt-original-topic", b"orders_replay"), ("__connect.errors.topic", b"orders_replay")
    shop.broker.produce(
        "orders.DLT",
        [
            Record(b"spring", b"1", (("channel", b"web"), spring, ("kafka_dlt-exception-message", b"no"))),
            Record(b"connect", b"2", (connect,)),
            Record(b"plain", b"3"),
            Record(b"elsewhere", b"4", (("kafka_dlt-original-topic", b"orders_copy"),)),
            Record(b"ours", b"5", ((PROVENANCE_HEADER, b"0123456789abcdef|orders_replay|0|7|1790000000000"),)),
        ],
    )

    def redriven(number: int) -> tuple[list[Record], list[Record]]:
        left = dag_runs.run("redrive_dead_letters", airflow_home.logs / f"redrive_{number}.log")
        run_id = left["tasks"]["redrive"]["-1"]["xcom"]["return_value"]["run_id"]
        back, parked = (
            [r for r in shop.broker.consume(name) if (p := provenance_of(r)) is not None and p.run_id == run_id]
            for name in ("orders_replay", "orders.parked")
        )
        return back, parked

    back, parked = redriven(0)
    assert {r.key: dict(r.headers)["redrive-attempts"] for r in back} == dict.fromkeys(
        (b"spring", b"connect", b"ours"), b"1"
    )
    assert [name for r in back if r.key == b"spring" for name, _ in r.headers] == [
        "channel",
        "redrive-attempts",
        PROVENANCE_HEADER,
    ]
    assert {r.key for r in parked} == {b"plain", b"elsewhere"}
    for attempt in range(1, 4):
        # It fails again, as a consumer of Spring's sends it.
        newest = [r for r in back if r.key == b"spring"][-1]
        shop.broker.produce("orders.DLT", [Record(newest.key, newest.value, (*newest.headers, spring))])
        back, parked = redriven(attempt)
    assert [dict(r.headers)["redrive-attempts"] for r in back if r.key == b"spring"] == [b"1", b"2", b"3"]
    assert [dict(r.headers)["redrive-attempts"] for r in parked if r.key == b"spring"] == [b"4"]


def test_what_is_new_is_replayed_once(shop: Shop, airflow_home: AirflowHome, dag_runs: DagRuns) -> None:
    """By each of three runs, in whatever order they are dated: what the sensor finds, and nothing else, is replayed."""
    counts = []
    for number, date in enumerate([None, None, shop.end.isoformat()]):
        if number:
            produce_orders(shop)
        log = airflow_home.logs / f"replay_new_records_{number}.log"
        left = dag_runs.run("replay_new_records", log, logical_date=date)

        new, replay = (left["tasks"][task]["-1"]["xcom"] for task in ("new", "replay"))
        ends = {str(number): end for number, (_, end) in shop.broker.offsets("orders").items()}
        assert new["offsets"] == {"orders": {**ends, "topic_id": new["return_value"][0]["topic_id"]}}
        keys = ("topic", "partition", "from_offset", "until_offset", "topic_id")
        assert [{key: r[key] for key in keys} for r in replay["return_value"]["ranges"]] == new["return_value"]
        counts.append(replay["return_value"]["records_written"])
    assert counts == [len(shop.orders) - 2 * NEW_ORDERS, NEW_ORDERS, NEW_ORDERS]


def test_an_hour_is_copied_and_nothing_of_it_was_late(shop: Shop, airflow_home: AirflowHome, dag_runs: DagRuns) -> None:
    """What has come since belongs to other hours, so it is looked at and not copied."""
    hour = shop.end - timedelta(hours=5)
    log = airflow_home.logs / "reprocess_late_records.log"
    left = dag_runs.run("reprocess_late_records", log, logical_date=hour.isoformat())

    copy, grace, late = (left["tasks"][task]["-1"]["xcom"]["return_value"] for task in ("copy", "grace", "late"))
    assert copy["records_written"] == len(shop.of_hours(hour, 1)) > 0
    copied = {str(r["partition"]): r["until_offset"] for r in copy["ranges"]}
    assert all(grace["orders"][number] > end for number, end in copied.items())
    assert {str(r["partition"]): r["from_offset"] for r in late["ranges"]} == copied
    assert late["records_read"] == sum(r["until_offset"] - r["from_offset"] for r in late["ranges"]) > 0
    assert late["records_written"] == 0


def test_a_group_goes_on_at_another_cluster_where_it_stopped(shop: Shop, airflow_home: AirflowHome) -> None:
    """The first run only shows where; the second one, after the cut-over, commits it."""
    names = {"orders": "orders_v2", "payments": "payments_v2"}
    shop.broker.create_topic("payments", 2, {"cleanup.policy": "compact"})
    shop.broker.produce("payments", [Record(b"%d" % i, b"{}", partition=i % 2) for i in range(20)])
    consumed = {"orders": {number: 100 * number for number in range(4)}, "payments": {0: 10, 1: 4}}
    results = []
    with KafkaBroker() as new:
        for topic, offsets in consumed.items():
            commit(shop.broker, "billing", topic, offsets)
        extra = {"bootstrap.servers": new.bootstrap_servers}
        connections = {**airflow_home.connections, "kafka_new": {"conn_type": "kafka", "extra": extra}}
        for cut_over in ("no", "yes"):
            settings = {**airflow_home.settings, "AIRFLOW_VAR_CUT_OVER": cut_over}
            home = replace(airflow_home, connections=connections, settings=settings)
            with DagRuns(home) as dag_runs:
                left = dag_runs.run("move_to_another_cluster", airflow_home.logs / f"move_{cut_over}.log")
            results.append([left["tasks"][t]["-1"]["xcom"]["return_value"] for t in ("copy", "move_billing")])
            if cut_over == "no":
                assert [new.committed("billing", name) for name in names.values()] == [{}, {}]
                shop.broker.produce("payments", [Record(b"late", b"{}", partition=1)])
        copied = {topic: new.consume(name) for topic, name in names.items()}
        committed = {topic: new.committed("billing", name) for topic, name in names.items()}
        shop.broker.delete_topic("payments")

    (first_copy, plan), (second_copy, move) = results
    assert (plan["state"], move["state"], move["seen_again"], move["missing"]) == ("planned", "committed", 0, 0)
    assert (first_copy["records_written"], second_copy["records_written"]) == (len(shop.orders) + 20, 1)
    shapes = {w.split(": ", 1)[1] for w in first_copy["warnings"] if "was created" in w}
    assert shapes == {"4 partitions", "2 partitions, cleanup.policy=compact"}
    for topic, records in copied.items():
        for number, offset in consumed[topic].items():
            rest = [r for r in records if r.partition == number and (r.offset or 0) >= committed[topic][number]]
            origins = [origin.offset for r in rest if (origin := provenance_of(r)) is not None]
            (_, end) = shop.broker.offsets("orders")[number] if topic == "orders" else (0, 11 if number else 10)
            assert origins == list(range(offset, end))


def commit(broker: KafkaBroker, group_id: str, topic: str, offsets: dict[int, int]) -> None:
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": group_id})
    try:
        places = [TopicPartition(topic, number, offset) for number, offset in offsets.items()]
        consumer.commit(offsets=places, asynchronous=False)
    finally:
        consumer.close()
