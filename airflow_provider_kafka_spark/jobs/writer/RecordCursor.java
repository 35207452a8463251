package airflow_provider_kafka_spark.jobs.writer;

import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.header.internals.RecordHeaders;

/** One record to be written, and where it came from: Kafka's own records, or places in a batch. One object is reused for a whole task. */
class RecordCursor {
    String topic;
    int partition;
    long offset;
    long timestamp;
    /** Whether the record passes all filters and the exact window. */
    boolean selected;
    /** Why a selected record goes to the dead-letter topic, as it is in the source; null if it does not. */
    String rejection;
    /** The record as bytes in its batch; null if it is in the fields that follow. */
    BatchWalker place;
    byte[] key;
    byte[] value;
    RecordHeaders headers;
    String targetTopic;
    Integer targetPartition;
    private final String onlyTarget;
    private final Map<String, String> targetTopics;
    private final boolean includeHeaders;
    private final boolean preservePartition;
    private final long windowStart;
    private final long windowEnd;
    private final long countedFrom;
    private final long countedUntil;
    /** Null if all are wanted. */
    private final WantedRecords wanted;

    RecordCursor(Settings settings) {
        Fields transform = settings.transform;
        onlyTarget = transform.optionalText("topic");
        targetTopics = transform.map("topic_map");
        includeHeaders = transform.flag("include_headers");
        preservePartition = transform.flag("preserve_partition");
        windowStart = transform.optionalNumber("window_start_ms", Long.MIN_VALUE);
        windowEnd = transform.optionalNumber("window_end_ms", Long.MAX_VALUE);
        countedFrom = settings.countedFromMs;
        countedUntil = settings.countedUntilMs;
        // Rows say themselves whether they are selected.
        wanted = settings.columns == null ? WantedRecords.of(transform) : null;
    }

    /** Moves to the next input. */
    void read(Object input) {
        if (input instanceof BatchWalker) {
            readPlace((BatchWalker) input);
        } else {
            readRecord(input);
        }
        findTarget();
    }

    private void readPlace(BatchWalker record) {
        topic = record.topic;
        partition = record.partition;
        offset = record.offset;
        timestamp = record.timestamp;
        place = record;
        selected = isInWindow() && (wanted == null || wanted.has(record));
    }

    private void readRecord(Object input) {
        ConsumerRecord<?, ?> record = (ConsumerRecord<?, ?>) input;
        topic = record.topic();
        partition = record.partition();
        offset = record.offset();
        timestamp = record.timestamp();
        place = null;
        key = (byte[]) record.key();
        value = (byte[]) record.value();
        selected = isInWindow() && (wanted == null || wanted.has(key, (RecordHeaders) record.headers()));
        headers = includeHeaders ? (RecordHeaders) record.headers() : new RecordHeaders();
        targetPartition = preservePartition ? Integer.valueOf(partition) : null;
    }

    private boolean isInWindow() {
        return timestamp >= windowStart && timestamp < windowEnd;
    }

    /** The one target, or that of the record's topic; null if only a row says it. */
    @SuppressWarnings("cast")
    final void findTarget() {
        targetTopic = targetOf(topic);
        if (targetTopic == null && !targetTopics.isEmpty()) {
            throw WriteFailure.ofData(
                WriteFailure.TARGET, "topic_map has no target for the topic of record " + name() + ". Add the topic to "
                    + "topic_map, or leave such records out with where.", name()
            );
        }
    }

    /** The one target, or that of a topic. */
    @SuppressWarnings("cast")
    final String targetOf(String sourceTopic) {
        return targetTopics.isEmpty() ? onlyTarget : (String) targetTopics.get(sourceTopic);
    }

    final boolean isOutside(long ms) {
        return ms < countedFrom || ms >= countedUntil;
    }

    /** Such as {@code orders[0]@123}. */
    final String name() {
        return nameOf(topic, partition, offset);
    }

    static String nameOf(String topic, int partition, long offset) {
        return topic + "[" + partition + "]@" + offset;
    }
}
