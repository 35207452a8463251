package airflow_provider_kafka_spark.jobs.writer;

import java.io.IOException;
import java.io.OutputStream;
import java.lang.reflect.Constructor;
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.nio.ByteBuffer;
import java.util.Deque;
import org.apache.kafka.clients.producer.Callback;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.Producer;
import org.apache.kafka.clients.producer.internals.BufferPool;
import org.apache.kafka.clients.producer.internals.FutureRecordMetadata;
import org.apache.kafka.clients.producer.internals.ProduceRequestResult;
import org.apache.kafka.clients.producer.internals.ProducerBatch;
import org.apache.kafka.clients.producer.internals.RecordAccumulator;
import org.apache.kafka.clients.producer.internals.Sender;
import org.apache.kafka.clients.producer.internals.TransactionManager;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.record.CompressionType;
import org.apache.kafka.common.record.DefaultRecordBatch;
import org.apache.kafka.common.record.MemoryRecordsBuilder;
import org.apache.kafka.common.record.RecordBatch;
import org.apache.kafka.common.utils.ByteBufferOutputStream;
import org.apache.kafka.common.utils.Time;

/**
 * Gives ready-made batches to a producer, at the end of what waits for their partition. Memory, sequence numbers,
 * retries, leaders, transactions and logins stay the producer's. All that is not public of it is reached here.
 */
@SuppressWarnings({"cast", "rawtypes", "unchecked"})
final class ProducerInternals {
    private static final String PACKAGE = "org.apache.kafka.clients.producer.internals.";

    private static final int FIRST_SIZE = 64 * 1024;
    private static final int HEADER = DefaultRecordBatch.RECORD_BATCH_OVERHEAD;

    private final Field accumulatorOf = Members.field(KafkaProducer.class, "accumulator");
    private final Field senderOf = Members.field(KafkaProducer.class, "sender");
    private final Field transactionsOf = Members.field(KafkaProducer.class, "transactionManager");
    private final Field compressionOf = Members.field(KafkaProducer.class, "compression");
    private final Class compressionType = Members.type("org.apache.kafka.common.compress.Compression");
    private final Method typeOf = Members.method(compressionType, "type", new Class[] {});
    private final Method compress = Members.method(
        compressionType, "wrapForOutput", new Class[] {ByteBufferOutputStream.class, Byte.TYPE}
    );
    private final Class[] placeAndTimes = {String.class, Integer.class, Long.TYPE, Long.TYPE};
    private final Method waitOnMetadata = Members.method(KafkaProducer.class, "waitOnMetadata", placeAndTimes);
    private final Field maxBlockOf = Members.field(KafkaProducer.class, "maxBlockTimeMs");
    private final Field maxRequestOf = Members.field(KafkaProducer.class, "maxRequestSize");
    private final Field poolOf = Members.field(RecordAccumulator.class, "free");
    private final Field incompleteOf = Members.field(RecordAccumulator.class, "incomplete");
    private final Method queueOf =
        Members.method(RecordAccumulator.class, "getOrCreateDeque", new Class[] {TopicPartition.class});
    private final Method addIncomplete =
        Members.method(Members.type(PACKAGE + "IncompleteBatches"), "add", new Class[] {ProducerBatch.class});
    private final Field resultOf = Members.field(ProducerBatch.class, "produceFuture");
    private final Field countOf = Members.field(ProducerBatch.class, "recordCount");
    private final Field thunksOf = Members.field(ProducerBatch.class, "thunks");
    private final Constructor newThunk;
    private final Constructor newRecords;

    private final ByteBufferOutputStream compressed = new ByteBufferOutputStream(FIRST_SIZE);
    private Object compression;
    private Producer producer;
    private int maxRequest;
    private RecordAccumulator accumulator;
    private Sender sender;
    private TransactionManager transactions;
    private BufferPool pool;
    private Object incomplete;

