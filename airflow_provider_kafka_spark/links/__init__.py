"""Links of tasks in Airflow's UI."""
