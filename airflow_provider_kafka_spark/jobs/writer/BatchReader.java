package airflow_provider_kafka_spark.jobs.writer;

import java.io.IOException;
import java.time.Duration;
import java.util.Collections;
import java.util.Comparator;
import java.util.HashSet;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.NoSuchElementException;
import java.util.Optional;
import java.util.PriorityQueue;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.CorruptRecordException;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.message.FetchResponseData;
import org.apache.kafka.common.record.BaseRecords;
import org.apache.kafka.common.record.ControlRecordType;
import org.apache.kafka.common.record.DefaultRecordBatch;
import org.apache.kafka.common.record.MemoryRecords;
import org.apache.kafka.common.record.MutableRecordBatch;
import org.apache.kafka.common.record.Record;
import org.apache.kafka.common.record.RecordBatch;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.utils.BufferSupplier;
import org.apache.kafka.common.utils.CloseableIterator;
import org.apache.kafka.common.utils.Utils;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The record batches of one piece that can be passed on, and the records of all others, in order. A wait for the source
 * that is over ends in a {@link TimeoutException}, after which the reader is asked again.
 */
@SuppressWarnings({"cast", "rawtypes", "unchecked"})
final class BatchReader implements Iterator {
    private static final Logger LOG = LoggerFactory.getLogger(BatchReader.class);
    private static final Duration CLOSE = Duration.ofSeconds(1L);

    private final BatchSettings settings;
    private final Piece piece;
    private final Map config;
    private final long waitMs;
    private final boolean checksCrcs;
    private final boolean isCommittedOnly;
    private final boolean passesOn;
    private final long leastBytes;
    private final KafkaConsumer consumer;
    private final ConsumerInternals fetches = new ConsumerInternals();
    private final BufferSupplier decompression = BufferSupplier.create();
    /** Of producers whose transactions were aborted, at the place that is read. */
    private final HashSet<Long> aborting = new HashSet<Long>();
    private PriorityQueue aborted = new PriorityQueue();
    private Iterator<MutableRecordBatch> batches = Collections.emptyIterator();
    private CloseableIterator<Record> records;
    private MutableRecordBatch recordsOf;
    /** The offset from which on nothing was given yet. */
    private long position;
    /** The position when a batch was looked for. */
    private long startOfCall;
    private Object next;
    private final BatchWalker walker;
    private boolean walks;

    /** @throws UnsupportedOperationException if Kafka's client lacks what is needed */
    BatchReader(BatchSettings settings, Piece piece, Map config) {
        this(settings, piece, config, new KafkaConsumer(config, new ByteArrayDeserializer(), new ByteArrayDeserializer()));
    }

    private BatchReader(BatchSettings settings, Piece piece, Map config, KafkaConsumer consumer) {
        this.settings = settings;
        this.piece = piece;
        this.config = config;
        this.consumer = consumer;
        waitMs = settings.waitMs;
        passesOn = settings.passesOn;
        leastBytes = settings.leastBytes;
        walker = new BatchWalker(piece.topic, piece.partition, settings.maxRecordBytes);
        position = piece.first;
        checksCrcs = !"false".equalsIgnoreCase(String.valueOf(config.get("check.crcs")));
        isCommittedOnly = "read_committed".equalsIgnoreCase(String.valueOf(config.get("isolation.level")));
        TopicPartition partition = new TopicPartition(piece.topic, piece.partition);
        consumer.assign(Collections.singletonList(partition));
        consumer.seek(partition, position);
        fetches.open(consumer, partition);
    }

    /** The reader of another piece, by the same consumer; this one is not asked any more. */
    BatchReader of(Piece another) {
        walker.close();
        return new BatchReader(settings, another, config, consumer);
    }

    @Override
    public boolean hasNext() {
        if (next != null) {
            return true;
        }
        startOfCall = position;
        next = walks ? nextPlace() : null;
        if (next != null) {
            // The clock would take longer than the record.
            return true;
        }
        long deadline = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(waitMs);
        while (next == null) {
            if (walks) {
                next = nextPlace();
            } else if (records != null) {
                next = nextRecord();
            } else if (position >= piece.until) {
                return false;
            } else if (hasBatch()) {
                next = nextBatch();
            } else if (System.nanoTime() > deadline) {
                throw new TimeoutException("Within " + waitMs + " ms only what is left out");
            } else {
                fetch();
            }
        }
        return true;
    }

