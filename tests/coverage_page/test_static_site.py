"""The files of the page, as a web server gives them."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from airflow_provider_kafka_spark.coverage_page.plugin import CoveragePagePlugin
from airflow_provider_kafka_spark.coverage_page.static_site import StaticSite
from airflow_provider_kafka_spark.operators.available_now import KafkaToKafkaAvailableNowOperator
from airflow_provider_kafka_spark.operators.batch import KafkaToKafkaBatchOperator
from airflow_provider_kafka_spark.operators.replay import ReplayOffsetRangesOperator


class _Site:
    """The plugin's application, mounted as Airflow mounts it."""

    def __init__(self, path: str) -> None:
        self._app = FastAPI(root_path=path)
        for each in CoveragePagePlugin.fastapi_apps:
            self._app.mount(each["url_prefix"], each["app"])
        self._base = f"http://localhost{path}/kafka-coverage/"

    def request(self, method: str, name: str) -> httpx.Response:
        async def ask() -> httpx.Response:
            async with httpx.AsyncClient(transport=httpx.ASGITransport(self._app)) as client:
                return await client.request(method, self._base + name)

        return asyncio.run(ask())


@pytest.fixture(params=["", "/airflow"], ids=["at-the-root", "under-a-path"])
def site(request: pytest.FixtureRequest) -> _Site:
    return _Site(request.param)


@pytest.mark.parametrize(
    ("name", "content_type"),
    [("", "text/html"), ("index.html", "text/html"), ("page.js", "text/javascript"), ("page.css", "text/css")],
)
def test_files_are_served_with_their_type_and_a_strict_policy(site: _Site, name: str, content_type: str) -> None:
    answer = site.request("GET", name)

    assert (answer.status_code, answer.headers["Content-Type"]) == (200, f"{content_type}; charset=utf-8")
    policy = answer.headers["Content-Security-Policy"]
    assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self';")
    assert "unsafe" not in policy
    assert answer.headers["X-Content-Type-Options"] == "nosniff"


@pytest.mark.parametrize("name", ["plugin.py", "..%2fplugin.py", "%2e%2e/prepare.py", "static_site.py", "x"])
def test_nothing_else_is_served(site: _Site, name: str) -> None:
    answer = site.request("GET", name)

    assert (answer.status_code, answer.text) == (404, "Not found\n")


def test_the_link_is_of_the_operators_that_copy() -> None:
    """Airflow compares the names of class and module."""
    (link,) = CoveragePagePlugin.operator_extra_links
    copying = (KafkaToKafkaBatchOperator, ReplayOffsetRangesOperator, KafkaToKafkaAvailableNowOperator)

    assert {(c.__module__, c.__name__) for c in link.operators} == {(c.__module__, c.__name__) for c in copying}
    key = SimpleNamespace(dag_id="a/b", run_id="scheduled__2026-11-20T10:00:00+00:00")
    assert link.get_link(None, ti_key=key) == (
        "dags/a%2Fb/runs/scheduled__2026-11-20T10%3A00%3A00%2B00%3A00/plugin/kafka-coverage-run"
    )


def test_nothing_is_written(site: _Site) -> None:
    assert site.request("POST", "index.html").status_code == 405
    assert site.request("HEAD", "index.html").content == b""


def test_rights_are_said_to_a_user_only(site: _Site) -> None:
    answer = site.request("GET", "rights")

    assert (answer.status_code, answer.json()) == (401, {"detail": "Not authenticated"})
    assert answer.headers["Cache-Control"] == "no-store"


def test_a_websocket_is_closed() -> None:
    """Left without an answer, it is an error in the server's log."""
    sent = list[Any]()

    async def receive() -> dict[str, Any]:
        return {"type": "websocket.connect"}

    async def send(message: Any) -> None:
        sent.append(message)

    asyncio.run(StaticSite()({"type": "websocket", "path": "/kafka-coverage/"}, receive, send))

    assert sent == [{"type": "websocket.close"}]


def test_every_file_of_the_page_is_served_and_no_script_is_inline(site: _Site) -> None:
    folder = Path(__file__).parents[2] / "airflow_provider_kafka_spark/coverage_page"
    files = [file.name for file in folder.iterdir() if file.suffix in (".html", ".js", ".css")]

    assert len(files) >= 5
    assert {site.request("GET", name).status_code for name in files} == {200}
    page = (folder / "index.html").read_text()
    assert page.count("<script") == 1
    assert "://" not in page
    assert re.search(r"\s(on\w+|style)=", page) is None
    assert not any(
        name in file.read_text() for file in folder.glob("*.js") for name in ("innerHTML", "insertAdjacentHTML")
    )
