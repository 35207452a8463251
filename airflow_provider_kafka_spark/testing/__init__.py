"""Real brokers, a real YARN, a real Airflow and what belongs to them, for tests of this package and of its users."""
