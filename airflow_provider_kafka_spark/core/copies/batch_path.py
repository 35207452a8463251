"""Whether a copy passes the source's record batches on as they are, or reads them record by record. No I/O.

A batch can be passed on where nothing in it changes, and where the target takes it as it is: see ``LogValidator`` in
Kafka's broker for what it refuses.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from airflow_provider_kafka_spark.core.errors import InvalidInputError
from airflow_provider_kafka_spark.core.spark.tuning import sink_defaults
from airflow_provider_kafka_spark.core.wire.protocol import Transform

_COMPRESSION = "kafka.compression.type"
_INTERCEPTORS = "kafka.interceptor.classes"
#: Why single batches were taken apart, as the writer names it, and what to say of it.
_OF_BATCHES = {
    "compacted": "their batches have gaps, as compaction leaves them",
    "older_format": "their batches have a record format from before Kafka 0.11",
    "log_append_time": "their batches have the time of their arrival (message.timestamp.type=LogAppendTime)",
    "too_large": "their batches are larger than max.message.bytes of the target",
}


def changes(transform: Transform) -> tuple[str, ...]:
    """What of a request asks for other records than those of the source, as the author wrote it; empty if nothing.

    >>> changes(Transform(topic="copy", where="offset > 5"))
    ('provenance="headers"', 'where', 'preserve_partition=False')
    """
    asked = {
        'provenance="headers"': transform.provenance.in_headers,
        "where": transform.where is not None,
        "columns": bool(transform.columns),
        "target_topic_expr": transform.topic_expr is not None,
        "keys": transform.keys is not None,
        "headers": bool(transform.headers),
        "reject_when": transform.reject_when is not None,
        "dead_letter_topic": transform.dead_letter_topic is not None,
        "schema_id_map": bool(transform.schema_id_map),
        "the exact window": transform.window_start_ms is not None or transform.window_end_ms is not None,
        "preserve_partition=False": not transform.preserve_partition,
        "preserve_timestamps=False": not transform.preserve_timestamps,
        "include_headers=False": not transform.include_headers,
    }
    return tuple(name for name, is_asked in asked.items() if is_asked)


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


def clients_in_the_way(
    source_options: Mapping[str, str], sink_options: Mapping[str, str], *, fail_on_data_loss: bool
) -> tuple[str, ...]:
    """What of the clients' options needs each record, as the author wrote it; empty if nothing.

    :param source_options: of Spark's source, the defaults included.
    :param sink_options: likewise.
    """
    compression = sink_options.get(_COMPRESSION)
    levels = [name for name in sorted(sink_options) if name.startswith("kafka.compression.") and name != _COMPRESSION]
    found = {
        "fail_on_data_loss=False": not fail_on_data_loss,
        f"{_COMPRESSION}={compression} in sink_options": compression not in (None, sink_defaults()[_COMPRESSION]),
        f"{', '.join(levels)} in sink_options": bool(levels),
        f"{_INTERCEPTORS} in source_options": _INTERCEPTORS in source_options,
        f"{_INTERCEPTORS} in sink_options": _INTERCEPTORS in sink_options,
    }
    return tuple(name for name, is_given in found.items() if is_given)


def targets_in_the_way(targets: Sequence[str], configs: Mapping[str, Mapping[str, str]]) -> tuple[str, ...]:
    """What of the targets' settings would change or refuse batches; empty if nothing.

    :param configs: settings of each target, as far as they are known.
    """
    found = []
    for name in targets:
        config = configs.get(name)
        if config is None:
            found.append(f"the settings of {name} are unknown (DESCRIBE_CONFIGS on it is missing)")
        elif "compact" in config.get("cleanup.policy", ""):
            found.append(f"cleanup.policy={config['cleanup.policy']} of {name}, which refuses records without a key")
        elif config.get("compression.type", "producer") != "producer":
            found.append(f"compression.type={config['compression.type']} of {name}")
    return tuple(found)


def reasons_against(
    transform: Transform,
    options: tuple[Mapping[str, str], Mapping[str, str]],
    configs: Mapping[str, Mapping[str, str]],
    *,
    fail_on_data_loss: bool,
) -> tuple[str, ...]:
    """All that is known before the job; empty if batches are passed on.

    :param options: of the source and of the sink, as the author gave them.
    :param configs: settings of each target; empty if they are not known.
    """
    known = {name: config for name, config in configs.items() if config}
    return (
        *changes(transform),
        *clients_in_the_way(*options, fail_on_data_loss=fail_on_data_loss),
        *targets_in_the_way(sorted(configs), known),
    )


def describe(reasons: Sequence[str]) -> str:
    """A line of a plan.

    :param reasons: why batches are not passed on; empty if they are.

    >>> describe(["where"])
    'Reads record by record, because of where.'
    """
    if not reasons:
        return "Passes the source's record batches on as they are."
    return f"Reads record by record, because of {', '.join(reasons)}."


def warning_of(reasons: Sequence[str]) -> str:
    """For a result: what kept the brokers' side from a copy by batches.

    :param reasons: at least one.
    """
    return f"passes_batches=False: all records were read one by one, because of {', '.join(reasons)}."


def warning_of_batches(obstacles: Mapping[str, int]) -> str | None:
    """For a result: why some batches were taken apart, or None if none was.

    :param obstacles: records by the names of the writer.
    """
    parts = [f"{count:,} because {_OF_BATCHES.get(name, name)}" for name, count in sorted(obstacles.items())]
    return f"Some records were read one by one: {'; '.join(parts)}." if parts else None
