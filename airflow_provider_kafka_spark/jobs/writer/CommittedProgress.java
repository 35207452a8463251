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

    /** Begins the line of the segments. */
    private static final String SEGMENTS = "=";
    /** Follows, where the piece copies all that lies between its ends: another plan may then go on from here. */
    private static final String WHOLE = "!";

    final TargetOffsets targets = new TargetOffsets();
    /** Null if the job does not ask for them. */
    final Segments segments;
    private final Piece piece;
    private boolean isUnknown;
    private volatile boolean hasUnknownSegments;
    /** Source offset up to which everything is done, exclusive. */
    private long position;
    private Long resumedAt;

    CommittedProgress(Piece piece, boolean hasSegments) {
        this.piece = piece;
        segments = hasSegments ? new Segments() : null;
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

    /** Whether it is unknown which offsets of the target hold what was written. */
    boolean hasUnknownSegments() {
        return hasUnknownSegments;
    }

    boolean hasSegments() {
        return segments != null;
    }

    /** Called by the producer's own thread, in which all acknowledgements arrive. */
    void addSegment(long from, long until, long target) {
        if (segments != null) {
            segments.add(from, until, target);
        }
    }

    /** The broker does not know any more where it has a batch that was sent twice. */
    void loseSegments() {
        hasUnknownSegments = segments != null;
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
            int line = written.indexOf(SEGMENTS);
            isUnknown = written.startsWith(UNKNOWN);
            targets.parse(line < 0 ? written : written.substring(0, line));
            hasUnknownSegments = segments != null && (line < 0 || written.indexOf(UNKNOWN, line) >= 0);
            if (segments != null && !hasUnknownSegments) {
                segments.parse(written.substring(line + (written.startsWith(WHOLE, line + 1) ? 2 : 1)));
            }
        }
        return true;
    }

    /** Everything is done, although the slot may be gone. */
    void finish(OffsetAndMetadata found) {
        boolean isFound = load(found);
        isUnknown = isUnknown || !isFound;
        hasUnknownSegments = segments != null && (hasUnknownSegments || !isFound);
        position = Long.MAX_VALUE;
        resumedAt = null;
    }

    /** What to commit when everything before a source offset is done. */
    OffsetAndMetadata toCommit(long newPosition) {
        String name = piece.name + "\n";
        String written = isUnknown ? UNKNOWN : targets.format();
        if (name.length() + written.length() > MAX_METADATA) {
            written = UNKNOWN;
        }
        if (segments != null) {
            String mark = piece.isWhole() ? SEGMENTS + WHOLE : SEGMENTS;
            String all = mark + (hasUnknownSegments ? UNKNOWN : segments.format());
            written += name.length() + written.length() + all.length() > MAX_METADATA ? mark + UNKNOWN : all;
        }
        return new OffsetAndMetadata(newPosition, name + written + END);
    }
}
