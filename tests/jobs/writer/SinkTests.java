package airflow_provider_kafka_spark.jobs.writer;

import java.nio.ByteBuffer;
import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.MockProducer;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.InvalidPidMappingException;
import org.apache.kafka.common.errors.ProducerFencedException;
import org.apache.kafka.common.errors.RecordTooLargeException;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.spark.TaskContext$;
import org.apache.spark.TaskContextImpl;
import org.apache.spark.TaskKilledException;

/** The sinks with Kafka's own mock of a producer; {@code test_sinks.py} runs each method. */
@SuppressWarnings({"cast", "rawtypes", "unchecked"})
public final class SinkTests {
    static final String SETTINGS =
        "{'version': 1, 'run_id': 'run', 'provenance_header': 'from', 'transform': {'topic': 'copy', 'topic_map': {},"
            + " 'columns': {}, 'keys': null, 'headers': {}, 'schema_id_map': {},"
            + " 'include_headers': true, 'preserve_partition': false, 'preserve_timestamps': false,"
            + " 'window_start_ms': null, 'window_end_ms': null}, 'target_ids': {'copy': 'id'}, 'columns': null,"
            + " 'counted_from_ms': null, 'counted_until_ms': null,"
            + " 'delivery_timeout_ms': 200, 'stall_timeout_ms': 1000, 'commit_records': 3, 'commit_ms': 60000,"
            + " 'owner': {'group': 'owner', 'topic': 'copy', 'number': 7, 'token': 'mine'}, 'id_prefix': 'task-',"
            + " 'delivered': false, 'pace': null,"
            + " 'dead_letter_source_header': 'from', 'dead_letter_reason_header': 'why',"
            + " 'segments': false, 'batches': null, 'producer': {}}";
    static final String PIECE =
        "{'version': 1, 'name': 'orders-0', 'topic': 'orders', 'partition': 0, 'ranges': [[10, 100, 0]], 'until': 100,"
            + " 'slot': {'group': 'slot', 'topic': 'copy', 'partition': 0}}";
    private static final Mark MINE = new Mark(7L, "mine");
    private static final Mark ANOTHER = new Mark(8L, "another");

    private final Piece piece = Piece.parse(json(PIECE));
    private final Cluster cluster = new Cluster();
    private final TestProducer producer = new TestProducer(cluster);
    private final RangeCounts counts = new RangeCounts(0);
    private final TaskContextImpl context = TaskContext$.MODULE$.empty();
    private final Sink sink;

    private SinkTests(boolean isTransactional) {
        this(isTransactional, SETTINGS);
    }

    private SinkTests(boolean isTransactional, String text) {
        Settings settings = Settings.parse(json(text));
        sink = isTransactional
            ? (Sink) new TransactionalSink(settings, piece, producer, cluster, context)
            : (Sink) new PlainSink(settings, piece, producer, cluster, context);
    }

    /** After the last record of a piece nobody asks for that of the next one, for which it would be named in a stall. */
    public static void aPieceThatIsDoneDoesNotWaitForTheNext() {
        TaskInput input = new TaskInput(new OneRecord(), false);
        input.begin(Piece.parse(json(PIECE)), false);
        check(input.hasNext() && ((ConsumerRecord) input.next()).offset() == 99L, "the last record is given");
        check(!input.hasNext(), "there is no other one");
    }

    /** A record costs one look at a range, also in the gaps between ranges, however many there are. */
    public static void aRecordCostsOneLook() {
        int count = 1000;
        StringBuilder ranges = new StringBuilder();
        for (int i = 0; i < count; i++) {
            ranges.append(i == 0 ? "" : ", ").append("[" + 4 * i + ", " + (4 * i + 2) + ", " + i + "]");
        }
        Piece many = Piece.parse(
            json(
                "{'version': 1, 'name': 'orders-0', 'topic': 'orders', 'partition': 0, 'ranges': [" + ranges + "], 'until': "
                    + 4 * count + ", 'slot': null}"
            )
        );
        for (int round = 0; round < 2; round++) {
            for (int offset = 0; offset < 4 * count; offset++) {
                int range = offset / 4;
                boolean isIn = offset % 4 < 2;
                check(many.find(offset) == (isIn ? range : -1), "the range of " + offset);
                long wanted = isIn ? offset : 4L * (range + 1);
                check(many.nextWanted(offset) == wanted, "the next offset from " + offset);
            }
        }
        // Two calls for each offset, and a step for each range.
        check(many.looks == 2L * (2 * 4 * count + count - 1), "looks at ranges: " + many.looks);
    }

