package airflow_provider_kafka_spark.jobs.writer;

import org.apache.kafka.clients.consumer.OffsetAndMetadata;

/**
 * How far a piece is: the offset that is committed in its slot, with the piece's name and where it wrote as metadata.
 */
final class CommittedProgress {
    /** Brokers take 4,096 bytes of metadata by default (offset.metadata.max.bytes). */
    private static final int MAX_METADATA = 3500;
    /** In place of targets that would be too long. */
    private static final String UNKNOWN = "?";
    /** Ends the metadata: librdkafka, by which the worker reads them, goes on to the next zero. */
    private static final char END = 0;

    final TargetOffsets targets = new TargetOffsets();
    private final Piece piece;
    private boolean isUnknown;
    /** Source offset up to which everything is done, exclusive. */
    private long position;
    private Long resumedAt;

    CommittedProgress(Piece piece) {
        this.piece = piece;
        position = piece.first;
    }

    long position() {
        return position;
    }

    void advance(long newPosition) {
        position = newPosition;
    }

    /** Whether it is unknown where earlier attempts wrote to. */
    boolean hasUnknownTargets() {
        return isUnknown;
    }

    /** Where this attempt went on, or null if it began at the first offset. */
    Long resumedAt() {
        return resumedAt;
    }

    /**
     * Take what is committed in the slot.
     *
     * @return whether it is the progress of this piece
     */
    boolean load(OffsetAndMetadata found) {
        if (found == null) {
            return false;
        }
        int end = found.metadata().indexOf('\n');
        if (!found.metadata().substring(0, Math.max(end, 0)).equals(piece.name)) {
            return false;
        }
        if (found.offset() > piece.first) {
            // Otherwise it is that of a stream's earlier batch, and nothing of this one is done.
            position = found.offset();
            resumedAt = Long.valueOf(position);
            int zero = found.metadata().indexOf(END);
            String written = found.metadata().substring(end + 1, zero < 0 ? found.metadata().length() : zero);
            isUnknown = written.equals(UNKNOWN);
            targets.parse(written);
        }
        return true;
    }

    /** Everything is done, although the slot may be gone. */
    void finish(OffsetAndMetadata found) {
        isUnknown = isUnknown || !load(found);
        position = Long.MAX_VALUE;
        resumedAt = null;
    }

    /** What to commit when everything before a source offset is done. */
    OffsetAndMetadata toCommit(long newPosition) {
        String name = piece.name + "\n";
        String written = isUnknown ? UNKNOWN : targets.format();
        boolean isLong = name.length() + written.length() > MAX_METADATA;
        return new OffsetAndMetadata(newPosition, name + (isLong ? UNKNOWN : written) + END);
    }
}
