"""Programs that this package starts or needs: Java, Spark, jars, and what they inherit."""
