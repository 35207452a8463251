"""Where cuts between windows are kept: in Airflow variables, which people can see, correct and delete."""

from __future__ import annotations

import json
import logging
import re
import time
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Mapping, Sequence
from hashlib import sha256
from itertools import pairwise
from typing import Any

from airflow_provider_kafka_spark.core.offsets.offset_range import TopicPartition
from airflow_provider_kafka_spark.core.topics.bounds import iso
from airflow_provider_kafka_spark.core.topics.broker_state import ClusterState
from airflow_provider_kafka_spark.core.topics.log_ends import Reached
from airflow_provider_kafka_spark.core.topics.window_cuts import WindowCut, decide
from airflow_provider_kafka_spark.core.wire.codec import decode_text, encode
from airflow_provider_kafka_spark.state import variables
from airflow_provider_kafka_spark.state.last_run import variable_name

log = logging.getLogger(__name__)

_VERSION = 2
_MOMENT = re.compile(r"[0-9]{1,15}")
#: How many old cuts a planner forgets at most.
_FORGOTTEN_AT_ONCE = 5


class WindowCuts:
    """The cuts of the windows of one task, whatever run they belong to.

    Planners agree by time. Each reads what is kept, after it has searched the log; keeps what it decides, where nothing
    is kept and the answer can change; and uses what is kept when that has settled.

    :param task_id: of the operator.
    :param selection: connection and topics, as JSON: windows of others are cut by themselves.
    :param log_cuts: asks the brokers where logs were cut since they had reached some offsets.
    """

    def __init__(
        self,
        context: Mapping[str, Any],
        task_id: str,
        selection: object,
        log_cuts: Callable[[Collection[Reached]], Mapping[Reached, int]],
    ) -> None:
        self._log_cuts = log_cuts
        digest = sha256(json.dumps(selection, sort_keys=True).encode()).hexdigest()[:8]
        self._prefix = f"{variable_name('kafka_spark_window_cut', context['ti'].dag_id, task_id, digest, spare=20)}:"

    def decide(
        self, cluster: ClusterState, partitions: Collection[TopicPartition], moments: Sequence[int]
    ) -> ClusterState:
        """The cluster with the offsets at which its logs are cut.

        :param moments: of the window, in ms since 1970, in order; the cluster was searched for them.
        :raises ProtocolError: if somebody has changed a variable to what it cannot be.
        :raises PlanError: if windows overlap by what was decided.
        :raises AirflowApiError: if Airflow does not say what is kept.
        :raises BrokerError: if the brokers do not say whether a log was cut that has another leader now.
        """
        started, stored, log_cuts = time.monotonic(), self._load(moments), dict[Reached, int]()
        if reached := {r for cut in stored.values() for r in cut.reached(cluster)}:
            # The brokers may take longer than others wait, and their answer is the same for all who ask.
            log_cuts.update(self._log_cuts(reached))
            started, stored = time.monotonic(), self._load(moments)
        kept = {at: cut.after(log_cuts) for at, cut in stored.items()}
        decided, undecided = decide(cluster, partitions, moments, kept)
        to_keep = sorted({*undecided, *(at for at in moments if kept.get(at) != stored.get(at))})
        if not to_keep:
            return decided
        for at in to_keep:
            offsets = {p: decided.cuts[p, at] for p in partitions}
            value = json.dumps(encode(kept.get(at, WindowCut()).with_cuts(offsets, cluster), _VERSION))
            variables.write(f"{self._prefix}{at}", value, f"Where windows end and begin at {iso(at)}.")
            log.info("Where windows are cut at %s is kept in the variable %s%d.", iso(at), self._prefix, at)
        variables.settle(
            started,
            "A window beside this one that was planned meanwhile may use another cut: compare the ranges of both.",
        )
        self._forget(cluster)
        kept = {at: cut.after(log_cuts) for at, cut in self._load(moments).items()}
        return decide(cluster, partitions, moments, kept)[0]

    def _forget(self, cluster: ClusterState) -> None:
        """Delete the oldest cuts: those before one up to which retention has deleted all records."""
        for at, following in pairwise(self._kept()[: _FORGOTTEN_AT_ONCE + 1]):
            offsets, later = (self._read(f"{self._prefix}{moment}").valid(cluster) for moment in (at, following))
            gone = [p for p in offsets if p in later and later[p] <= cluster.partition(p).log_start]
            if not gone or len(gone) < len(offsets):
                return
            variables.delete(f"{self._prefix}{at}")
            log.info("The cut of windows at %s is forgotten: the log begins later.", iso(at))

    def _load(self, moments: Sequence[int]) -> dict[int, WindowCut]:
        """What is kept at these moments, and at the nearest ones."""
        found = self._kept()
        first, end = bisect_left(found, moments[0]), bisect_right(found, moments[-1])
        return {at: self._read(f"{self._prefix}{at}") for at in found[max(0, first - 1) : end + 1]}

    def _kept(self) -> list[int]:
        """The moments of all that is kept, in order."""
        names = (name.removeprefix(self._prefix) for name in variables.names(self._prefix))
        return sorted(int(text) for text in names if _MOMENT.fullmatch(text))

    @staticmethod
    def _read(name: str) -> WindowCut:
        remedy = (
            f"Correct or delete the variable {name}; without it the cut is decided anew, which may differ from what "
            "the windows beside it have copied."
        )
        text = variables.read(name)
        # It was deleted since it was listed.
        return (
            WindowCut()
            if text is None
            else decode_text(WindowCut, text, version=_VERSION, name=f"The variable {name}", remedy=remedy)
        )
