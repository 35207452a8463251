"""The environment that Airflow, Spark and their children find: temporary folders and connections of our own, nothing of
the user's.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

MASTER = "local[*]"


@contextmanager
def own_environment() -> Iterator[Path]:
    """Set this process's environment, before Airflow is imported, and yield a folder that is gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="kafka-spark-benchmarks-") as name:
        folder = Path(name)
        (folder / "spark").mkdir()
        os.environ |= {
            "AIRFLOW_HOME": str(folder / "airflow"),
            "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
            "AIRFLOW__LOGGING__LOGGING_LEVEL": "ERROR",
            # Without them the first copy would store variables, and there is no Airflow around a task.
            "AIRFLOW__KAFKA_SPARK__DEPLOYMENT": "benchmarks",
            "AIRFLOW__KAFKA_SPARK__STATE_KEY": "the key of the benchmarks' own state",
            "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps({"conn_type": "spark", "host": MASTER}),
            # For child processes: files that they do not remove are removed with the folder.
            "TMPDIR": str(folder),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_LOCAL_DIRS": str(folder / "spark"),
            "PYSPARK_PYTHON": sys.executable,
            "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")]),
        }
        # Settings of another Spark would affect only some of the variants.
        for variable in ("SPARK_HOME", "SPARK_CONF_DIR", "PYSPARK_SUBMIT_ARGS", "PYSPARK_DRIVER_PYTHON"):
            os.environ.pop(variable, None)
        yield folder


def connect_to(bootstrap_servers: str) -> None:
    """Make ``kafka_default`` lead to a broker."""
    extra = {"bootstrap.servers": bootstrap_servers}
    os.environ["AIRFLOW_CONN_KAFKA_DEFAULT"] = json.dumps({"conn_type": "kafka", "extra": extra})
