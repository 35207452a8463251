"""A replay of exact offset ranges, as ``KafkaUtils.createRDD`` once did."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

from airflow_provider_kafka_spark.core.copies.declaration import (
    REPLAY,
    Declared,
    names,
    read_in_dag,
    renderers,
)
from airflow_provider_kafka_spark.core.errors import OffsetRangeError
from airflow_provider_kafka_spark.core.offsets.compact_rows import rows_in
from airflow_provider_kafka_spark.core.offsets.offset_range import OffsetRanges
from airflow_provider_kafka_spark.core.topics.known_topics import KnownTopics
from airflow_provider_kafka_spark.core.wire.codec import encode
from airflow_provider_kafka_spark.operators.bounded_copy import BoundedCopyOperator
from airflow_provider_kafka_spark.operators.bounded_plan import KNOWN_TOPICS


class ReplayOffsetRangesOperator(BoundedCopyOperator):
    """Copy exactly the given offset ranges, any number of each partition.

    One Spark task reads all ranges of one Kafka partition, in order. With ``preserve_order=False`` each range, or each
    group of ranges that is read in one go, is a task of its own, as with ``createRDD``.

    :param offset_ranges: a list of ``{"topic", "partition", "from_offset", "until_offset"}`` or of
        ``"orders:0:100:200"``, in any order; that list as JSON text, as ``"{{ params.ranges | tojson }}"`` renders it;
        or the whole result or plan of another task, ``copy.output``. Ranges of a result have a ``topic_id``: they are
        refused if the topic is another one now. Give either this or ``plan``. (templated)
    :param merge_overlaps: write the records of overlapping ranges once, instead of refusing them. (templated)

    Further parameters: :class:`~airflow_provider_kafka_spark.operators.bounded_copy.BoundedCopyOperator`.
    """

    _declared: ClassVar[Sequence[Declared]] = (*BoundedCopyOperator._declared, *REPLAY)
    _has_given_ranges = True
    template_fields: Sequence[str] = (*names(REPLAY), *BoundedCopyOperator.template_fields)
    template_fields_renderers = renderers(_declared)

    def __init__(
        self,
        *,
        offset_ranges: list[dict[str, Any] | str] | dict[str, Any] | str | None = None,
        merge_overlaps: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.offset_ranges = offset_ranges
        self.merge_overlaps = merge_overlaps
        read_in_dag(REPLAY, self)

    def _own_selection(self) -> dict[str, Any]:
        ranges, known = self._ranges()
        return {"offset_ranges": ranges.to_json(), KNOWN_TOPICS: encode(known)}

    def _ranges(self) -> tuple[OffsetRanges, KnownTopics]:
        """The ranges, and what they are of."""
        values: Any = self.offset_ranges
        if values is None:
            raise OffsetRangeError("Give exactly one of offset_ranges and plan; got neither.")
        if isinstance(self.offset_ranges, str):
            try:
                values = json.loads(self.offset_ranges)
            except (ValueError, RecursionError) as error:
                raise OffsetRangeError(
                    f"offset_ranges must be a list, or a JSON list such as '[\"orders:0:100:200\"]'; got "
                    f"{self.offset_ranges[:100]!r}: {error}. In a template, write '{{{{ params.ranges | tojson }}}}'; "
                    f"an XCom is passed as the task's output itself."
                ) from error
        is_result = isinstance(values, Mapping) and "ranges" in values
        values = rows_in(values["ranges"] if is_result else values)
        # Ranges of two topics of one name may overlap, and that is not what is wrong with them.
        known = KnownTopics.of_ranges(values if isinstance(values, Iterable) else (), of_result=is_result)
        return OffsetRanges.parse(values, merge_overlaps=self.merge_overlaps), known
