"""All of Airflow as one process that can be started and stopped: scheduler, API server, DAG processor, triggerer and
task supervisors.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping
from dataclasses import replace
from http import HTTPStatus
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

from airflow_provider_kafka_spark.core.errors import LocalServiceError
from airflow_provider_kafka_spark.testing.airflow_home import AirflowHome
from airflow_provider_kafka_spark.testing.managed_server import ManagedServer
from airflow_provider_kafka_spark.testing.ports import LOOPBACK, free_ports

_POLL_SECONDS = 0.5
#: Longer than the API may wait for its database.
_REQUEST_SECONDS = 90.0
#: All parts of Airflow share SQLite: a read may find the database locked, which the API answers with 500, and succeed a
#: moment later. Longer than a request, so that each is tried twice.
_SERVER_ERROR_SECONDS = 120.0


class AirflowStandalone(ManagedServer):
    """``airflow standalone``, which is healthy inside ``with`` and ends after it, with all its processes.

    It ends with this process, even after SIGKILL, and listens on the loopback interface only.

    :param home: where it runs; its database has to be migrated.
    :param start_timeout: seconds until all parts have to be healthy
    :raises LocalServiceError: on entering, if they are not in time
    """

    user = "admin"
    #: What comes before each of its addresses, such as ``/airflow``.
    path = ""
    #: The command after ``airflow``, and the parts that it starts, as the health check names them.
    command = "standalone"
    parts = ("metadatabase", "scheduler", "dag_processor", "triggerer")

    def __init__(self, home: AirflowHome, *, start_timeout: float = 600.0) -> None:
        api, worker_logs, trigger_logs = free_ports(3)
        self.url = f"http://{LOOPBACK}:{api}{self.path}"
        self.home = replace(
            home,
            settings={
                **home.settings,
                "AIRFLOW__API__HOST": LOOPBACK,
                "AIRFLOW__API__PORT": str(api),
                "AIRFLOW__API__BASE_URL": self.url,
                "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"{self.url}/execution/",
                "AIRFLOW__LOGGING__WORKER_LOG_SERVER_PORT": str(worker_logs),
                "AIRFLOW__LOGGING__TRIGGER_LOG_SERVER_PORT": str(trigger_logs),
            },
        )
        self.log = self.home.logs / f"{self.command}.log"
        self._start_timeout = start_timeout
        self._process = self.home.process([sys.executable, "-m", "airflow", self.command], self.log)
        self._token: str | None = None

    def start(self) -> None:
        """Start it, and return when all parts are healthy.

        :raises LocalServiceError: they were not in time; nothing is left running
        """
        self.log.unlink(missing_ok=True)
        self._process.start()
        try:
            self._wait_until_healthy()
        except BaseException:
            self.stop()
            raise

    @property
    def running(self) -> bool:
        """Whether its main process runs; its parts may still be unhealthy."""
        return self._process.running

    @property
    def password(self) -> str:
        """The password that Airflow created for :attr:`user`."""
        passwords: Mapping[str, str] = json.loads(self._password_file.read_text())
        return passwords[self.user]

    def stop(self) -> None:
        """End all of it. Calling it again does nothing."""
        self._process.stop()

    def tail(self, lines: int = 60) -> str:
        """The end of the log, for the message of a failing test."""
        return self._process.tail(lines)

    def get(self, path: str) -> Any:
        """Read from Airflow's REST API. The request is repeated for two minutes while the server fails or does not
        answer.

        :param path: after ``/api/v2/``.
        :raises LocalServiceError: the answer was an error, or none
        """
        self._log_in()
        return self._ask(f"api/v2/{path}")

    def post(self, path: str, body: Mapping[str, Any]) -> Any:
        """Send a request to Airflow's REST API, and return its answer. It is repeated for two minutes while the server
        fails.

        :param path: after ``/api/v2/``.
        :raises LocalServiceError: the answer was an error, or none
        """
        self._log_in()
        return self._ask(f"api/v2/{path}", json.dumps(body).encode())

    def patch(self, path: str, body: Mapping[str, Any]) -> Any:
        """As :meth:`post`, to change what is there."""
        self._log_in()
        return self._ask(f"api/v2/{path}", json.dumps(body).encode(), "PATCH")

    def _log_in(self) -> None:
        if self._token is None:
            login = {"username": self.user, "password": self.password}
            self._token = self._ask("auth/token", json.dumps(login).encode())["access_token"]

    def _ask(self, path: str, body: bytes | None = None, method: str | None = None) -> Any:
        headers = {"Content-Type": "application/json"}
        if self._token is not None:
            headers["Authorization"] = f"Bearer {self._token}"
        request = Request(f"{self.url}/{path}", body, headers, method=method)  # noqa: S310 - an address of our own
        deadline = time.monotonic() + _SERVER_ERROR_SECONDS
        while True:
            try:
                with urlopen(request, timeout=_REQUEST_SECONDS) as answer:  # noqa: S310
                    return json.load(answer)
            except (OSError, HTTPException) as error:
                is_transient = _server_failed(error) or (body is None and _is_unanswered(error))
                if not is_transient or not self.running or time.monotonic() > deadline:
                    text = error.read().decode(errors="replace")[:500] if isinstance(error, HTTPError) else ""
                    raise LocalServiceError(
                        f"Airflow's API must answer {path!r} at {self.url}; got {error}. {text}\n{self.tail()}"
                    ) from error
            time.sleep(_POLL_SECONDS)

    @property
    def _password_file(self) -> Path:
        return self.home.folder / "simple_auth_manager_passwords.json.generated"

    def _wait_until_healthy(self) -> None:
        deadline = time.monotonic() + self._start_timeout
        got: object = "no answer"
        while time.monotonic() < deadline and self.running:
            try:
                with urlopen(f"{self.url}/api/v2/monitor/health", timeout=_REQUEST_SECONDS) as answer:  # noqa: S310
                    health = json.load(answer)
            except (OSError, HTTPException, ValueError) as error:
                got = error
            else:
                got = {part: health.get(part, {}).get("status") for part in self.parts}
                if set(got.values()) == {"healthy"} and self._password_file.exists():
                    return
            time.sleep(_POLL_SECONDS)
        if not self.running:
            got = f"exit code {self._process.returncode}"
        raise LocalServiceError(
            f"Airflow must be healthy at {self.url} within {self._start_timeout:g} seconds; got {got}. Read its log "
            f"below.\n{self.tail()}"
        )


def _server_failed(error: Exception) -> bool:
    return isinstance(error, HTTPError) and error.code >= HTTPStatus.INTERNAL_SERVER_ERROR


def _is_unanswered(error: Exception) -> bool:
    cause = error.reason if isinstance(error, URLError) else error
    return isinstance(cause, (TimeoutError, ConnectionError, HTTPException))
