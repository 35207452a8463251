"""An Airflow of its own with an API server, two users, and runs that the tests write down."""

from __future__ import annotations

import json
import shutil
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

from airflow_provider_kafka_spark.core.errors import LocalServiceError
from airflow_provider_kafka_spark.testing.airflow_home import AirflowHome
from airflow_provider_kafka_spark.testing.managed_server import ManagedServer
from airflow_provider_kafka_spark.testing.ports import LOOPBACK, free_ports

_CHECKOUT = Path(__file__).resolve().parents[2]
_START_SECONDS = 180.0
_POLL_SECONDS = 0.2
#: A user without a role may read nothing.
USERS = {"ada": "admin", "vera": "viewer", "nobody": ""}


class AirflowApi(ManagedServer):
    """``airflow api-server`` under a path of its own, with Airflow's interface and the page.

    :param folder: for its home, its DAGs and temporary files.
    :param path: what comes before each of its addresses, such as ``/airflow``.
    """

    def __init__(self, folder: Path, path: str = "/airflow") -> None:
        (port,) = free_ports(1)
        self.url = f"http://{LOOPBACK}:{port}{path}"
        dags = folder / "dags"
        dags.mkdir(parents=True)
        shutil.copy(Path(__file__).parent / "dags/copies.py", dags)
        shutil.copy(_CHECKOUT / "dags/replay_incident.py", dags)
        (folder / "scratch").mkdir()
        passwords = folder / "passwords.json"
        passwords.write_text(json.dumps({name: name for name in USERS}))
        self.home = AirflowHome(
            folder / "home",
            dags,
            folder / "scratch",
            settings={
                "AIRFLOW__API__HOST": LOOPBACK,
                "AIRFLOW__API__PORT": str(port),
                "AIRFLOW__API__BASE_URL": self.url,
                "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": ",".join(f"{name}:{role}" for name, role in USERS.items()),
                "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(passwords),
            },
        )
        self._process = self.home.process(
            [sys.executable, "-m", "airflow", "api-server"], self.home.logs / "api-server.log"
        )

    def start(self) -> None:
        self.home.migrate()
        self._process.start()
        deadline = time.monotonic() + _START_SECONDS
        while True:
            try:
                with urlopen(f"{self.url}/api/v2/version", timeout=10):  # noqa: S310 - an address of our own
                    return
            except (OSError, HTTPException):
                if time.monotonic() > deadline or not self._process.running:
                    tail = self._process.tail(40)
                    self.stop()
                    raise LocalServiceError(f"Airflow's API server must answer at {self.url}.\n{tail}") from None
            time.sleep(_POLL_SECONDS)

    def stop(self) -> None:
        self._process.stop()

    def write(self, events: Sequence[dict[str, Any]] = (), tasks: Sequence[dict[str, Any]] = ()) -> None:
        """Write runs down, and the DAGs."""
        file = self.home.scratch / "ledger.json"
        file.write_text(json.dumps({"events": list(events), "tasks": list(tasks)}))
        program = str(Path(__file__).parent / "ledger.py")
        quiet = replace(self.home, settings={**self.home.settings, "AIRFLOW__LOGGING__LOGGING_LEVEL": "WARNING"})
        command = [sys.executable, program, str(file), str(self.home.dags)]
        quiet.run(command, self.home.logs / "ledger.log", timeout=_START_SECONDS)

    def token(self, user: str) -> str:
        body = json.dumps({"username": user, "password": user}).encode()
        request = Request(f"{self.url}/auth/token", body, {"Content-Type": "application/json"})  # noqa: S310
        with urlopen(request, timeout=60) as answer:  # noqa: S310
            token: str = json.load(answer)["access_token"]
        return token

    def get(self, path: str) -> Any:
        """Read from the REST API as an administrator: ``path`` after ``/api/v2/``."""
        request = Request(f"{self.url}/api/v2/{path}", headers={"Authorization": f"Bearer {self.token('ada')}"})  # noqa: S310
        with urlopen(request, timeout=60) as answer:  # noqa: S310
            return json.load(answer)
