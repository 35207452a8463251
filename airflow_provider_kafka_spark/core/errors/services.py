"""Errors of Airflow's API, of other versions of this package, and of services for tests."""

from __future__ import annotations

from airflow_provider_kafka_spark.core.errors.base import KafkaSparkError, listed


class AirflowApiError(KafkaSparkError):
    """Airflow's API did not answer a question about past runs, or about a variable that tasks share.

    The message has its answer. A retry of a task asks again. For the command check the API's address, and the token or
    the user.
    """

    code = "KS801"
    retriable = True
    causes = listed(
        "The API server is down or overloaded, or its address is wrong.",
        "The token has expired, or its user may not read the DAG.",
    )
    checks = listed("curl -s API_SERVER/api/v2/monitor/health")


class ProtocolError(KafkaSparkError):
    """A request, report, event or stored state is not of the version or form that this package reads.

    Run the same version of this package on all workers and triggerers, and remove copies installed on the cluster.
    Clear a task whose stored plan is too old.
    """

    code = "KS802"
    causes = listed(
        "Workers, triggerer and cluster have different versions of this package.",
        "A task was planned by an older version and is continued by this one.",
    )
    checks = listed("pip show airflow-provider-kafka-spark")


class RequirementError(KafkaSparkError):
    """Airflow, its Spark provider or confluent-kafka is older than this package needs. It is raised at the import.

    Run the ``pip install`` command of the message for all of Airflow's components. Where pins of a managed service are
    older, choose a newer version of the service.
    """

    code = "KS804"
    causes = listed(
        "pip was run without its resolver's check, or a later installation has replaced a version.",
        "The constraints of an older Airflow pin another version.",
    )
    checks = listed("pip check")


class LocalServiceError(KafkaSparkError):
    """A broker or cluster for tests and demos did not start, answer or stop.

    Look at the end of its log in the message.
    """

    code = "KS803"
    causes = listed(
        "The port is in use.",
        "The machine has too little memory, or is under heavy load.",
    )
    checks = listed("ss -ltn", "free -m")
