package airflow_provider_kafka_spark.jobs.writer;

import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.producer.Producer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.ApiException;
import org.apache.kafka.common.header.Header;
import org.apache.spark.TaskContext;
import org.apache.spark.executor.OutputMetrics;

/** Sends the records of one piece, and knows when all of them are acknowledged. */
@SuppressWarnings("cast")
abstract class Sink {
    final Settings settings;
    final Piece piece;
    final Producer<byte[], byte[]> producer;
    final TargetCluster cluster;
    final CommittedProgress progress;
    private final TaskContext context;
    private final Provenance provenance;
    private final boolean preserveTimestamps;
    private final AckCounter acknowledged = new AckCounter();
    private boolean isOpen;
    private long openedAt;
    private long sentBefore;
    private long sent;
    private long bytesBefore;
    private long bytes;
    private long committed;
    private long committedBytes;
    private long rejectedBytes;
    private long changed;
    /** Null if Spark's source reads the records. */
    private final ProducerInternals internals;
    /** Likewise. */
    private final TargetBatches collected;
    private long passed;
    private long asBytes;
    private String firstChanged;
    private AckCallback refused;
    private Exception refusal;
    private volatile boolean hasFailed;

    Sink(Settings settings, Piece piece, Producer<byte[], byte[]> producer, TargetCluster cluster, TaskContext context) {
        this.settings = settings;
        this.piece = piece;
        this.producer = producer;
        this.cluster = cluster;
        this.context = context;
        provenance = new Provenance(settings, piece);
        preserveTimestamps = settings.transform.flag("preserve_timestamps");
        progress = new CommittedProgress(piece, settings.segments);
        internals = settings.batches == null || producer == null ? null : new ProducerInternals();
        collected = internals == null ? null : new TargetBatches(this, internals, provenance);
        if (internals != null) {
            internals.open(producer);
        }
    }

    /** Before the first record of the first piece of a task. */
    abstract void open();

    /** Before the first record of a later piece, with the producer of the one before. */
    abstract void openNext();

    /** What a transaction needs before its first record; nothing is open yet. */
    abstract void beginTransaction();

    /** Ends what is open: everything is acknowledged, and the targets are those of the claim. */
    abstract void endTransaction(long position);

    /** Ends a failed attempt. It returns soon, whatever the brokers do. */
    abstract void abort();

    /** The name of a failure about the brokers; {@code kind} unless they take nothing more from this producer. */
    abstract WriteFailure failure(String message, Throwable cause);

    /** Whether records were sent since the last commit. */
    final boolean isOpen() {
        return isOpen;
    }

    /** How many records were sent since the last commit. */
    final long openRecords() {
        return isOpen ? sent - sentBefore : 0L;
    }

    /** How many bytes of keys and values these have. */
    final long openBytes() {
        return isOpen ? bytes - bytesBefore : 0L;
    }

    /** @param now {@code System.nanoTime()} */
    final boolean isDue(long now) {
        return isOpen
            && (sent - sentBefore >= settings.commitRecords
                || now - openedAt >= TimeUnit.MILLISECONDS.toNanos(settings.commitMs));
    }

    /** Sends one record; its acknowledgement is counted for a range. */
    final void send(RecordCursor record, RangeCounts range) {
        if (record.place != null) {
            collect(record, range);
            return;
        }
        if (collected != null) {
            // Of an older format; those before it come first.
            collected.sendAll();
        }
        if (settings.schemaIds != null && record.rejection == null) {
            settings.schemaIds.rewrite(record);
        }
        noteIfChanged(record.offset, record.headers.toArray(), preserveTimestamps && record.timestamp < 0);
        provenance.addTo(record);
        int size = (record.key == null ? 0 : record.key.length) + (record.value == null ? 0 : record.value.length);
        AckCallback callback = new AckCallback(this, range, record.offset, 1, record.targetTopic, size);
        Long timestamp = preserveTimestamps && record.timestamp >= 0 ? Long.valueOf(record.timestamp) : null;
        try {
            begin();
            sent++;
            bytes += size;
            if (record.rejection != null) {
                rejectedBytes += size;
            }
            producer.send(
                new ProducerRecord<byte[], byte[]>(
                    record.targetTopic, record.targetPartition, timestamp, record.key, record.value, record.headers
                ),
                callback
            );
        } catch (RuntimeException error) {
            refuse(callback, error);
            throwFailure();
        }
    }

