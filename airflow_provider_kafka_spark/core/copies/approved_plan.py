"""The plan that another task has made and somebody may have approved, which ``plan=`` carries out. No I/O."""

from __future__ import annotations

import json
import reprlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from airflow_provider_kafka_spark.core.checks import read_json
from airflow_provider_kafka_spark.core.copies.declaration import BOUNDED, COMMON, Decides, names
from airflow_provider_kafka_spark.core.copies.plan import ReplayPlan
from airflow_provider_kafka_spark.core.copies.planned_copy import PlannedCopy
from airflow_provider_kafka_spark.core.errors import (
    InvalidInputError,
    KafkaSparkError,
    PlanOutdatedError,
    ProtocolError,
)
from airflow_provider_kafka_spark.core.offsets.compact_rows import rows_in
from airflow_provider_kafka_spark.core.offsets.offset_range import OffsetRange, OffsetRanges
from airflow_provider_kafka_spark.core.shown_text import item, markdown_item, shortened
from airflow_provider_kafka_spark.core.topics.known_topics import TOPIC_ID, recreated
from airflow_provider_kafka_spark.core.topics.resolve import MissingRange
from airflow_provider_kafka_spark.core.wire.codec import decode, encode

ORIGIN_VERSION = 2
#: What a plan fixes.
_FIXED = frozenset(names((*COMMON, *BOUNDED), Decides.COPY, Decides.HOW))
#: Of a result, and of stored parameters.
_KEY = "plan"
#: Of what a result has at that key.
_SEAL = "seal"
_REMEDY = "Give the whole result of a task with plan_only=True, such as plan.output."


@dataclass(frozen=True, slots=True)
class PlanOrigin:
    """What a plan was made with, beside its ranges: the key ``plan`` of a result.

    :param parameters: of the task that planned, by name: where records come from and go, and how they are changed.
    :param window: half-open, in ms since 1970, if ``exact_window`` drops records outside of it; or None, None.
    :param digest: of the plan, see :attr:`ReplayPlan.digest`.
    """

    parameters: Mapping[str, Any]
    window: tuple[int | None, ...]
    source_cluster_id: str
    target_cluster_id: str
    source_topic_ids: Mapping[str, str]
    target_topic_ids: Mapping[str, str]
    digest: str

    def __post_init__(self) -> None:
        # Others may write XComs: nothing but these parameters is taken from one.
        if self.parameters.keys() != _FIXED or len(self.window) != 2:
            wrong = sorted(self.parameters.keys() ^ _FIXED)
            raise ProtocolError(f"A plan must have the parameters of a copy, and no others; got {shortened(wrong)}.")

    @classmethod
    def of(cls, planned: PlannedCopy, how: Mapping[str, Any]) -> PlanOrigin:
        """:param how: the parameters that say how the copy is done, by name."""
        parameters, plan, transform = planned.parameters.by_name(), planned.plan, planned.transform
        copied = {name: parameters[name] for name in parameters if name not in planned.parameters.selection}
        return cls(
            parameters={**copied, **how},
            window=(transform.window_start_ms, transform.window_end_ms),
            source_cluster_id=plan.source_cluster_id,
            target_cluster_id=plan.target_cluster_id,
            source_topic_ids=dict(plan.topic_ids),
            target_topic_ids=dict(plan.target_ids),
            digest=plan.digest,
        )

    def to_json(self) -> dict[str, Any]:
        return encode(self, ORIGIN_VERSION)

    def describe(self) -> str:
        """What is done with the records, for the one who approves."""
        return "\n".join(item(name, text) for name, text in self._items())

    def markdown(self) -> str:
        """The same for Airflow's pages."""
        return "\n".join(markdown_item(name, text) for name, text in self._items())

    def _items(self) -> list[tuple[str, str]]:
        given, keys = self.parameters, self.parameters["keys"]
        source, target = given["source_conn_id"], given["target_conn_id"] or given["source_conn_id"]
        items = [("Connections", f"from {source!r} to {target!r}, {given['delivery']}")]
        items += [("Only records with", given["where"])] if given["where"] else []
        items += [(f"Only records with one of {len(keys):,} keys", _listed(keys))] if keys else []
        items += [("Only records with a header", f"{name}: {_listed(of)}") for name, of in given["headers"].items()]
        rejected = f"Rejected, to {given['dead_letter_topic']}"
        items += [(rejected, given["reject_when"])] if given["reject_when"] else []
        items += [("Changed", f"{name} = {sql}") for name, sql in given["columns"].items()]
        for side, ids in given["schema_id_map"].items():
            changes = shortened([f"{old} becomes {new}" for old, new in ids.items()])
            items.append((f"Schema ids of {side}", changes))
        return items


