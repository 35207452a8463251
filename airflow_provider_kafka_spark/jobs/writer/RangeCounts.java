package airflow_provider_kafka_spark.jobs.writer;

/** What became of the records of one planned range in this task. */
final class RangeCounts {
    final int index;
    final AckCounter acknowledged = new AckCounter();
    long read;
    /** Records that a filter or the exact window left out. */
    long filtered;
    /** Records that are for the dead-letter topic; they count as acknowledged or already committed, too. */
    long rejected;
    /** Records that an earlier attempt had committed. */
    long alreadyCommitted;

    RangeCounts(int index) {
        this.index = index;
    }
}
