"""What Airflow calls a hook: for a Kafka connection, for a Spark job, and for delegation tokens."""
