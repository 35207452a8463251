package airflow_provider_kafka_spark.jobs.writer;

import java.time.Duration;
import java.util.Collections;
import java.util.HashMap;
import java.util.Iterator;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AdminClient;
import org.apache.kafka.clients.admin.DescribeTopicsOptions;
import org.apache.kafka.clients.admin.ListConsumerGroupOffsetsOptions;
import org.apache.kafka.clients.admin.ListConsumerGroupOffsetsResult;
import org.apache.kafka.clients.admin.ListConsumerGroupOffsetsSpec;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.InterruptException;
import org.apache.kafka.common.errors.UnknownTopicOrPartitionException;

/** Asks the brokers by an Admin client, which is open as long as the task. */
@SuppressWarnings({"cast", "rawtypes"})
final class AdminTargetCluster implements TargetCluster {
    private static final long MAX_TIMEOUT_MS = 60000L;
    /** One broker that hangs must not use up the time of all attempts: the next one asks the broker that took over. */
    private static final long MAX_REQUEST_MS = 5000L;
    /** A coordinator that goes away after its look-up is waited for until then; it is looked up again after that. */
    private static final long MAX_CALL_MS = 15000L;
    private static final long PAUSE_MS = 20L;
    /** The text beside the number of tasks. */
    private static final String PAUSED = "paused";
    private static final String REQUEST_TIMEOUT = "request.timeout.ms";
    private static final String[] LOGIN = {"bootstrap.", "security.", "sasl.", "ssl.", "config.providers"};

    private final Settings settings;
    private final Admin admin;
    private final long timeoutMs;

    /** @param config of a producer; only its login and its time for a request are taken */
    AdminTargetCluster(Settings settings, Map<String, Object> config) {
        this.settings = settings;
        // A job whose producer gives up soon does not wait longer for an answer either.
        timeoutMs = Math.min(MAX_TIMEOUT_MS, settings.deliveryTimeoutMs);
        HashMap<String, Object> login = new HashMap<String, Object>();
        for (Map.Entry<String, Object> entry : config.entrySet()) {
            if (isLogin((String) entry.getKey())) {
                login.put(entry.getKey(), entry.getValue());
            }
        }
        Object requestMs = config.get(REQUEST_TIMEOUT);
        long producerMs = requestMs == null ? MAX_REQUEST_MS : Long.parseLong(requestMs.toString());
        String within = Long.toString(Math.min(Math.min(producerMs, MAX_REQUEST_MS), timeoutMs));
        login.put(REQUEST_TIMEOUT, within);
        // The client sleeps until its whole call is over, and looks only then for requests that are: while it asks for
        // the brokers as often, it notices them.
        login.put("metadata.max.age.ms", within);
        login.put("default.api.timeout.ms", Long.toString(Math.min(MAX_CALL_MS, timeoutMs)));
        admin = AdminClient.create(login);
    }

    @Override
    public RunState runState(Piece piece) {
        long deadline = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(timeoutMs);
        RunState found = askOnce(piece, deadline);
        while (found == null) {
            if (System.nanoTime() > deadline) {
                throw new org.apache.kafka.common.errors.TimeoutException(
                    "A transaction that changes the mark or the progress of piece " + piece.name + " has been open for "
                        + timeoutMs + " ms."
                );
            }
            Sink.pause(PAUSE_MS);
            found = askOnce(piece, deadline);
        }
        return found;
    }

    /** Null if it has to be asked again. */
    private RunState askOnce(Piece piece, long deadline) {
        try {
            return stableRunState(piece);
        } catch (org.apache.kafka.common.errors.TimeoutException error) {
            if (System.nanoTime() > deadline) {
                throw error;
            }
            return null;
        }
    }

