package airflow_provider_kafka_spark.jobs.writer;

import java.io.IOException;
import java.io.InputStream;
import java.nio.ByteBuffer;
import org.apache.kafka.common.record.CompressionType;
import org.apache.kafka.common.record.DefaultRecordBatch;
import org.apache.kafka.common.utils.BufferSupplier;
import org.apache.kafka.common.utils.Utils;

/** The bytes of a batch's records, decompressed only as far as they are asked for, into one array for all batches. */
final class RecordBytes {
    /** Memory for a batch that says it has more is never taken before the bytes are there. */
    private static final int FIRST_SIZE = 64 * 1024;

    private final BufferSupplier decompression = BufferSupplier.create();
    private final int most;
    private ByteBuffer bytes = ByteBuffer.allocate(FIRST_SIZE);
    private InputStream input;

    /** @param most bytes that may be asked for at once */
    RecordBytes(int most) {
        this.most = most;
    }

    void open(DefaultRecordBatch batch) {
        close();
        bytes.position(0);
        bytes.limit(0);
        if (batch.compressionType() == CompressionType.SNAPPY) {
            SnappySizes.check(batch, most);
        }
        input = batch.recordInputStream(decompression);
    }

    /** What follows, from its position to its limit. */
    ByteBuffer bytes() {
        return bytes;
    }

    /** Decompress until so many bytes follow, and return whether the batch has as many. Earlier bytes may go. */
    boolean has(int count) throws IOException {
        if (bytes.remaining() >= count) {
            return true;
        }
        bytes.compact();
        int found = 0;
        while (found >= 0 && bytes.position() < count) {
            if (!bytes.hasRemaining()) {
                grow();
            }
            found = input.read(bytes.array(), bytes.position(), bytes.remaining());
            bytes.position(bytes.position() + Math.max(found, 0));
        }
        bytes.flip();
        return bytes.remaining() >= count;
    }

    void close() {
        Utils.closeQuietly(input, "records of a batch");
        input = null;
    }

    private void grow() {
        ByteBuffer larger = ByteBuffer.allocate((int) Math.min(most, 2L * bytes.capacity()));
        bytes.flip();
        larger.put(bytes);
        bytes = larger;
    }
}
