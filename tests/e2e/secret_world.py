"""A secured cluster with recognisable secrets, jobs that log in to it, good and failing and killed, and a search for
these secrets wherever others could see them.
"""

from __future__ import annotations

import json
import os
import re
import signal
import sqlite3
import stat
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field, replace
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import urlopen
from uuid import uuid4

from airflow_provider_kafka_spark.clients.kafka_jvm import KafkaJvm
from airflow_provider_kafka_spark.core.connection.client_config import translate
from airflow_provider_kafka_spark.testing.airflow_home import AirflowHome
from airflow_provider_kafka_spark.testing.kafka_broker import BrokerTls, KafkaBroker, Record
from tests.e2e.secret_search import Process, ProcessWatch, SecretSearch, Seed, in_processes
from tests.services.airflow_standalone import AirflowStandalone
from tests.services.certificates import CertificateAuthority
from tests.services.identity_provider import IdentityProvider

#: Of the tasks in ``secret_dags``.
DAG = "secrets"
_SECONDS = 600
#: The first page of a JVM takes seconds, so those that matter most come first.
_UI_PAGES = (
    *("/environment/", "/SQL/", "/SQL/execution/?id=0", "/SQL/execution/?id=1", "/StreamingQuery/"),
    *("/jobs/", "/stages/", "/executors/", "/api/v1/applications"),
)
#: A job without SQL, or without a stream, has none of them.
_OF_SOME = {"/SQL/execution/?id=0", "/SQL/execution/?id=1", "/StreamingQuery/"}
_API_PAGES = ("environment", "sql?details=true&planDescription=true", "jobs", "stages", "allexecutors")
PRIVATE = ("kafka-logins.properties", "request.json", "spark.conf")
_KILLED = "killed"
#: Tasks whose jobs run until all pages of their Spark UIs were looked at.
_HELD = {"good", "stream", "token"}
_EXPECTED = {
    "good": "success",
    "stream": "success",
    "token": "success",
    "bad_sql": "failed",
    "wrong_password": "failed",
    "revoked": "failed",
    "killed": "failed",
    "later": "success",
}


def _secret(kind: str, more: str = "") -> str:
    """One that no other text is equal to, with characters that programs write in other ways."""
    return f"{kind}<{uuid4().hex}>&'/+%{more}"


#: A broker's users have none of them.
ODD = '"\\= ;'


@dataclass
class World:
    """A secured cluster, an Airflow whose connections log in to it, and what is seen of both.

    :param folder: with what the jobs write.
    """

    broker: KafkaBroker
    provider: IdentityProvider
    home: AirflowHome
    search: SecretSearch
    folder: Path
    hmacs: set[str] = field(default_factory=set)
    access_tokens: int = 0
    pages: dict[str, bytes] = field(default_factory=dict)
    #: Tasks of which there is each page of the Spark UI.
    looked_at: set[str] = field(default_factory=set)
    is_released: bool = False
    #: Modes of the files in the folders of running jobs, by their names.
    modes: dict[str, set[int]] = field(default_factory=dict)
    #: The folder of the job whose worker was killed.
    left: Path | None = None

    def rows(self, query: str, *values: str) -> list[Any]:
        with closing(sqlite3.connect(f"file:{self.home.database}?mode=ro", uri=True, timeout=60)) as database:
            return database.execute(query, values).fetchall()

    def states(self) -> dict[str, str]:
        return dict(self.rows("SELECT task_id, state FROM task_instance WHERE dag_id = ?", DAG))

    def links(self) -> dict[str, str]:
        """Addresses of the Spark UIs by task, as the tasks' logs have them."""
        found = {}
        for file in self.home.logs.glob(f"dag_id={DAG}/run_id=*/task_id=*/*.log"):
            if address := re.search(r"is running: (http[^ \"]+)", file.read_text(errors="replace")):
                found[file.parent.name.removeprefix("task_id=")] = address[1]
        return found


