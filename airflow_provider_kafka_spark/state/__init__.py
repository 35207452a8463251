"""What a task keeps between its tries: its plan in Airflow's task state store, and a stream's checkpoint."""
