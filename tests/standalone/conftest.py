"""The standalone Spark cluster of the tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.standalone.standalone_cluster import StandaloneCluster


@pytest.fixture(scope="session")
def standalone_cluster() -> Iterator[StandaloneCluster]:
    with StandaloneCluster() as cluster:
        yield cluster
