from __future__ import annotations

from pathlib import Path

import pytest
from airflow.sdk import ObjectStoragePath

from airflow_provider_kafka_spark.submission.remote_path import hadoop_uri, shared_path


@pytest.mark.parametrize(
    ("uri", "path"),
    [
        pytest.param("/data/a b", "/data/a b", id="path"),
        pytest.param("file:///data/a", "/data/a", id="file-three-slashes"),
        pytest.param("file:/data/a", "/data/a", id="file-one-slash-as-hadoop-prints"),
    ],
)
def test_a_local_place_is_a_path(uri: str, path: str) -> None:
    """However it is spelt, the worker reads it from its own disk."""
    found = shared_path(uri)

    assert isinstance(found, Path)
    assert found == Path(path)


@pytest.mark.parametrize(
    ("uri", "protocol", "path"),
    [
        pytest.param("s3a://bucket/a/b", "s3", "bucket/a/b", id="s3a-is-airflows-s3"),
        pytest.param("s3n://bucket/a", "s3", "bucket/a", id="s3n-too"),
        pytest.param("gs://bucket/a", "gs", "bucket/a", id="google"),
        pytest.param("s3a://bucket/file:/a", "s3", "bucket/file:/a", id="only-the-scheme-is-changed"),
    ],
)
def test_a_remote_place_goes_through_airflow(uri: str, protocol: str, path: str) -> None:
    """Under the name that Airflow has for Hadoop's scheme."""
    found = shared_path(uri)

    assert isinstance(found, ObjectStoragePath)
    assert (found.protocol, found.path.lstrip("/")) == (protocol, path)


@pytest.mark.parametrize(
    ("place", "uri"),
    [
        pytest.param("/data/a", "file:///data/a", id="path"),
        pytest.param("file:///data/a", "file:///data/a", id="file"),
        pytest.param("file:/data/a", "file:/data/a", id="file-one-slash"),
        pytest.param("hdfs://name-node:8020/a", "hdfs://name-node:8020/a", id="hdfs"),
    ],
)
def test_a_path_is_local_to_hadoop_too(place: str, uri: str) -> None:
    """Without a scheme it would lie on Hadoop's default file system, which is another place."""
    assert hadoop_uri(place) == uri
