"""OpenLineage of a copy, by Airflow's own provider: topics, records and offset ranges.

Nothing here is imported unless that provider asks.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from airflow_provider_kafka_spark.core.errors import OptionError
from airflow_provider_kafka_spark.core.offsets.offset_range import OffsetRange
from airflow_provider_kafka_spark.core.secrets import is_secret

if TYPE_CHECKING:
    from airflow.providers.openlineage.extractors import OperatorLineage

log = logging.getLogger(__name__)

_TRANSPORT = "spark.openlineage.transport."


def lineage_of(entry: Mapping[str, Any] | None) -> OperatorLineage[Any, Any] | None:
    """The datasets of a task, as OpenLineage names them: ``kafka://first-bootstrap-server`` and the topic.

    An input has the offset ranges that are delivered, as a subset of partitions; of a failed run, those that are known
    to be committed. An output has the ranges that were written. The only target has the number of records, and of bytes
    if one try wrote all of them.

    :param entry: of the ledger, as the task has it last; None before a plan.
    """
    if entry is None:
        return None
    # Only here: it is not there without the provider.
    from airflow.providers.openlineage.extractors import OperatorLineage
    from openlineage.client.event_v2 import InputDataset, OutputDataset
    from openlineage.client.generated.base_subset_dataset import (
        InputSubsetInputDatasetFacet,
        OutputSubsetOutputDatasetFacet,
    )
    from openlineage.client.generated.output_statistics_output_dataset import OutputStatisticsOutputDatasetFacet

    read, planned, written = (
        _by_topic(entry.get(name, ())) for name in ("offset_ranges", "planned_ranges", "target_ranges")
    )
    targets = entry["target_topics"]
    inputs = [
        InputDataset(
            namespace=f"kafka://{entry['source']}",
            name=topic,
            inputFacets={"subset": InputSubsetInputDatasetFacet(inputCondition=_subset(read.get(topic, ())))},
        )
        for topic in sorted(read.keys() | planned.keys())
    ]
    outputs = []
    for topic in targets:
        facets: dict[str, Any] = {}
        if topic in written:
            facets["subset"] = OutputSubsetOutputDatasetFacet(outputCondition=_subset(written[topic]))
        if entry["state"] == "complete" and len(targets) == 1:
            facets["outputStatistics"] = OutputStatisticsOutputDatasetFacet(
                rowCount=entry["records_written"], size=entry.get("bytes_written")
            )
        outputs.append(OutputDataset(namespace=f"kafka://{entry['target']}", name=topic, outputFacets=facets))
    return OperatorLineage(inputs=inputs, outputs=outputs)


def check_transport(given: Mapping[str, Any], injected: Mapping[str, Any]) -> None:
    """Check that a transport brings no secret to Spark's properties, which Spark's page shows.

    :param given: properties before the injection.
    :raises OptionError: naming the properties.
    """
    added = [name for name in injected if name.startswith(_TRANSPORT) and name not in given]
    secret = sorted(n for n in added if ".auth." in n or ".headers." in n or is_secret(n, str(injected[n])))
    if secret:
        raise OptionError(
            f"openlineage_inject_transport_info must bring no login to Spark's properties, which Spark's page shows; "
            f"got {', '.join(secret)}. Pass openlineage_inject_transport_info=False, and configure OpenLineage's "
            "listener on the cluster."
        )


def _by_topic(ranges: Iterable[object]) -> dict[str, list[OffsetRange]]:
    found: dict[str, list[OffsetRange]] = defaultdict(list)
    for r in map(OffsetRange.parse, ranges):
        found[r.topic].append(r)
    return found


def _subset(ranges: Iterable[OffsetRange]) -> Any:
    from openlineage.client.generated.base_subset_dataset import Partition, PartitionSubsetCondition

    return PartitionSubsetCondition(
        partitions=[
            Partition(
                identifier=r.format(),
                dimensions={"partition": r.partition, "from_offset": r.from_offset, "until_offset": r.until_offset},
            )
            for r in ranges
            if not r.is_empty
        ]
    )
