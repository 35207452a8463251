package airflow_provider_kafka_spark.jobs.writer;

import java.nio.ByteBuffer;
import java.util.Arrays;
import org.apache.kafka.common.record.CompressionType;
import org.apache.kafka.common.record.DefaultRecordBatch;
import org.apache.kafka.common.record.RecordBatch;
import org.apache.kafka.common.utils.ByteUtils;

/** Records for one partition of the target, collected as bytes until they are a batch. It is used again after that. */
@SuppressWarnings("cast")
final class TargetBatch {
    private static final int LENGTH = 8;
    private static final int MAGIC = 16;
    private static final int ATTRIBUTES = 21;
    private static final int LAST_DELTA = 23;
    private static final int BASE_TIMESTAMP = 27;
    private static final int MAX_TIMESTAMP = 35;
    private static final int COUNT = 57;
    private static final int FIRST_SIZE = 16 * 1024;
    private static final int FIRST_COUNT = 64;

    final int partition;
    private final int limit;
    private ByteBuffer bytes = ByteBuffer.allocate(FIRST_SIZE);
    private long[] offsets = new long[FIRST_COUNT];
    private RangeCounts[] ranges = new RangeCounts[FIRST_COUNT];
    private int count;
    private long baseTimestamp;
    private long maxTimestamp;
    /** Where the content of the record that was appended last begins. */
    private int contentAt;

    /** @param limit bytes before compression, above which no record is added to others */
    TargetBatch(int partition, int limit) {
        this.partition = partition;
        this.limit = limit;
        clear();
    }

    boolean isEmpty() {
        return count == 0;
    }

    /** How many bytes a record takes beside those that say how many. */
    int sizeOf(BatchWalker record, HeaderBytes headers, long timestamp) {
        return 1 + ByteUtils.sizeOfVarlong(count == 0 ? 0L : timestamp - baseTimestamp) + ByteUtils.sizeOfVarint(count)
            + record.contentEnd - record.contentAt + ByteUtils.sizeOfVarint(headers.count()) + headers.size();
    }

    /** Whether a record of this size can be added. A batch takes one record of any size. */
    boolean takes(int size) {
        return count == 0 || bytes.position() + ByteUtils.sizeOfVarint(size) + size <= limit;
    }

    /** @param size of the record, as {@link #sizeOf} says it */
    void append(BatchWalker record, HeaderBytes headers, long timestamp, int size, RangeCounts range) {
        reserve(ByteUtils.sizeOfVarint(size) + size);
        if (count == 0) {
            baseTimestamp = timestamp;
            maxTimestamp = timestamp;
        }
        maxTimestamp = Math.max(maxTimestamp, timestamp);
        ByteUtils.writeVarint(size, bytes);
        bytes.put((byte) 0);
        ByteUtils.writeVarlong(timestamp - baseTimestamp, bytes);
        ByteUtils.writeVarint(count, bytes);
        contentAt = bytes.position();
        bytes.put(record.bytes, record.contentAt, record.contentEnd - record.contentAt);
        ByteUtils.writeVarint(headers.count(), bytes);
        headers.writeTo(bytes);
        offsets[count] = record.offset;
        ranges[count] = range;
        count++;
    }

    /** Where the content of the record that was appended last begins in {@link #array}. */
    int lastContentAt() {
        return contentAt;
    }

    byte[] array() {
        return bytes.array();
    }

    /** The batch without compression; its header is not written yet. */
    ByteBuffer plain() {
        ByteBuffer all = (ByteBuffer) bytes.duplicate();
        all.flip();
        return all;
    }

    /**
     * Write the header, but for what {@link ReadyBatch} writes. (Kafka's own method takes no time below 0.)
     *
     * @param batch all of it, from 0 to its limit, compressed or not
     */
    void writeHeader(ByteBuffer batch, CompressionType compression) {
        batch.putInt(LENGTH, batch.limit() - LENGTH - Integer.BYTES);
        batch.put(MAGIC, RecordBatch.MAGIC_VALUE_V2);
        batch.putShort(ATTRIBUTES, (short) compression.id);
        batch.putInt(LAST_DELTA, count - 1);
        batch.putLong(BASE_TIMESTAMP, baseTimestamp);
        batch.putLong(MAX_TIMESTAMP, maxTimestamp);
        batch.putInt(COUNT, count);
    }

    int count() {
        return count;
    }

    long maxTimestamp() {
        return maxTimestamp;
    }

    /** What becomes of it. */
    AckCallback callback(Sink sink, String topic) {
        return new AckCallback(
            sink, (RangeCounts[]) Arrays.copyOf(ranges, count), Arrays.copyOf(offsets, count), topic, bytes.position()
        );
    }

    /** A record that is larger than the limit is a batch of its own. */
    boolean isFull() {
        return bytes.position() >= limit;
    }

    void clear() {
        count = 0;
        if (bytes.capacity() > 2L * Math.max(limit, FIRST_SIZE)) {
            bytes = ByteBuffer.allocate(FIRST_SIZE);
        }
        bytes.clear();
        bytes.position(DefaultRecordBatch.RECORD_BATCH_OVERHEAD);
        maxTimestamp = RecordBatch.NO_TIMESTAMP;
    }

    private void reserve(int size) {
        if (bytes.remaining() < size) {
            long wanted = Math.max(bytes.position() + (long) size, Math.min(2L * bytes.capacity(), limit));
            ByteBuffer larger = ByteBuffer.allocate((int) wanted);
            bytes.flip();
            larger.put(bytes);
            bytes = larger;
        }
        if (count == offsets.length) {
            offsets = Arrays.copyOf(offsets, 2 * count);
            ranges = (RangeCounts[]) Arrays.copyOf(ranges, 2 * count);
        }
    }
}
