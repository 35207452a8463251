package airflow_provider_kafka_spark.jobs.writer;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.ArrayList;
import java.util.HashMap;

/**
 * Which offsets of the target hold which of the source, where no header of a record says it: {@code ranges_text} in
 * {@code audit_messages.py} is the other side. One object is for one thread.
 */
@SuppressWarnings("cast")
final class AuditSegments {
    private final HashMap<String, OfPartition> partitions = new HashMap<String, OfPartition>();
    /** Of the last record, which the next one mostly shares. */
    private String lastTopic;
    private int lastNumber = -1;
    private OfPartition last;
    private int partition;
    private long offset;

    /** @param list sorted by their places in the target */
    AuditSegments(JsonNode list) {
        for (int i = 0; i < list.size(); i++) {
            JsonNode each = Fields.item(list, i);
            String name = AuditRanges.name(Fields.item(each, 0).asText(), Fields.item(each, 1).asInt());
            OfPartition found = (OfPartition) partitions.get(name);
            if (found == null) {
                found = new OfPartition();
                partitions.put(name, found);
            }
            found.segments.add(
                new long[] {
                    Fields.item(each, 2).asLong(), Fields.item(each, 3).asLong(), Fields.item(each, 4).asLong(),
                    Fields.item(each, 5).asLong()
                }
            );
        }
    }

    /** Whether a record of the target is in a segment; then {@link #partition} and {@link #offset} say of what. */
    boolean find(String topic, int number, long targetOffset) {
        if (partitions.isEmpty()) {
            return false;
        }
        if (number != lastNumber || !topic.equals(lastTopic)) {
            lastTopic = topic;
            lastNumber = number;
            last = (OfPartition) partitions.get(AuditRanges.name(topic, number));
        }
        long[] found = last == null ? null : last.find(targetOffset);
        if (found == null) {
            return false;
        }
        partition = (int) found[2];
        offset = found[3] + targetOffset - found[0];
        return true;
    }

    /** The index of the source's partition. */
    int partition() {
        return partition;
    }

    /** The offset in the source. */
    long offset() {
        return offset;
    }

    /** The segments of one target partition: first offset, end, index of the source's partition, first offset there. */
    private static final class OfPartition {
        final ArrayList<long[]> segments = new ArrayList<long[]>();

        /** The last segment that begins at or before an offset, if it has it; otherwise null. */
        long[] find(long wanted) {
            int low = 0;
            int high = segments.size();
            while (low < high) {
                int middle = (low + high) >>> 1;
                if (((long[]) segments.get(middle))[0] <= wanted) {
                    low = middle + 1;
                } else {
                    high = middle;
                }
            }
            long[] found = low == 0 ? null : (long[]) segments.get(low - 1);
            return found == null || wanted >= found[1] ? null : found;
        }
    }
}