    /** Adds a record as bytes to the batch of its partition. */
    private void collect(RecordCursor record, RangeCounts range) {
        BatchWalker place = record.place;
        int size = Math.max(place.keySize, 0) + Math.max(place.valueSize, 0);
        try {
            begin();
            collected.add(record, range);
            sent++;
            asBytes++;
            bytes += size;
        } catch (KafkaException error) {
            refuse(new AckCallback(this, range, record.offset, 1, record.targetTopic, size), error);
            throwFailure();
        }
    }

    /** The largest batch that {@link #pass} takes. */
    final long maxBatchBytes() {
        return internals == null ? Long.MAX_VALUE : Math.min(settings.batches.maxBytes, internals.memory());
    }

    /** Whether the target has the partition of the piece. The producer keeps for minutes what it knows of a topic. */
    final boolean hasTarget(String topic) {
        try {
            return producer == null || producer.partitionsFor(topic).size() > piece.partition;
        } catch (ApiException error) {
            return false;
        }
    }

    /** Sends a batch of the source as it is, to the partition of the same number. */
    final void pass(SourceBatch batch, RangeCounts range, String targetTopic) {
        AckCallback callback = new AckCallback(this, range, batch.first, batch.count(), targetTopic, batch.bytes());
        try {
            begin();
            collected.sendAll();
            sent += batch.count();
            bytes += batch.bytes();
            internals.send(
                new TopicPartition(targetTopic, piece.partition), batch, callback, settings.deliveryTimeoutMs
            );
            passed++;
        } catch (Exception error) {
            refuse(callback, error);
            throwFailure();
        }
    }

    /** How many batches were passed on. */
    final long passed() {
        return passed;
    }

    /** How many records were sent as bytes. */
    final long asBytes() {
        return asBytes;
    }

    /** How many bytes of keys and values, or of batches that were passed on, were sent, without rejected records. */
    final long writtenBytes() {
        return bytes - rejectedBytes;
    }

    /** How many records were sent that no Kafka client can write as they were. */
    final synchronized long changed() {
        return changed;
    }

    /** The first of these, or null. */
    final synchronized String firstChanged() {
        return firstChanged;
    }

    /** Ends what is open, if anything is; everything before this source offset is done. */
    final void commit(long position) {
        awaitAll();
        compareTargets();
        endTransaction(position);
        isOpen = false;
        progress.advance(position);
        OutputMetrics metrics = context.taskMetrics().outputMetrics();
        metrics.setRecordsWritten(metrics.recordsWritten() + sent - committed);
        metrics.setBytesWritten(metrics.bytesWritten() + bytes - committedBytes);
        committed = sent;
        committedBytes = bytes;
    }

    /** Fails if a record was refused. */
    final void throwFailure() {
        if (!hasFailed) {
            return;
        }
        AckCallback record;
        Exception error;
        synchronized (this) {
            record = refused;
            error = refusal;
        }
        if (ClientErrors.isFenced(error)) {
            throw failure("", error);
        }
        throw WriteFailure.ofRecord(
            RecordCursor.nameOf(piece.topic, piece.partition, record.offset), record.bytes, record.targetTopic, error
        );
    }

    final void begin() {
        if (!isOpen) {
            beginTransaction();
            isOpen = true;
            openedAt = System.nanoTime();
            sentBefore = sent;
            bytesBefore = bytes;
        }
    }

