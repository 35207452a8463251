"""The offsets of any number of partitions, in a few requests of each kind. Nothing is committed."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass

from confluent_kafka import IsolationLevel, KafkaError, KafkaException
from confluent_kafka.admin import ListOffsetsResultInfo

from airflow_provider_kafka_spark.clients.kafka_client import KafkaClient, OffsetAnswers, is_transient
from airflow_provider_kafka_spark.clients.record_reads import run_searches
from airflow_provider_kafka_spark.core.errors import (
    BrokerError,
    BrokerUnavailableError,
    KafkaSparkError,
    UnknownTopicError,
)
from airflow_provider_kafka_spark.core.offsets.offset_range import TopicPartition
from airflow_provider_kafka_spark.core.topics.broker_state import ClusterState, PartitionState, TopicState
from airflow_provider_kafka_spark.core.topics.record_search import AHEAD_MS, FoundRecord, find_first, find_newest

#: Partitions of one request: librdkafka searches all of a request's for the answer of each.
_MOST_PARTITIONS = 1_000
#: What a request for offsets takes in place of a time in ms (Kafka's ``ListOffsetsRequest``).
_LATEST, _EARLIEST, _MAX_TIMESTAMP = -1, -2, -3
#: "No record" in an answer.
_NONE = -1
#: Requests that are on their way at the same time, at most and at first.
_AT_ONCE, _FIRST = 100, 4


@dataclass(frozen=True, slots=True)
class TopicOffsets:
    """What brokers answered; a topic for which a request failed is left out.

    :param now_ms: the worker's time before the first request, in ms since 1970.
    :param states: of partitions.
    :param first_at: the first record at or after a time in ms.
    :param newest: the largest credible timestamp in ms, or None without records.
    """

    now_ms: int
    states: Mapping[TopicPartition, PartitionState]
    first_at: Mapping[tuple[TopicPartition, int], FoundRecord]
    newest: Mapping[TopicPartition, int | None]

    def cluster_state(
        self,
        topics: Iterable[str],
        cluster_id: str | None,
        conn_id: str,
        ids: Mapping[str, str],
        configs: Mapping[str, Mapping[str, str]],
        counts: Mapping[str, int] | None = None,
    ) -> ClusterState:
        """:param topics: those of the result; one without offsets has no partitions in it.
        :param counts: of the partitions of each topic, where not all were asked for.
        """
        partitions: dict[str, dict[int, PartitionState]] = {name: {} for name in topics}
        for p, state in sorted(self.states.items()):
            partitions[p.topic][p.partition] = state
        return ClusterState(
            cluster_id=cluster_id or "",
            conn_id=conn_id,
            now_ms=self.now_ms,
            topics={
                name: TopicState(name, ids.get(name), found, configs.get(name, {}), (counts or {}).get(name))
                for name, found in partitions.items()
            },
            first_at={at: found.offset for at, found in self.first_at.items()},
            unsettled=frozenset(at for at, found in self.first_at.items() if not found.is_settled),
            ahead={p: found.ahead for (p, _), found in self.first_at.items() if found.ahead is not None},
        )


def read_offsets(
    client: KafkaClient,
    partitions: Collection[TopicPartition],
    timestamps: Mapping[str, Collection[int]],
    newest: Collection[str] = (),
    *,
    ahead_ms: Mapping[str, int] | None = None,
    on_error: Callable[[str, KafkaSparkError], None],
    retry_seconds: float = 0.0,
) -> TopicOffsets:
    """Read the offsets of partitions.

    :param timestamps: by topic, in ms since 1970: for each, the first record at or after it is searched, which takes
        READ on the topic.
    :param newest: topics whose largest timestamp is read.
    :param ahead_ms: by topic, how far a record's time may lie ahead of now, in ms; :data:`AHEAD_MS` where it is not
        named.
    :param on_error: is called with the topic and its error; it raises, or the topic is left out.
    :param retry_seconds: how long each request is sent again while a partition has no leader, or its leader does not
        know it.
    """
    requests = _Requests(client, on_error, retry_seconds)
    ask, lost = requests.ask, requests.lost
    # The order matters on a live topic, where later requests return higher offsets. A window that is closed now
    # stays closed. A record after the window that arrives after the end was fetched must not count. A last stable
    # offset that is fetched after all ends does not look like an open transaction. The log's start comes last, to
    # include what retention deletes meanwhile.
    now_ms = int(time.time() * 1000)
    end = ask(dict.fromkeys(partitions, _LATEST))
    candidates = _first_at(requests, partitions, timestamps)
    latest = ask({p: _MAX_TIMESTAMP for p in partitions if p.topic in newest})
    stable = ask(dict.fromkeys(partitions, _LATEST), IsolationLevel.READ_COMMITTED)
    start = ask(dict.fromkeys(partitions, _EARLIEST))

    ends = {p: answer.offset for p, answer in end.items()}
    limits = {p: now_ms + (ahead_ms or {}).get(p.topic, AHEAD_MS) for p in partitions}
    firsts = {
        (p, epoch_ms): find_first(epoch_ms, candidate, ends[p], limits[p])
        for (p, epoch_ms), candidate in candidates.items()
        if p.topic not in lost
    }
    first_at = run_searches(client, firsts, ends, requests.leave_out)
    starts = {p: answer.offset for p, answer in start.items()}
    newest_ms = _newest_ms(client, requests, latest, starts, ends, limits)
    left = [p for p in partitions if p.topic not in lost]
    return TopicOffsets(
        now_ms,
        {p: PartitionState(start[p].offset, stable[p].offset, end[p].offset, _epoch_of(end[p])) for p in left},
        {(p, epoch_ms): found for (p, epoch_ms), found in first_at.items() if p.topic not in lost},
        {p: newest_ms.get((p, 0)) for p in latest if p.topic not in lost},
    )


def _newest_ms(
    client: KafkaClient,
    requests: _Requests,
    latest: Mapping[TopicPartition, ListOffsetsResultInfo],
    starts: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
    limits: Mapping[TopicPartition, int],
) -> dict[tuple[TopicPartition, int], int | None]:
    """The largest credible timestamp of each partition, in ms, by the records near the largest one.

    :param latest: what brokers say of the largest one.
    """
    last = {
        (p, 0): find_newest(answer.timestamp, starts[p], ends[p], limits[p])
        for p, answer in latest.items()
        if answer.offset >= 0 and p.topic not in requests.lost
    }
    return run_searches(client, last, ends, requests.leave_out)


class _Requests:
    """Requests for offsets, each of which is sent again while a partition has no leader.

    :ivar lost: topics that are left out.
    """

    def __init__(
        self, client: KafkaClient, on_error: Callable[[str, KafkaSparkError], None], retry_seconds: float
    ) -> None:
        self._client = client
        self._on_error = on_error
        self._retry_seconds = retry_seconds
        self.lost: set[str] = set()

    def leave_out(self, topic: str, error: KafkaSparkError) -> None:
        self._on_error(topic, error)
        self.lost.add(topic)

    def ask(
        self,
        times: Mapping[TopicPartition, int],
        isolation: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
    ) -> dict[TopicPartition, ListOffsetsResultInfo]:
        return self.ask_many([times], isolation)[0]

    def ask_many(
        self, requests: Sequence[Mapping[TopicPartition, int]], isolation: IsolationLevel
    ) -> list[dict[TopicPartition, ListOffsetsResultInfo]]:
        """All are on their way at the same time."""
        found: list[dict[TopicPartition, ListOffsetsResultInfo]] = [{} for _ in requests]
        deadline = time.monotonic() + self._retry_seconds
        while missing := [
            (known, request)
            for known, times in zip(found, requests, strict=True)
            if (request := {p: at for p, at in times.items() if p not in known and p.topic not in self.lost})
        ]:
            sent = [(known, _list_offsets(self._client, request, isolation)) for known, request in missing]
            for known, portions in sent:
                for partitions, answers in portions:
                    for p, answer in _offsets_of(self._client, partitions, answers):
                        if isinstance(answer, ListOffsetsResultInfo):
                            known[p] = answer
                        elif p.topic not in self.lost and (not _may_pass(answer) or time.monotonic() >= deadline):
                            self.leave_out(p.topic, answer)
            if any(request.keys() - known.keys() for known, request in missing):
                time.sleep(min(0.2, self._retry_seconds))
        return found


def _may_pass(answer: KafkaSparkError) -> bool:
    """Whether a leader may answer soon. One whose metadata lack a new partition says that it is unknown, which Kafka's
    Java clients take for a reason to ask again too (``UnknownTopicOrPartitionException`` is a ``RetriableException``).
    """
    return isinstance(answer, UnknownTopicError) or is_transient(answer)


def _first_at(
    requests: _Requests, partitions: Collection[TopicPartition], timestamps: Mapping[str, Collection[int]]
) -> dict[tuple[TopicPartition, int], int | None]:
    """The offset that brokers give for each partition and time; None if there is none.

    Few times are asked first, and then those that no answer has decided: most sensors wait for times that no record has
    reached.
    """
    found: dict[tuple[TopicPartition, int], int | None] = {}
    times = {name: sorted(set(of_topic)) for name, of_topic in timestamps.items() if of_topic}
    left: Mapping[TopicPartition, Sequence[int]] = {p: times[p.topic] for p in partitions if p.topic in times}
    most = _FIRST
    while left:
        chosen = {p: _spread(of_one, most) for p, of_one in left.items()}
        # A request takes one time of each partition. The latest ones are asked first: a record that comes meanwhile
        # answers an earlier time too.
        asked = [
            {p: of_one[-i] for p, of_one in chosen.items() if i <= len(of_one)}
            for i in range(1, 1 + max(map(len, chosen.values())))
        ]
        answers = list(zip(asked, requests.ask_many(asked, IsolationLevel.READ_UNCOMMITTED), strict=True))
        undecided = {}
        for p, of_one in left.items():
            decided = _decided(of_one, {at[p]: first[p] for at, first in answers if p in first})
            found |= {(p, ms): offset for ms, offset in decided.items()}
            if p.topic not in requests.lost and len(decided) < len(of_one):
                undecided[p] = [ms for ms in of_one if ms not in decided]
        left, most = undecided, min(2 * most, _AT_ONCE)
    return found


def _spread(times: Sequence[int], most: int) -> Sequence[int]:
    """At most so many of them: the first one, and others at even distances."""
    return times if len(times) <= most else [times[i * len(times) // most] for i in range(most)]


def _decided(times: Sequence[int], answers: Mapping[int, ListOffsetsResultInfo]) -> dict[int, int | None]:
    """What answers say of ascending times. The broker finds the first record of a log at or after a time: it is also
    that of every later time up to the record's own, and if there is none, there is none for any later time.
    """
    decided: dict[int, int | None] = {}
    last: ListOffsetsResultInfo | None = None
    for ms in times:
        if last is None or (last.offset >= 0 and ms > last.timestamp):
            if ms not in answers:
                continue
            last = answers[ms]
        decided[ms] = last.offset if last.offset >= 0 else None
    return decided


def _list_offsets(
    client: KafkaClient, times: Mapping[TopicPartition, int], isolation: IsolationLevel
) -> list[tuple[Sequence[TopicPartition], Future[OffsetAnswers]]]:
    partitions = list(times)
    portions = [partitions[i : i + _MOST_PARTITIONS] for i in range(0, len(partitions), _MOST_PARTITIONS)]
    # All are sent before the first answer is awaited.
    return [(portion, client.list_offsets({p: times[p] for p in portion}, isolation)) for portion in portions]


def _offsets_of(
    client: KafkaClient, partitions: Sequence[TopicPartition], answers: Future[OffsetAnswers]
) -> Iterator[tuple[TopicPartition, ListOffsetsResultInfo | BrokerError | UnknownTopicError]]:
    """Wait for the answers of a request: the offset of each partition, or why there is none."""
    by_place: dict[tuple[str, int], ListOffsetsResultInfo | KafkaError] = {}
    whole: BaseException | None = None
    try:
        found = client.result(answers, f"listing offsets of {partitions[0]}")
        by_place = {(at.topic, at.partition): answer for at, answer in found.items()}
    except (BrokerError, UnknownTopicError) as error:
        whole = error.__cause__
    for p in partitions:
        answer = by_place.get(p)
        if isinstance(answer, ListOffsetsResultInfo) and answer.offset >= _NONE:
            yield p, answer
        else:
            yield p, _failure(client, p, KafkaException(answer) if isinstance(answer, KafkaError) else whole)


def _failure(client: KafkaClient, p: TopicPartition, cause: BaseException | None) -> BrokerError | UnknownTopicError:
    """:param cause: None if the answer has no offset: librdkafka leaves its own -1001 there, without an error, for a
    partition whose broker went away meanwhile. It would pass for "no record" of a search by time.
    """
    error: BrokerError | UnknownTopicError
    if isinstance(cause, Exception):
        error = client.to_error(cause, f"listing offsets of {p}", f"DESCRIBE on topic {p.topic!r}")
    else:
        cause = KafkaException(KafkaError(KafkaError.LEADER_NOT_AVAILABLE))
        error = BrokerUnavailableError(
            f"The brokers of {client.config.bootstrap_servers} (connection {client.conn_id!r}) must answer with an "
            f"offset of {p}; its leader went away before it did. Check that the brokers are up; the task may be tried "
            "again."
        )
    error.__cause__ = cause
    return error


def _epoch_of(answer: ListOffsetsResultInfo) -> int | None:
    epoch = answer.leader_epoch
    return None if epoch is None or epoch < 0 else int(epoch)
