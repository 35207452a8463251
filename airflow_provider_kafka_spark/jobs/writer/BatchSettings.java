package airflow_provider_kafka_spark.jobs.writer;

import java.util.Map;

/** How batches are read: {@code PassedBatches} in {@code writer_messages.py} says what each field means. */
final class BatchSettings {
    final Map<String, String> consumer;
    final boolean passesOn;
    final long maxBytes;
    final long waitMs;
    final long leastBytes;
    final long sampleBytes;

    BatchSettings(Fields fields) {
        consumer = fields.map("consumer");
        passesOn = fields.flag("passes_on");
        maxBytes = fields.number("max_bytes");
        waitMs = fields.number("wait_ms");
        leastBytes = fields.number("least_bytes");
        sampleBytes = fields.number("sample_bytes");
        fields.end();
    }
}
