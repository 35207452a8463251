from __future__ import annotations

import pytest

from airflow_provider_kafka_spark.core.errors import TargetError
from airflow_provider_kafka_spark.core.records.kept_timestamps import check_times, check_timestamp_type, checks_times

_NOW = 1_800_000_000_000
_DAY = 86_400_000
_WEEK = {"cleanup.policy": "delete", "retention.ms": str(7 * _DAY)}


@pytest.mark.parametrize(
    ("config", "oldest", "newest", "says"),
    [
        pytest.param(_WEEK, _NOW - 8 * _DAY, _NOW, "retention.ms of the target 'copy'", id="deleted-at-once"),
        pytest.param(
            {"message.timestamp.before.max.ms": str(_DAY)},
            _NOW - 2 * _DAY,
            _NOW,
            "message.timestamp.before.max.ms of the target 'copy'",
            id="too-old",
        ),
        pytest.param(
            {"message.timestamp.after.max.ms": "3600000"},
            _NOW,
            _NOW + _DAY,
            "message.timestamp.after.max.ms of the target 'copy'",
            id="of-tomorrow",
        ),
        pytest.param({"message.timestamp.after.max.ms": "0"}, 0, 2**62, "ms since 1970", id="of-no-date-at-all"),
    ],
)
def test_a_target_that_would_not_keep_a_record(config: dict[str, str], oldest: int, newest: int, says: str) -> None:
    assert checks_times(config)
    with pytest.raises(TargetError) as raised:
        check_times("copy", config, oldest, newest, _NOW)
    assert says in str(raised.value)
    assert "preserve_timestamps=False" in str(raised.value)


@pytest.mark.parametrize(
    ("config", "oldest"),
    [
        pytest.param({}, 0, id="settings-unknown"),
        pytest.param(_WEEK, _NOW - 6 * _DAY, id="young-enough"),
        pytest.param(_WEEK, -1, id="no-timestamp"),
        pytest.param({**_WEEK, "retention.ms": "-1"}, 0, id="kept-without-end"),
        pytest.param({**_WEEK, "cleanup.policy": "compact"}, 0, id="compacted-only"),
    ],
)
def test_a_target_that_keeps_them(config: dict[str, str], oldest: int) -> None:
    check_times("copy", config, oldest, _NOW, _NOW)


def test_a_target_that_replaces_them() -> None:
    """The broker's clock would take the place of every timestamp."""
    check_timestamp_type("copy", {"message.timestamp.type": "CreateTime"})
    check_timestamp_type("copy", {})
    with pytest.raises(TargetError, match=r"message\.timestamp\.type=LogAppendTime, which replaces them"):
        check_timestamp_type("copy", {"message.timestamp.type": "LogAppendTime"})
