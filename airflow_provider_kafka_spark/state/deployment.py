"""Which deployment of Airflow this is: two of them may have the same DAGs, and write to one Kafka. And the secret by
which its tasks know what they have stored.
"""

from __future__ import annotations

import secrets

from airflow.sdk import Variable

from airflow_provider_kafka_spark.toolchain import settings

#: The Airflow variable that has the random name of a deployment without one in its configuration. It survives an
#: upgrade, all workers have the same, and no other deployment has it.
VARIABLE = "kafka_spark_deployment"
#: The one that has the random key of a deployment without one in its configuration. For its name, Airflow's API and
#: interface show no value, and masks it in logs.
KEY_VARIABLE = "kafka_spark_state_secret"


def deployment_name() -> str:
    """The name in the configuration, or else a random one, which the first call stores.

    Of two tasks that store one in the same moment, each may return its own: a run keeps the name that it began with.

    :raises OptionError: if the name in the configuration is malformed.
    """
    return settings.deployment() or _kept(VARIABLE, 8, "what tells this deployment's runs from another one's.")


def state_key() -> str:
    """The key of what tasks store for their next try.

    Of two tasks that store one in the same moment, each may return its own: what one of them stores then counts as
    lost, which a retry can bear.

    :raises OptionError: if the one in the configuration is too short.
    """
    return settings.state_key() or _kept(KEY_VARIABLE, 32, "the key by which tasks know what they have stored.")


def _kept(variable: str, size: int, what: str) -> str:
    """What a variable has; a random value of so many bytes, if it has none yet."""
    value: str = Variable.get(variable, default=None)
    if not value:
        Variable.set(variable, secrets.token_hex(size), description=f"Written by airflow-provider-kafka-spark: {what}")
        value = Variable.get(variable)
    return value
