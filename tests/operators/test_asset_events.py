"""Promises of ``operators.asset_events``, on Airflow's own accessors of events, and of ``operators.lineage``: what
Airflow and OpenLineage are told of a copy.
"""

from __future__ import annotations

import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.providers.common.compat.openlineage.facet import OutputStatisticsOutputDatasetFacet
from airflow.sdk import DAG, Asset, AssetAlias
from airflow.sdk.exceptions import ErrorType

from airflow_provider_kafka_spark.core.conditions.watch import announced_ranges
from airflow_provider_kafka_spark.core.errors import InvalidInputError, OptionError
from airflow_provider_kafka_spark.coverage import uncovered
from airflow_provider_kafka_spark.operators.asset_events import (
    COPIES,
    announce,
    outlets_with_ledger,
    record_without_records,
)
from airflow_provider_kafka_spark.operators.lineage import check_transport, lineage_of
from airflow_provider_kafka_spark.operators.replay import ReplayOffsetRangesOperator
from tests.airflow_fakes import TaskInstance, task_context
from tests.core.ledger.test_coverage import entry

EU, US = (
    {"topic": "eu", "partition": 0, "from_offset": 0, "until_offset": 60},
    {"topic": "us", "partition": 0, "from_offset": 7, "until_offset": 44},
)
SERVER = "broker-1:9092"
ENTRY = entry(
    "51cde4972c7656f2",
    "orders:0:100:200",
    target=SERVER,
    target_topics=["eu", "us"],
    target_topic_ids={"eu": "id-7", "us": "id-8"},
    target_ranges=[EU, US],
    segments=[{"target_topic": "eu"}, {"target_topic": "us"}],
)
IN_EU, IN_US = Asset(f"kafka://{SERVER}/eu"), Asset(f"kafka://{SERVER}/us")
OF_EU, OF_US = (
    {
        **ENTRY,
        "target_topics": [name],
        "target_topic_ids": {name: topic_id},
        "target_ranges": [place],
        "segments": [{"target_topic": name}],
    }
    for name, topic_id, place in (("eu", "id-7", EU), ("us", "id-8", US))
)


def events(context: dict[str, Any], task: Any) -> dict[str, Any]:
    """The extra of each event that Airflow makes at the end of a task, by the name of its asset."""
    made = context["outlet_events"]
    return {asset.name: made[asset].extra for asset in task.outlets if isinstance(asset, Asset)}


def announced(*outlets: object, entry: dict[str, Any] = ENTRY, assets: tuple[Asset, ...] = ()) -> tuple[Any, Any]:
    """What a task with these outlets announces, where Airflow knows some assets."""
    context, task = task_context(assets=assets), SimpleNamespace(outlets=list(outlets))
    announce(context, task, entry)  # type: ignore[arg-type]
    return context, task


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (None, [COPIES]),
        ([], []),
        (Asset("copied"), [Asset("copied"), COPIES]),
        ([Asset("copied"), "text"], [Asset("copied"), "text", COPIES]),
        ([COPIES, AssetAlias("mine")], [COPIES, AssetAlias("mine")]),
        ([AssetAlias("mine")], [AssetAlias("mine"), COPIES]),
    ],
)
def test_every_copy_is_in_the_ledger_unless_its_author_wants_no_events(given: object, expected: list[object]) -> None:
    assert outlets_with_ledger(given) == expected


@pytest.mark.parametrize(("given", "expected"), [({}, [COPIES]), ({"outlets": [IN_EU]}, [IN_EU, COPIES])])
@pytest.mark.parametrize("by_default", [True, False])
def test_a_mapped_copy_has_it_before_there_is_an_operator(
    given: dict[str, Any], expected: list[object], by_default: bool
) -> None:
    """What a DAG declares when it is parsed is what Airflow makes, and looks at before each instance."""
    defaults, own = (given, {}) if by_default else ({}, given)
    with DAG("mapped", schedule=None, default_args=defaults):
        mapped = ReplayOffsetRangesOperator.partial(task_id="replay", target_topic="copy", **own).expand(
            offset_ranges=[["a:0:0:1"]]
        )

    assert mapped.outlets == expected