    /** A commit has the records, and with them the position, the piece's name and where the records are. */
    public static void aCommitHasRecordsAndProgress() {
        SinkTests test = opened();
        test.send(10);
        test.send(11);
        test.sink.commit(12);
        check(test.producer.commitCount() == 1, "one commit");
        check(test.producer.history().size() == 2, "two records");
        OffsetAndMetadata slot = test.slot();
        check(slot.offset() == 12, "position " + slot.offset());
        check(slot.metadata().equals("orders-0\ncopy 0 0 1\n\0"), "metadata " + slot.metadata());
        check(test.counts.acknowledged.get() == 2, "two acknowledgements");
    }

    /** A mapping of offsets that lacks some is not given as one that is complete. */
    public static void anAcknowledgementWithoutOffsetLosesTheMapping() {
        SinkTests test = new SinkTests(true, SETTINGS.replace("'segments': false", "'segments': true"));
        test.sink.open();
        test.send(10);
        TopicPartition partition = new TopicPartition("copy", 0);
        AckCallback callback = new AckCallback(test.sink, test.counts, 11L, 1, "copy", 3);
        callback.onCompletion(new RecordMetadata(partition, -1L, 0, -1L, 0, 0), null);
        test.sink.commit(11);
        check(test.slot().metadata().equals("orders-0\ncopy 0 0 0\n=!?\0"), "metadata " + test.slot().metadata());
        check(test.sink.progress.hasUnknownSegments(), "the mapping is not known");
    }

    /** The position of a stream's earlier batch says nothing about this one. */
    public static void progressOfAnEarlierBatchIsNone() {
        SinkTests test = new SinkTests(true);
        test.cluster.progress = new OffsetAndMetadata(10L, "orders-0\ncopy 0 5 9\n");
        test.sink.open();
        check(test.sink.progress.position() == 10, "position");
        check(test.sink.progress.resumedAt() == null, "begins at the first offset");
        check(test.sink.progress.targets.format().isEmpty(), "no targets");
    }

    /** Another owner's task is not fenced. */
    public static void theOwnerIsLookedAtBeforeAnythingIsFenced() {
        SinkTests test = new SinkTests(true);
        test.cluster.mark = ANOTHER;
        test.failsToOpen(WriteFailure.RUN_TAKEN_OVER);
        check(!test.producer.transactionInitialized(), "nothing is fenced");
    }

    /** A run without a mark belongs to no one. */
    public static void aRunWithoutMarkIsNotOurs() {
        SinkTests test = new SinkTests(true);
        test.cluster.mark = null;
        test.failsToOpen(WriteFailure.RUN_TAKEN_OVER);
    }

    /** A driver that claims the run after the first look is seen by the second one. */
    public static void theOwnerIsLookedAtAgainAfterFencing() {
        SinkTests test = new SinkTests(true);
        test.producer.markAfterInit = ANOTHER;
        test.failsToOpen(WriteFailure.RUN_TAKEN_OVER);
        check(test.producer.transactionInitialized(), "after fencing");
        check(test.cluster.looks == 2, "two looks");
    }

    /** What was sent after the last commit is aborted. */
    public static void anAbortEndsTheOpenTransaction() {
        SinkTests test = opened();
        test.send(10);
        test.sink.commit(11);
        test.send(11);
        Thread.currentThread().interrupt();
        test.sink.abort();
        check(Thread.interrupted(), "the interrupt is kept");
        check(test.producer.transactionAborted(), "aborted");
        check(test.producer.history().size() == 1, "one committed record");
    }

    /** Nothing is aborted that is not open. */
    public static void anAbortWithoutTransactionDoesNothing() {
        SinkTests test = opened();
        test.sink.abort();
        check(!test.producer.transactionAborted(), "not aborted");
    }

