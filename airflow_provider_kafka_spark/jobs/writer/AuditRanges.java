package airflow_provider_kafka_spark.jobs.writer;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.Arrays;
import java.util.HashMap;

/**
 * The audited ranges: {@code AuditRanges} in {@code audit_messages.py} is the other side. Offsets of a partition are
 * gathered in chunks, each with a key of one number.
 */
@SuppressWarnings("cast")
final class AuditRanges {
    /** Offsets of a chunk, as a power of two. */
    static final int CHUNK_BITS = 12;
    static final int CHUNK = 1 << CHUNK_BITS;
    private static final int KEY_BITS = 43;

    /** The index of the first range of each partition; one more at the end. */
    final int[] firsts;
    final long[] starts;
    final long[] ends;
    /** Whether what is not in the target may have aged out of it. */
    final boolean[] mayHaveAged;
    final AuditSegments segments;
    private final HashMap<String, Integer> partitions = new HashMap<String, Integer>();

    private AuditRanges(Fields fields) {
        JsonNode list = fields.list("partitions");
        int count = 0;
        for (int i = 0; i < list.size(); i++) {
            count += Fields.item(Fields.item(list, i), 3).size();
        }
        firsts = new int[list.size() + 1];
        mayHaveAged = new boolean[list.size()];
        starts = new long[count];
        ends = new long[count];
        int next = 0;
        for (int i = 0; i < list.size(); i++) {
            JsonNode each = Fields.item(list, i);
            partitions.put(name(Fields.item(each, 0).asText(), Fields.item(each, 1).asInt()), Integer.valueOf(i));
            mayHaveAged[i] = Fields.item(each, 2).asBoolean();
            firsts[i] = next;
            JsonNode ranges = Fields.item(each, 3);
            for (int j = 0; j < ranges.size(); j++) {
                starts[next] = Fields.item(Fields.item(ranges, j), 0).asLong();
                ends[next] = Fields.item(Fields.item(ranges, j), 1).asLong();
                next++;
            }
        }
        firsts[list.size()] = next;
        segments = new AuditSegments(fields.list("segments"));
        fields.end();
    }

    static AuditRanges parse(String text) {
        return new AuditRanges(Fields.parse("AuditRanges", text));
    }

    static String name(String topic, int partition) {
        return topic + "|" + partition;
    }

    /** The index of a partition, or -1. */
    int partition(String name) {
        Integer index = (Integer) partitions.get(name);
        return index == null ? -1 : index.intValue();
    }

    /** The index of the range that an offset lies in, or -1. */
    int find(int partition, long offset) {
        int found = Arrays.binarySearch(starts, firsts[partition], firsts[partition + 1], offset);
        int range = found >= 0 ? found : -found - 2;
        return range >= firsts[partition] && offset < ends[range] ? range : -1;
    }

    static long key(int partition, long offset) {
        long chunk = offset >>> CHUNK_BITS;
        if (chunk >>> KEY_BITS != 0) {
            throw new IllegalArgumentException("An offset must be less than 2^55 to be audited; got " + offset + ".");
        }
        return ((long) partition << KEY_BITS) | chunk;
    }

    static int partitionOf(long key) {
        return (int) (key >>> KEY_BITS);
    }

    static long firstOffset(long key) {
        return (key & ((1L << KEY_BITS) - 1)) << CHUNK_BITS;
    }
}
