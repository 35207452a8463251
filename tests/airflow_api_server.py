"""Airflow's API server alone, which starts in a third of the time of all parts."""

from __future__ import annotations

from tests.services.airflow_standalone import AirflowStandalone


class AirflowApiServer(AirflowStandalone):
    """``airflow api-server``, with the user interface, and nothing that runs DAGs."""

    command = "api-server"
    parts = ("metadatabase",)
