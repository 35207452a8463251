from __future__ import annotations

from pathlib import Path

import pytest
from airflow.sdk import ObjectStoragePath

from airflow_provider_kafka_spark.submission.remote_path import hadoop_uri, shared_path


@pytest.mark.parametrize(
    ("uri", "expected"),
    [
        pytest.param("/data/a b", Path("/data/a b"), id="path"),
        pytest.param("file:///data/a", Path("/data/a"), id="file-three-slashes"),
        pytest.param("file:/data/a", Path("/data/a"), id="file-one-slash-as-hadoop-prints"),
        pytest.param("s3a://bucket/a/b", ObjectStoragePath("s3://bucket/a/b"), id="s3a-is-airflows-s3"),
        pytest.param("s3n://bucket/a", ObjectStoragePath("s3://bucket/a"), id="s3n-too"),
        pytest.param("gs://bucket/a", ObjectStoragePath("gs://bucket/a"), id="google"),
        pytest.param("s3a://b/file:/a", ObjectStoragePath("s3://b/file:/a"), id="only-the-scheme-is-changed"),
    ],
)
def test_where_the_worker_finds_a_place(uri: str, expected: Path | ObjectStoragePath) -> None:
    """On its own disk, or through Airflow, under the name that Airflow has for Hadoop's scheme."""
    found = shared_path(uri)

    assert (type(found), str(found)) == (type(expected), str(expected))


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
