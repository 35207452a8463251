from __future__ import annotations

from pathlib import PurePath

import pytest

from airflow_provider_kafka_spark.core.spark.paths import absolute_paths


@pytest.mark.parametrize(
    ("option", "given", "expected"),
    [
        pytest.param("jars", "/a.jar,b.jar", "/a.jar,/w/b.jar", id="several"),
        pytest.param("archives", "env.tar.gz#env", "/w/env.tar.gz#env", id="alias"),
        pytest.param("files", "s3a://b/x,local:/opt/y,file:///z", "s3a://b/x,local:/opt/y,file:///z", id="uris"),
        pytest.param("driver_class_path", "lib/*:/opt/x", "/w/lib/*:/opt/x", id="class-path"),
        pytest.param("files", "", "", id="empty"),
        pytest.param("keytab", None, None, id="none"),
        pytest.param("name", "a job", "a job", id="no-path"),
    ],
)
def test_relative_paths_are_the_workers(option: str, given: str | None, expected: str | None) -> None:
    assert absolute_paths({option: given}, PurePath("/w")) == {option: expected}