    /** The records of the last commit stay, those after it are not committed. */
    public static void aTargetThatIsRecreatedBetweenCommitsIsAnError() {
        SinkTests test = opened();
        test.send(10);
        test.sink.commit(11);
        test.send(11);
        test.cluster.ids.put("copy", "another id");
        test.failsToCommit(WriteFailure.TARGET_RECREATED, false);
        check(test.producer.commitCount() == 1, "one commit");
    }

    /** So is one that is deleted. */
    public static void aTargetThatIsDeletedIsAnError() {
        SinkTests test = opened();
        test.send(10);
        test.cluster.ids.clear();
        test.failsToCommit(WriteFailure.TARGET_RECREATED, false);
    }

    /** Fenced, and another submission has the run. */
    public static void fencedByALaterSubmission() {
        SinkTests test = opened();
        test.send(10);
        test.cluster.mark = ANOTHER;
        test.producer.commitTransactionException = new ProducerFencedException("fenced");
        test.failsToCommit(WriteFailure.RUN_TAKEN_OVER, false);
    }

    /** Fenced, and the run is still ours: the broker ended the transaction. */
    public static void fencedWhileTheRunIsOurs() {
        SinkTests test = opened();
        test.send(10);
        test.producer.commitTransactionException = new KafkaException("error", new ProducerFencedException("fenced"));
        test.failsToCommit(WriteFailure.TRANSACTION_ENDED, false);
    }

    /** The same after a long rest: its time-out has nothing to do with it. */
    public static void theTransactionalIdIsForgotten() {
        SinkTests test = opened();
        test.send(10);
        test.producer.commitTransactionException = new InvalidPidMappingException("no such id");
        String message = test.failsToCommit(WriteFailure.TRANSACTION_ENDED, false);
        check(message.indexOf("transactional.id.expiration.ms") >= 0, message);
        check(message.indexOf("transaction.timeout.ms") < 0, message);
    }

    /** The same, told by the acknowledgement of a record. */
    public static void fencedAtARecord() {
        SinkTests test = opened();
        test.send(10);
        test.producer.errorNext(new ProducerFencedException("fenced"));
        test.failsToCommit(WriteFailure.TRANSACTION_ENDED, false);
    }

    /** Every attempt would be refused so. */
    public static void aRecordThatIsTooLargeIsRefusedPermanently() {
        SinkTests test = opened();
        test.send(10);
        test.producer.errorNext(new RecordTooLargeException("too large"));
        test.failsToCommit(null, true);
    }

    /** Another attempt may succeed. */
    public static void aRecordThatTimedOutIsNotAcknowledged() {
        SinkTests test = opened();
        test.send(10);
        test.producer.errorNext(new org.apache.kafka.common.errors.TimeoutException("slow"));
        test.failsToCommit(null, false);
    }

    /** The producer's flush may return before the parts of a split batch are acknowledged; the commit waits for them. */
    public static void aCommitWaitsForTheAcknowledgementsOfASplitBatch() throws Exception {
        SinkTests test = opened();
        test.send(10);
        test.send(11);
        test.producer.flushes = false;
        Thread later = new Thread(new Completion(test.producer));
        later.start();
        test.sink.commit(12);
        later.join();
        check(test.counts.acknowledged.get() == 2, "two acknowledgements");
    }

    /** It does not wait without a bound, and commits nothing. */
    public static void aCommitGivesUpAfterTheDeliveryTimeout() {
        SinkTests test = opened();
        test.send(10);
        test.producer.flushes = false;
        test.failsToCommit(WriteFailure.BROKER_UNAVAILABLE, false);
        check(test.producer.commitCount() == 0, "no commit");
    }

    /** The thread that would end the flush may be gone. */
    public static void aCommitGivesUpWhereTheFlushDoesNotEnd() throws Exception {
        SinkTests test = opened();
        test.send(10);
        test.producer.hangs = true;
        test.failsToCommit(WriteFailure.BROKER_UNAVAILABLE, false);
        check(test.producer.commitCount() == 0, "no commit");
        check(test.producer.interrupted.await(60L, TimeUnit.SECONDS), "the flush leaves no thread");
    }

