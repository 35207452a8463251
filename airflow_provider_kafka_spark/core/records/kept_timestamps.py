"""Check whether a target keeps the timestamps of records. No I/O."""

from __future__ import annotations

from collections.abc import Mapping

from airflow_provider_kafka_spark.core.errors import TargetError
from airflow_provider_kafka_spark.core.shown_text import moment

_OTHERWISE = "Or pass preserve_timestamps=False: records then get the time at which they are written."
_NO_LIMIT = 2**62


def check_timestamp_type(name: str, config: Mapping[str, str]) -> None:
    """:raises TargetError: if the target replaces every timestamp.

    :param config: of the target; empty if the login may not read it.
    """
    if config.get("message.timestamp.type") == "LogAppendTime":
        raise TargetError(
            f"preserve_timestamps=True needs a target that keeps timestamps; {name!r} has "
            f"message.timestamp.type=LogAppendTime, which replaces them. Set CreateTime there. {_OTHERWISE}"
        )


def checks_times(config: Mapping[str, str]) -> bool:
    """Whether the timestamps of the planned records have to be known."""
    before, after, retention = _limits(config)
    return min(before, after, retention) < _NO_LIMIT


def check_times(name: str, config: Mapping[str, str], oldest_ms: int, newest_ms: int, now_ms: int) -> None:
    """Check that the target accepts the planned records and does not delete them at once.

    :param config: of the target.
    :param oldest_ms: timestamp of the oldest planned record that is known, in ms since 1970.
    :param newest_ms: likewise of the newest.
    :raises TargetError: naming the setting.
    """
    before, after, retention = _limits(config)
    # Without a timestamp (-1) there is nothing to keep.
    if oldest_ms >= 0 and now_ms - oldest_ms > retention:
        raise TargetError(
            f"retention.ms of the target {name!r} must reach back to the oldest planned record, of "
            f"{moment(oldest_ms, 'seconds')}; it is {retention:,} ms, so the record would be deleted as soon as its "
            f"segment is closed. Raise it. {_OTHERWISE}"
        )
    if oldest_ms >= 0 and now_ms - oldest_ms > before:
        raise TargetError(
            f"message.timestamp.before.max.ms of the target {name!r} must reach back to the oldest planned record, of "
            f"{moment(oldest_ms, 'seconds')}; it is {before:,}, so the target would refuse the record. "
            f"Raise it. {_OTHERWISE}"
        )
    if newest_ms - now_ms > after:
        raise TargetError(
            f"message.timestamp.after.max.ms of the target {name!r} must reach to the newest planned record, of "
            f"{moment(newest_ms, 'seconds')}; it is {after:,}, so the target would refuse the record. "
            f"Raise it. {_OTHERWISE}"
        )


def _limits(config: Mapping[str, str]) -> tuple[int, int, int]:
    """How far before and after now a timestamp may be, and how old a record becomes; in ms."""
    before = int(config.get("message.timestamp.before.max.ms", _NO_LIMIT))
    after = int(config.get("message.timestamp.after.max.ms", _NO_LIMIT))
    retention = int(config.get("retention.ms", -1))
    deletes = "delete" in config.get("cleanup.policy", "")
    return before, after, retention if deletes and retention >= 0 else _NO_LIMIT
