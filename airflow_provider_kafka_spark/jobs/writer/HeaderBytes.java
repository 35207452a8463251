package airflow_provider_kafka_spark.jobs.writer;

import java.nio.ByteBuffer;

/**
 * The headers that a record has in the target, as bytes: those of the source, and the one that says where it came from,
 * in place of what an earlier copy has written under that name.
 */
final class HeaderBytes {
    private final boolean keepsOthers;
    private final Provenance provenance;
    /** Those of the source in a row, where one is left out. */
    private ByteBuffer left = ByteBuffer.allocate(256);
    private int count;
    private byte[] others;
    private int othersAt;
    private int othersSize;
    private ByteBuffer added;

    HeaderBytes(boolean keepsOthers, Provenance provenance) {
        this.keepsOthers = keepsOthers;
        this.provenance = provenance;
    }

    /** The headers of this record come next. */
    void read(BatchWalker record) {
        count = keepsOthers ? record.headerCount : 0;
        others = record.bytes;
        othersAt = record.headersAt;
        othersSize = keepsOthers ? record.end - record.headersAt : 0;
        added = provenance.encoded(record);
        if (added == null) {
            return;
        }
        for (int i = 0; i < count; i++) {
            if (record.hasName(i, provenance.name())) {
                leaveOut(record, provenance.name());
                break;
            }
        }
        count++;
    }

    int count() {
        return count;
    }

    int size() {
        return othersSize + (added == null ? 0 : added.limit());
    }

    void writeTo(ByteBuffer target) {
        target.put(others, othersAt, othersSize);
        if (added != null) {
            target.put(added.array(), 0, added.limit());
        }
    }

    private void leaveOut(BatchWalker record, byte[] name) {
        if (left.capacity() < othersSize) {
            left = ByteBuffer.allocate(2 * othersSize);
        }
        left.clear();
        int all = count;
        for (int i = 0; i < all; i++) {
            if (record.hasName(i, name)) {
                count--;
            } else {
                int start = record.header(i, BatchWalker.START);
                left.put(record.bytes, start, record.headerEnd(i) - start);
            }
        }
        others = left.array();
        othersAt = 0;
        othersSize = left.position();
    }
}
