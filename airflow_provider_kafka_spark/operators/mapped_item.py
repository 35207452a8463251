"""Which item of a mapped task a task instance has: its map index is only a place in a list, which may change."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

from airflow_provider_kafka_spark.core.runs.run_identity import item_text

if TYPE_CHECKING:
    from airflow.sdk import Context

#: They hold what may be secret, and tell no item from another.
_OPTIONS = ("source_options", "sink_options")


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
