"""Names of the files that we put beside a job, in its folder and in the working directory of its driver and executors.
No I/O.
"""

from __future__ import annotations

REQUEST = "request.json"
REPORT = "report.json"
#: The worker makes it when Airflow has recorded the application; the driver waits for it.
PROCEED = "proceed"
#: What the logins have that is secret, as Kafka's Java clients read it.
LOGINS = "kafka-logins.properties"
#: Our own Python code.
CODE = "airflow_provider_kafka_spark.zip"
#: Spark's properties that are secret.
PROPERTIES = "spark.conf"
#: Of the Spark connection.
KEYTAB = "spark.keytab"

#: Of a JVM that crashes; the JVM itself fills in the number of its process.
CRASH_REPORT = "hs_err_pid%p.log"

#: What no other file of a job may be called.
RESERVED = frozenset({REQUEST, REPORT, PROCEED, LOGINS, CODE, PROPERTIES, KEYTAB})
