"""An Airflow of its own with an API server, three users, and runs that the tests write down."""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen
from uuid import uuid4

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
        # One process for all that is written: Airflow takes seconds to be imported.
        pipe, program = self.home.scratch / "ledger", str(Path(__file__).parent / "ledger.py")
        os.mkfifo(pipe, 0o600)
        quiet = replace(self.home, settings={**self.home.settings, "AIRFLOW__LOGGING__LOGGING_LEVEL": "WARNING"})
        command = [sys.executable, program, str(pipe), str(self.home.dags)]
        self._writer = quiet.process(command, self.home.logs / "ledger.log")
        self._writer.start()
        # Opened for reading and writing, it does not wait for a reader.
        self._files = os.fdopen(os.open(pipe, os.O_RDWR), "w")
        try:
            super().start()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        self._files.close()
        self._writer.stop()
        super().stop()

    def write(self, events: Sequence[dict[str, Any]] = (), tasks: Sequence[dict[str, Any]] = ()) -> None:
        """Write runs down, and the DAGs."""
        file = self.home.scratch / f"ledger-{uuid4().hex}.json"
        file.write_text(json.dumps({"events": list(events), "tasks": list(tasks)}))
        self._files.write(f"{file}\n")
        self._files.flush()
        deadline = time.monotonic() + _WRITE_SECONDS
        while not file.with_suffix(".done").exists():
            assert self._writer.running, self._writer.tail()
            assert time.monotonic() < deadline, self._writer.tail()
            time.sleep(0.05)

    def token(self, user: str) -> str:
        body = json.dumps({"username": user, "password": user}).encode()
        request = Request(f"{self.url}/auth/token", body, {"Content-Type": "application/json"})  # noqa: S310
        with urlopen(request, timeout=60) as answer:  # noqa: S310
            token: str = json.load(answer)["access_token"]
        return token
