"""Real brokers, a real Airflow and their helpers, for tests of this package and of its users."""
