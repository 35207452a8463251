"""A map index is only a place in a list: whether it has the item that it had in an earlier try. No I/O."""

from __future__ import annotations

from airflow_provider_kafka_spark.core.errors import InvalidInputError

_REMEDY = (
    "Restore the order of the list, with new items at its end, and clear the task; or trigger a new DAG run with what "
    "is to be copied."
)


def check_item(earlier: str, now: str) -> None:
    """:raises InvalidInputError: if a map index has another item than before."""
    if earlier != now:
        raise InvalidInputError(
            f"The item at a map index must be the one of the earlier try of this DAG run, {earlier or 'none'}; got "
            f"{now or 'none'}. The earlier one may have been delivered, also from another index. {_REMEDY}"
        )


def check_begun_with(earlier: str | None, now: str | None) -> None:
    """As :func:`check_item`, of a try that has submitted nothing: another index may have delivered this one's item.

    :param earlier: the MAC of an item; None if the item is not known, as the next one.
    :raises InvalidInputError: if both are known and differ.
    """
    if None not in (earlier, now) and earlier != now:
        raise InvalidInputError(
            "The item at a map index must be the one of the first try of this DAG run; the list has changed since. "
            f"The item of now may have been delivered from another index. {_REMEDY}"
        )
