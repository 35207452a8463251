"""Which deployment of Airflow this is: two of them may have the same DAGs, and write to one Kafka."""

from __future__ import annotations

import secrets

from airflow.sdk import Variable

from airflow_provider_kafka_spark.toolchain import settings

#: The Airflow variable that has the random name of a deployment without one in its configuration. It survives an
#: upgrade, all workers have the same, and no other deployment has it.
VARIABLE = "kafka_spark_deployment"


def deployment_name() -> str:
    """The name in the configuration, or else a random one, which the first call stores.

    Of two tasks that store one in the same moment, each may return its own: a run keeps the name that it began with.

    :raises OptionError: if the name in the configuration is malformed.
    """
    name: str = settings.deployment() or Variable.get(VARIABLE, default=None)
    if not name:
        description = "Written by airflow-provider-kafka-spark: what tells this deployment's runs from another one's."
        Variable.set(VARIABLE, secrets.token_hex(8), description=description)
        name = Variable.get(VARIABLE)
    return name
