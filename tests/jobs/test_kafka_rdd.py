"""By which name Spark keeps a consumer for the next job of the same driver."""

from __future__ import annotations

from airflow_provider_kafka_spark.jobs.kafka_rdd import _group

_OPTIONS = {"kafka.bootstrap.servers": "one:9092", "kafka.sasl.jaas.config": "secret", "failOnDataLoss": "true"}


def test_a_consumer_is_kept_for_the_same_brokers_and_settings_only() -> None:
    kept = _group(_OPTIONS)
    assert kept == _group(dict(reversed(_OPTIONS.items())))
    others = [_group({**_OPTIONS, name: "another"}) for name in _OPTIONS]
    assert len({kept, *others}) == 1 + len(_OPTIONS)
    assert kept.startswith("spark-kafka-relation-")
    assert _group({**_OPTIONS, "groupIdPrefix": "ours"}).startswith("ours-")
