package airflow_provider_kafka_spark.jobs.writer;

import java.lang.reflect.Constructor;
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.Map;
import java.util.Optional;
import java.util.Random;
import org.apache.kafka.clients.KafkaClient;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.internals.SubscriptionState;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.message.FetchResponseData;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.record.CompressionType;
import org.apache.kafka.common.record.MemoryRecords;
import org.apache.kafka.common.record.MemoryRecordsBuilder;
import org.apache.kafka.common.record.RecordBatch;
import org.apache.kafka.common.record.SimpleRecord;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.utils.LogContext;

/**
 * The reader of batches against a broker; {@code test_sinks.py} runs each method with the broker's address and a
 * topic of batches of ten records.
 */
@SuppressWarnings({"cast", "rawtypes", "unchecked"})
public final class BatchReaderTests {
    private static final String INTERNALS = "org.apache.kafka.clients.consumer.internals.";
    private static final long WAIT_MS = 10000L;

    private BatchReaderTests() {
    }

    /** Records of an answer are not dropped where the one before it is an error, as after a change of leaders. */
    public static void anAnswerAfterAnErrorIsRead(String brokers, String topic) throws Exception {
        TopicPartition partition = new TopicPartition(topic, 0);
        KafkaConsumer consumer =
            new KafkaConsumer(config(brokers), new ByteArrayDeserializer(), new ByteArrayDeserializer());
        try {
            consumer.assign(Collections.singletonList(partition));
            consumer.seek(partition, 0L);
            ConsumerInternals fetches = new ConsumerInternals();
            fetches.open(consumer, partition);
            // Now the leader is known, and the position is still 0.
            fetches.next(WAIT_MS);
            FetchResponseData.PartitionData refused =
                new FetchResponseData.PartitionData().setErrorCode(Errors.NOT_LEADER_OR_FOLLOWER.code());
            SimpleRecord[] records = new SimpleRecord[10];
            Arrays.fill(records, new SimpleRecord(new byte[1]));
            FetchResponseData.PartitionData answer = new FetchResponseData.PartitionData()
                .setRecords(MemoryRecords.withRecords(0L, Compression.NONE, Integer.valueOf(0), records));
            arrive(fetches, partition, 0L, refused);
            arrive(fetches, partition, 0L, answer);
            MemoryRecords found = (MemoryRecords) fetches.next(WAIT_MS).records();
            long first = ((RecordBatch) found.batches().iterator().next()).baseOffset();
            check(first == 0L, "reads on at " + first);
        } finally {
            consumer.close();
        }
    }

    /** The epoch of a batch would make the consumer look for a truncation where a later place is read. */
    public static void aPlaceFurtherOnHasNoEpoch(String brokers, String topic) throws Exception {
        BatchReader reader = reader(brokers, topic, "[[0, 20, 0], [50, 60, 1]]", 60);
        try {
            reader.next();
            check(position(reader).offset == 10L, "the next batch is asked for");
            check(hasEpoch(reader), "its epoch is known");
            reader.next();
            check(position(reader).offset == 50L, "the next range is asked for");
            check(!hasEpoch(reader), "its epoch is not known");
            check(((SourceBatch) reader.next()).first == 50L, "it is read");
            check(!reader.hasNext(), "nothing follows");
        } finally {
            reader.close();
        }
    }

    /** The next fetch travels while a batch is written. */
    public static void theNextFetchIsSentAtOnce(String brokers, String topic) throws Exception {
        BatchReader reader = reader(brokers, topic, "[[0, 60, 0]]", 60);
        try {
            reader.next();
            Object client = internals(reader, "client");
            KafkaClient network = (KafkaClient) Members.get(Members.field(client.getClass(), "client"), client);
            check(network.inFlightRequestCount() == 1, network.inFlightRequestCount() + " requests are under way");
        } finally {
            reader.close();
        }
    }

    /** A fetch that was answered, and not looked at for longer than a request may take, is sent again. */
    public static void aFetchThatIsNotLookedAtForLongIsRepeated(String brokers, String topic) throws Exception {
        Map config = config(brokers);
        config.put("request.timeout.ms", "600");
        config.put("fetch.max.wait.ms", "100");
        BatchReader reader = reader(config, topic, "[[0, 60, 0]]", 60);
        try {
            for (long first = 0L; first < 60L; first += 10L) {
                SourceBatch batch = (SourceBatch) reader.next();
                check(batch.first == first, batch.first + " follows, not " + first);
                if (first == 0L || first == 30L) {
                    Thread.sleep(2000L);
                }
            }
            check(!reader.hasNext(), "nothing follows");
        } finally {
            reader.close();
        }
    }

    /** A batch of an older format is unpacked as a whole; those that lie in the piece are given. */
    public static void recordsOfAnOlderFormatAreRead(String brokers, String topic) throws Exception {
        BatchReader reader = reader(brokers, topic, "[[3, 7, 0]]", 7);
        try {
            fetches(reader).next(WAIT_MS);
            arrive(fetches(reader), new TopicPartition(topic, 0), 3L, answer(old()));
            for (long offset = 3L; offset < 7L; offset++) {
                ConsumerRecord record = (ConsumerRecord) reader.next();
                check(record.offset() == offset, record.offset() + " follows, not " + offset);
                check(((byte[]) record.value()).length == 100, "its value is read");
            }
            check(!reader.hasNext(), "nothing follows");
        } finally {
            reader.close();
        }
    }

