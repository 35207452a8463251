"""Fixtures with a real broker, for this package's tests and for its users'.

Put ``pytest_plugins = ["airflow_provider_kafka_spark.testing.pytest_plugin"]`` into the top ``conftest.py``.

Without Java the tests that need it fail. They are not skipped, since a suite that silently tests nothing is
worse than one that fails.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Protocol
from uuid import uuid4

import pytest

from airflow_provider_kafka_spark.testing.kafka_broker import KafkaBroker

if TYPE_CHECKING:
    from collections.abc import Mapping

# The broker refuses names of more than 249 characters; the suffix and what a test may add need room.
_LONGEST_STEM = 180


class TopicFactory(Protocol):
    """Creates a topic for the running test and returns its name."""

    def __call__(self, partitions: int = 1, config: Mapping[str, str] | None = None, *, suffix: str = "") -> str:
        """Create one.

        :param partitions: how many
        :param config: topic properties such as ``{"cleanup.policy": "compact"}``
        :param suffix: distinguishes several topics of one test, such as ``"target"``
        """


def pytest_configure(config: pytest.Config) -> None:
    """Make the markers known, so that ``--strict-markers`` accepts them in a user's project too."""
    config.addinivalue_line("markers", "broker: needs a Kafka broker, which the fixture kafka_broker starts")


@pytest.fixture(scope="session")
def kafka_broker() -> Iterator[KafkaBroker]:
    """The broker of this test session: a new one, or the one that ``KAFKA_BOOTSTRAP`` names."""
    with KafkaBroker.from_environment() as broker:
        yield broker


@pytest.fixture
def topic(kafka_broker: KafkaBroker, request: pytest.FixtureRequest) -> Iterator[TopicFactory]:
    """A factory of topics that are named after the test and deleted after it."""
    created: list[str] = []
    stem = re.sub(r"[^A-Za-z0-9_-]+", "-", request.node.name).strip("-")[:_LONGEST_STEM]

    def create(partitions: int = 1, config: Mapping[str, str] | None = None, *, suffix: str = "") -> str:
        # A topic may exist already on an existing broker, if an earlier session was killed.
        name = "-".join(part for part in (stem, suffix, uuid4().hex[:8]) if part)
        kafka_broker.create_topic(name, partitions, config)
        created.append(name)
        return name

    yield create
    still_there = kafka_broker.topics() if created else set()
    for name in created:
        if name in still_there:
            kafka_broker.delete_topic(name)