    /** A task that is killed does not wait for its flush. */
    public static void aKilledTaskDoesNotWaitForTheFlush() throws Exception {
        String patient = SETTINGS.replace("'delivery_timeout_ms': 200", "'delivery_timeout_ms': 600000");
        SinkTests test = new SinkTests(true, patient);
        test.sink.open();
        test.send(10);
        test.producer.hangs = true;
        test.context.markInterrupted("killed");
        try {
            test.sink.commit(11);
        } catch (TaskKilledException killed) {
            check(test.producer.interrupted.await(60L, TimeUnit.SECONDS), "the flush leaves no thread");
            return;
        }
        throw new AssertionError("It committed.");
    }

    /** Kafka's clients send no time below 0, and read names of headers as UTF-8. */
    public static void recordsThatArriveChangedAreCounted() {
        SinkTests test = opened();
        String keeping = SETTINGS.replace("'preserve_timestamps': false", "'preserve_timestamps': true");
        RecordCursor cursor = new RecordCursor(Settings.parse(json(keeping)));
        ConsumerRecord named = new ConsumerRecord("orders", 0, 10L, new byte[1], new byte[2]);
        named.headers().add("as it was", new byte[1]);
        cursor.read(named);
        test.sink.send(cursor, test.counts);
        check(test.sink.changed() == 0, "UTF-8, and the time is not kept");
        ConsumerRecord unnamed = new ConsumerRecord("orders", 0, 11L, new byte[1], new byte[2]);
        unnamed.headers().add(new RecordHeader(ByteBuffer.wrap(new byte[] {97, (byte) 0xff}), ByteBuffer.allocate(1)));
        cursor.read(unnamed);
        test.sink.send(cursor, test.counts);
        check(test.sink.changed() == 1, "a name that is not UTF-8");
        check("orders[0]@11".equals(test.sink.firstChanged()), "named " + test.sink.firstChanged());
        Sink dated = new PlainSink(
            Settings.parse(json(keeping)), test.piece, test.producer, test.cluster, TaskContext$.MODULE$.empty()
        );
        dated.open();
        cursor.read(named);
        dated.send(cursor, test.counts);
        check(dated.changed() == 1, "a time below 0");
    }

    /** After the time of the settings, or after so many records. */
    public static void aCommitIsDueAfterATimeOrANumberOfRecords() {
        SinkTests test = opened();
        long second = 1000000000L;
        check(!test.sink.isDue(System.nanoTime() + 100 * second), "nothing is open");
        test.send(10);
        check(!test.sink.isDue(System.nanoTime() + 50 * second), "before its time");
        check(test.sink.isDue(System.nanoTime() + 60 * second), "after its time");
        test.send(11);
        test.send(12);
        check(test.sink.isDue(System.nanoTime()), "after three records");
        test.sink.commit(13);
        check(!test.sink.isDue(System.nanoTime() + 100 * second), "nothing is open");
    }

    /** Without transactions, a task that lost its run ends at its next flush. */
    public static void atLeastOnceLooksAtTheOwnerAtEachFlush() {
        SinkTests test = new SinkTests(false);
        test.sink.open();
        test.send(10);
        test.sink.commit(11);
        test.send(11);
        test.cluster.mark = ANOTHER;
        test.failsToCommit(WriteFailure.RUN_TAKEN_OVER, false);
        check(!test.producer.transactionInitialized(), "no transactions");
    }

    /** Also without transactions. */
    public static void atLeastOnceComparesTheTargets() {
        SinkTests test = new SinkTests(false);
        test.sink.open();
        test.send(10);
        test.cluster.ids.put("copy", "another id");
        test.failsToCommit(WriteFailure.TARGET_RECREATED, false);
    }

    /** An earlier try delivered everything: all is counted, and nothing is sent. */
    public static void whatWasDeliveredIsOnlyCounted() {
        SinkTests test = new SinkTests(true);
        DeliveredSink sink =
            new DeliveredSink(Settings.parse(json(SETTINGS)), test.piece, test.cluster, TaskContext$.MODULE$.empty());
        test.cluster.progress = null;
        sink.open();
        check(sink.progress.position() == Long.MAX_VALUE, "everything is done");
        check(sink.progress.hasUnknownTargets(), "its targets are unknown");
    }

