"""The version of request and report. A driver that runs other code than the worker must not guess, so both sides refuse
another one.
"""

from __future__ import annotations

PROTOCOL_VERSION = 14
REMEDY = (
    "Worker and driver must run the same version of airflow-provider-kafka-spark: let the operator send its own code, "
    "and remove copies installed on the cluster."
)