    /** @throws UnsupportedOperationException if this client lacks what is needed; it names what */
    ProducerInternals() {
        Class thunk = Members.type(PACKAGE + "ProducerBatch$Thunk");
        newThunk = Members.constructor(thunk, new Class[] {Callback.class, FutureRecordMetadata.class});
        Class records;
        try {
            // It is not compiled for clients before 3.8, whose builder of records is another one.
            records = Class.forName(ProducerInternals.class.getPackage().getName() + ".ReadyBatch");
        } catch (ClassNotFoundException error) {
            throw Members.missing("MemoryRecordsBuilder as known here");
        }
        newRecords = Members.constructor(records, new Class[] {ByteBuffer.class, BatchContent.class});
    }

    void open(Producer opened) {
        producer = opened;
        compression = Members.get(compressionOf, producer);
        maxRequest = ((Integer) Members.get(maxRequestOf, producer)).intValue();
        accumulator = (RecordAccumulator) Members.get(accumulatorOf, producer);
        sender = (Sender) Members.get(senderOf, producer);
        transactions = (TransactionManager) Members.get(transactionsOf, producer);
        pool = (BufferPool) Members.get(poolOf, accumulator);
        incomplete = Members.get(incompleteOf, accumulator);
    }

    /** A record that is larger than {@code max.request.size} is never sent. */
    int maxRequest() {
        return maxRequest;
    }

    /**
     * Wait for a partition that the producer does not know yet, as it does itself for a record, for max.block.ms.
     *
     * @throws org.apache.kafka.common.errors.TimeoutException if the topic does not get it
     */
    void await(TopicPartition place) {
        Object[] arguments = {
            place.topic(), Integer.valueOf(place.partition()), Long.valueOf(Time.SYSTEM.milliseconds()),
            Members.get(maxBlockOf, producer)
        };
        Members.call(waitOnMetadata, producer, arguments);
    }

    /** What was collected, compressed as the producer does it. It is valid until the next call. */
    BatchContent pack(TargetBatch batch) throws IOException {
        CompressionType type = (CompressionType) Members.call(typeOf, compression, new Object[] {});
        ByteBuffer all = batch.plain();
        if (type != CompressionType.NONE) {
            compressed.position(HEADER);
            Object[] arguments = {compressed, Byte.valueOf(RecordBatch.MAGIC_VALUE_V2)};
            OutputStream stream = (OutputStream) Members.call(compress, compression, arguments);
            try {
                stream.write(all.array(), HEADER, all.limit() - HEADER);
            } finally {
                stream.close();
            }
            all = (ByteBuffer) compressed.buffer().duplicate();
            all.flip();
        }
        batch.writeHeader(all, type);
        return new PackedBatch(all, batch.count(), batch.maxTimestamp());
    }

    /** A batch that is larger than all the producer's memory would wait for ever. */
    long memory() {
        return pool.totalMemory();
    }

    /**
     * Queue a batch.
     *
     * @param acknowledged is called with the offset of the batch's first record
     * @param maxWaitMs for the producer's memory
     */
    void send(TopicPartition target, BatchContent content, AckCallback acknowledged, long maxWaitMs) throws Exception {
        if (transactions != null) {
            transactions.maybeAddPartition(target);
        }
        ByteBuffer memory = pool.allocate(content.bytes(), maxWaitMs);
        MemoryRecordsBuilder records = (MemoryRecordsBuilder) newRecords.newInstance(new Object[] {memory, content});
        ProducerBatch batch = new ProducerBatch(target, records, Time.SYSTEM.milliseconds());
        countOf.setInt(batch, content.count());
        ProduceRequestResult result = (ProduceRequestResult) Members.get(resultOf, batch);
        thunksOf.set(batch, new BatchCallbacks(newThunk, records, result, acknowledged, content.maxTimestamp()));
        Deque queue = (Deque) Members.call(queueOf, accumulator, new Object[] {target});
        synchronized (queue) {
            ProducerBatch last = (ProducerBatch) queue.peekLast();
            if (last != null) {
                last.closeForRecordAppends();
            }
            queue.addLast(batch);
            Members.call(addIncomplete, incomplete, new Object[] {batch});
        }
        sender.wakeup();
    }
}
