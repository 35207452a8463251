"""The outside world, as the worker meets it: brokers, Spark, files, Airflow's store."""
