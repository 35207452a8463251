package airflow_provider_kafka_spark.jobs.writer;

import org.apache.kafka.clients.producer.Callback;
import org.apache.kafka.clients.producer.RecordMetadata;

/** Passes the acknowledgement or the error of one record to its sink. */
final class AckCallback implements Callback {
    final long offset;
    final String targetTopic;
    final int bytes;
    private final Sink sink;
    private final RangeCounts range;

    /** @param bytes of key and value */
    AckCallback(Sink sink, RangeCounts range, long offset, String targetTopic, int bytes) {
        this.sink = sink;
        this.range = range;
        this.offset = offset;
        this.targetTopic = targetTopic;
        this.bytes = bytes;
    }

    @Override
    public void onCompletion(RecordMetadata metadata, Exception error) {
        if (error == null) {
            sink.acknowledge(range, metadata);
        } else {
            sink.refuse(this, error);
        }
    }
}
