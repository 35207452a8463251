"""The asset events of a copy: the ledger of what was written, and what DAGs are scheduled by."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from airflow.sdk import Asset, AssetAlias
from airflow.sdk.exceptions import AirflowRuntimeError

from airflow_provider_kafka_spark.core.ledger import ALIAS

if TYPE_CHECKING:
    from airflow.sdk import Context

log = logging.getLogger(__name__)


#: The default of ``outlets``: of a mapped task Airflow looks at the default, before there is an operator.
LEDGER_OUTLETS: list[Any] = [AssetAlias(ALIAS)]


def outlets_with_ledger(outlets: object) -> list[Any]:
    """An author's outlets, and the ledger's alias.

    :param outlets: as given to an operator. An empty list stays empty: no events. With an alias of the author's, whose
        events have the same assets, there is no other one.
    """
    if outlets is None:
        return list(LEDGER_OUTLETS)
    given = list(outlets) if isinstance(outlets, list | tuple | set) else [outlets]
    return given if not given or any(isinstance(o, AssetAlias) for o in given) else [*given, AssetAlias(ALIAS)]


def set_asset_event_extra(context: Context, outlets: Iterable[object], entry: Mapping[str, Any]) -> None:
    """Add what was delivered to the asset event of each outlet.

    Airflow creates the events when the task succeeds: for each asset among its outlets; for an alias, those added here,
    one for each target topic with the asset ``kafka://SERVER/TOPIC``, as in the Kafka provider. Nothing here fails a
    task that has delivered everything: an outlet that is not an asset is skipped.

    :param entry: of the ledger.
    """
    outlets = list(outlets)
    uris = {outlet.uri for outlet in outlets if isinstance(outlet, Asset)}
    for outlet in outlets:
        try:
            event = context["outlet_events"][outlet]  # type: ignore[index]
            if not isinstance(outlet, AssetAlias):
                event.extra = dict(entry)
            elif not entry["target"]:
                log.warning("The outlet %r gets no asset event: the target's connection is gone.", outlet)
            else:
                for topic in entry["target_topics"]:
                    asset = Asset(uri=f"kafka://{entry['target']}/{topic}")
                    if asset.uri not in uris:
                        own = [r for r in entry["target_ranges"] if r["topic"] == topic]
                        event.add(asset, extra={**entry, "target_ranges": own})
        except TypeError:
            log.debug("The outlet %r is no asset.", outlet)
        except AirflowRuntimeError as error:
            log.warning("The outlet %r gets no asset event: %s", outlet, error)


def record_without_records(context: Context, outlets: Iterable[object], entry: Mapping[str, Any]) -> list[Any]:
    """Add what was read without a record to write to the ledger, and to nothing that DAGs are scheduled by.

    :param entry: of the ledger.
    :return: the outlets that have events.
    """
    aliases = [outlet for outlet in outlets if isinstance(outlet, AssetAlias) and outlet.name == ALIAS]
    if not aliases or not entry["target"]:
        return []
    for topic in entry["target_topics"]:
        asset = Asset(uri=f"kafka-spark://{entry['target']}/{topic}")
        context["outlet_events"][aliases[0]].add(asset, extra=dict(entry))
    return aliases[:1]
