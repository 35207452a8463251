"""Errors of what a worker needs to start and follow a Spark job."""

from __future__ import annotations

from airflow_provider_kafka_spark.core.errors import commands
from airflow_provider_kafka_spark.core.errors.base import KafkaSparkError, listed


class SubmitError(KafkaSparkError):
    """The Spark job could not be started or followed.

    Look at the subclass: it names what is wrong.
    """

    code = "KS600"
    checks = listed(commands.PREPARE)


class JavaNotFoundError(SubmitError):
    """There is no Java on the worker, or only one that is too old for Spark.

    Install Java 17, or set ``JAVA_HOME`` or the ``PATH`` of the worker to it.
    """

    code = "KS601"
    causes = listed(
        "The worker's image has no Java.",
        "JAVA_HOME leads elsewhere, or the PATH of the worker's service is not that of your shell.",
    )
    checks = listed("java -version", commands.PREPARE)


class JavaStartError(SubmitError):
    """A JVM for Kafka's Java client did not start in time, or ended at its start.

    Run ``java -version`` on the worker, and check its free memory.
    """

    code = "KS602"
    retriable = True
    causes = listed(
        "The worker has too little free memory.",
        "JAVA_TOOL_OPTIONS or SPARK_SUBMIT_OPTS has an option that this Java does not know.",
    )
    checks = listed("java -version", "free -m")


class SparkSubmitNotFoundError(SubmitError):
    """There is no ``spark-submit`` on the worker.

    Install ``pyspark`` in Airflow's environment, or set ``SPARK_HOME``.
    """

    code = "KS603"
    causes = listed(
        "The package was installed without the extra spark4, and the worker has no Spark.",
        "SPARK_HOME leads elsewhere.",
    )


class SparkVersionError(SubmitError):
    """The installed ``pyspark`` and ``pyspark-client`` have different versions, so their common files are mixed.

    Run the ``pip install`` command that the message gives.
    """

    code = "KS604"
    causes = listed("A constraints file pins one of the two packages, or one of them was upgraded alone.")
    checks = listed("pip list | grep pyspark")


class JarError(SubmitError):
    """Jars of the Kafka connector are missing, unreadable, unavailable or changed, or others may replace them.

    Check the network or the Maven mirror, or pass ``kafka_connector`` a folder with the jars. Where a folder, a link or
    a file is refused, run the command of the message if you trust its content.
    """

    code = "KS605"
    causes = listed(
        "The worker does not reach Maven Central or the configured mirror.",
        "The jars are for another version of Spark or Scala.",
        "The cache belongs to another user, or others may write to it.",
    )
    checks = listed(commands.PREPARE, commands.CACHE)


class ClassArchiveError(SubmitError):
    """The class archive or the jar of the writer, with which drivers on a local master start faster, cannot be made or
    kept.

    Only ``prepare`` fails with it; jobs run without an archive. Do what the message says, or pass
    ``--no-class-archive``.
    """

    code = "KS606"
    causes = listed(
        "The cache cannot be written.",
        "This Java has no archive of its own classes.",
        "A driver does not start on this machine.",
    )


class ReportLocationError(SubmitError):
    """The job's report cannot reach the worker.

    In cluster mode, pass a ``report_location`` that driver and worker both reach, and install the Airflow provider of
    that storage.
    """

    code = "KS607"
    causes = listed(
        "The driver runs on the cluster, and report_location is missing or a path of the worker only.",
        "The Airflow provider of that storage is not installed, or its connection may not read there.",
    )
    checks = listed(commands.RENDER)


class JobFolderError(SubmitError):
    """The worker's temporary folder, or that of a ``JobBundle``, cannot take the files of a job. Nothing was written to
    Kafka.

    Free space there, or set ``TMPDIR`` to another folder; correct the permissions of the bundle's folder.
    """

    code = "KS608"
    retriable = True
    causes = listed(
        "The disk of TMPDIR is full.",
        "The worker's user may not write there.",
    )
    checks = listed('df -h "${TMPDIR:-/tmp}"')


class ClusterUnavailableError(SubmitError):
    """Kubernetes did not answer whether the worker may submit a job. Nothing was submitted.

    Check that the worker reaches the API server which the message names; a retry asks again.
    """

    code = "KS610"
    retriable = True
    causes = listed(
        "The API server is down, restarts or is overloaded.",
        "The network, a proxy or a certificate lies between it and the worker.",
        "The worker's kubeconfig lacks the context or a file that it names.",
    )
    checks = listed("kubectl auth can-i create pods")


class StartNotRecordedError(SubmitError):
    """Airflow did not record the start of the job, so a retry could not wait for its end. The job was stopped.

    Check Airflow's API server.
    """

    code = "KS609"
    retriable = True
    causes = listed("Airflow's API server was unreachable or restarting when the job began.")
    checks = listed("airflow jobs check --job-type SchedulerJob")
