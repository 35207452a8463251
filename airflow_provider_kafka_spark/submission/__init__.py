"""One run of ``spark-submit``: its cluster, its files and options, and its end."""
