"""Promises of :mod:`~airflow_provider_kafka_spark.core.conditions.topic_scope`: what all conditions have in common."""

from __future__ import annotations

import pytest

from airflow_provider_kafka_spark.core.conditions.topic_scope import TopicScope
from airflow_provider_kafka_spark.core.errors import BrokerAuthorizationError, InvalidInputError
from tests.core.conditions.snapshots import snapshot


def test_a_hidden_topic_is_not_taken_for_a_missing_one() -> None:
    held = snapshot({}, failures={("topic", "hidden"): BrokerAuthorizationError("no")})

    assert TopicScope.parse(["hidden"], missing_topic="wait").present_topics(held) == ("hidden",)
    assert isinstance(TopicScope.parse(["missing"], missing_topic="wait").present_topics(held), str)


def test_missing_topic_is_one_of_two_words() -> None:
    assert [TopicScope.parse(["a"], missing_topic=word).missing_topic for word in ("fail", "wait")] == ["fail", "wait"]
    for value in ("ignore", None, True):
        with pytest.raises(InvalidInputError, match="'fail' or 'wait'"):
            TopicScope.parse(["a"], missing_topic=value)
