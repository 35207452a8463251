"""Which deployment of Airflow this is: two of them may have the same DAGs, and write to one Kafka. And the secret by
which its tasks know what they have stored.
"""

from __future__ import annotations

import secrets
import time

from airflow.sdk import Variable

from airflow_provider_kafka_spark.toolchain import settings

#: The Airflow variable that has the random name of a deployment without one in its configuration. It survives an
#: upgrade, all workers have the same, and no other deployment has it.
VARIABLE = "kafka_spark_deployment"
#: How long a task waits after it has stored a value, before it takes what is stored.
SETTLING_SECONDS = 1.0
#: The one that has the random key of a deployment without one in its configuration. For its name, Airflow's API and
#: interface show no value, and masks it in logs.
KEY_VARIABLE = "kafka_spark_state_secret"


def deployment_name() -> str:
    """The name in the configuration, or else a random one, which the first call stores.

    :raises OptionError: if the name in the configuration is malformed.
    """
    return settings.deployment() or _kept(VARIABLE, 8, "what tells this deployment's runs from another one's.")


def state_key() -> str:
    """The key of what tasks store for their next try.

    What was stored under another one counts as lost.

    :raises OptionError: if the one in the configuration is too short.
    """
    return settings.state_key() or _kept(KEY_VARIABLE, 32, "the key by which tasks know what they have stored.")


def _kept(variable: str, size: int, what: str) -> str:
    """What a variable has; a random value of so many bytes, if it has none yet.

    Variables have no compare-and-set. Of tasks that store one in the same moment, each waits for the last to have done
    it, as for the cuts of windows.
    """
    value: str = Variable.get(variable, default=None)
    if not value:
        Variable.set(variable, secrets.token_hex(size), description=f"Written by airflow-provider-kafka-spark: {what}")
        time.sleep(SETTLING_SECONDS)
        value = Variable.get(variable)
    return value
