"""A Spark that is there already."""

from __future__ import annotations

from tests.in_process_jobs import in_process_spark as in_process_spark
