"""Small tables out of the driver's hands, without Python on the executors.

``SparkSession.createDataFrame`` sends a list through a Python worker of an executor, of the driver's own Python
version; an executor that only copies needs none.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def local_table(spark: SparkSession, columns: Mapping[str, str], rows: Iterable[Iterable[Any]] = ()) -> DataFrame:
    """A table of numbers and texts.

    :param columns: name and SQL type of each.
    :param rows: a value for each column.
    """
    fields = ", ".join(f"{name}: {kind}" for name, kind in columns.items())
    text = json.dumps([dict(zip(columns, row, strict=True)) for row in rows])
    return spark.sql(f"select inline(from_json(:rows, 'array<struct<{fields}>>'))", args={"rows": text})
