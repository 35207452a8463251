"""Tasks that wait for Kafka."""
