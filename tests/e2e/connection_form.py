"""Airflow's page "Connections", by the requests that it sends in Airflow 3.3.2: create, edit, and the button "Test"."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

from airflow_provider_kafka_spark.connection_type import connection_type
from tests.services.airflow_standalone import AirflowStandalone

USER, PASSWORD = "copier", "s3cret-s3cret"
#: What a person chooses in the form. Without a choice, a field is null, or has its default.
LOGIN = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "SCRAM-SHA-512"}
_FIELDS = ("connection_id", "conn_type", "description", "extra", "host", "login", "password", "port", "schema")


@dataclass
class ConnectionForm:
    """The page of one Airflow, which permits tests."""

    airflow: AirflowStandalone

    def add(self, conn_id: str, *, port: str = "", **fields: str) -> None:
        """Save a new connection. Empty fields are left out."""
        kept = {name: value for name, value in fields.items() if value}
        number = {"port": int(port)} if port else {}
        self.airflow.post("connections", {"connection_id": conn_id, "conn_type": "kafka_spark", **kept, **number})

    def edit(self, conn_id: str, **changed: Any) -> None:
        """Save a changed connection: all fields, and which of them have changed."""
        mask = "&".join(f"update_mask={name}" for name in changed)
        body = {**self._filled_in(conn_id), **changed}
        body = {**body, "port": int(body["port"]) if body["port"] else None, "team_name": None}
        self.airflow.patch(f"connections/{conn_id}?{mask}", body)

    def test(self, conn_id: str) -> tuple[bool, str]:
        """Press the button in the table. An unset port is the number 0."""
        body = self._filled_in(conn_id)
        answer = self.airflow.post("connections/test", {**body, "port": int(body["port"] or 0)})
        assert not re.search(r"connection '", answer["message"]), "the id is random"
        return answer["status"], answer["message"]

    def fields(self) -> dict[str, Any]:
        """What the page knows of the connection type."""
        self.airflow.get("connections")
        metas = self.airflow._ask("ui/connections/hook_meta")  # noqa: SLF001 - not part of the public API
        (meta,) = [meta for meta in metas if meta["connection_type"] == "kafka_spark"]
        return dict(meta)

    def _filled_in(self, conn_id: str) -> dict[str, Any]:
        stored = self.airflow.get(f"connections/{conn_id}")
        return {name: stored[name] if stored[name] is not None else "{}" if name == "extra" else "" for name in _FIELDS}


def extra(**chosen: object) -> str:
    fields = connection_type("")["conn-fields"]
    return json.dumps({name: field["schema"].get("default") for name, field in fields.items()} | chosen)
