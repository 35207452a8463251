"""The report with a message authentication code (MAC), which proves that the worker's own job wrote it. No I/O.

A shared ``report_location`` may have other writers, and the task's log has all other data of the run. Only the request
has the key.
"""

from __future__ import annotations

import hashlib
import hmac

from airflow_provider_kafka_spark.core.errors import JobReportForgedError


def sign(report: str, key: str) -> str:
    """The report and, on a line of its own, its MAC; :func:`verified` reads it back.

    :param report: one line of text.
    :param key: of the request.
    """
    return f"{report}\n{_mac(report, key)}\n"


def verified(text: str, key: str) -> str:
    """The report in a signed text.

    :raises JobReportForgedError: if the MAC is missing or wrong.
    """
    report, _, mac = text.removesuffix("\n").rpartition("\n")
    if not hmac.compare_digest(mac.encode(), _mac(report, key).encode()):
        raise JobReportForgedError(
            "The job's report must end with a MAC by the key of this run's request; "
            + ("it has none." if "\n" not in text.strip() else "it has another one.")
            + " Something else wrote or changed it: check who may write to report_location. "
            "A retry asks the target what was delivered."
        )
    return report


def _mac(report: str, key: str) -> str:
    return hmac.new(key.encode(), report.encode(), hashlib.sha256).hexdigest()
