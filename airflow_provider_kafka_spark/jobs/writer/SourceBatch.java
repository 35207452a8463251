package airflow_provider_kafka_spark.jobs.writer;

import java.nio.ByteBuffer;
import org.apache.kafka.common.record.MutableRecordBatch;
import org.apache.kafka.common.record.TimestampType;

/** A record batch of the source, of the present format, of which only the header was read. */
final class SourceBatch implements BatchContent {
    final MutableRecordBatch batch;
    final long first;
    final long last;
    private final int count;
    private final int bytes;

    SourceBatch(MutableRecordBatch batch) {
        this.batch = batch;
        first = batch.baseOffset();
        last = batch.lastOffset();
        bytes = batch.sizeInBytes();
        count = batch.countOrNull().intValue();
    }

    /**
     * Whether a broker takes it as it is: it has no gaps as compaction leaves them, and times that are not those of its
     * arrival.
     */
    boolean canBePassedOn() {
        return count == last - first + 1 && !batch.deleteHorizonMs().isPresent()
            && batch.timestampType() == TimestampType.CREATE_TIME;
    }

    @Override
    public int bytes() {
        return bytes;
    }

    /** How many records it has. */
    @Override
    public int count() {
        return count;
    }

    @Override
    public long maxTimestamp() {
        return batch.maxTimestamp();
    }

    @Override
    public void writeTo(ByteBuffer memory) {
        batch.writeTo(memory);
    }
}
