package airflow_provider_kafka_spark.jobs.writer;

import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.concurrent.TimeUnit;
import org.apache.spark.TaskContext;
import org.apache.spark.executor.InputMetrics;
import org.apache.spark.util.LongAccumulator;

/** Copies the records of one piece into a sink, and counts what became of each range. */
@SuppressWarnings("cast")
final class TaskWriter {
    /** The producer drops what it knows of a topic that it was not asked for within metadata.max.idle.ms. */
    private static final long TARGET_NANOS = TimeUnit.SECONDS.toNanos(1L);

    private final Piece piece;
    private final RecordCursor cursor;
    private final SourceIterator source;
    private final LongAccumulator recordsRead;
    private final TaskContext context;
    private final InputMetrics metrics;
    private final LinkedHashMap<Integer, RangeCounts> counts = new LinkedHashMap<Integer, RangeCounts>();
    /** Null if Spark's source reads the records. */
    private final BatchReader batches;
    private long outside;
    /** The end of what was read and is counted. */
    private long reached;
    private boolean hasTarget;
    private long foundTargetAt;
    /** Of each range of the piece. */
    private final RangeCounts[] countsOf;

    /**
     * @param batches what the source reads, or null if it reads records
     * @param recordsRead is increased with every record
     */
    TaskWriter(
        Piece piece, RecordCursor cursor, SourceIterator source, BatchReader batches, LongAccumulator recordsRead,
        TaskContext context
    ) {
        this.piece = piece;
        this.cursor = cursor;
        this.source = source;
        this.batches = batches;
        this.recordsRead = recordsRead;
        this.context = context;
        reached = piece.first;
        metrics = context.taskMetrics().inputMetrics();
        countsOf = new RangeCounts[piece.indexes.length];
        for (int i = 0; i < countsOf.length; i++) {
            Integer index = Integer.valueOf(piece.indexes[i]);
            if (!counts.containsKey(index)) {
                counts.put(index, new RangeCounts(piece.indexes[i]));
            }
            countsOf[i] = (RangeCounts) counts.get(index);
        }
    }

    Collection<RangeCounts> counts() {
        return counts.values();
    }

    /** How many records have a time outside of the window; a batch has its largest one. */
    long outside() {
        return outside;
    }

    /** The first input, or null. Nothing is open while it is waited for. */
    Object first() throws Exception {
        return next(null, null, System.nanoTime());
    }

    /** Copies everything from the first input on, and returns when all of it is done. */
    void copy(Object first, Sink sink, Pace pace) throws Exception {
        Object input = first;
        pace.rest();
        while (input != null) {
            sink.throwFailure();
            context.killTaskIfInterrupted();
            if (input instanceof SourceBatch) {
                if (!pass((SourceBatch) input, sink)) {
                    batches.walk((SourceBatch) input);
                    input = next(sink, pace, System.nanoTime());
                    continue;
                }
                reached = ((SourceBatch) input).last + 1;
            } else {
                copyRecord(input, sink);
                reached = cursor.offset + 1;
            }
            long now = System.nanoTime();
            if (sink.isDue(now) || pace.isDue(sink)) {
                pace.charge(sink);
                sink.commit(reached);
                pace.rest();
                now = System.nanoTime();
            }
            input = next(sink, pace, now);
        }
        if (sink.isOpen() || reached > sink.progress.position()) {
            pace.charge(sink);
            sink.commit(reached);
        }
        // The next task does not know what this one has sent.
        pace.settle();
    }

    /** The failure of the record that is being written, or of the next one that is to be read. */
    WriteFailure outOfMemory(OutOfMemoryError error) {
        boolean isOfPiece = cursor.topic != null && piece.holds(cursor.topic, cursor.partition, cursor.offset);
        if (!isOfPiece || cursor.offset < reached) {
            long next = piece.nextWanted(reached);
            return WriteFailure.ofMemory(RecordCursor.nameOf(piece.topic, piece.partition, next), 0, error);
        }
        int ofKey = cursor.key == null ? 0 : cursor.key.length;
        return WriteFailure.ofMemory(cursor.name(), ofKey + (cursor.value == null ? 0 : cursor.value.length), error);
    }

    private void copyRecord(Object input, Sink sink) {
        cursor.read(input);
        if (!piece.holds(cursor.topic, cursor.partition, cursor.offset)) {
            throw WriteFailure.ofData(
                WriteFailure.JOB_FAILED, "Record " + cursor.name() + " is outside of piece " + piece.name + ". This is "
                    + "a fault of this package; please report it with the plan. Nothing of this record was written.",
                cursor.name()
            );
        }
        int range = piece.find(cursor.offset);
        if (range >= 0) {
            handle(countsOf[range], sink);
        }
    }

    /**
     * Pass a batch on as it is.
     *
     * @return false if its records have to be copied one by one
     */
    private boolean pass(SourceBatch batch, Sink sink) {
        int range = piece.findWhole(batch.first, batch.last);
        if (range < 0 || (batch.first < sink.progress.position() && batch.last >= sink.progress.position())) {
            return false;
        }
        if (batch.bytes() > sink.maxBatchBytes()) {
            return false;
        }
        String target = cursor.targetOf(piece.topic);
        boolean isCommitted = batch.last < sink.progress.position();
        if (!isCommitted && !isFound(target, sink)) {
            // The producer says what is wrong, for a record.
            return false;
        }
        countsOf[range].read += batch.count();
        outside += cursor.isOutside(batch.maxTimestamp()) ? batch.count() : 0;
        if (isCommitted) {
            countsOf[range].alreadyCommitted += batch.count();
        } else {
            sink.pass(batch, countsOf[range], target);
        }
        recordsRead.add(batch.count());
        metrics.incRecordsRead(batch.count());
        return true;
    }

    private boolean isFound(String target, Sink sink) {
        long now = System.nanoTime();
        if (!hasTarget || now - foundTargetAt > TARGET_NANOS) {
            hasTarget = sink.hasTarget(target);
            foundTargetAt = now;
        }
        return hasTarget;
    }

    private void handle(RangeCounts range, Sink sink) {
        range.read++;
        outside += cursor.isOutside(cursor.timestamp) ? 1 : 0;
        if (cursor.rejection != null) {
            range.rejected++;
        }
        if (!cursor.selected) {
            range.filtered++;
        } else if (cursor.offset < sink.progress.position()) {
            range.alreadyCommitted++;
        } else {
            sink.send(cursor, range);
        }
        recordsRead.add(1L);
        metrics.incRecordsRead(1L);
    }

    /**
     * The next input, or null at the end. No transaction stays open while the source gives nothing.
     *
     * @param sink null if it is not open yet
     */
    private Object next(Sink sink, Pace pace, long now) throws Exception {
        Object input = source.next(now);
        while (source.isStalled()) {
            context.killTaskIfInterrupted();
            if (sink != null && sink.isOpen()) {
                pace.charge(sink);
                sink.commit(reached);
            }
            source.checkStall();
            input = source.next(now);
        }
        return input;
    }
}