    /** A producer takes no time below 0. The consumer reads names of headers as UTF-8, with U+FFFD for other bytes. */
    final void noteIfChanged(long offset, Header[] headers, boolean hasOtherTime) {
        if (!hasOtherTime && !hasUnreadName(headers)) {
            return;
        }
        // The task's thread and the producer's own.
        synchronized (this) {
            if (changed++ == 0) {
                firstChanged = RecordCursor.nameOf(piece.topic, piece.partition, offset);
            }
        }
    }

    private static boolean hasUnreadName(Header[] headers) {
        for (Header header : headers) {
            if (header.key().indexOf('\uFFFD') >= 0) {
                return true;
            }
        }
        return false;
    }

    /** Called by the producer's own thread, in which all acknowledgements arrive. */
    final void acknowledge(AckCallback sent, RecordMetadata metadata) {
        int count = sent.count;
        sent.count();
        progress.targets.add(metadata, count);
        if (metadata.hasOffset()) {
            sent.map(progress, metadata.offset());
        } else {
            progress.loseSegments();
        }
        acknowledged.add(count);
    }

    /**
     * Keeps the first error of all records; the later ones follow from it. Only where one record of a batch is refused,
     * those before it have an error that does not say why.
     */
    final synchronized void refuse(AckCallback record, Exception error) {
        if (!hasFailed || (ClientErrors.isPermanent(error) && !ClientErrors.isPermanent(refusal))) {
            refused = record;
            refusal = error;
            hasFailed = true;
        }
    }

    /** Fails if this job does not have the run. */
    final RunState checkOwner() {
        RunState found = cluster.runState(piece);
        if (settings.mark != null && !settings.mark.isSame(found.mark)) {
            String owner = found.mark == null ? "No submission" : "Another one, " + found.mark + ",";
            throw WriteFailure.of(
                WriteFailure.RUN_TAKEN_OVER, owner + " has the run of piece " + piece.name + ", and this job is "
                    + settings.mark + ". Nothing more is written by this job, and nothing twice.", null
            );
        }
        return found;
    }

    /** Waits until every record is acknowledged. The producer's flush does not wait for batches that were split. */
    private void awaitAll() {
        if (collected != null) {
            collected.sendAll();
        }
        // The producer has a second more for its own error, which says why.
        long deadline = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(settings.deliveryTimeoutMs + 1_000L);
        try {
            Flush.until(deadline, producer, context);
        } catch (KafkaException error) {
            throw failure("The records of piece " + piece.name + " were not sent.", error);
        }
        while (!hasFailed && acknowledged.get() < sent && System.nanoTime() < deadline) {
            context.killTaskIfInterrupted();
            pause(5L);
        }
        throwFailure();
        if (acknowledged.get() < sent) {
            throw WriteFailure.of(
                WriteFailure.BROKER_UNAVAILABLE,
                "The target acknowledged " + acknowledged.get() + " of " + sent + " records of piece " + piece.name
                    + " within " + settings.deliveryTimeoutMs + " ms. A retry goes on from what was committed.", null
            );
        }
    }

    /** Fails if a target is not the topic that the driver found any more. */
    private void compareTargets() {
        if (settings.targetIds.isEmpty()) {
            return;
        }
        Map<String, String> present;
        try {
            present = cluster.targetIds();
        } catch (KafkaException error) {
            String message = "The targets of piece " + piece.name + " could not be compared.";
            throw WriteFailure.ofClient(message, error);
        }
        for (Map.Entry<String, String> target : settings.targetIds.entrySet()) {
            String id = (String) present.get(target.getKey());
            if (!((String) target.getValue()).equals(id)) {
                throw WriteFailure.of(
                    WriteFailure.TARGET_RECREATED, "Topic " + target.getKey() + " had the id " + target.getValue()
                        + " when the job began; " + (id == null ? "it does not exist now." : "now it has " + id + ".")
                        + " What went to the earlier topic is lost. Create the topic if it does not exist: a retry "
                        + "then writes all records to the new one.", null
                );
            }
        }
    }

    static void pause(long ms) {
        try {
            Thread.sleep(ms);
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
            throw new IllegalStateException("The task was interrupted.", interrupted);
        }
    }
}
