"""Where cuts between windows are kept: in Airflow variables, which people can see, correct and delete."""

from __future__ import annotations

import json
import logging
import re
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Mapping, Sequence
from hashlib import sha256
from typing import Any

from airflow.sdk import Variable

from airflow_provider_kafka_spark.core.bounds import iso
from airflow_provider_kafka_spark.core.broker_state import ClusterState
from airflow_provider_kafka_spark.core.codec import decode_text, encode
from airflow_provider_kafka_spark.core.offset_range import TopicPartition
from airflow_provider_kafka_spark.core.window_cuts import WindowCut, decide
from airflow_provider_kafka_spark.state.last_run import variable_name

log = logging.getLogger(__name__)

_VERSION = 1
_MOMENT = re.compile(r"[0-9]{1,15}")


class WindowCuts:
    """The cuts of the windows of one task, whatever run they belong to.

    A planner reads what is kept, searches, keeps what can change, reads again and uses that. Two that do it in the same
    moment use what was written last, unless one has read before the other wrote.

    :param task_id: of the operator.
    :param selection: connection and topics, as JSON: windows of others are cut by themselves.
    """

    def __init__(self, context: Mapping[str, Any], task_id: str, selection: object) -> None:
        digest = sha256(json.dumps(selection, sort_keys=True).encode()).hexdigest()[:8]
        self._prefix = f"{variable_name('kafka_spark_window_cut', context['ti'].dag_id, task_id, digest, spare=20)}:"

    def decide(
        self, cluster: ClusterState, partitions: Collection[TopicPartition], moments: Sequence[int]
    ) -> ClusterState:
        """The cluster with the offsets at which its logs are cut.

        :param moments: of the window, in ms since 1970, in order; the cluster was searched for them.
        :raises ProtocolError: if somebody has changed a variable to what it cannot be.
        :raises PlanError: if windows overlap by what was decided.
        """
        kept = self._load(moments)
        decided, to_keep = decide(cluster, partitions, moments, kept)
        if not to_keep:
            return decided
        for at in to_keep:
            offsets = {p: decided.cuts[p, at] for p in partitions}
            value = json.dumps(encode(kept.get(at, WindowCut()).with_cuts(offsets, cluster), _VERSION))
            Variable.set(f"{self._prefix}{at}", value, description=f"Where windows end and begin at {iso(at)}.")
            log.info("Where windows are cut at %s is kept in the variable %s%d.", iso(at), self._prefix, at)
        return decide(cluster, partitions, moments, self._load(moments))[0]

    def _load(self, moments: Sequence[int]) -> dict[int, WindowCut]:
        """What is kept at these moments, and at the nearest ones."""
        names = (name.removeprefix(self._prefix) for name in Variable.keys(self._prefix))
        found = sorted(int(text) for text in names if _MOMENT.fullmatch(text))
        first, end = bisect_left(found, moments[0]), bisect_right(found, moments[-1])
        return {at: self._read(f"{self._prefix}{at}") for at in found[max(0, first - 1) : end + 1]}

    @staticmethod
    def _read(name: str) -> WindowCut:
        remedy = (
            f"Correct or delete the variable {name}; without it the cut is decided anew, which may differ from what "
            "the windows beside it have copied."
        )
        text = Variable.get(name, default=None)
        # It was deleted since it was listed.
        return (
            WindowCut()
            if text is None
            else decode_text(WindowCut, text, version=_VERSION, name=f"The variable {name}", remedy=remedy)
        )
