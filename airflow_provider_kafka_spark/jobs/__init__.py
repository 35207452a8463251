"""What runs on the Spark driver. No Airflow here."""
