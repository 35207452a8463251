"""How a copy reads its records: whole record batches, records as bytes, or one by one with Spark's source. No I/O.

A batch is passed on where nothing in it changes, and where the target takes it as it is: see ``LogValidator`` in
Kafka's broker for what it refuses. Without SQL, all else is copied as bytes. SQL needs rows, which come from Spark's
source.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace

from airflow_provider_kafka_spark.core.checks import BATCHES, SOURCE
from airflow_provider_kafka_spark.core.errors import InvalidInputError
from airflow_provider_kafka_spark.core.shown_text import first_ten
from airflow_provider_kafka_spark.core.spark.tuning import COMPRESSION, DEFAULT_CODEC
from airflow_provider_kafka_spark.core.wire.protocol import ROUTES, WINDOW, Transform

_KEPT = "producer"
_INTERCEPTORS = "kafka.interceptor.classes"
_PARTITIONER = "kafka.partitioner."
#: What changes no record; a field that differs does, but for what says where the record goes and came from.
_UNCHANGED = Transform(preserve_partition=True)
_NAMES = dict.fromkeys(WINDOW, "the exact window")


def sql_of(transform: Transform) -> tuple[str, ...]:
    """What of a request is SQL, by name; empty if nothing.

    >>> sql_of(Transform(topic="copy", where="offset > 5", keys=("a",)))
    ('where',)
    """
    return tuple(dict.fromkeys(name.partition("[")[0] for name in transform.sql))


def changes(transform: Transform) -> tuple[str, ...]:
    """What of a request asks for other records than those of the source, as the author wrote it; empty if nothing.

    >>> changes(Transform(topic="copy", where="offset > 5"))
    ('provenance="headers"', 'where', 'preserve_partition=False')
    """
    headers, sql = ('provenance="headers"',) if transform.provenance.in_headers else (), sql_of(transform)
    asked = dict[str, None]()
    for name in (f.name for f in fields(Transform) if f.name not in {*ROUTES, *sql, "provenance"}):
        value = getattr(transform, name)
        if value != getattr(_UNCHANGED, name):
            asked[_NAMES.get(name, f"{name}={value}" if isinstance(value, bool) else name)] = None
    return (*headers, *sql, *asked)


def check_segments(transform: Transform) -> None:
    """:raises InvalidInputError: if ``provenance="segments"`` meets what alters or leaves out records."""
    others = list(changes(replace(transform, window_start_ms=None, window_end_ms=None)))
    if not others or not transform.provenance.in_segments:
        return
    if others == ["preserve_partition=False"]:
        raise InvalidInputError(
            "provenance='segments' maps offsets of partitions with the same number, so preserve_partition must be "
            "True; got False. Set it, or pass provenance='headers'."
        )
    raise InvalidInputError(
        f"provenance='segments' keeps every record as it is, which {', '.join(others)} contradicts. Drop one of the "
        "two: with provenance='headers', each record says where it came from."
    )


def check_reader(reader: str | None, transform: Transform) -> None:
    """:raises InvalidInputError: if ``reader="batches"`` meets SQL."""
    if reader == BATCHES and (sql := sql_of(transform)):
        raise InvalidInputError(
            f"reader='batches' copies records as bytes, and {', '.join(sql)} needs them as rows. Drop one of the two: "
            "reader='batches', or the SQL (keys and headers are filters that need none)."
        )


def wants_batches(reader: str | None, transform: Transform) -> bool:
    """Whether batches are to be read, by what the author asked for.

    >>> plain = Transform(topic="copy")
    >>> wants_batches(None, plain), wants_batches("batches", plain), wants_batches("source", plain)
    (False, True, False)
    """
    is_default = reader is None and not transform.provenance.in_headers
    return (reader == BATCHES or is_default) and not sql_of(transform)


def clients_in_the_way(sink_options: Mapping[str, str], *, fail_on_data_loss: bool) -> tuple[str, ...]:
    """What of the options only Spark's source and Kafka's own producer do, as the author wrote it."""
    partitioner = [name for name in sorted(sink_options) if name.startswith(_PARTITIONER)]
    found = {
        "fail_on_data_loss=False": not fail_on_data_loss,
        f"{_INTERCEPTORS} in sink_options": _INTERCEPTORS in sink_options,
        f"{', '.join(partitioner)} in sink_options": bool(partitioner),
    }
    return tuple(name for name, is_given in found.items() if is_given)


def codec_for(configs: Mapping[str, Mapping[str, str]]) -> str:
    """The compression of batches where the author has chosen none: that of the targets, if they have one. A broker
    whose topic has another one writes each record anew (``LogValidator``).

    >>> codec_for({"a": {"compression.type": "gzip"}, "b": {"compression.type": "producer"}}), codec_for({})
    ('gzip', 'lz4')

    :param configs: settings of each target, as far as they are known.
    """
    stored = {config["compression.type"] for config in configs.values()} - {_KEPT}
    codec = stored.pop() if len(stored) == 1 else DEFAULT_CODEC
    return "none" if codec == "uncompressed" else codec


def warnings_of_codec(codec: str, configs: Mapping[str, Mapping[str, str]]) -> tuple[str, ...]:
    """For a result: which targets' brokers write each record anew.

    :param codec: of the batches that they get.
    :param configs: settings of each target, as far as they are known.
    """
    same = {_KEPT, "uncompressed" if codec == "none" else codec}
    others = [
        f"{name} ({c['compression.type']})" for name, c in sorted(configs.items()) if c["compression.type"] not in same
    ]
    if not others:
        return ()
    return (
        f"The brokers write each record of {', '.join(first_ten(others))} anew, since its compression.type is not the "
        f"producer's ({codec}): they change a header's name that is not UTF-8, and refuse a timestamp below -1.",
    )


def rewritten_because(
    transform: Transform,
    sink_options: Mapping[str, str],
    targets: Sequence[str],
    configs: Mapping[str, Mapping[str, str]],
) -> tuple[str, ...]:
    """Why batches are rewritten as bytes; empty if they are passed on as they are.

    :param sink_options: with the compression that was decided, or without.
    :param configs: settings of each target, as far as they are known.
    """
    compression = sink_options.get(COMPRESSION)
    levels = [name for name in sorted(sink_options) if name.startswith("kafka.compression.") and name != COMPRESSION]
    found = list(changes(transform))
    if compression not in (None, DEFAULT_CODEC):
        found.append(f"{COMPRESSION}={compression} in sink_options")
    if levels:
        found.append(f"{', '.join(levels)} in sink_options")
    for name in targets:
        config = configs.get(name)
        if not config:
            found.append(f"the settings of {name} are unknown (DESCRIBE_CONFIGS on it is missing)")
        elif config.get("compression.type", _KEPT) != _KEPT:
            found.append(f"compression.type={config['compression.type']} of {name}")
    return tuple(found)


def describe(
    reader: str | None,
    transform: Transform,
    sink_options: Mapping[str, str],
    configs: Mapping[str, Mapping[str, str]],
    *,
    fail_on_data_loss: bool,
) -> str:
    """A line of a plan: how records are read.

    :param sink_options: as the author gave them.
    :param configs: settings of each target; empty if they are not known.
    """
    if not wants_batches(reader, transform):
        asked = sql_of(transform) or (('reader="source"',) if reader == SOURCE else ('provenance="headers"',))
        # Only the driver knows of how many cores.
        small = " Many small partitions are copied as bytes." if reader is None and not sql_of(transform) else ""
        return f"Reads record by record with Spark's Kafka source, because of {', '.join(asked)}.{small}"
    if others := clients_in_the_way(sink_options, fail_on_data_loss=fail_on_data_loss):
        return f"Reads record by record with Spark's Kafka source, because of {', '.join(others)}."
    if reasons := rewritten_because(transform, sink_options, sorted(configs), configs):
        return f"Copies records as bytes, in new batches, because of {', '.join(reasons)}."
    return "Passes the source's record batches on as they are; small ones are put together."


def warning_of(reasons: Sequence[str]) -> str:
    """For a result: what kept the job from reading batches.

    :param reasons: at least one.
    """
    return f"reader='source': Spark's Kafka source read all records one by one, because of {', '.join(reasons)}."
