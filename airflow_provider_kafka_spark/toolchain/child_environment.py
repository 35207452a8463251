"""The environment of processes that this package starts: without Airflow's settings, connections and variables, which
contain secrets.
"""

from __future__ import annotations

import os

#: Connections, variables, settings (including the Fernet key), and values for Airflow's own processes. ``AIRFLOW_HOME``
#: and ``AIRFLOW_CTX_*`` stay.
_AIRFLOWS_OWN = ("AIRFLOW_CONN_", "AIRFLOW_VAR_", "AIRFLOW__", "_AIRFLOW_")


def child_environment() -> dict[str, str]:
    """The environment for Spark, Java and their children."""
    return {name: value for name, value in os.environ.items() if not name.startswith(_AIRFLOWS_OWN)}


def unset_airflow_env(command: list[str]) -> list[str]:
    """The command with :func:`child_environment`, for callers that can change only the command."""
    dropped = sorted(set(os.environ) - set(child_environment()))
    return ["env", *(word for name in dropped for word in ("-u", name)), *command] if dropped else command
