package airflow_provider_kafka_spark.jobs.writer;

import org.apache.kafka.clients.producer.Callback;
import org.apache.kafka.clients.producer.RecordMetadata;

/** Passes the acknowledgement or the error of one record, or of one batch, to its sink. */
final class AckCallback implements Callback {
    /** Of the first record. */
    final long offset;
    final int count;
    final String targetTopic;
    final int bytes;
    private final Sink sink;
    private final RangeCounts range;

    /**
     * @param count of records
     * @param bytes of key and value, or of the batch
     */
    AckCallback(Sink sink, RangeCounts range, long offset, int count, String targetTopic, int bytes) {
        this.sink = sink;
        this.range = range;
        this.offset = offset;
        this.count = count;
        this.targetTopic = targetTopic;
        this.bytes = bytes;
    }

    /** That of one record of a batch without gaps. */
    AckCallback ofRecord(int index, int bytesOfRecord) {
        return new AckCallback(sink, range, offset + index, 1, targetTopic, bytesOfRecord);
    }

    @Override
    public void onCompletion(RecordMetadata metadata, Exception error) {
        if (error == null) {
            sink.acknowledge(this, range, metadata);
        } else {
            sink.refuse(this, error);
        }
    }
}
