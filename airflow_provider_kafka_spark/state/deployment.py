"""Which deployment of Airflow this is: two of them may have the same DAGs, and write to one Kafka. And the secret by
which its tasks know what they have stored.
"""

from __future__ import annotations

import secrets
import time

from airflow_provider_kafka_spark.core.errors import AirflowApiError
from airflow_provider_kafka_spark.state import variables
from airflow_provider_kafka_spark.toolchain import settings

#: The Airflow variable that has the random name of a deployment without one in its configuration. It survives an
#: upgrade, all workers have the same, and no other deployment has it.
VARIABLE = "kafka_spark_deployment"
#: The one that has the random key of a deployment without one in its configuration. For its name, Airflow's API and
#: interface show no value, and masks it in logs.
KEY_VARIABLE = "kafka_spark_state_secret"


def deployment_name() -> str:
    """The name in the configuration, or else a random one, which the first call stores.

    :raises OptionError: if the name in the configuration is malformed.
    :raises AirflowApiError: if Airflow does not say whether there is one.
    """
    return settings.deployment() or _kept(VARIABLE, 8, "what tells this deployment's runs from another one's.")


def state_key() -> str:
    """The key of what tasks store for their next try.

    What was stored under another one counts as lost.

    :raises OptionError: if the one in the configuration is too short.
    :raises AirflowApiError: if Airflow does not say whether there is one.
    """
    return settings.state_key() or _kept(KEY_VARIABLE, 32, "the key by which tasks know what they have stored.")


def _kept(name: str, size: int, what: str) -> str:
    """What a variable has; a random value of so many bytes, if it has none yet.

    :raises AirflowApiError: if Airflow does not say what it has.
    """
    started = time.monotonic()
    if value := variables.read(name):
        return value
    variables.write(name, secrets.token_hex(size), f"Written by airflow-provider-kafka-spark: {what}")
    variables.settle(started, f"A task that began meanwhile may have taken another value of {name} for this try.")
    if value := variables.read(name):
        return value
    raise AirflowApiError(
        f"The variable {name} must be there when it was just stored; Airflow has none. A retry stores it again."
    )