@pytest.mark.parametrize(
    ("outlets", "known", "expected"),
    [
        # An outlet may be any object of lineage; after the delivery none may fail the task.
        pytest.param(
            ["text", 7, Asset("copied"), Asset.ref(name="unknown"), COPIES], [],
            {"copied": ENTRY, COPIES.name: ENTRY}, id="others-are-skipped",
        ),
        # Whatever name an author has given to it. DAGs wait for no others.
        pytest.param(
            [COPIES], [Asset("of the us", uri=IN_US.uri), Asset("other")],
            {COPIES.name: ENTRY, "of the us": OF_US}, id="a-topic-that-airflow-knows",
        ),
        pytest.param(
            [IN_EU, COPIES], [IN_EU, IN_US],
            {IN_EU.name: OF_EU, COPIES.name: ENTRY, IN_US.name: OF_US}, id="no-second-one-of-an-outlet",
        ),
        pytest.param([], [IN_EU], {}, id="none-are-wanted"),
    ],
)  # fmt: skip
def test_each_asset_gets_one_event(outlets: list[object], known: list[Asset], expected: dict[str, Any]) -> None:
    context, task = announced(*outlets, assets=tuple(known))

    assert events(context, task) == expected
    assert sum(isinstance(outlet, Asset) for outlet in task.outlets) == len(expected)


def test_an_alias_of_the_author_stands_for_each_target_topic_and_nothing_is_announced_twice() -> None:
    alias = AssetAlias("mine")

    context, task = announced(alias, IN_US, COPIES, assets=(IN_EU, IN_US))

    assert task.outlets == [alias, IN_US, COPIES]
    assert events(context, task) == {IN_US.name: OF_US, COPIES.name: ENTRY}
    made = context["outlet_events"][alias].asset_alias_events
    assert [(e.dest_asset_key.uri, e.extra) for e in made] == [(IN_EU.uri, OF_EU)]


def test_each_topic_of_a_map_has_its_own_sources() -> None:
    """The events of all topics together are as long as the entry, and not as its square."""
    sources = {"eu": "a", "us": "b"}
    mapped = entry(
        "1" * 16,
        "a:0:0:5",
        "b:0:0:9",
        target=SERVER,
        target_topics=["eu", "us"],
        target_ranges=[EU, US],
        topic_map={"a": "eu", "b": "us"},
        source_topic_ids={"a": "id of a", "b": "id of b"},
        missing_ranges=["b:1:0:3"],
    )

    found = events(*announced(COPIES, entry=mapped, assets=(IN_EU, IN_US)))

    assert found[COPIES.name] == mapped
    for name, until, asset, missing in (("eu", 5, IN_EU, []), ("us", 9, IN_US, ["b:1:0:3"])):
        source, own = sources[name], found[asset.name]
        assert own["topic_map"] == {source: name}
        assert own["offset_ranges"] == [f"{source}:0:0:{until}"]
        assert own["source_topic_ids"] == {source: f"id of {source}"}
        assert own["missing_ranges"] == missing


def test_of_many_targets_by_an_expression_only_the_ledger_has_the_offsets_of_the_source() -> None:
    """Nobody knows which of them went where: a thousand topics would repeat all of them a thousand times."""
    names = ["eu", *(f"more-{i}" for i in range(10))]
    many = {**ENTRY, "target_topics": names, "target_topic_ids": {name: f"id of {name}" for name in names}}

    found = events(*announced(COPIES, entry=many, assets=(IN_EU,)))

    own = found[IN_EU.name]
    assert (own["offset_ranges"], own["missing_ranges"], own["source_topic_ids"]) == ([], [], {})
    assert (own["sources_in"], own["target_topic_ids"]) == (COPIES.name, {"eu": "id of eu"})
    assert announced_ranges([own]) == [EU]
    assert found[COPIES.name] == many
    assert uncovered([found[COPIES.name]], "orders", target_topic="eu", window=["orders:0:100:200"]) == []
    with pytest.raises(InvalidInputError, match=r"inlet_events\[COPIES\]; got one of the topic \['eu'\]"):
        uncovered([own], "orders", window=["orders:0:100:200"])


def test_a_connection_that_is_gone_by_then_fails_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """The records are delivered, and the other outlets get their events."""
    gone, alias = {**ENTRY, "target": ""}, AssetAlias("mine")

    context, task = announced(alias, Asset("copied"), COPIES, entry=gone, assets=(IN_EU,))

    assert events(context, task) == {"copied": gone, COPIES.name: gone}
    assert context["outlet_events"][alias].asset_alias_events == []
    assert "the target's connection is gone" in caplog.text


