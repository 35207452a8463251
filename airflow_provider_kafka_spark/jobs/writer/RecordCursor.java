package airflow_provider_kafka_spark.jobs.writer;

import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.header.internals.RecordHeaders;

/** One record to be written, and where it came from: Kafka's own records. One object is reused for a whole task. */
class RecordCursor {
    String topic;
    int partition;
    long offset;
    long timestamp;
    /** Whether the record passes {@code where} and the exact window. */
    boolean selected;
    byte[] key;
    byte[] value;
    RecordHeaders headers;
    String targetTopic;
    Integer targetPartition;
    private final Map<String, String> targetTopics;
    private final boolean includeHeaders;
    private final boolean preservePartition;
    private final long windowStart;
    private final long windowEnd;

    RecordCursor(Settings settings) {
        targetTopic = settings.targetTopic;
        targetTopics = settings.targetTopics;
        includeHeaders = settings.includeHeaders;
        preservePartition = settings.preservePartition;
        windowStart = settings.windowStartMs;
        windowEnd = settings.windowEndMs;
    }

    /** Moves to the next input. */
    void read(Object input) {
        ConsumerRecord<?, ?> record = (ConsumerRecord<?, ?>) input;
        topic = record.topic();
        partition = record.partition();
        offset = record.offset();
        timestamp = record.timestamp();
        selected = timestamp >= windowStart && timestamp < windowEnd;
        key = (byte[]) record.key();
        value = (byte[]) record.value();
        headers = includeHeaders ? (RecordHeaders) record.headers() : new RecordHeaders();
        targetPartition = preservePartition ? Integer.valueOf(partition) : null;
        findTarget();
    }

    /** Where there is a map of topics, the target of the record's topic. */
    @SuppressWarnings("cast")
    final void findTarget() {
        if (targetTopics.isEmpty()) {
            return;
        }
        targetTopic = (String) targetTopics.get(topic);
        if (targetTopic == null) {
            throw WriteFailure.ofData(
                WriteFailure.NULL_TOPIC, "topic_map has no target for the topic of record " + name() + ".", name()
            );
        }
    }

    /** Such as {@code orders[0]@123}. */
    final String name() {
        return topic + "[" + partition + "]@" + offset;
    }
}
