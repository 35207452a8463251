package airflow_provider_kafka_spark.jobs.writer;

import java.io.IOException;
import java.nio.ByteBuffer;
import org.apache.kafka.common.errors.CorruptRecordException;
import org.apache.kafka.common.record.DefaultRecordBatch;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.utils.ByteUtils;

/**
 * The records of one batch, one after the other, as places in an array: no object is made of any. What a record says of
 * itself is checked before it is used.
 *
 * <p>The format is that of Kafka's {@code DefaultRecord} (KIP-98): size, attributes, timestamp delta, offset delta, key
 * size, key, value size, value, number of headers, and of each the size of its name, name, size of its value, value.
 */
final class BatchWalker {
    /** In {@link #header}: where a header begins, its name, and its value, whose size is negative for null. */
    static final int START = 0;
    static final int NAME = 1;
    static final int NAME_SIZE = 2;
    static final int VALUE = 3;
    static final int VALUE_SIZE = 4;
    private static final int FIELDS = 5;
    private static final int MAX_VARINT = 5;
    /** A name and a value of no bytes. */
    private static final int LEAST_HEADER = 2;
    /** The places of a header take 20 bytes, however small it is: all take less than the largest record. */
    private static final int RECORD_FOR_HEADER = 64;

    final String topic;
    final int partition;
    long offset;
    long timestamp;
    /** Where all places are; they are valid until the next record. */
    byte[] bytes;
    /** The same bytes. */
    ByteBuffer buffer;
    int keyAt;
    /** Negative if there is no key. */
    int keySize;
    int valueAt;
    /** Negative if there is no value. */
    int valueSize;
    /** Of the key with its size, which the value with its size follows. */
    int contentAt;
    int contentEnd;
    int headersAt;
    int headerCount;
    int end;
    private final RecordBytes source;
    private final int most;
    private int[] headers = new int[FIELDS];
    private long baseOffset;
    private int lastDelta;
    private int delta;
    private long baseTimestamp;
    /** Of all records, where it is the time of arrival. */
    private boolean isAppendTime;
    private int left;

    /** @param most bytes of a record; a larger one is an error */
    BatchWalker(String topic, int partition, int most) {
        this.topic = topic;
        this.partition = partition;
        this.most = most;
        source = new RecordBytes(most);
    }

    /** @throws RuntimeException if it is damaged */
    void open(DefaultRecordBatch batch) {
        baseOffset = batch.baseOffset();
        lastDelta = (int) (batch.lastOffset() - baseOffset);
        delta = -1;
        isAppendTime = batch.timestampType() == TimestampType.LOG_APPEND_TIME;
        baseTimestamp = isAppendTime ? batch.maxTimestamp() : batch.baseTimestamp();
        left = batch.countOrNull().intValue();
        source.open(batch);
    }

    /**
     * Go to the next record, and return whether there is one.
     *
     * @throws IOException as {@code RuntimeException}, if the batch is damaged
     */
    boolean next() throws IOException {
        if (left <= 0) {
            require(left == 0 && !source.has(1), "has other records than it says");
            return false;
        }
        left--;
        source.has(MAX_VARINT);
        int size = ByteUtils.readVarint(source.bytes());
        if (size < 0 || size > most) {
            // The text takes longer than the record: it is made where it is needed.
            require(false, "has a record of " + size + " bytes, and at most " + most + " can be read");
        }
        require(source.has(size), "ends within a record");
        ByteBuffer view = source.bytes();
        int limit = view.limit();
        end = view.position() + size;
        view.limit(end);
        parse(view);
        require(view.position() == end, "has a record of another size than it says");
        view.limit(limit);
        return true;
    }

    /** A field of a header. */
    int header(int index, int field) {
        return headers[index * FIELDS + field];
    }

    /** The end of a header. */
    int headerEnd(int index) {
        return index + 1 < headerCount ? header(index + 1, START) : end;
    }

    boolean hasName(int index, byte[] name) {
        if (header(index, NAME_SIZE) != name.length) {
            return false;
        }
        int at = header(index, NAME);
        // The last characters differ first.
        for (int i = name.length - 1; i >= 0; i--) {
            if (bytes[at + i] != name[i]) {
                return false;
            }
        }
        return true;
    }

    void close() {
        source.close();
    }

    private void parse(ByteBuffer view) {
        buffer = view;
        bytes = view.array();
        // Attributes, which no version uses.
        view.get();
        long later = ByteUtils.readVarlong(view);
        timestamp = isAppendTime ? baseTimestamp : baseTimestamp + later;
        int next = ByteUtils.readVarint(view);
        require(next > delta && next <= lastDelta, "has an offset that is not one of its own, or not in order");
        delta = next;
        offset = baseOffset + delta;
        contentAt = view.position();
        keySize = ByteUtils.readVarint(view);
        keyAt = skip(view, keySize);
        valueSize = ByteUtils.readVarint(view);
        valueAt = skip(view, valueSize);
        contentEnd = view.position();
        parseHeaders(view);
    }

    private void parseHeaders(ByteBuffer view) {
        headerCount = ByteUtils.readVarint(view);
        headersAt = view.position();
        require(headerCount >= 0 && headerCount <= view.remaining() / LEAST_HEADER, "has a wrong number of headers");
        require(headerCount <= most / RECORD_FOR_HEADER, "has more headers than can be read");
        if (headers.length < headerCount * FIELDS) {
            headers = new int[Math.max(2 * headers.length, headerCount * FIELDS)];
        }
        for (int i = 0; i < headerCount; i++) {
            int at = i * FIELDS;
            headers[at + START] = view.position();
            headers[at + NAME_SIZE] = ByteUtils.readVarint(view);
            require(headers[at + NAME_SIZE] >= 0, "has a header without a name");
            headers[at + NAME] = skip(view, headers[at + NAME_SIZE]);
            headers[at + VALUE_SIZE] = ByteUtils.readVarint(view);
            headers[at + VALUE] = skip(view, headers[at + VALUE_SIZE]);
        }
    }

    /** Where so many bytes begin, which are passed. */
    private static int skip(ByteBuffer view, int size) {
        int at = view.position();
        require(size <= view.remaining(), "has a part that is larger than its record");
        view.position(at + Math.max(size, 0));
        return at;
    }

    private static void require(boolean isSo, String otherwise) {
        if (!isSo) {
            throw new CorruptRecordException("It " + otherwise + ".");
        }
    }
}
