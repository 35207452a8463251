package airflow_provider_kafka_spark.jobs.writer;

import java.nio.ByteBuffer;

/** A collected batch as it is sent: compressed, if the producer compresses. */
final class PackedBatch implements BatchContent {
    private final ByteBuffer content;
    private final int count;
    private final long maxTimestamp;

    /** @param content from 0 to its limit */
    PackedBatch(ByteBuffer content, int count, long maxTimestamp) {
        this.content = content;
        this.count = count;
        this.maxTimestamp = maxTimestamp;
    }

    @Override
    public int bytes() {
        return content.limit();
    }

    @Override
    public int count() {
        return count;
    }

    @Override
    public long maxTimestamp() {
        return maxTimestamp;
    }

    @Override
    public void writeTo(ByteBuffer memory) {
        content.position(0);
        memory.put(content);
    }
}
