package airflow_provider_kafka_spark.jobs.writer;

import java.util.Map;

/** How batches are read and passed on: {@code Batches} in {@code writer_messages.py} says what each field means. */
final class BatchSettings {
    final Map<String, String> consumer;
    final boolean passesOn;
    final long maxBytes;
    final long waitMs;
    final long leastBytes;
    final int maxRecordBytes;

    BatchSettings(Fields fields) {
        consumer = fields.map("consumer");
        passesOn = fields.flag("passes_on");
        maxBytes = fields.number("max_bytes");
        waitMs = fields.number("wait_ms");
        leastBytes = fields.number("least_bytes");
        maxRecordBytes = (int) fields.number("max_record_bytes");
        fields.end();
    }
}
