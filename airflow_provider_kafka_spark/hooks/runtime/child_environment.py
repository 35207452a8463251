"""What a process that this package starts inherits of a worker's environment: all but Airflow's own settings,
connections and variables, in which secrets are.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

#: Connections, variables, settings (the key of the database among them), and what Airflow tells its own processes.
#: ``AIRFLOW_HOME`` and ``AIRFLOW_CTX_*`` stay.
_AIRFLOWS_OWN = ("AIRFLOW_CONN_", "AIRFLOW_VAR_", "AIRFLOW__", "_AIRFLOW_")


def child_environment(environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """What Spark, Java and their children inherit.

    :param environ: by default that of this process.
    """
    environ = os.environ if environ is None else environ
    return {name: value for name, value in environ.items() if not name.startswith(_AIRFLOWS_OWN)}


def unset_airflow_env(command: list[str], environ: Mapping[str, str] | None = None) -> list[str]:
    """The same command with :func:`child_environment`, for where only the command can be changed."""
    environ = os.environ if environ is None else environ
    dropped = sorted(set(environ) - set(child_environment(environ)))
    return ["env", *(word for name in dropped for word in ("-u", name)), *command] if dropped else command