def test_an_api_that_does_not_answer_fails_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """Each question waits for a while, so there is one only."""
    context, task = task_context(assets=[IN_US]), SimpleNamespace(outlets=[COPIES])
    context["outlet_events"].error = ErrorType.API_SERVER_ERROR

    announce(context, task, ENTRY)  # type: ignore[arg-type]

    assert events(context, task) == {COPIES.name: ENTRY}
    assert f"Airflow could not be asked for {IN_EU.uri}" in caplog.text


def test_a_function_has_the_entries_of_all_operators_that_it_calls() -> None:
    """Airflow makes one event of each asset among the function's own outlets."""
    function = SimpleNamespace(outlets=[COPIES])
    ti = TaskInstance()
    ti.task = function  # type: ignore[attr-defined]
    context, second = task_context(ti=ti, assets=[IN_EU]), {**ENTRY, "run_id": "2" * 16}

    for made in (ENTRY, second):
        announce(context, SimpleNamespace(outlets=[COPIES]), made)  # type: ignore[arg-type]

    found = events(context, function)
    assert found[COPIES.name] == {**ENTRY, "more": [second]}
    again = {**OF_EU, "run_id": "2" * 16}
    assert found[IN_EU.name] == {**OF_EU, "more": [again]}
    assert announced_ranges([found[IN_EU.name]]) == [EU]
    assert uncovered([found[COPIES.name]], "orders", target_topic="eu", window=["orders:0:90:210"]) == [
        {"topic": "orders", "partition": 0, "from_offset": 90, "until_offset": 100, "topic_id": "id-1"},
        {"topic": "orders", "partition": 0, "from_offset": 200, "until_offset": 210, "topic_id": "id-1"},
    ]


def test_what_no_task_has_announced_is_not_covered() -> None:
    """Who may write asset events through Airflow's API decides nothing about what was copied."""
    whole = [{"topic": "orders", "partition": 0, "from_offset": 100, "until_offset": 200}]
    by_api, nobody = {**ENTRY, "from_rest_api": True}, SimpleNamespace(extra=ENTRY, source_task_id=None)
    by_task = SimpleNamespace(extra=ENTRY, source_task_id="copy")

    assert uncovered([by_api, nobody], "orders", window=whole) == whole
    assert uncovered([by_api, nobody, by_task], "orders", target_topic="eu", window=whole) == []


def test_what_is_missing_is_said_of_one_pair_of_topics(caplog: pytest.LogCaptureFixture) -> None:
    """A topic that no event names is an error, and not complete. In a new target, all of a window is missing."""
    other = {**ENTRY, "target_topics": ["us"], "offset_ranges": ["orders:0:150:200"]}
    whole = {"window": ["orders:0:100:200"]}

    assert uncovered([other, OF_EU], "orders", target_topic="eu", **whole) == []
    (missing,) = uncovered([other, OF_EU], "orders", target_topic="us", **whole)
    assert (missing["from_offset"], missing["until_offset"]) == (100, 150)
    (missing,) = uncovered([other, OF_EU], "orders", target_topic="new", **whole)
    assert (missing["from_offset"], missing["until_offset"]) == (100, 200)
    assert "No event has a copy of orders to new: all of the window is missing there." in caplog.text
    for arguments, said in (
        ({"topic": "orders"}, "target_topic must be given where copies of 'orders' are several pairs"),
        ({"topic": "orders", "target_topic": "use"}, "eu, us; got 'use'. Did you mean 'us'"),
        ({"topic": "ordres"}, "topic must be one that a recorded copy has read: orders; got 'ordres'"),
    ):
        with pytest.raises(InvalidInputError, match=said):
            uncovered([other, OF_EU], **arguments)
    with pytest.raises(InvalidInputError, match="has read: none"):
        uncovered([], "orders")


def test_a_function_without_the_ledger_announces_nothing() -> None:
    function, ti = SimpleNamespace(outlets=[IN_US]), TaskInstance()
    ti.task = function  # type: ignore[attr-defined]
    context = task_context(ti=ti, assets=[IN_EU])

    announce(context, SimpleNamespace(outlets=[COPIES]), ENTRY)  # type: ignore[arg-type]

    assert events(context, function) == {IN_US.name: {}}


def test_what_was_read_without_a_record_to_write_is_in_the_ledger_and_triggers_nothing() -> None:
    context = task_context(assets=[IN_EU])

    assert record_without_records(context, [IN_EU, COPIES], ENTRY) == [COPIES]  # type: ignore[arg-type]

    assert list(context["outlet_events"]) == [COPIES]
    assert context["outlet_events"][COPIES].extra == ENTRY
    assert record_without_records(context, [IN_EU], ENTRY) == []  # type: ignore[arg-type]


