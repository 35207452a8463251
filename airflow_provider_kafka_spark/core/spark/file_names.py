"""Names of the files in a job's folder and in the working directory of its driver and executors. No I/O."""

from __future__ import annotations

REQUEST = "request.json"
REPORT = "report.json"
#: The worker creates it when Airflow has recorded the application; the driver waits for it.
PROCEED = "proceed"
#: The secrets of the logins, as Kafka's Java clients read them.
LOGINS = "kafka-logins.properties"
#: The Python code of this package.
CODE = "airflow_provider_kafka_spark.zip"
#: Spark's properties that are secret.
PROPERTIES = "spark.conf"
#: The keytab of the Spark connection.
KEYTAB = "spark.keytab"

#: The end of the name of the file beside a report, in which a driver in cluster mode says how far it is.
_PROGRESS = ".progress"

#: Of a JVM that crashes; the JVM itself fills in the number of its process.
CRASH_REPORT = "hs_err_pid%p.log"

#: Names that no other file of a job may have.
RESERVED = frozenset({REQUEST, REPORT, PROCEED, LOGINS, CODE, PROPERTIES, KEYTAB})


def progress_uri(report_uri: str) -> str:
    """Where a driver in cluster mode says how far it is: only the cluster keeps its output."""
    return report_uri + _PROGRESS
