from __future__ import annotations

import os
import random
import time
from typing import Any

import pytest
from py4j.java_gateway import JavaPackage

from airflow_provider_kafka_spark.core.errors import DeliveryError, ExpressionError, TargetError
from airflow_provider_kafka_spark.core.offsets.offset_range import OffsetRange, OffsetRanges
from airflow_provider_kafka_spark.core.offsets.provenance import PROVENANCE_HEADER, Provenance
from airflow_provider_kafka_spark.core.offsets.spans import plan_spans
from airflow_provider_kafka_spark.jobs import batch, kafka_source
from airflow_provider_kafka_spark.jobs.record_writer import WriteResult
from airflow_provider_kafka_spark.jobs.spark_application import SparkApplication
from airflow_provider_kafka_spark.testing.broker_client import Record
from airflow_provider_kafka_spark.testing.kafka_broker import KafkaBroker
from airflow_provider_kafka_spark.testing.pytest_plugin import TopicFactory
from tests.in_process_jobs import InProcessSpark
from tests.jobs.conftest import Copy, Pair
from tests.jobs.runs import REFUSES_LARGE, copy_request, numbered

pytestmark = [pytest.mark.broker, pytest.mark.spark]

#: That of ``run_copy``.
_RUN_ID = "0123456789abcdef"


def provenance(broker: KafkaBroker, target: str) -> list[Provenance]:
    """Where each record of a topic says that it came from."""
    return [Provenance.parse(r.headers[-1][1] or b"") for r in broker.consume(target) if r.headers]


def places(ranges: list[str]) -> list[tuple[str, int, int]]:
    """Topic, partition and offset of all that the ranges hold."""
    return [
        (r.topic, r.partition, at) for r in OffsetRanges.parse(ranges) for at in range(r.from_offset, r.until_offset)
    ]


def content(record: Record) -> tuple[object, ...]:
    """What a copy must keep, apart from our own header."""
    return record.key, record.value, tuple(h for h in record.headers if h[0] != PROVENANCE_HEADER)


@pytest.mark.parametrize(
    "expressions",
    [
        pytest.param({}, id="without-sql"),
        pytest.param({"where": "offset >= 0"}, id="by-sql", marks=pytest.mark.long),
        pytest.param({"where": "coalesce(size(Headers), 0) >= 0", "columns": {"key": "key"}}, id="naming-headers"),
        pytest.param({"columns": {"headers": "headers", "value": "value"}}, id="by-sql-that-makes-headers"),
    ],
)
def test_copies_byte_for_byte(pair: Pair, monkeypatch: pytest.MonkeyPatch, expressions: dict[str, object]) -> None:
    """Keys, values, tombstones, header order, duplicate header keys and null header values arrive as they were. Without
    expressions no SQL session is asked for: it costs a small replay more than the copy.
    """
    asked, session = list[SparkApplication](), vars(SparkApplication)["session"]

    def ask(spark: SparkApplication) -> object:
        asked.append(spark)
        return session.fget(spark)

    monkeypatch.setattr(SparkApplication, "session", property(ask))
    records = [
        Record(b"k", b"v", (("a", b"1"), ("b", b"2"), ("a", b"3"))),
        Record(b"tombstone", None, (("a", None),)),
        Record(None, b"\x00\xff\xfe not utf-8 \xc3(", ()),
        Record(b"", b"", (("", b""), ("empty", b""))),
        Record("schlüssel".encode(), "wert ✓".encode(), (("kopf ✓", b"wert"),)),
    ]
    pair.fill(records)

    report = pair.copy(5, **expressions)

    assert [content(r) for r in pair.broker.consume(pair.target)] == [content(r) for r in records]
    assert (report.records_read, report.records_written) == (5, 5)
    assert report.target_ranges == (OffsetRange(pair.target, 0, 0, 5),)
    assert bool(asked) == bool(expressions)