LINEAGE_ENTRY: dict[str, Any] = {
    "version": 1,
    "state": "complete",
    "run_id": "51cde4972c7656f2",
    "offset_ranges": ["orders:0:100:200", "orders:1:0:5", "returns:0:0:1"],
    "records_written": 97,
    "target_topics": ["orders_copy"],
    "target_ranges": [{"topic": "orders_copy", "partition": 0, "from_offset": 0, "until_offset": 98}],
    "source": "broker-1:9092",
    "target": "broker-2:9092",
}


def subset(condition: Any) -> list[tuple[str, dict[str, int]]]:
    assert condition.type == "partition"
    return [(p.identifier, p.dimensions) for p in condition.partitions]


def test_topics_ranges_and_records() -> None:
    lineage = lineage_of(LINEAGE_ENTRY)
    assert lineage is not None
    assert [(d.namespace, d.name) for d in lineage.inputs] == [
        ("kafka://broker-1:9092", "orders"),
        ("kafka://broker-1:9092", "returns"),
    ]
    assert subset(lineage.inputs[0].inputFacets["subset"].inputCondition) == [
        ("orders:0:100:200", {"partition": 0, "from_offset": 100, "until_offset": 200}),
        ("orders:1:0:5", {"partition": 1, "from_offset": 0, "until_offset": 5}),
    ]
    (output,) = lineage.outputs
    assert (output.namespace, output.name) == ("kafka://broker-2:9092", "orders_copy")
    assert output.outputFacets["outputStatistics"] == OutputStatisticsOutputDatasetFacet(rowCount=97)
    assert [text for text, _ in subset(output.outputFacets["subset"].outputCondition)] == ["orders_copy:0:0:98"]


def test_a_failed_run_has_what_it_has_committed_and_no_count() -> None:
    lineage = lineage_of(
        {**LINEAGE_ENTRY, "state": "partial", "offset_ranges": ["orders:0:100:150"], "target_ranges": []}
        | {"planned_ranges": ["orders:0:100:200", "returns:0:0:1"], "records_written": 0}
    )
    assert lineage is not None
    assert [subset(d.inputFacets["subset"].inputCondition) for d in lineage.inputs] == [
        [("orders:0:100:150", {"partition": 0, "from_offset": 100, "until_offset": 150})],
        [],
    ]
    assert lineage.outputs[0].outputFacets == {}


def test_the_provider_finds_it_at_the_operator() -> None:
    from airflow.providers.openlineage.extractors.base import DefaultExtractor

    operator = ReplayOffsetRangesOperator(task_id="replay", offset_ranges=["orders:0:100:200"], target_topic="copy")
    extractor = DefaultExtractor(operator)
    assert extractor.extract() is None
    operator._note_lineage(LINEAGE_ENTRY)  # noqa: SLF001 - what a run does
    for found in (extractor.extract_on_complete(None), extractor.extract_on_failure(None)):
        assert found is not None
        assert [d.name for d in found.outputs] == ["orders_copy"]


@pytest.mark.parametrize("name", ["auth.apiKey", "auth.type", "headers.X-Token", "transports.main.auth.apiKey"])
def test_a_transport_with_a_login_is_refused(name: str) -> None:
    given = {"spark.openlineage.transport.auth.apiKey": "the author's own"}
    harmless = {"spark.openlineage.transport.type": "http", "spark.openlineage.transport.url": "http://lineage:5000"}
    check_transport(given, {**given, **harmless})
    with pytest.raises(OptionError, match=r"openlineage_inject_transport_info must bring no login"):
        check_transport({}, {**harmless, f"spark.openlineage.transport.{name}": "k"})


@pytest.mark.process
def test_nothing_is_imported_without_the_provider() -> None:
    program = (
        "import sys\n"
        "hidden = ('openlineage', 'airflow.providers.openlineage.extractors', 'airflow.providers.openlineage.utils')\n"
        "sys.modules.update(dict.fromkeys(hidden))\n"
        "from airflow_provider_kafka_spark.operators.replay import ReplayOffsetRangesOperator\n"
        "o = ReplayOffsetRangesOperator(task_id='t', offset_ranges=['a:0:0:1'], target_topic='b')\n"
        "o._note_lineage({})\n"
        "assert o._with_lineage({}, {}) == {}\n"
        "print(sorted(n for n, m in sys.modules.items() if m and n.startswith('openlineage')))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
