"""The form of a Kafka connection in a real Airflow, by the requests that its page sends: create, edit, and the button
"Test".
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from airflow_provider_kafka_spark.connection_type import connection_type
from airflow_provider_kafka_spark.core.errors import LocalServiceError
from airflow_provider_kafka_spark.testing.airflow_home import AirflowHome
from airflow_provider_kafka_spark.testing.kafka_broker import KafkaBroker
from tests.airflow_api_server import AirflowApiServer

pytestmark = [pytest.mark.broker, pytest.mark.airflow, pytest.mark.timeout(600)]

_USER, _PASSWORD = "copier", "s3cret-s3cret"
#: What a person chooses in the form. Without a choice, a field is null, or has its default.
_LOGIN = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "SCRAM-SHA-512"}


@pytest.fixture(scope="module")
def broker() -> Iterator[KafkaBroker]:
    with KafkaBroker(sasl_users={_USER: _PASSWORD}) as broker:
        yield broker


@pytest.fixture(scope="module")
def airflow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AirflowApiServer]:
    folder = tmp_path_factory.mktemp("form")
    for name in ("dags", "scratch"):
        (folder / name).mkdir()
    settings = {"AIRFLOW__CORE__TEST_CONNECTION": "Enabled"}
    home = AirflowHome(folder / "home", folder / "dags", folder / "scratch", settings=settings)
    home.migrate()
    with AirflowApiServer(home) as server:
        yield server


class Form:
    """The page "Connections", which sends the same requests in Airflow 3.3.2."""

    def __init__(self, airflow: AirflowApiServer) -> None:
        self.airflow = airflow

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

    def _filled_in(self, conn_id: str) -> dict[str, Any]:
        stored = self.airflow.get(f"connections/{conn_id}")
        return {
            name: stored[name] if stored[name] is not None else "{}" if name == "extra" else ""
            for name in (
                "connection_id",
                "conn_type",
                "description",
                "extra",
                "host",
                "login",
                "password",
                "port",
                "schema",
            )
        }


def _extra(**chosen: object) -> str:
    fields = connection_type("")["conn-fields"]
    return json.dumps({name: field["schema"].get("default") for name, field in fields.items()} | chosen)


def test_a_login_that_the_form_made(airflow: AirflowApiServer, broker: KafkaBroker) -> None:
    """The stored password is used, which the page never has."""
    form = Form(airflow)
    form.add(
        "made", host=broker.sasl_bootstrap_servers, port="9092", login=_USER, password=_PASSWORD, extra=_extra(**_LOGIN)
    )

    passes, message = form.test("made")
    assert passes, message
    assert f"login: {_USER} by SCRAM-SHA-512" in message

    form.edit("made", login="somebody")
    passes, message = form.test("made")
    assert not passes
    assert message.startswith("Login failed. The broker refused the user or the password.")
    assert 'sasl.username is "User" (login)' in message


def test_a_port_that_is_missing_can_be_added(airflow: AirflowApiServer, broker: KafkaBroker) -> None:
    """Airflow 3.3.2 does not test a stored connection without a port. If a newer one does, change the documentation."""
    form = Form(airflow)
    form.add("portless", host=broker.bootstrap_servers)
    with pytest.raises(LocalServiceError, match="400: Bad Request"):
        form.test("portless")

    form.edit("portless", port="9092")
    passes, message = form.test("portless")
    assert passes, message


def test_the_port_is_not_hidden(airflow: AirflowApiServer) -> None:
    """And the sections, with what every secured cluster needs first."""
    airflow.get("connections")
    metas = airflow._ask("ui/connections/hook_meta")  # noqa: SLF001 - not part of the public API
    (meta,) = [meta for meta in metas if meta["connection_type"] == "kafka_spark"]
    assert meta["standard_fields"]["port"]["hidden"] is False
    sections = list(dict.fromkeys(field["schema"]["section"] for field in meta["extra_fields"].values()))
    assert sections[0] == "Protocol and login (for every secured cluster)"
    assert list(meta["extra_fields"])[:3] == ["security_protocol", "sasl_mechanism", "ssl_ca"]
    assert len(sections) == 5
