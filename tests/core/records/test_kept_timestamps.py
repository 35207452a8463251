from __future__ import annotations

import pytest

from airflow_provider_kafka_spark.core.errors import TargetError
from airflow_provider_kafka_spark.core.records.kept_timestamps import check_times, check_timestamp_type, checks_times
from tests.core.refusals import refuses

_NOW = 1_800_000_000_000
_DAY = 86_400_000
_WEEK = {"cleanup.policy": "delete", "retention.ms": str(7 * _DAY)}


@pytest.mark.parametrize(
    ("setting", "value", "oldest", "newest"),
    [
        pytest.param("retention.ms", 7 * _DAY, _NOW - 8 * _DAY, _NOW, id="deleted-at-once"),
        pytest.param("message.timestamp.before.max.ms", _DAY, _NOW - 2 * _DAY, _NOW, id="too-old"),
        pytest.param("message.timestamp.after.max.ms", 3_600_000, _NOW, _NOW + _DAY, id="of-tomorrow"),
        pytest.param("message.timestamp.after.max.ms", 0, 0, 2**62, id="of-no-date-at-all"),
    ],
)
def test_a_target_that_would_not_keep_a_record(setting: str, value: int, oldest: int, newest: int) -> None:
    config = {"cleanup.policy": "delete", setting: str(value)}
    assert checks_times(config)
    with refuses(TargetError, f"{setting} of the target 'copy'", "preserve_timestamps=False") as raised:
        check_times("copy", config, oldest, newest, _NOW)
    assert ("ms since 1970" in str(raised.value)) == (newest == 2**62)


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
