"""What Spark and ``spark-submit`` are given: options, settings, files, paths and names. No I/O."""
