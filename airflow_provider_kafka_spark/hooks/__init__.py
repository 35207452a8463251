"""The worker's access to the outside world: brokers, Spark, files and Airflow's task state."""