    /** Its checksum is verified before it is unpacked; what unpacking finds is named, too. */
    public static void damageOfAnOlderFormatIsNamed(String brokers, String topic) throws Exception {
        for (String checks : new String[] {"true", "false"}) {
            Map config = config(brokers);
            config.put("check.crcs", checks);
            BatchReader reader = reader(config, topic, "[[3, 7, 0]]", 7);
            try {
                fetches(reader).next(WAIT_MS);
                ByteBuffer batch = old();
                int at = batch.limit() - 12;
                batch.put(at, (byte) ~batch.get(at));
                arrive(fetches(reader), new TopicPartition(topic, 0), 3L, answer(batch));
                reader.next();
                throw new AssertionError("It was read, with check.crcs=" + checks + ".");
            } catch (WriteFailure failure) {
                String text = failure.getMessage();
                check(text.indexOf("\"" + WriteFailure.SOURCE_DAMAGED + "\"") >= 0, text);
                check(text.indexOf(topic + "[0] at or after offset 3 is") >= 0, text);
            } finally {
                reader.close();
            }
        }
    }

    /** Ten records in gzip, as a client before 0.11 has written them. */
    private static ByteBuffer old() {
        MemoryRecordsBuilder builder = MemoryRecords.builder(
            ByteBuffer.allocate(10000), RecordBatch.MAGIC_VALUE_V1, BatchWalkerTests.compression(CompressionType.GZIP),
            TimestampType.CREATE_TIME, 0L
        );
        for (int i = 0; i < 10; i++) {
            byte[] value = new byte[100];
            new Random(i).nextBytes(value);
            builder.append(1000L, null, value);
        }
        return builder.build().buffer();
    }

    private static FetchResponseData.PartitionData answer(ByteBuffer batch) {
        return new FetchResponseData.PartitionData().setRecords(MemoryRecords.readableRecords(batch));
    }

    private static Map config(String brokers) {
        HashMap config = new HashMap();
        config.put("bootstrap.servers", brokers);
        config.put("isolation.level", "read_committed");
        config.put("auto.offset.reset", "none");
        config.put("enable.auto.commit", "false");
        // One batch to a fetch.
        config.put("max.partition.fetch.bytes", "1");
        return config;
    }

    private static BatchReader reader(String brokers, String topic, String ranges, int until) {
        return reader(config(brokers), topic, ranges, until);
    }

    private static BatchReader reader(Map config, String topic, String ranges, int until) {
        String settings = "{'version': 1, 'consumer': {}, 'passes_on': true, 'max_bytes': 1000000, 'wait_ms': "
            + WAIT_MS + ", 'least_bytes': 0, 'max_record_bytes': 1000000}";
        String piece = "{'version': 1, 'name': 'piece', 'topic': '" + topic + "', 'partition': 0, 'ranges': " + ranges
            + ", 'until': " + until + ", 'slot': null}";
        BatchSettings batches = new BatchSettings(Fields.parse("Batches", json(settings)));
        return new BatchReader(batches, Piece.parse(json(piece)), config);
    }

    private static SubscriptionState.FetchPosition position(BatchReader reader) {
        SubscriptionState subscriptions = (SubscriptionState) internals(reader, "subscriptions");
        return subscriptions.position((TopicPartition) internals(reader, "partition"));
    }

    private static boolean hasEpoch(BatchReader reader) {
        Field epoch = Members.field(SubscriptionState.FetchPosition.class, "offsetEpoch");
        return ((Optional) Members.get(epoch, position(reader))).isPresent();
    }

    private static Object internals(BatchReader reader, String name) {
        return Members.get(Members.field(ConsumerInternals.class, name), fetches(reader));
    }

    private static ConsumerInternals fetches(BatchReader reader) {
        return (ConsumerInternals) Members.get(Members.field(BatchReader.class, "fetches"), reader);
    }

    /** Put an answer to a fetch where the consumer puts them. */
    private static void arrive(
        ConsumerInternals fetches, TopicPartition partition, long offset, FetchResponseData.PartitionData answer
    ) throws Exception {
        Object fetcher = Members.get(Members.field(ConsumerInternals.class, "fetcher"), fetches);
        Object subscriptions = Members.get(Members.field(ConsumerInternals.class, "subscriptions"), fetches);
        Object counted = first(Members.type(INTERNALS + "FetchMetricsAggregator")).newInstance(
            new Object[] {
                Members.get(Members.field(fetcher.getClass(), "metricsManager"), fetcher),
                Collections.singleton(partition)
            }
        );
        Class type = Members.type(INTERNALS + "CompletedFetch");
        answer.setPartitionIndex(0).setHighWatermark(60L).setLastStableOffset(60L).setLogStartOffset(0L);
        Object fetch = first(type).newInstance(
            new Object[] {
                new LogContext(), subscriptions, null, partition, answer, counted, Long.valueOf(offset),
                Short.valueOf((short) 12)
            }
        );
        Field bufferOf = Members.field(fetcher.getClass(), "fetchBuffer");
        Object buffer = Members.get(bufferOf, fetcher);
        Method add = Members.method(buffer.getClass(), "add", new Class[] {type});
        Members.call(add, buffer, new Object[] {fetch});
    }

    private static Constructor first(Class type) {
        Constructor found = type.getDeclaredConstructors()[0];
        found.setAccessible(true);
        return found;
    }

    private static void check(boolean isSo, String what) {
        if (!isSo) {
            throw new AssertionError(what);
        }
    }

    private static String json(String text) {
        return text.replace('\'', '"');
    }
}
