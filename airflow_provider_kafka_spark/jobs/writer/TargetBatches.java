package airflow_provider_kafka_spark.jobs.writer;

import java.util.Arrays;
import java.util.List;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.RecordTooLargeException;
import org.apache.kafka.common.record.DefaultRecordBatch;

/** The batches that are collected for the partitions of the target: which one gets a record, and when it is sent. */
@SuppressWarnings({"cast", "rawtypes"})
final class TargetBatches {
    /** Before compression. Larger ones are not faster, and a broker takes 1 MiB by default. */
    private static final int MOST_BYTES = 1024 * 1024;
    private static final int LEAST_BYTES = 16 * 1024;
    /** Of all partitions together. */
    private static final int ALL_BYTES = 32 * 1024 * 1024;
    /** The producer drops what it knows of a topic that it was not asked for within metadata.max.idle.ms. */
    private static final long LOOK_NANOS = TimeUnit.SECONDS.toNanos(1L);
    private static final int UNKNOWN = -1;

    private final Sink sink;
    private final ProducerInternals producer;
    private final Settings settings;
    private final int ownPartition;
    private final HeaderBytes headers;
    private final boolean preservePartition;
    private final boolean preserveTimestamps;
    private String topic;
    private long lookedAt;
    /** By partition; null where nothing was collected yet. */
    private TargetBatch[] open = {};
    /** Those that have a leader, for records without a key. */
    private int[] led = {};
    /** That gets records without a key until its batch is sent, as with Kafka's own producer. */
    private int withoutKey = UNKNOWN;

    TargetBatches(Sink sink, ProducerInternals producer, Provenance provenance) {
        this.sink = sink;
        this.producer = producer;
        settings = sink.settings;
        ownPartition = sink.piece.partition;
        Fields transform = settings.transform;
        headers = new HeaderBytes(transform.flag("include_headers"), provenance);
        preservePartition = transform.flag("preserve_partition");
        preserveTimestamps = transform.flag("preserve_timestamps");
    }

    /**
     * Add a record to the batch of its partition.
     *
     * @throws RuntimeException Kafka's own, if the target has not the partition
     */
    void add(RecordCursor record, RangeCounts range) {
        look(record.targetTopic);
        BatchWalker place = record.place;
        headers.read(place);
        long timestamp = preserveTimestamps ? place.timestamp : System.currentTimeMillis();
        TargetBatch batch = batch(place);
        int size = batch.sizeOf(place, headers, timestamp);
        checkSize(size);
        while (!batch.takes(size)) {
            send(batch.partition);
            batch = batch(place);
            size = batch.sizeOf(place, headers, timestamp);
        }
        batch.append(place, headers, timestamp, size, range);
        if (settings.schemaIds != null) {
            settings.schemaIds.rewrite(record, batch.array(), batch.lastContentAt());
        }
        if (batch.isFull()) {
            send(batch.partition);
        }
    }

    void sendAll() {
        for (int i = 0; i < open.length; i++) {
            send(i);
        }
    }

    private void send(int partition) {
        TargetBatch batch = open[partition];
        if (batch != null && !batch.isEmpty()) {
            send(batch);
            batch.clear();
            if (partition == withoutKey) {
                withoutKey = UNKNOWN;
            }
        }
    }

    private void send(TargetBatch batch) {
        AckCallback callback = batch.callback(sink, topic);
        try {
            BatchContent content = producer.pack(batch);
            if (content.bytes() > producer.memory()) {
                throw new RecordTooLargeException(
                    "A batch of " + content.bytes() + " bytes is larger than the producer's buffer.memory of "
                        + producer.memory() + "."
                );
            }
            producer.send(
                new TopicPartition(topic, batch.partition), content, callback, settings.deliveryTimeoutMs
            );
        } catch (Exception error) {
            sink.refuse(callback, error);
            sink.throwFailure();
        }
    }

    /** Throws what the producer does for a record of its own. */
    private void checkSize(int bytesOfRecord) {
        long all = (long) DefaultRecordBatch.RECORD_BATCH_OVERHEAD + bytesOfRecord;
        if (all > producer.maxRequest()) {
            throw new RecordTooLargeException(
                "The message is " + all + " bytes when serialized which is larger than " + producer.maxRequest()
                    + ", which is the value of the max.request.size configuration."
            );
        }
    }

    private TargetBatch batch(BatchWalker record) {
        int partition = partition(record);
        if (open[partition] == null) {
            open[partition] = new TargetBatch(partition, limit());
        }
        return open[partition];
    }

    private int partition(BatchWalker record) {
        if (preservePartition) {
            while (ownPartition >= open.length) {
                producer.await(new TopicPartition(topic, ownPartition));
                lookAgain(topic);
            }
            return ownPartition;
        }
        if (record.keySize >= 0) {
            return KeyHash.partition(record.buffer, record.keyAt, record.keySize, open.length);
        }
        if (withoutKey == UNKNOWN) {
            withoutKey = led[ThreadLocalRandom.current().nextInt(led.length)];
        }
        return withoutKey;
    }

    private int limit() {
        int share = preservePartition ? MOST_BYTES : Math.max(LEAST_BYTES, ALL_BYTES / open.length);
        // What cannot be compressed grows by less than a hundredth.
        long largest = settings.batches.maxBytes - settings.batches.maxBytes / 100L;
        return (int) Math.min(Math.min(MOST_BYTES, share), largest - DefaultRecordBatch.RECORD_BATCH_OVERHEAD);
    }

    /** The partitions of the target, as the producer knows them. */
    private void look(String target) {
        long now = System.nanoTime();
        if (target.equals(topic) && now - lookedAt < LOOK_NANOS) {
            return;
        }
        lookAgain(target);
    }

    private void lookAgain(String target) {
        List found = sink.producer.partitionsFor(target);
        topic = target;
        lookedAt = System.nanoTime();
        if (found.size() != open.length) {
            sendAll();
            open = new TargetBatch[found.size()];
            withoutKey = UNKNOWN;
        }
        int count = 0;
        int[] all = new int[found.size()];
        int[] present = new int[found.size()];
        for (int i = 0; i < all.length; i++) {
            PartitionInfo info = (PartitionInfo) found.get(i);
            all[i] = info.partition();
            if (info.leader() != null) {
                present[count++] = info.partition();
            }
        }
        led = count == 0 ? all : Arrays.copyOf(present, count);
    }
}
