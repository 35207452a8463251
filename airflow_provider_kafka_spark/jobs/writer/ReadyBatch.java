package airflow_provider_kafka_spark.jobs.writer;

import java.nio.ByteBuffer;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.record.DefaultRecordBatch;
import org.apache.kafka.common.record.MemoryRecords;
import org.apache.kafka.common.record.MemoryRecordsBuilder;
import org.apache.kafka.common.record.RecordBatch;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.utils.Crc32C;

/**
 * A whole batch for the producer. Its records are never touched: only the header is written anew, with the producer's
 * own identity and number, and the checksum, which covers a part of the header.
 *
 * <p>The fields are those of Kafka's record batch of magic 2 (KIP-98); the public {@link DefaultRecordBatch} names some.
 */
@SuppressWarnings("cast")
final class ReadyBatch extends MemoryRecordsBuilder {
    private static final int LEADER_EPOCH = 12;
    private static final int ATTRIBUTES = 21;
    private static final int PRODUCER_ID = 43;
    private static final int PRODUCER_EPOCH = 51;
    private static final int SEQUENCE = 53;
    private static final int TRANSACTIONAL = 0x10;

    private final ByteBuffer batch;
    private final int size;
    private final int count;
    private long id = RecordBatch.NO_PRODUCER_ID;
    private short epoch = (short) RecordBatch.NO_PRODUCER_EPOCH;
    private int sequence = RecordBatch.NO_SEQUENCE;
    private boolean isInTransaction;
    private MemoryRecords built;

    /** @param memory of the producer's pool, as large as the batch, which is copied into it */
    ReadyBatch(ByteBuffer memory, BatchContent content) {
        super(
            memory, RecordBatch.MAGIC_VALUE_V2, Compression.NONE, TimestampType.CREATE_TIME, 0L,
            RecordBatch.NO_TIMESTAMP, RecordBatch.NO_PRODUCER_ID, RecordBatch.NO_PRODUCER_EPOCH,
            RecordBatch.NO_SEQUENCE, false, false, RecordBatch.NO_PARTITION_LEADER_EPOCH, memory.capacity()
        );
        size = content.bytes();
        count = content.count();
        batch = (ByteBuffer) memory.duplicate().clear();
        content.writeTo(batch);
        batch.clear();
    }

    @Override
    public void close() {
        if (built != null) {
            return;
        }
        batch.putLong(0, 0L);
        batch.putInt(LEADER_EPOCH, RecordBatch.NO_PARTITION_LEADER_EPOCH);
        int others = batch.getShort(ATTRIBUTES) & ~TRANSACTIONAL;
        batch.putShort(ATTRIBUTES, (short) (isInTransaction ? others | TRANSACTIONAL : others));
        batch.putLong(PRODUCER_ID, id);
        batch.putShort(PRODUCER_EPOCH, epoch);
        batch.putInt(SEQUENCE, sequence);
        batch.putInt(DefaultRecordBatch.CRC_OFFSET, (int) Crc32C.compute(batch, ATTRIBUTES, size - ATTRIBUTES));
        ByteBuffer whole = (ByteBuffer) batch.duplicate().limit(size);
        built = MemoryRecords.readableRecords((ByteBuffer) whole.slice());
    }

    @Override
    public MemoryRecords build() {
        close();
        return built;
    }

    @Override
    public void setProducerState(long producerId, short producerEpoch, int baseSequence, boolean isTransactional) {
        id = producerId;
        epoch = producerEpoch;
        sequence = baseSequence;
        isInTransaction = isTransactional;
        built = null;
    }

    @Override
    public void reopenAndRewriteProducerState(
        long producerId, short producerEpoch, int baseSequence, boolean isTransactional
    ) {
        setProducerState(producerId, producerEpoch, baseSequence, isTransactional);
    }

    @Override
    public void closeForRecordAppends() {
        // It never takes a record.
    }

    @Override
    public void abort() {
        // There is no stream to close.
    }

    @Override
    public boolean isFull() {
        return true;
    }

    @Override
    public boolean isClosed() {
        return built != null;
    }

    @Override
    public int numRecords() {
        return count;
    }

    @Override
    public int estimatedSizeInBytes() {
        return size;
    }

    @Override
    public boolean isTransactional() {
        return isInTransaction;
    }

    @Override
    public long producerId() {
        return id;
    }

    @Override
    public short producerEpoch() {
        return epoch;
    }

    @Override
    public int baseSequence() {
        return sequence;
    }
}
