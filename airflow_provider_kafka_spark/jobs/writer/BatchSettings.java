package airflow_provider_kafka_spark.jobs.writer;

import java.util.Map;

/** How batches are passed on: {@code PassedBatches} in {@code writer_messages.py} says what each field means. */
final class BatchSettings {
    final Map<String, String> consumer;
    final long maxBytes;
    final long waitMs;
    final int leastRecords;

    BatchSettings(Fields fields) {
        consumer = fields.map("consumer");
        maxBytes = fields.number("max_bytes");
        waitMs = fields.number("wait_ms");
        leastRecords = (int) fields.number("least_records");
        fields.end();
    }
}
