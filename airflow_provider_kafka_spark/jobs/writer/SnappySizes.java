package airflow_provider_kafka_spark.jobs.writer;

import java.nio.ByteBuffer;
import org.apache.kafka.common.errors.CorruptRecordException;
import org.apache.kafka.common.record.DefaultRecordBatch;
import org.apache.kafka.common.utils.ByteUtils;

/**
 * What a snappy stream says of the sizes of its chunks. Its library takes as much memory, up to 2 GiB, before it looks
 * at the bytes; the other decompressors take what they need.
 */
@SuppressWarnings("cast")
final class SnappySizes {
    /** The first bytes of {@code SnappyOutputStream}, and how many come before its first chunk. */
    private static final long MAGIC = 0x82534e4150505900L;
    private static final int HEAD = 16;
    /** In place of a chunk's size: another stream follows, with a head of its own. */
    private static final int NEXT_STREAM = (int) (MAGIC >>> Integer.SIZE);

    /** Heads in a row: the library calls itself for each, and a stack that is full ends the executor. */
    private static final int MOST_HEADS = 100;

    private SnappySizes() {
    }

    /** @throws CorruptRecordException if a chunk is larger than the batch, or is to become larger than {@code most} */
    static void check(DefaultRecordBatch batch, int most) {
        ByteBuffer all = ByteBuffer.allocate(batch.sizeInBytes());
        batch.writeTo(all);
        all.flip();
        all.position(DefaultRecordBatch.RECORD_BATCH_OVERHEAD);
        if (all.remaining() < HEAD || all.getLong(all.position()) != MAGIC) {
            checkChunk(all, most);
            return;
        }
        all.position(all.position() + HEAD);
        int heads = 1;
        while (all.remaining() >= Integer.BYTES) {
            int size = all.getInt();
            if (size == NEXT_STREAM && all.remaining() >= HEAD - Integer.BYTES) {
                all.position(all.position() + HEAD - Integer.BYTES);
                if (++heads > MOST_HEADS) {
                    throw new CorruptRecordException("It has " + heads + " heads of streams without a chunk.");
                }
                continue;
            }
            if (size < 0 || size > all.remaining()) {
                throw new CorruptRecordException("It has a chunk of " + size + " bytes, more than follow.");
            }
            checkChunk(all, most);
            all.position(all.position() + size);
            heads = 0;
        }
    }

    private static void checkChunk(ByteBuffer chunk, int most) {
        int size = ByteUtils.readUnsignedVarint((ByteBuffer) chunk.duplicate());
        if (size < 0 || size > most) {
            throw new CorruptRecordException("It has a chunk that becomes " + (size & 0xffffffffL) + " bytes.");
        }
    }
}
