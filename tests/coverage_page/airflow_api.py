"""An Airflow of its own with an API server, three users, and runs that the tests write down."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

from airflow_provider_kafka_spark.testing.airflow_home import AirflowHome
from tests.airflow_api_server import AirflowApiServer

_CHECKOUT = Path(__file__).resolve().parents[2]
_WRITE_SECONDS = 180.0
#: A user without a role may read nothing.
USERS = {"ada": "admin", "vera": "viewer", "nobody": ""}


class AirflowApi(AirflowApiServer):
    """``airflow api-server`` under a path of its own, with Airflow's interface and the page.

    :param folder: for its home, its DAGs and temporary files.
    :param path: what comes before each of its addresses, such as ``/airflow``.
    """

    user = "ada"

    def __init__(self, folder: Path, path: str = "/airflow") -> None:
        dags = folder / "dags"
        dags.mkdir(parents=True)
        shutil.copy(Path(__file__).parent / "dags/copies.py", dags)
        shutil.copy(_CHECKOUT / "dags/replay_incident.py", dags)
        (folder / "scratch").mkdir()
        users = ",".join(f"{name}:{role}" for name, role in USERS.items())
        settings = {"AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": users}
        home = AirflowHome(folder / "home", dags, folder / "scratch", settings=settings)
        home.folder.mkdir()
        # Airflow makes passwords for those that have none here.
        passwords = home.folder / "simple_auth_manager_passwords.json.generated"
        passwords.write_text(json.dumps({name: name for name in USERS}))
        self.path = path
        super().__init__(home)

    def start(self) -> None:
        self.home.migrate()
        super().start()

    def write(self, events: Sequence[dict[str, Any]] = (), tasks: Sequence[dict[str, Any]] = ()) -> None:
        """Write runs down, and the DAGs."""
        file = self.home.scratch / "ledger.json"
        file.write_text(json.dumps({"events": list(events), "tasks": list(tasks)}))
        program = str(Path(__file__).parent / "ledger.py")
        quiet = replace(self.home, settings={**self.home.settings, "AIRFLOW__LOGGING__LOGGING_LEVEL": "WARNING"})
        command = [sys.executable, program, str(file), str(self.home.dags)]
        quiet.run(command, self.home.logs / "ledger.log", timeout=_WRITE_SECONDS)

    def token(self, user: str) -> str:
        body = json.dumps({"username": user, "password": user}).encode()
        request = Request(f"{self.url}/auth/token", body, {"Content-Type": "application/json"})  # noqa: S310
        with urlopen(request, timeout=60) as answer:  # noqa: S310
            token: str = json.load(answer)["access_token"]
        return token