    /** Whether the last look for a batch has passed over some that are left out. */
    boolean hasMoved() {
        return position > startOfCall;
    }

    @Override
    public Object next() {
        if (!hasNext()) {
            throw new NoSuchElementException();
        }
        Object found = next;
        next = null;
        return found;
    }

    @Override
    public void remove() {
        throw new UnsupportedOperationException();
    }

    /** The records of a batch that lie in the piece come next. */
    void walk(SourceBatch batch) {
        position = Math.max(piece.first, batch.first);
        recordsOf = batch.batch;
        walks = true;
        try {
            walker.open((DefaultRecordBatch) batch.batch);
        } catch (RuntimeException error) {
            throw damaged(error);
        }
    }

    void close() {
        Utils.closeQuietly(records, "records of a batch");
        walker.close();
        try {
            // A broker that hangs would hold the end of the task.
            consumer.close(CLOSE);
        } catch (KafkaException error) {
            LOG.warn("The consumer of piece " + piece.name + " could not be closed", error);
        }
    }

    private void fetch() {
        FetchResponseData.PartitionData found;
        try {
            found = fetches.next(waitMs);
        } catch (KafkaException error) {
            // The consumer has no class of its own for damage that the broker has found.
            if (error instanceof CorruptRecordException || error.getClass() == KafkaException.class) {
                throw damaged(error);
            }
            throw error;
        }
        if (found == null) {
            throw new TimeoutException("No batch within " + waitMs + " ms");
        }
        BaseRecords all = found.records();
        if (!(all instanceof MemoryRecords)) {
            throw Members.missing("records in memory; got " + all.getClass().getName());
        }
        startAborted(found.abortedTransactions());
        look((MemoryRecords) all);
        batches = ((MemoryRecords) all).batches().iterator();
    }

    /** Ask for what follows, before anything of this fetch is written. */
    private void look(MemoryRecords all) {
        MutableRecordBatch last = null;
        long after;
        try {
            for (Iterator each = all.batches().iterator(); each.hasNext(); ) {
                last = (MutableRecordBatch) each.next();
            }
            if (last == null) {
                throw new CorruptRecordException("It has " + all.sizeInBytes() + " bytes.");
            }
            after = last.nextOffset();
        } catch (RuntimeException error) {
            if (last == null) {
                throw damaged(error);
            }
            // What comes before is read until then, and the piece may end there.
            return;
        }
        long wanted = piece.nextWanted(after);
        if (wanted < piece.until) {
            // The epoch of a batch says nothing of a place further on, which the consumer would take for truncated.
            boolean isNext = wanted == after;
            fetches.moveTo(wanted, isNext ? last.partitionLeaderEpoch() : RecordBatch.NO_PARTITION_LEADER_EPOCH);
        }
    }

    private boolean hasBatch() {
        try {
            return batches.hasNext();
        } catch (RuntimeException error) {
            throw damaged(error);
        }
    }

    /** The next batch to copy, or null if this one is not of the piece, or holds no records of a source. */
    private Object nextBatch() {
        try {
            MutableRecordBatch batch = (MutableRecordBatch) batches.next();
            if (batch.magic() < RecordBatch.MAGIC_VALUE_V2) {
                openOld(batch);
                return null;
            }
            return nextOf(batch);
        } catch (WriteFailure named) {
            throw named;
        } catch (RuntimeException error) {
            throw damaged(error);
        }
    }

    /** Of an older format only the last offset is known before all of it is unpacked, which is done once. */
    private void openOld(MutableRecordBatch batch) {
        if (batch.lastOffset() < position) {
            return;
        }
        if (checksCrcs) {
            batch.ensureValid();
        }
        recordsOf = batch;
        records = batch.streamingIterator(decompression);
    }