@dataclass(frozen=True, slots=True)
class ApprovedPlan:
    """The result of a task with ``plan_only=True``: all that is carried out."""

    origin: PlanOrigin
    ranges: OffsetRanges
    missing: tuple[MissingRange, ...] = ()

    @classmethod
    def parse(cls, value: object) -> SealedPlan:
        """Read the result of a task with ``plan_only=True``, or its JSON text.

        :return: with its seal, which the caller checks.
        :raises InvalidInputError: if it is anything else.
        """
        try:
            result = read_json(value, "plan") if isinstance(value, str) else value
        except (ValueError, RecursionError) as error:
            raise InvalidInputError(f"plan must be a plan; got {reprlib.repr(value)}: {error}. {_REMEDY}") from error
        if not isinstance(result, Mapping) or result.get("state") != "planned" or _KEY not in result:
            raise InvalidInputError(f"plan must be a plan; got {reprlib.repr(value)}. {_REMEDY}")
        try:
            plan = dict(result[_KEY])
            seal = plan.pop(_SEAL, None)
            origin = decode(PlanOrigin, plan, version=ORIGIN_VERSION, name="plan", remedy=_REMEDY)
            missing = [
                MissingRange(OffsetRange.parse(item), str(item["reason"]), str(item.get(TOPIC_ID) or ""))
                for item in rows_in(result["missing_ranges"])
            ]
            ranges = OffsetRanges.parse(result["ranges"])
        except (KafkaSparkError, KeyError, TypeError, ValueError) as error:
            raise InvalidInputError(f"plan must be a plan as it was returned: {error}") from error
        return SealedPlan(cls(origin, ranges, tuple(missing)), {**result, _KEY: plan}, seal)

    @classmethod
    def from_selection(cls, records: Mapping[str, Any]) -> ApprovedPlan | None:
        """What :meth:`to_selection` gave; None if a task was given no plan.

        :raises ProtocolError: if they are not those of this version.
        """
        if _KEY not in records:
            return None
        remedy = "Clear the task."
        origin = decode(PlanOrigin, records[_KEY], version=ORIGIN_VERSION, name="A stored plan", remedy=remedy)
        missing = decode(tuple[MissingRange, ...], records["missing"], name="Stored missing ranges", remedy=remedy)
        return cls(origin, OffsetRanges.parse(records["offset_ranges"]), missing)

    def to_selection(self) -> dict[str, Any]:
        """As ``CopyParameters.selection`` has it, to be stored for a retry."""
        return {
            _KEY: self.origin.to_json(),
            "offset_ranges": self.ranges.to_json(),
            "missing": [encode(m) for m in self.missing],
        }

    def adopted(self, given: Mapping[str, Any], defaults: Mapping[str, Any]) -> dict[str, Any]:
        """The parameters of the task that carries the plan out: those of the plan.

        :param given: the parameters that the task has.
        :param defaults: what a parameter is if it was not given.
        :raises InvalidInputError: if one was given and is not that of the plan.
        """
        names = [name for name in self.origin.parameters if name in given]
        others = [
            f"{name} is {given[name]!r} and was {self.origin.parameters[name]!r}"
            for name in names
            if given[name] != defaults.get(name) and given[name] != self.origin.parameters[name]
        ]
        if others:
            raise InvalidInputError(
                f"plan carries out what another task has planned, with its parameters; here, {shortened(others)}. "
                "Leave them out, or make the plan with them."
            )
        return {name: self.origin.parameters[name] for name in names}

    def check(self, plan: ReplayPlan) -> None:
        """Check that a plan, made now from these ranges, is still this one.

        :raises PlanOutdatedError: naming what has changed.
        """
        before = self.origin
        changes = [
            *_differences("the cluster of the source", before.source_cluster_id, plan.source_cluster_id),
            *_differences("the cluster of the target", before.target_cluster_id, plan.target_cluster_id),
            *recreated(before.source_topic_ids, plan.topic_ids).values(),
            *recreated(before.target_topic_ids, plan.target_ids).values(),
        ]
        if not changes and before.digest != plan.digest:
            gone = self.ranges.subtract(plan.ranges)
            changes = [f"{gone.total:,} of its records are gone: {shortened(gone.format())}" if gone else "its ranges"]
        if changes:
            raise PlanOutdatedError(
                f"The plan (digest {before.digest}) no longer holds: {shortened(changes)}. Nothing was copied. Make "
                "a new plan, and have it approved."
            )


class SealedPlan(NamedTuple):
    """A plan as a task has returned it.

    :param content: the whole result without the seal: who approves it reads more than is carried out.
    :param seal: of the content; None if it has none.
    """

    plan: ApprovedPlan
    content: Mapping[str, Any]
    seal: object

    @staticmethod
    def of(result: Mapping[str, Any], seal: str) -> dict[str, Any]:
        """The result with its seal."""
        return {**result, _KEY: {**result[_KEY], _SEAL: seal}}


def _listed(items: Sequence[Any]) -> str:
    return shortened([json.dumps(item) for item in items])


def _differences(name: str, before: str, now: str) -> list[str]:
    return [f"{name} was {before}, and is {now}"] if before and now and before != now else []