    /**
     * Null while a transaction is changing it: brokers then answer that an offset is not stable (KIP-447), and Kafka's
     * client leaves it out. One that was never committed is there, as null.
     */
    private RunState stableRunState(Piece piece) {
        HashMap<String, ListConsumerGroupOffsetsSpec> groups = new HashMap<String, ListConsumerGroupOffsetsSpec>();
        ask(groups, settings.ownerGroup, settings.ownerPartition);
        ask(groups, piece.slotGroup, piece.slotPartition);
        ListConsumerGroupOffsetsOptions stable = new ListConsumerGroupOffsetsOptions().requireStable(true);
        ListConsumerGroupOffsetsResult answer = admin.listConsumerGroupOffsets(groups, stable);
        Mark mark = null;
        OffsetAndMetadata progress = null;
        if (settings.ownerGroup != null) {
            Map<TopicPartition, OffsetAndMetadata> found = offsets(answer, settings.ownerGroup);
            if (!found.containsKey(settings.ownerPartition)) {
                return null;
            }
            mark = Mark.of((OffsetAndMetadata) found.get(settings.ownerPartition));
        }
        if (piece.slotGroup != null) {
            Map<TopicPartition, OffsetAndMetadata> found = offsets(answer, piece.slotGroup);
            if (!found.containsKey(piece.slotPartition)) {
                return null;
            }
            progress = (OffsetAndMetadata) found.get(piece.slotPartition);
        }
        return new RunState(mark, progress);
    }

    private static void ask(Map<String, ListConsumerGroupOffsetsSpec> groups, String group, TopicPartition partition) {
        if (group != null) {
            groups.put(group, new ListConsumerGroupOffsetsSpec().topicPartitions(Collections.singletonList(partition)));
        }
    }

    @Override
    public Map<String, String> targetIds() {
        // Any broker answers it, so it may take all of the time.
        DescribeTopicsOptions whole = new DescribeTopicsOptions().timeoutMs(Integer.valueOf((int) timeoutMs));
        HashMap<String, String> ids = new HashMap<String, String>();
        Map<String, KafkaFuture<TopicDescription>> described =
            admin.describeTopics(settings.targetIds.keySet(), whole).topicNameValues();
        for (Map.Entry<String, KafkaFuture<TopicDescription>> entry : described.entrySet()) {
            try {
                TopicDescription topic = (TopicDescription) get((KafkaFuture) entry.getValue());
                ids.put(entry.getKey(), topic.topicId().toString());
            } catch (UnknownTopicOrPartitionException error) {
                // It is absent from the answer.
                continue;
            }
        }
        return ids;
    }

    @Override
    public long runningTasks() {
        ListConsumerGroupOffsetsResult found = admin.listConsumerGroupOffsets(settings.paceGroup);
        Iterator<OffsetAndMetadata> each = offsets(found, settings.paceGroup).values().iterator();
        OffsetAndMetadata said = each.hasNext() ? (OffsetAndMetadata) each.next() : null;
        if (said == null) {
            return 0L;
        }
        return PAUSED.equals(said.metadata()) ? -said.offset() : said.offset();
    }

    @Override
    public void close() {
        admin.close(Duration.ZERO);
    }

    @SuppressWarnings("unchecked")
    private Map<TopicPartition, OffsetAndMetadata> offsets(ListConsumerGroupOffsetsResult found, String group) {
        return (Map<TopicPartition, OffsetAndMetadata>) get(found.partitionsToOffsetAndMetadata(group));
    }

    private Object get(KafkaFuture<?> future) {
        try {
            return future.get(timeoutMs, TimeUnit.MILLISECONDS);
        } catch (ExecutionException error) {
            if (error.getCause() instanceof KafkaException) {
                throw (KafkaException) error.getCause();
            }
            throw new KafkaException(error.getCause());
        } catch (TimeoutException error) {
            throw new org.apache.kafka.common.errors.TimeoutException(
                "The target's brokers did not answer within " + timeoutMs + " ms."
            );
        } catch (InterruptedException error) {
            throw new InterruptException(error);
        }
    }

    private static boolean isLogin(String name) {
        for (int i = 0; i < LOGIN.length; i++) {
            if (name.startsWith(LOGIN[i])) {
                return true;
            }
        }
        return false;
    }
}