def test_asks_the_jvm_for_no_package(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    """Py4J asks for each part of a name, and PySpark for a dozen where a loop over a Java collection ends."""
    asked = list[str]()
    monkeypatch.setattr(JavaPackage, "__getattr__", lambda _, name: asked.append(name))
    pair.fill(numbered(3))
    assert pair.copy(3).records_written == 3
    assert asked == []


def test_says_where_each_record_came_from(kafka_broker: KafkaBroker, topic: TopicFactory, run_copy: Copy) -> None:
    """The provenance header names run, topic, partition, offset and timestamp, and comes last."""
    source, target = topic(2, suffix="source"), topic(suffix="target")
    kafka_broker.produce(
        source, [Record(b"k", b"v", (("a", b"1"),), timestamp=1_700_000_000_123, partition=1) for _ in range(3)]
    )

    run_copy([f"{source}:1:1:3"], run_id="feedc0de00000000", topic=target)

    assert [r.headers[0] for r in kafka_broker.consume(target)] == [("a", b"1")] * 2
    assert provenance(kafka_broker, target) == [
        Provenance("feedc0de00000000", source, 1, offset, 1_700_000_000_123) for offset in (1, 2)
    ]


def test_reads_exactly_the_ranges(kafka_broker: KafkaBroker, topic: TopicFactory, run_copy: Copy) -> None:
    """Several ranges of several partitions of several topics: nothing outside of them, and counts for each."""
    first, second, target = topic(2, suffix="first"), topic(suffix="second"), topic(suffix="target")
    kafka_broker.produce(first, [Record(value=b"%d" % i, partition=i % 2) for i in range(200)])
    kafka_broker.produce(second, [Record(value=b"s%d" % i) for i in range(50)])
    ranges = [f"{first}:0:10:20", f"{first}:0:20:25", f"{first}:1:0:1", f"{first}:0:90:100", f"{second}:0:49:50"]

    report = run_copy(ranges, topic=target)

    came_from = sorted((p.topic, p.partition, p.offset) for p in provenance(kafka_broker, target))
    assert came_from == sorted(places(ranges))
    counts = {r.offset_range: r.records_written for r in report.ranges}
    assert counts == {r: r.size for r in OffsetRanges.parse(ranges)}


def test_reads_many_small_ranges_in_order(
    kafka_broker: KafkaBroker, topic: TopicFactory, run_copy: Copy, in_process_spark: InProcessSpark
) -> None:
    """500 ranges, merged into spans or each a span of its own; the gaps between them stay out, and each partition keeps
    its order. Spark's page says whose copy it is.
    """
    source, target = topic(4, suffix="source"), topic(4, suffix="target")
    kafka_broker.produce(source, [Record(value=b"%d" % i, partition=i % 4) for i in range(20_000)])
    drawn = random.Random(7)
    ranges = []
    for partition in range(4):
        cuts = sorted(drawn.sample(range(5_000), 250))
        ranges += [f"{source}:{partition}:{a}:{b}" for a, b in zip(cuts[::2], cuts[1::2], strict=True)]

    spans = (*plan_spans(OffsetRanges.parse(ranges[:250])), *OffsetRanges.parse(ranges[250:]))
    title = "DAG hourly, task copy, DAG run manual__1"
    report = run_copy(ranges, topic=target, spans=spans, preserve_partition=True, title=title)

    assert [(p.topic, p.partition, p.offset) for p in provenance(kafka_broker, target)] == places(ranges)
    assert sum(r.records_written == r.offset_range.size for r in report.ranges) == 500
    jobs = in_process_spark.spark.sparkContext._jsc.sc().statusStore().jobsList(None)
    descriptions = [jobs.apply(n).description() for n in range(jobs.size())]
    shown = next(d.get() for d in descriptions if d.isDefined() and title in d.get())
    assert shown == f"{title}: run 0123456789abcdef, {', '.join(ranges[:5])} and 495 more"


@pytest.mark.long
@pytest.mark.parametrize("has_rdd", [True, False])
def test_expressions_between_gaps(
    kafka_broker: KafkaBroker,
    topic: TopicFactory,
    run_copy: Copy,
    monkeypatch: pytest.MonkeyPatch,
    *,
    has_rdd: bool,
) -> None:
    """Each row meets its own record, although some records are not kept and others lie between the ranges. Expressions
    may name headers, and decide on the partition.
    """
    source, target = topic(2, suffix="source"), topic(2, suffix="target")
    kafka_broker.produce(
        source, [Record(b"%d" % i, b"v%d" % i, (("h", b"%d" % i),), 1_000 + i, i % 2) for i in range(40)]
    )
    if not has_rdd:
        monkeypatch.setattr(kafka_source, "read_tasks", lambda *_: None)

    report = run_copy(
        [f"{source}:{p}:{start}:{end}" for p in (0, 1) for start, end in ((2, 9), (13, 17))],
        topic=target,
        where="offset % 3 <> 0 and headers[0].key = 'h'",
        columns={"value": "concat(string(value), '!')", "partition": "1 - partition", "headers": "null"},
        provenance=None,
    )

    kept = [2 * offset + p for p in (1, 0) for offset in (*range(2, 9), *range(13, 17)) if offset % 3]
    copied = [(r.key, r.value, r.headers, r.timestamp, r.partition) for r in kafka_broker.consume(target)]
    expected = [(b"%d" % i, b"v%d!" % i, (), 1_000 + i, 1 - i % 2) for i in kept]
    # The public reader reads the ranges of a partition side by side.
    assert (copied if has_rdd else sorted(copied)) == (expected if has_rdd else sorted(expected))
    assert (report.records_read, report.records_written) == (22, len(kept))
    assert sum(r.records_skipped for r in report.ranges) == 22 - len(kept)


def test_batches_are_passed_on_whatever_the_group_protocol(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    """No consumer joins a group, and the writer knows the fetches of the classic consumer alone."""
    # Otherwise small batches are put together.
    monkeypatch.setattr("airflow_provider_kafka_spark.jobs.write.LEAST_BYTES", 0)
    pair.fill(numbered(40))
    protocol = {"kafka.group.protocol": "consumer"}

    report = pair.copy(40, provenance=None, preserve_partition=True, source_options=protocol)

    assert (report.records_written, report.batches_passed > 0) == (40, True)


@pytest.mark.long
def test_without_the_rdd_a_lost_order_between_spans_is_in_the_report(
    kafka_broker: KafkaBroker, topic: TopicFactory, run_copy: Copy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The spans of a partition would follow each other in one task, if this Spark had the RDD that they are read by.
    The writer gets rows then, and has no reader for the records of a batch.
    """
    source, target = topic(3, suffix="source"), topic(3, suffix="target")
    kafka_broker.produce(source, [Record(value=b"%d" % i, partition=i % 3) for i in range(9)])
    spans = tuple(OffsetRange(source, partition, start, start + 1) for partition in range(3) for start in (0, 2))
    ranges = [span.format() for span in spans]
    monkeypatch.setattr(kafka_source, "read_tasks", lambda *_: None)

    report = run_copy(ranges, topic=target, spans=spans, provenance=None, preserve_partition=True)

    copied = sorted((r.partition, r.value) for r in kafka_broker.consume(target))
    assert copied == [(partition, b"%d" % (partition + 3 * start)) for partition in range(3) for start in (0, 2)]
    assert (report.records_written, report.batches_passed) == (6, 0)
    (warning,) = report.warnings
    assert "Within each range the records are in order, between the ranges of a partition they may not be" in warning


def test_counts_compacted_offsets_as_gaps(pair: Pair) -> None:
    """Aborted records are not copied; they and the transaction markers are gaps, not losses. All headers can be left
    out.
    """
    pair.broker.produce_transaction(pair.source, [Record(value=b"kept", headers=(("a", b"1"),)) for _ in range(10)])
    pair.broker.produce_transaction(pair.source, [Record(value=b"aborted") for _ in range(10)], commit=False)
    pair.fill([Record(value=b"kept")])
    ((_, end),) = pair.broker.offsets(pair.source).values()

    report = pair.copy(end, include_headers=False, provenance=None)

    assert [(r.value, r.headers) for r in pair.broker.consume(pair.target)] == [(b"kept", ())] * 11
    assert (report.records_read, report.ranges[0].gaps) == (11, end - 11)


def test_refuses_a_bad_expression_before_writing(pair: Pair) -> None:
    """What is refused, and why, is in ``test_expressions.py``."""
    pair.fill(numbered(1))

    with pytest.raises(ExpressionError, match="where='amount > 3' does not compile"):
        pair.copy(1, where="amount > 3")

    assert pair.values() == []


@pytest.mark.long
def test_refuses_bad_targets_before_writing(kafka_broker: KafkaBroker, topic: TopicFactory, run_copy: Copy) -> None:
    """A topic expression that leads nowhere, or back, is found before a record is written. An error does not show a
    whole record, whose value could have a megabyte.
    """
    source = topic(suffix="source")
    kafka_broker.produce(source, [*(Record(value=b"%d" % i) for i in range(5)), Record(value=b"x" * 500_000)])
    for expression, says in {
        "if(string(value) = '3', null, 'anything')": "gives null for some",
        "concat(topic, '-missing')": "do not exist",
        "topic": "back into",
        "string(value)": "Create them first",
    }.items():
        with pytest.raises(TargetError) as raised:
            run_copy([f"{source}:0:0:6"], topic_expr=expression, forbidden_targets=(source,))

        assert says in str(raised.value)
        assert len(str(raised.value)) < 3_000
    assert len(kafka_broker.consume(source)) == 6


@pytest.mark.long
def test_each_target_needs_only_the_partitions_that_lead_to_it(
    kafka_broker: KafkaBroker, topic: TopicFactory, run_copy: Copy
) -> None:
    """A target as small as its own source will do, though another source is larger; what is not kept needs nothing."""
    large, small = topic(4, suffix="large"), topic(1, suffix="small")
    large_target, small_target = topic(4, suffix="target-large"), topic(1, suffix="target-small")
    records = [Record(value=b"%d" % i, partition=i % 4) for i in range(8)]
    kafka_broker.produce(large, records)
    kafka_broker.produce(small, [Record(value=b"only")])
    of_large = [f"{large}:{partition}:0:2" for partition in range(4)]
    by_topic = f"if(topic = '{large}', '{large_target}', '{small_target}')"

    report = run_copy([*of_large, f"{small}:0:0:1"], topic_expr=by_topic, preserve_partition=True)

    assert report.target_topics == tuple(sorted((large_target, small_target)))
    assert [(r.partition, r.value) for r in kafka_broker.consume(large_target)] == [
        (r.partition, r.value) for partition in range(4) for r in records if r.partition == partition
    ]
    run_copy(of_large, topic_expr=f"'{small_target}'", preserve_partition=True, where="partition < 1")
    assert [r.value for r in kafka_broker.consume(small_target)] == [b"only", b"0", b"4"]
    with pytest.raises(TargetError, match=f"'{small_target}' needs 4, has 1") as raised:
        run_copy(of_large, topic_expr=f"'{small_target}'", preserve_partition=True)
    assert large_target not in str(raised.value)


def test_a_retry_writes_only_what_is_missing(kafka_broker: KafkaBroker, topic: TopicFactory, run_copy: Copy) -> None:
    """What an earlier try delivered is found in the target, left out, and counted as delivered."""
    source, target = topic(2, suffix="source"), topic(3, suffix="target")
    kafka_broker.produce(source, [Record(b"k%d" % i, b"%d" % i, partition=i % 2) for i in range(100)])
    ranges = [f"{source}:0:0:50", f"{source}:1:0:50"]
    # The first try got as far as a ragged front; another run's records and foreign ones lie between.
    run_copy([f"{source}:0:0:20", f"{source}:0:23:24", f"{source}:1:40:45"], topic=target)
    others = [Provenance("another0another0", source, 0, i, 1_700_000_000_000).format() for i in range(50)]
    kafka_broker.produce(target, [Record(b"k", b"v", ((PROVENANCE_HEADER, header),)) for header in others])
    kafka_broker.produce(target, [Record(b"foreign", b"record")])

    report = run_copy(ranges, topic=target, is_retry=True, target_starts={target: {"0": 0, "1": 0, "2": 0}})

    ours = [(p.topic, p.partition, p.offset) for p in provenance(kafka_broker, target) if p.run_id == _RUN_ID]
    assert sorted(ours) == places(ranges)
    assert (report.delivered_before, report.records_written, report.duplicates) == (26, 100, 0)
    held = {record.partition: record.offset for record in kafka_broker.consume(target)}
    ends = {r.partition: r.until_offset for r in report.target_ranges}
    assert all(r.from_offset == 0 for r in report.target_ranges)
    assert all(ends[partition] > (last or 0) for partition, last in held.items())


def test_a_record_cannot_pass_another_off_as_delivered(pair: Pair) -> None:
    """A source record has a header like ours that names another record: a retry does not leave that one out, and the
    copy has only the writer's own. What another writer to the target puts into such a header makes no retry fail.
    """
    source = pair.source
    forged = ((PROVENANCE_HEADER, Provenance(_RUN_ID, source, 0, 3, 1_700_000_000_000).format()),)
    pair.fill([Record(value=b"%d" % i, headers=() if i else forged) for i in range(4)])
    pair.copy(2)
    tails = ["", f"{source}|0", f"{source}|x|0|1", f"{source}|0|0.5|1", f"{source}|-1|0|1", "|0|0|1", "\ufffd|0|0|1"]
    tails += [f"{source}\n|0|0|1", *(f"{source}|0|{offset}|1" for offset in (-5, 2**63 - 1, 10**20))]
    headers = [None, *(f"{_RUN_ID}|{tail}".encode() for tail in tails)]
    pair.broker.produce(pair.target, [Record(value=b"other", headers=((PROVENANCE_HEADER, h),)) for h in headers])

    report = pair.retry(4)

    copies = [r for r in pair.broker.consume(pair.target) if r.value != b"other"]
    assert [r.value for r in copies] == [b"0", b"1", b"2", b"3"]
    assert [name for name, _ in copies[0].headers] == [PROVENANCE_HEADER]
    assert [Provenance.parse(r.headers[-1][1] or b"").offset for r in copies] == [0, 1, 2, 3]
    assert (report.delivered_before, report.duplicates, report.records_written) == (2, 0, 4)


def test_a_retry_finds_deliveries_of_a_topic_expression(
    kafka_broker: KafkaBroker, topic: TopicFactory, run_copy: Copy
) -> None:
    """Where an expression decides on the target of each record, all of the targets is searched, whatever a clock says.
    What has been deleted there since is written again.
    """
    source, even, odd = topic(suffix="source"), topic(suffix="even"), topic(suffix="odd")
    kafka_broker.produce(source, [Record(value=b"%d" % i) for i in range(10)])
    options = {
        "topic_expr": f"if(cast(string(value) as int) % 2 = 0, '{even}', '{odd}')",
        "preserve_timestamps": False,
        "submitted_at_ms": int(time.time() * 1000) + 15 * 60_000,
    }
    run_copy([f"{source}:0:0:7"], **options)
    kafka_broker.delete_records(odd, {0: 1})

    report = run_copy([f"{source}:0:0:10"], is_retry=True, **options)

    assert [r.value for r in kafka_broker.consume(even)] == [b"0", b"2", b"4", b"6", b"8"]
    assert sorted(r.value or b"" for r in kafka_broker.consume(odd)) == [b"1", b"3", b"5", b"7", b"9"]
    assert (report.delivered_before, report.target_topics) == (6, tuple(sorted((even, odd))))


def test_drops_records_outside_of_an_exact_window(pair: Pair) -> None:
    """With an exact window the record's own timestamp decides, half-open."""
    start = 1_700_000_000_000
    pair.fill([Record(value=b"%d" % i, timestamp=start + i) for i in (0, 5, 1, 9, 2)])

    pair.copy(5, window_start_ms=start + 1, window_end_ms=start + 9)

    assert pair.values() == [b"5", b"1", b"2"]


def test_a_record_that_only_another_codec_makes_small_enough(pair: Pair) -> None:
    """Its producer used zstd, which finds what repeats farther apart than lz4 looks. The failure names the codec."""
    for name in (pair.source, pair.target):
        pair.broker.alter_topic(name, {"max.message.bytes": "150000"})
    large = Record(b"k", os.urandom(100_000) * 3)
    pair.broker.produce(pair.source, [large], {"compression.type": "zstd", "message.max.bytes": 1_000_000})
    # An expression takes batches apart, as many other parameters do.
    where = "offset >= 0"

    with pytest.raises(TargetError, match=r"\(kafka\.compression\.type=lz4\)\. .*'kafka\.compression\.type': 'zstd'"):
        pair.copy(1, where=where)
    pair.copy(1, where=where, sink_options={"kafka.compression.type": "zstd"})

    assert pair.values() == [large.value]


def test_batches_that_are_too_large_are_not_lost(pair: Pair) -> None:
    """Small records whose batches would be larger than the target takes arrive all the same."""
    pair.broker.alter_topic(pair.target, REFUSES_LARGE)
    pair.fill([Record(b"k%d" % i, os.urandom(1000)) for i in range(1000)])
    assert pair.copy(1000).records_written == 1000 == len(pair.values())


def test_a_piece_that_no_task_reports_is_an_error(
    kafka_broker: KafkaBroker, topic: TopicFactory, run_copy: Copy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its ranges would look as if they had no records."""
    source, target = topic(2, suffix="source"), topic(suffix="target")
    kafka_broker.produce(source, [Record(b"k", b"v", partition=number) for number in (0, 1)])
    write_records = batch.write_records

    def without_one(*arguments: Any) -> WriteResult:
        result = write_records(*arguments)
        result.reports.popitem()
        return result

    monkeypatch.setattr(batch, "write_records", without_one)

    with pytest.raises(DeliveryError, match="1 of 2 are not"):
        run_copy([f"{source}:0:0:1", f"{source}:1:0:1"], topic=target)


def test_what_was_written_before_and_after_a_target_was_cut_is_one_range() -> None:
    """The plan has seen its end at 100; two places that overlap could not be read again."""
    request = copy_request(
        None,
        ["orders:0:0:10"],
        instance="i",
        submission=1,
        run_id="r",
        topic="copy",
        target_starts={"copy": {"0": 100}},
    )
    before, after, over = (
        OffsetRange("copy", 0, 0, 80),
        OffsetRange("copy", 0, 120, 150),
        OffsetRange("copy", 0, 2, 150),
    )

    assert batch.apart(request, [before, after]) == (before, after)
    assert batch.apart(request, [before, over]) == (OffsetRange("copy", 0, 0, 150),)
