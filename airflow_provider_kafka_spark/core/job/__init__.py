"""What goes to Spark with a job, and what comes back from it besides the report."""
