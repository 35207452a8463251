"""Sensors that wait for Kafka."""