    private Object nextOf(MutableRecordBatch batch) {
        if (batch.baseOffset() >= piece.until) {
            position = piece.until;
            batches = Collections.emptyIterator();
            return null;
        }
        if (checksCrcs) {
            batch.ensureValid();
        }
        // Also of a batch that is not wanted: the end of its transaction counts for those after it.
        boolean isWanted = !isLeftOut(batch) && batch.lastOffset() >= position;
        position = Math.max(position, piece.nextWanted(batch.nextOffset()));
        if (!isWanted) {
            return null;
        }
        SourceBatch found = new SourceBatch(batch);
        if (passesOn && found.bytes() >= leastBytes && found.canBePassedOn()) {
            return found;
        }
        walk(found);
        return null;
    }

    /** Control batches, and what was aborted: as the consumer finds it, by the list in the answer to the fetch. */
    private boolean isLeftOut(MutableRecordBatch batch) {
        if (isCommittedOnly && batch.hasProducerId()) {
            while (!aborted.isEmpty() && first(aborted.peek()) <= batch.lastOffset()) {
                aborting.add(
                    Long.valueOf(((FetchResponseData.AbortedTransaction) aborted.poll()).producerId())
                );
            }
            Long producer = Long.valueOf(batch.producerId());
            if (isAbortMarker(batch)) {
                aborting.remove(producer);
            } else if (batch.isTransactional() && aborting.contains(producer)) {
                return true;
            }
        }
        return batch.isControlBatch();
    }

    private static boolean isAbortMarker(MutableRecordBatch batch) {
        if (!batch.isControlBatch()) {
            return false;
        }
        Iterator each = batch.iterator();
        return each.hasNext() && ControlRecordType.parse(((Record) each.next()).key()) == ControlRecordType.ABORT;
    }

    private void startAborted(List list) {
        aborting.clear();
        aborted = new PriorityQueue(8, new FirstOffset());
        if (isCommittedOnly && list != null) {
            aborted.addAll(list);
        }
    }

    private static long first(Object transaction) {
        return ((FetchResponseData.AbortedTransaction) transaction).firstOffset();
    }

    /** The next record as bytes in the piece, or null if the batch has no more. */
    private Object nextPlace() {
        try {
            while (position < piece.until && walker.next()) {
                if (walker.offset >= position && walker.offset < piece.until) {
                    position = walker.offset + 1;
                    return walker;
                }
            }
        } catch (IOException error) {
            throw damaged(error);
        } catch (RuntimeException error) {
            // What hostile bytes do to a decompressor has many names.
            throw damaged(error);
        }
        walks = false;
        position = piece.nextWanted(recordsOf.nextOffset());
        return null;
    }

    /** The next record of an older format in the piece, or null if the batch has no more. */
    private Object nextRecord() {
        try {
            while (records.hasNext()) {
                Record record = (Record) records.next();
                if (checksCrcs) {
                    // Those of an older format have checksums of their own.
                    record.ensureValid();
                }
                if (record.offset() >= position && record.offset() < piece.until) {
                    position = record.offset() + 1;
                    return consumed(record);
                }
            }
        } catch (RuntimeException error) {
            throw damaged(error);
        }
        records.close();
        records = null;
        position = piece.nextWanted(recordsOf.nextOffset());
        return null;
    }

    private ConsumerRecord consumed(Record record) {
        byte[] key = record.hasKey() ? Utils.toArray(record.key()) : null;
        byte[] value = record.hasValue() ? Utils.toArray(record.value()) : null;
        return new ConsumerRecord(
            piece.topic, piece.partition, record.offset(), record.timestamp(), recordsOf.timestampType(),
            key == null ? -1 : key.length, value == null ? -1 : value.length, key, value,
            new RecordHeaders(record.headers()), Optional.empty()
        );
    }

    /** Records before it may be committed, also of the same batch. */
    private WriteFailure damaged(Exception error) {
        return WriteFailure.of(
            WriteFailure.SOURCE_DAMAGED, "A batch of " + piece.topic + "[" + piece.partition + "] at or after offset "
                + position + " is damaged. This attempt has written nothing from there on. Look at the disk of the "
                + "partition's leader, or move the leader to another replica; a retry goes on from what was committed.",
            error
        );
    }

    private static final class FirstOffset implements Comparator {
        @Override
        public int compare(Object left, Object right) {
            return Long.compare(first(left), first(right));
        }
    }
}
