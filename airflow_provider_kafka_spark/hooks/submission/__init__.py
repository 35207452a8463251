"""One run of ``spark-submit``: where it runs, what it gets, and how it ends."""
