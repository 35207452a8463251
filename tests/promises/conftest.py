"""A Spark that is already there, and tasks that copy in it."""

from __future__ import annotations

from tests.in_process_jobs import in_process_spark as in_process_spark
from tests.operators.copy_task import new_task as new_task