    private static SinkTests opened() {
        SinkTests test = new SinkTests(true);
        test.sink.open();
        return test;
    }

    private void send(long offset) {
        RecordCursor cursor = new RecordCursor(Settings.parse(json(SETTINGS)));
        cursor.read(new ConsumerRecord("orders", 0, offset, new byte[1], new byte[2]));
        sink.send(cursor, counts);
    }

    private OffsetAndMetadata slot() {
        List commits = producer.consumerGroupOffsetsHistory();
        Map groups = (Map) commits.get(commits.size() - 1);
        return (OffsetAndMetadata) ((Map) groups.get("slot")).get(new TopicPartition("copy", 0));
    }

    private void failsToOpen(String code) {
        try {
            sink.open();
        } catch (WriteFailure failure) {
            check(failure.getMessage().indexOf("\"code\":" + quoted(code)) >= 0, failure.getMessage());
            return;
        }
        throw new AssertionError("It opened.");
    }

    private String failsToCommit(String code, boolean isPermanent) {
        try {
            sink.commit(99);
        } catch (WriteFailure failure) {
            check(failure.getMessage().indexOf("\"code\":" + quoted(code)) >= 0, failure.getMessage());
            check(failure.getMessage().indexOf("\"permanent\":" + isPermanent) >= 0, failure.getMessage());
            return failure.getMessage();
        }
        throw new AssertionError("It committed.");
    }

    private static void check(boolean isSo, String what) {
        if (!isSo) {
            throw new AssertionError(what);
        }
    }

    private static String quoted(String code) {
        return code == null ? "null" : "\"" + code + "\"";
    }

    private static String json(String text) {
        return text.replace('\'', '"');
    }

    /** What the brokers hold. */
    private static final class Cluster implements TargetCluster {
        final HashMap<String, String> ids = new HashMap<String, String>();
        Mark mark = MINE;
        OffsetAndMetadata progress = new OffsetAndMetadata(10L, "orders-0\n");
        int looks;

        Cluster() {
            ids.put("copy", "id");
        }

        @Override
        public RunState runState(Piece piece) {
            looks++;
            return new RunState(mark, progress);
        }

        @Override
        public Map<String, String> targetIds() {
            return ids;
        }

        @Override
        public long runningTasks() {
            return 0L;
        }

        @Override
        public void close() {
            ids.clear();
        }
    }

    private static final class TestProducer extends MockProducer {
        /** Whether a flush acknowledges everything. */
        boolean flushes = true;
        /** Whether a flush has no end. */
        boolean hangs;
        /** Of such a flush. */
        final CountDownLatch interrupted = new CountDownLatch(1);
        /** What the owner's group has when the earlier attempts are fenced. */
        Mark markAfterInit;
        private final Cluster cluster;

        TestProducer(Cluster cluster) {
            super(false, new ByteArraySerializer(), new ByteArraySerializer());
            this.cluster = cluster;
        }

        @Override
        public void initTransactions() {
            super.initTransactions();
            if (markAfterInit != null) {
                cluster.mark = markAfterInit;
            }
        }

        @Override
        public synchronized void flush() {
            while (hangs) {
                try {
                    wait();
                } catch (InterruptedException error) {
                    interrupted.countDown();
                    return;
                }
            }
            if (flushes) {
                super.flush();
            }
        }
    }

    /** Acknowledges two records, one after the other. */
    private static final class Completion implements Runnable {
        private final TestProducer producer;

        Completion(TestProducer producer) {
            this.producer = producer;
        }

        @Override
        public void run() {
            for (int done = 0; done < 2; ) {
                Thread.yield();
                done += producer.completeNext() ? 1 : 0;
            }
        }
    }

    /** The last record of a piece; who asks for another one would wait. */
    private static final class OneRecord implements Iterator {
        private boolean isGiven;

        @Override
        public boolean hasNext() {
            check(!isGiven, "nobody asks for the next piece");
            return true;
        }

        @Override
        public Object next() {
            isGiven = true;
            return new ConsumerRecord("orders", 0, 99L, null, null);
        }

        @Override
        public void remove() {
            throw new UnsupportedOperationException();
        }
    }
}
