"""Which item of a mapped task a task instance has: its map index is only a place in a list, which may change."""

from __future__ import annotations

import json
import logging
from collections.abc import Collection, Mapping
from datetime import date
from typing import TYPE_CHECKING, Any

from airflow.sdk import XComArg

from airflow_provider_kafka_spark.core.runs.run_identity import item_text

if TYPE_CHECKING:
    from airflow.sdk import Context

log = logging.getLogger(__name__)

#: They hold what may be secret, and tell no item from another.
_OPTIONS = ("source_options", "sink_options")
#: A moment among the starting offsets is read as this one.
_MOMENT = "starting_timestamp"


def mapped_item(context: Context, parameters: Mapping[str, Any], kind: type) -> str:
    """What tells the item from the others, as text; empty if the task is not mapped.

    Of a task that is mapped by ``expand`` or ``expand_kwargs`` it is the values of the parameters that are mapped. In a
    mapped task group, and within another mapped task, all parameters tell.

    :param parameters: of the copy, by name, as plain JSON.
    :param kind: the class of the operators that have these parameters.
    """
    index = context["ti"].map_index
    if index is None or index < 0:
        return ""
    names = _mapped_names(context, kind)
    if names is None or "plan" in names:
        # A plan has all the others.
        return item_text({name: value for name, value in parameters.items() if name not in _OPTIONS})
    content = {name: parameters[name] for name in names if name in parameters}
    if "starting_offsets" in content and parameters.get(_MOMENT) is not None:
        content[_MOMENT] = parameters[_MOMENT]
    # Items that differ only in how the job is submitted, are the same copy as often as there are of them.
    return item_text(content or {"map_index": index})


def _mapped_names(context: Context, kind: type) -> Collection[str] | None:
    """The parameters that are mapped; None if that is not known."""
    mapped = getattr(context.get("dag"), "task_dict", {}).get(context["ti"].task_id)
    operator_class, expand_input = getattr(mapped, "operator_class", None), getattr(mapped, "expand_input", None)
    if expand_input is None or not (isinstance(operator_class, type) and issubclass(operator_class, kind)):
        return None
    if isinstance(expand_input.value, Mapping):
        return set(expand_input.value)
    # Of expand_kwargs: those of this item.
    found: Mapping[str, Any] = expand_input.resolve(context)[0]
    return found


def given_item(context: Context) -> str | None:
    """The item of a mapped task as the DAG gives it, before its templates are rendered, as JSON. It may have secrets.

    In a mapped task group it is that of the group, and within another mapped task the one of that task.

    :return: None if the task is not mapped, or Airflow does not know the item, or it has more than JSON and times.
    """
    index = context["ti"].map_index
    if index is None or index < 0:
        return None

    def plain(value: object) -> Any:
        if isinstance(value, XComArg):
            return value.resolve(context)
        if isinstance(value, date):
            return value.isoformat()
        raise TypeError(f"{type(value).__name__} is not plain JSON")

    try:
        return json.dumps(_expanded(context), sort_keys=True, default=plain)
    except Exception as error:  # noqa: BLE001 - the list may have become shorter, or be gone
        log.info("The item of this mapped task is not known (%s): its parameters tell.", type(error).__name__)
        return None


def _expanded(context: Context) -> Any:
    """The item of a mapped task."""
    task: Any = context["dag"].task_dict[context["ti"].task_id]
    if task.is_mapped:
        return task._get_specified_expand_input().resolve(context)[0]
    # Of a mapped group in another one, an index does not tell the items.
    (group,) = task.iter_mapped_task_groups()
    return group._expand_input.resolve(context)[0]
