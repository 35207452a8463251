"""Targets that do not exist yet, with the shape of their sources. No I/O."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

from airflow_provider_kafka_spark.core.errors import TargetError
from airflow_provider_kafka_spark.core.topics.broker_state import ClusterState, PartitionState, TopicState

#: What to do with a setting of the source that the target's brokers refuse.
FAIL_IF_REFUSED, LEAVE_OUT = ON_REFUSED_CONFIG = ("fail", "leave_out")
#: Settings that name brokers of the source's cluster.
_OF_ONE_CLUSTER = frozenset({"leader.replication.throttled.replicas", "follower.replication.throttled.replicas"})

#: Kafka's defaults of the settings that decide how a target is written to; without any they would count as unknown.
_DEFAULTS = {"cleanup.policy": "delete", "compression.type": "producer"}


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic to be created.

    :param config: the settings that are not the brokers' defaults.
    :param left_out: names of settings of the source that the target's brokers refuse.
    """

    name: str
    partitions: int
    config: Mapping[str, str] = field(default_factory=dict)
    left_out: tuple[str, ...] = ()

    def without(self, names: Collection[str]) -> NewTopic:
        """This one without some settings."""
        config = {name: value for name, value in self.config.items() if name not in names}
        return replace(self, config=config, left_out=(*self.left_out, *sorted(names)))

    def describe(self, verb: str) -> str:
        """The topic as a plan names it.

        >>> NewTopic("copy", 6, {"cleanup.policy": "compact"}).describe("will be")
        "Target topic 'copy' will be created: 6 partitions, cleanup.policy=compact"
        """
        count = f"{self.partitions:,} partition{'' if self.partitions == 1 else 's'}"
        settings = [f"{name}={value}" for name, value in sorted(self.config.items())]
        text = f"Target topic {self.name!r} {verb} created: {', '.join([count, *settings])}"
        return text + (f"; its brokers refuse {', '.join(self.left_out)}, which is left out" if self.left_out else "")


def new_topics(
    routes: Mapping[str, Collection[str]],
    source: ClusterState,
    settings: Mapping[str, Mapping[str, str]],
    partitions: int | None = None,
    dead_letters: str | None = None,
) -> list[NewTopic]:
    """The topics to create.

    :param routes: for each topic to create, the source topics whose records go there.
    :param settings: of each source topic, what was set for it.
    :param partitions: of each new topic; by default that of its largest source.
    :param dead_letters: the topic for rejected records, which is never compacted.
    :raises TargetError: if the sources of one topic have different settings.
    """
    topics = []
    for name, sources in sorted(routes.items()):
        of_sources = {source: settings.get(source, {}) for source in sources}
        different = [] if name == dead_letters else _differences(of_sources)
        if different:
            raise TargetError(
                f"create_target_topics gives a target the settings of its source topics, which must be the same; for "
                f"{name!r} they differ: {'; '.join(different[:5])}. Create the topic with the settings you want, or "
                "give each source a target of its own by topic_map."
            )
        if name == dead_letters:
            config = _of_dead_letters(of_sources.values())
        else:
            config = dict(settings.get(min(sources), {})) if sources else {}
        count = partitions or max((source.topic(s).count for s in sources), default=1)
        topics.append(NewTopic(name, count, {n: v for n, v in config.items() if n not in _OF_ONE_CLUSTER}))
    return topics


def with_new_topics(cluster: ClusterState, topics: Collection[NewTopic]) -> ClusterState:
    """The cluster as it is when they are created, for a plan."""
    empty = PartitionState(0, 0, 0)
    states = {
        t.name: TopicState(t.name, None, dict.fromkeys(range(t.partitions), empty), {**_DEFAULTS, **t.config})
        for t in topics
    }
    return replace(cluster, topics={**cluster.topics, **states})


def _of_dead_letters(settings: Iterable[Mapping[str, str]]) -> dict[str, str]:
    """Whatever the sources hold fits in, and is kept as long as there."""
    found = {"cleanup.policy": "delete"}
    for name in ("max.message.bytes", "retention.ms"):
        values = [int(config[name]) for config in settings if name in config]
        if values:
            # -1 is no limit.
            found[name] = str(-1 if -1 in values else max(values))
    return found


def _differences(settings: Mapping[str, Mapping[str, str]]) -> list[str]:
    """Descriptions of the settings that are not the same for all topics."""
    names = sorted({name for config in settings.values() for name in config} - _OF_ONE_CLUSTER)
    found = []
    for name in names:
        values = {topic: config.get(name, "not set") for topic, config in sorted(settings.items())}
        if len(set(values.values())) > 1:
            found.append(
                f"{name} is {', '.join(f'{value} for {topic!r}' for topic, value in list(values.items())[:3])}"
            )
    return found
