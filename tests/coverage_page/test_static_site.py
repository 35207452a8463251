"""The files of the page, as a web server gives them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from airflow_provider_kafka_spark.coverage_page.plugin import CoveragePagePlugin


@pytest.fixture(params=["", "/airflow"], ids=["at-the-root", "under-a-path"])
def client(request: pytest.FixtureRequest) -> TestClient:
    """Mounted as Airflow mounts it."""
    app = FastAPI(root_path=request.param)
    for each in CoveragePagePlugin.fastapi_apps:
        app.mount(each["url_prefix"], each["app"])
    return TestClient(app, base_url=f"http://testserver{request.param}/")


@pytest.mark.parametrize(
    ("name", "content_type"),
    [("", "text/html"), ("index.html", "text/html"), ("page.js", "text/javascript"), ("page.css", "text/css")],
)
def test_files_are_served_with_their_type_and_a_strict_policy(client: TestClient, name: str, content_type: str) -> None:
    answer = client.get(f"kafka-coverage/{name}")

    assert (answer.status_code, answer.headers["Content-Type"]) == (200, f"{content_type}; charset=utf-8")
    policy = answer.headers["Content-Security-Policy"]
    assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self';")
    assert "unsafe" not in policy
    assert answer.headers["X-Content-Type-Options"] == "nosniff"


@pytest.mark.parametrize("name", ["plugin.py", "..%2fplugin.py", "%2e%2e/prepare.py", "static_site.py", "x"])
def test_nothing_else_is_served(client: TestClient, name: str) -> None:
    answer = client.get(f"kafka-coverage/{name}")

    assert (answer.status_code, answer.text) == (404, "Not found\n")


def test_nothing_is_written(client: TestClient) -> None:
    assert client.post("kafka-coverage/index.html").status_code == 405
    assert client.head("kafka-coverage/index.html").content == b""


def test_every_file_of_the_page_is_served_and_no_script_is_inline(client: TestClient) -> None:
    folder = Path(__file__).parents[2] / "airflow_provider_kafka_spark/coverage_page"
    files = [file.name for file in folder.iterdir() if file.suffix in (".html", ".js", ".css")]

    assert len(files) >= 5
    assert {client.get(f"kafka-coverage/{name}").status_code for name in files} == {200}
    page = (folder / "index.html").read_text()
    assert page.count("<script") == 1
    assert "://" not in page
    assert re.search(r"\s(on\w+|style)=", page) is None
    assert not any(
        name in file.read_text() for file in folder.glob("*.js") for name in ("innerHTML", "insertAdjacentHTML")
    )
