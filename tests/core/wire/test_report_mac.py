from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_kafka_spark.core.errors import JobReportForgedError
from airflow_provider_kafka_spark.core.wire.report_mac import sign, verified

_KEY = "5ea1" * 16
_REPORT = '{"failure": null, "run_id": "0123456789abcdef"}'


@given(st.text(), st.text())
def test_a_signed_report_reads_back(report: str, key: str) -> None:
    assert verified(sign(report, key), key) == report


@pytest.mark.parametrize(
    ("text", "says"),
    [
        pytest.param(_REPORT, "it has none", id="no-mac"),
        pytest.param(_REPORT + "\n", "it has none", id="no-mac-and-a-line-break"),
        pytest.param("", "it has none", id="empty"),
        pytest.param("\n\n", "it has none", id="blank"),
        pytest.param(_REPORT + "\n\n", "it has none", id="empty-mac"),
        pytest.param(sign(_REPORT, "another key"), "it has another one", id="another-key"),
        pytest.param(sign(_REPORT, ""), "it has another one", id="empty-key"),
        pytest.param(sign(_REPORT, _KEY).replace("null", "true"), "it has another one", id="changed"),
        pytest.param(sign(_REPORT, _KEY)[:-4], "it has another one", id="cut-off"),
        pytest.param(_REPORT + "\n" + _REPORT + sign(_REPORT, _KEY)[len(_REPORT) :], "it has another one", id="longer"),
        pytest.param(_REPORT + "\n\u00e4", "it has another one", id="not-ascii"),
    ],
)
def test_any_other_report_is_refused(text: str, says: str) -> None:
    with pytest.raises(JobReportForgedError, match=says) as raised:
        verified(text, _KEY)

    assert raised.value.retriable
    assert "report_location" in str(raised.value)
    assert not [part for part in (_KEY, "0123456789abcdef") if part in str(raised.value)]
