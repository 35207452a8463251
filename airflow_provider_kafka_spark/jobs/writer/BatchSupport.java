package airflow_provider_kafka_spark.jobs.writer;

/** Whether batches can be passed on by the Kafka client of this JVM. */
public final class BatchSupport {
    /** What it lacks, or null. */
    public String missing() {
        try {
            new ConsumerInternals();
            new ProducerInternals();
            return null;
        } catch (UnsupportedOperationException error) {
            return error.getMessage();
        }
    }
}
