package airflow_provider_kafka_spark.jobs.writer;

import org.apache.kafka.clients.producer.Callback;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.header.Header;

/** Passes the acknowledgement or the error of one record, or of one batch, to its sink. */
final class AckCallback implements Callback {
    /** Of the first record. */
    final long offset;
    final int count;
    final String targetTopic;
    final int bytes;
    private final Sink sink;
    /** Of all records; null if each has its own. */
    private final RangeCounts range;
    private final RangeCounts[] ranges;
    /** Of each record; null if they are consecutive. */
    private final long[] offsets;

    /**
     * One record, or a batch without gaps.
     *
     * @param count of records
     * @param bytes of key and value, or of the batch
     */
    AckCallback(Sink sink, RangeCounts range, long offset, int count, String targetTopic, int bytes) {
        this(sink, range, null, offset, null, count, targetTopic, bytes);
    }

    /** A batch of records from here and there in the source, in order. */
    AckCallback(Sink sink, RangeCounts[] ranges, long[] offsets, String targetTopic, int bytes) {
        this(sink, null, ranges, offsets[0], offsets, offsets.length, targetTopic, bytes);
    }

    private AckCallback(
        Sink sink, RangeCounts range, RangeCounts[] ranges, long offset, long[] offsets, int count, String targetTopic,
        int bytes
    ) {
        this.sink = sink;
        this.range = range;
        this.ranges = ranges;
        this.offset = offset;
        this.offsets = offsets;
        this.count = count;
        this.targetTopic = targetTopic;
        this.bytes = bytes;
    }

    /** That of one record of a batch. */
    AckCallback ofRecord(int index, int bytesOfRecord) {
        return new AckCallback(
            sink, range == null ? ranges[index] : range, offsetOf(index), 1, targetTopic, bytesOfRecord
        );
    }

    /** Note that the producer writes the record anew, and changes it with that. */
    void noteIfChanged(Header[] headers) {
        sink.noteIfChanged(offset, headers, false);
    }

    @Override
    public void onCompletion(RecordMetadata metadata, Exception error) {
        if (error == null) {
            sink.acknowledge(this, metadata);
        } else {
            sink.refuse(this, error);
        }
    }

    /** Count the records as acknowledged in their ranges. */
    void count() {
        if (range != null) {
            range.acknowledged.add(count);
            return;
        }
        int first = 0;
        for (int i = 1; i <= count; i++) {
            if (i == count || ranges[i] != ranges[first]) {
                ranges[first].acknowledged.add(i - first);
                first = i;
            }
        }
    }

    /** Note where the records are. */
    void map(CommittedProgress progress, long target) {
        if (offsets == null || !progress.hasSegments()) {
            progress.addSegment(offset, offset + count, target);
            return;
        }
        for (int i = 0; i < count; i++) {
            progress.addSegment(offsets[i], offsets[i] + 1, target + i);
        }
    }

    private long offsetOf(int index) {
        return offsets == null ? offset + index : offsets[index];
    }
}
