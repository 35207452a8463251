"""The asset events of a copy: what was written, for DAGs that are scheduled by the target."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from airflow.sdk import Asset, AssetAlias
from airflow.sdk.exceptions import AirflowRuntimeError

from airflow_provider_kafka_spark.core.errors import KafkaSparkError
from airflow_provider_kafka_spark.core.offset_range import OffsetRange

if TYPE_CHECKING:
    from airflow.sdk import Context

log = logging.getLogger(__name__)


def set_asset_event_extra(
    context: Context, outlets: Iterable[object], result: Mapping[str, Any], target_server: Callable[[], str]
) -> None:
    """Add what was delivered to the asset event of each outlet.

    Airflow creates the events when the task succeeds: for each asset among its outlets; for an alias, those added here,
    one for each target topic with the asset ``kafka://SERVER/TOPIC``, as in the Kafka provider. Nothing here fails a
    task that has delivered everything: an outlet that is not an asset is skipped.

    :param target_server: the target's first bootstrap server, as ``host:port``.
    """
    extra = {
        "run_id": result["run_id"],
        "records_written": result["records_written"],
        "offset_ranges": [
            *result.get("finished_before", []),
            *(
                OffsetRange(r["topic"], r["partition"], r["from_offset"], r["until_offset"]).format()
                for r in result["ranges"]
            ),
        ],
        "target_ranges": [*result.get("written_before", []), *result["target_ranges"]],
    }
    for outlet in outlets:
        try:
            event = context["outlet_events"][outlet]  # type: ignore[index]
            if isinstance(outlet, AssetAlias):
                for topic in result["target_topics"]:
                    own = [r for r in extra["target_ranges"] if r["topic"] == topic]
                    event.add(Asset(uri=f"kafka://{target_server()}/{topic}"), extra={**extra, "target_ranges": own})
            else:
                event.extra = extra
        except TypeError:
            log.debug("The outlet %r is no asset.", outlet)
        except (AirflowRuntimeError, KafkaSparkError) as error:
            log.warning("The outlet %r gets no asset event: %s", outlet, error)