@contextmanager
def secured_world(home: AirflowHome, folder: Path) -> Iterator[World]:
    """A secured cluster, and the Airflow with connections to it.

    :param home: migrated.
    :param folder: for what the jobs write.
    """
    users = {"alice": _secret("alice"), "eve": _secret("eve")}
    clients = {"copier": f"copier+/{uuid4().hex}=", "fired": f"fired+/{uuid4().hex}="}
    wrong, s3, variable, of_key = _secret("wrong", ODD), _secret("s3", ODD), _secret("variable", ODD), uuid4().hex
    authority = CertificateAuthority()
    certificate = authority.issue("alice", password=of_key)
    texts = {"wrong": wrong, "s3": s3, "variable": variable, "of key": of_key}
    seeds = [
        *(Seed(f"password of {name}", password) for name, password in users.items()),
        *(Seed(f"OAuth secret of {name}", secret) for name, secret in clients.items()),
        *(Seed(name, text) for name, text in texts.items()),
        Seed("key", certificate.plain_key_pem),
        Seed("encrypted key", certificate.key_pem),
    ]
    for name in ("events", "checkpoints"):
        (folder / name).mkdir()
    tls = BrokerTls(authority.issue("broker"), authority.ca_pem, "requested")
    with (
        IdentityProvider(clients) as provider,
        KafkaBroker(sasl_users=users, tls=tls, identity_provider=provider) as broker,
    ):
        broker.create_topic("orders", 1)
        broker.create_topic("copy", 1)
        # So many that no job which is held ends by itself.
        records = [Record(value=b"%d" % i if i < 10 else b"no number") for i in range(_SECONDS // 10)]
        broker.produce("orders", records, {"batch.num.messages": 1})
        ca = {"ssl.ca.pem": authority.ca_pem}
        password = broker.sasl_client_config("alice", "SCRAM-SHA-512")
        extras = {
            "password": password,
            "wrong": {**password, "sasl.password": wrong},
            "oauth": {**broker.sasl_client_config("copier", "OAUTHBEARER", tls=True), **ca},
            "oauth_revoked": {**broker.sasl_client_config("fired", "OAUTHBEARER", tls=True), **ca},
            "mtls": {**broker.ssl_client_config(certificate), **ca},
        }
        for extra in extras.values():
            extra.pop("ssl.ca.location", None)
        in_environment = broker.sasl_client_config("eve")
        lines = {
            name: translate(name, extra).java["sasl.jaas.config"]
            for name, extra in {**extras, "in_environment": in_environment}.items()
            if name != "mtls"
        }
        seeds += [Seed(f"JAAS line of {name}", line, whole=True) for name, line in lines.items()]
        settings = {
            "AIRFLOW_VAR_SEEDED": variable,
            "SECRETS_EVENT_LOGS": str(folder / "events"),
            "SECRETS_CHECKPOINTS": str(folder / "checkpoints"),
            "SPARK_LOCAL_IP": "127.0.0.1",
        }
        of_environment = {**home.connections, "in_environment": {"conn_type": "kafka", "extra": in_environment}}
        home = replace(home, connections=of_environment, settings={**home.settings, **settings})
        connections: dict[str, Any] = {
            **{name: {"conn_type": "kafka", "extra": extra} for name, extra in extras.items()},
            "s3": {"conn_type": "aws", "password": s3},
        }
        file = folder / "connections.json"
        file.write_text(json.dumps(connections))
        command = [sys.executable, "-m", "airflow", "connections", "import", str(file)]
        home.run(command, home.logs / "connections.log", timeout=120)
        file.unlink()
        world = World(broker, provider, home, SecretSearch(seeds), folder)
        give = provider.token

        def give_and_record(*args: Any, **claims: Any) -> str:
            token = give(*args, **claims)
            world.search.add(Seed("signature of an access token", token.rpartition(".")[2]))
            world.access_tokens += 1
            return token

        provider.token = give_and_record  # type: ignore[method-assign]
        yield world


def run_all(world: World, airflow: AirflowStandalone) -> tuple[list[Process], Any]:
    """Run the DAG to its end, and do to its tasks what the test is about.

    :return: the processes that there were, and the rendered fields of the tasks.
    """
    with ProcessWatch() as watch:
        airflow.post(f"dags/{DAG}/dagRuns", {"logical_date": None})
        with _revoked_in_time(world, watch):
            _follow(world, watch, airflow)
        states = world.states()
        assert states == _EXPECTED, f"{_logs_of_others(world, states)}\n{airflow.tail()}"
        ((run,),) = world.rows("SELECT run_id FROM dag_run WHERE dag_id = ?", DAG)
        rendered = airflow.get(f"dags/{DAG}/dagRuns/{run}/taskInstances?limit=100")
    _check_that_there_was_something_to_be_found(world, watch.seen, rendered)
    return watch.seen, rendered


def found_secrets(world: World, processes: list[Process], rendered: Any) -> list[Any]:
    """Where a secret is that does not belong there."""
    search, by_inheritance = world.search, {"password of eve", "variable"}
    hits = [
        *in_processes(search, [process for process in processes if not _is_airflows_own(process)]),
        *(
            hit
            for hit in in_processes(search, filter(_is_airflows_own, processes))
            if hit.where.startswith("arguments") or hit.seed not in by_inheritance
        ),
        *search.in_pages(world.pages),
        *search.in_bytes("rendered fields", json.dumps(rendered).encode()),
        *(hit for folder in (world.home.folder, world.home.scratch, world.folder) for hit in search.in_files(folder)),
        *search.in_database(world.home.database),
    ]
    return sorted(set(hits))


def _check_that_there_was_something_to_be_found(world: World, processes: list[Process], rendered: Any) -> None:
    """A search in the wrong places finds nothing either."""
    submitted = set(_EXPECTED) - {"wrong_password"}
    jvms = {task for process in processes if (task := _spark_task(process))}
    assert jvms == submitted
    commands = [" ".join(process.arguments) for process in processes]
    for what in ("py4j.GatewayServer", "airflow_provider_kafka_spark/jobs/batch.py"):
        assert any(what in command for command in commands), what
    assert any(hit.seed == "variable" for hit in in_processes(world.search, filter(_is_airflows_own, processes)))
    assert (len(world.hmacs) >= 1, world.access_tokens >= 2) == (True, True)

    assert world.looked_at == _HELD
    for page, has in {
        "/environment/": (b"spark.eventLog.dir", b"(redacted)"),
        "/jobs/": (b": run ",),
        "/api/v1/applications/": (b": run ", b"(redacted)"),
    }.items():
        content = b"".join(text for address, text in world.pages.items() if f", {page}" in address)
        assert [word for word in has if word not in content] == [], (page, sorted(world.pages))
    logs = {
        path.parent.name.removeprefix("task_id="): path.read_bytes()
        for path in world.home.logs.glob(f"dag_id={DAG}/*/task_id=*/*.log")
    }
    assert set(logs) == set(_EXPECTED)
    assert b"ExpressionError" in logs["bad_sql"]
    assert b"BrokerAuthenticationError" in logs["wrong_password"]
    events = b"".join(path.read_bytes() for path in (world.folder / "events").rglob("*") if path.is_file())
    for kind in (b"SparkListenerEnvironmentUpdate", b"SparkListenerSQLExecutionStart", b"(redacted)"):
        assert kind in events, kind
    assert len(list((world.folder / "events").iterdir())) == len(submitted)
    fields = {task["task_id"]: task["rendered_fields"] for task in rendered["task_instances"]}
    assert fields["good"]["target_conn_id"] == "mtls"
    encrypted = {name for (name,) in world.rows("SELECT conn_id FROM connection WHERE is_extra_encrypted = 1")}
    assert encrypted >= {"password", "wrong", "oauth", "oauth_revoked", "mtls"}
    returned = world.rows("SELECT task_id FROM xcom WHERE key = 'return_value' AND dag_id = ?", DAG)
    assert {task for (task,) in returned} == {task for task, state in _EXPECTED.items() if state == "success"}


def _logs_of_others(world: World, states: Mapping[str, str]) -> str:
    """The ends of the logs of tasks that ended as they should not."""
    others = [task for task, state in states.items() if state != _EXPECTED.get(task)]
    logs = [log for task in others for log in world.home.logs.rglob(f"dag_id={DAG}/*/task_id={task}/*.log")]
    return "\n".join(f"The end of {log}:\n{log.read_text(errors='replace')[-3000:]}" for log in logs)


@contextmanager
def _revoked_in_time(world: World, watch: ProcessWatch) -> Iterator[None]:
    """Revoke the client as soon as its job's JVM is there, whatever else there is to do: it asks for its access token
    soon.
    """
    over = threading.Event()

    def revoke() -> None:
        while not over.wait(0.1):
            if any(_spark_task(process) == "revoked" for process in watch.running):
                world.provider.revoke("fired")
                return

    thread = threading.Thread(target=revoke, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _follow(world: World, watch: ProcessWatch, airflow: AirflowStandalone) -> None:
    """See what can be seen while the jobs run, and do to them what the test is about, until all have ended."""
    deadline, lookers = time.monotonic() + _SECONDS, dict[str, threading.Thread]()
    while True:
        states = world.states()
        if len(states) == len(_EXPECTED) and not set(states.values()) - {"success", "failed", "upstream_failed"}:
            for looker in lookers.values():
                looker.join(60)
            return
        assert time.monotonic() < deadline, f"{states}\n{airflow.tail()}"
        jvms = {task: process for process in watch.running if (task := _spark_task(process))}
        _note_modes(world)
        links = world.links()
        if "token" in links and not world.hmacs:
            _learn_tokens(world)
        for task in jvms.keys() & links.keys():
            if task == _KILLED:
                _kill(world, links[task], jvms[task])
            elif task not in lookers:
                lookers[task] = threading.Thread(target=_look_at, args=(world, task, links[task]), daemon=True)
                lookers[task].start()
        if world.looked_at >= _HELD and world.hmacs and world.left and not world.is_released:
            _release(world)
        time.sleep(0.3)


def _release(world: World) -> None:
    """Let the jobs go on that are held. A broker answers at once where a log has a newer segment than what is read."""
    world.is_released = True
    world.broker.alter_topic("orders", {"segment.ms": "1"})
    world.broker.produce("orders", [Record(value=b"the last")])


def _spark_task(process: Process) -> str | None:
    """The task whose driver this is: the JVM, or the Python process in it."""
    words = process.arguments
    if "org.apache.spark.deploy.SparkSubmit" not in words or "--name" not in words:
        return None
    name = words[words.index("--name") + 1]
    return next((task for task in _EXPECTED if f"__{task}__" in name), None)


def _is_airflows_own(process: Process) -> bool:
    """Of the test's Airflow, which has its environment, as every Airflow has: its programs by name, and what supervises
    them.
    """
    words = process.arguments
    if process.environ and b"AIRFLOW_HOME" not in process.environ and not words[0].startswith("airflow"):
        return False
    return (
        words[0].startswith(("airflow ", "airflow:"))
        or (Path(words[0]).name.startswith("python") and any(Path(word).name == "airflow" for word in words[1:4]))
        or any(word.endswith("testing/supervisor.py") for word in words[:4])
        # Python's own `platform` asks so what it runs on, when Airflow imports what wants to know.
        or words[:2] in (["file", "-b"], ["uname", "-p"])
    )


def _note_modes(world: World) -> None:
    for folder in world.home.scratch.glob("airflow-kafka-spark-*"):
        with suppress(FileNotFoundError):
            world.modes.setdefault("folder", set()).add(stat.S_IMODE(folder.stat().st_mode))
            for name in PRIVATE:
                world.modes.setdefault(name, set()).add(stat.S_IMODE((folder / name).stat().st_mode))


def _learn_tokens(world: World) -> None:
    """The secret of the token with which the job logs in: its owner may know it."""
    login = translate("password", world.broker.sasl_client_config("alice", "SCRAM-SHA-512"))
    doing = "describing delegation tokens"
    with KafkaJvm(login.java, "the owner of the tokens", timeout=20) as jvm, jvm.translate_errors(doing):
        for token in jvm.items(jvm.get(jvm.admin().describeDelegationToken().delegationTokens(), doing)):
            hmac = str(token.hmacAsBase64String())
            world.hmacs.add(hmac)
            world.search.add(Seed("hmac", hmac))


def _look_at(world: World, task: str, address: str) -> None:
    """Keep the pages of a Spark UI as long as there is one. A job that is held is there until each page was."""
    # Its end may come in the middle of a page.
    with suppress(OSError, ValueError, HTTPException):
        while True:
            try:
                application = json.loads(_page(world, task, address, "/api/v1/applications"))[0]["id"]
            except (HTTPError, TimeoutError):
                # Its start takes time too.
                time.sleep(0.5)
                continue
            missed = []
            for path in (*_UI_PAGES, *(f"/api/v1/applications/{application}/{page}" for page in _API_PAGES)):
                try:
                    _page(world, task, address, path)
                except (HTTPError, TimeoutError):
                    missed.append(path)
            if task in _HELD and set(missed) <= _OF_SOME:
                world.looked_at.add(task)
            time.sleep(2.0)


def _page(world: World, task: str, address: str, path: str) -> bytes:
    port = urlsplit(address).port
    with urlopen(f"http://127.0.0.1:{port}{path}", timeout=30) as answer:
        content: bytes = answer.read()
    world.pages[f"Spark UI of {task}, {path}, {hash(content)}"] = content
    return content


def _kill(world: World, address: str, jvm: Process) -> None:
    """End the worker's process that submitted a driver, as a machine without memory does, while records are copied."""
    if world.left is not None:
        return
    with suppress(OSError, ValueError, HTTPException):
        application = json.loads(_page(world, _KILLED, address, "/api/v1/applications"))[0]["id"]
        if not json.loads(_page(world, _KILLED, address, f"/api/v1/applications/{application}/jobs?status=running")):
            return
        world.left = Path(jvm.arguments[-1]).parent
        owner = int(world.left.name.removeprefix("airflow-kafka-spark-").partition("-")[0])
        os.kill(owner, signal.SIGKILL)
