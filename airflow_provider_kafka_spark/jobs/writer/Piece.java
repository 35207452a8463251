package airflow_provider_kafka_spark.jobs.writer;

import com.fasterxml.jackson.databind.JsonNode;
import org.apache.kafka.common.TopicPartition;
import org.apache.spark.TaskContext;
import org.apache.spark.broadcast.Broadcast;

/** What a Spark task copies in one go: ranges of one Kafka partition, in order. Offsets between are read and dropped. */
final class Piece {
    final String name;
    final String topic;
    final int partition;
    final long first;
    final long until;
    /** For each range the index of the planned range that it lies in. */
    final int[] indexes;
    /** Where the progress of this piece is committed; null for at least once. */
    final String slotGroup;
    final TopicPartition slotPartition;
    private final long[] starts;
    private final long[] ends;
    /** The first range that ends after the offset that was looked for last, or the last range. */
    private int current;
    /** How many ranges were looked at. */
    long looks;

    private Piece(Fields fields) {
        name = fields.text("name");
        topic = fields.text("topic");
        partition = (int) fields.number("partition");
        until = fields.number("until");
        JsonNode ranges = fields.list("ranges");
        int count = ranges.size();
        if (count == 0) {
            throw new IllegalArgumentException("Piece " + name + " must have a range.");
        }
        starts = new long[count];
        ends = new long[count];
        indexes = new int[count];
        for (int i = 0; i < count; i++) {
            JsonNode range = Fields.item(ranges, i);
            starts[i] = Fields.item(range, 0).asLong();
            ends[i] = Fields.item(range, 1).asLong();
            indexes[i] = Fields.item(range, 2).asInt();
            if (starts[i] > ends[i] || (i > 0 && starts[i] < ends[i - 1]) || ends[i] > until) {
                throw new IllegalArgumentException(
                    "The ranges of piece " + name + " must be sorted, disjoint and end at " + until + " or before; got "
                        + ranges + "."
                );
            }
        }
        first = starts[0];
        Fields slot = fields.optionalObject("slot");
        slotGroup = slot == null ? null : slot.text("group");
        slotPartition = slot == null ? null : new TopicPartition(slot.text("topic"), (int) slot.number("partition"));
        if (slot != null) {
            slot.end();
        }
        fields.end();
    }

    static Piece parse(String text) {
        return new Piece(Fields.parse("Piece", text));
    }

    /** The pieces of the Spark task that runs in this thread, which has at least one: one on each line. */
    static Piece[] ofThisTask(Broadcast<?> tasks) {
        String[] lines = ((String[]) tasks.value())[TaskContext.getPartitionId()].split("\n");
        Piece[] pieces = new Piece[lines.length];
        for (int i = 0; i < lines.length; i++) {
            pieces[i] = parse(lines[i]);
        }
        return pieces;
    }

    boolean holds(String otherTopic, int otherPartition, long offset) {
        return otherPartition == partition && offset >= first && offset < until && otherTopic.equals(topic);
    }

    /** Whether the ranges leave nothing out between the first offset and the end. */
    boolean isWhole() {
        long next = first;
        for (int i = 0; i < starts.length; i++) {
            if (starts[i] != next) {
                return false;
            }
            next = ends[i];
        }
        return next == until;
    }

    /** The first offset from this one on that lies in a range, or the end of the piece. */
    long nextWanted(long offset) {
        moveTo(offset);
        return offset < ends[current] ? Math.max(offset, starts[current]) : until;
    }

    /** The position of the range that these offsets lie in from the first to the last, or -1. */
    int findWhole(long firstOffset, long lastOffset) {
        int range = find(firstOffset);
        return range >= 0 && lastOffset < ends[range] ? range : -1;
    }

    /** The position of the range that an offset lies in, or -1. It is fast for offsets that ascend. */
    int find(long offset) {
        moveTo(offset);
        return offset >= starts[current] && offset < ends[current] ? current : -1;
    }

    private void moveTo(long offset) {
        looks++;
        if (current > 0 && offset < ends[current - 1]) {
            // Back, as when a task reads again. A gap between ranges is not before the current one.
            current = 0;
        }
        while (offset >= ends[current] && current < ends.length - 1) {
            current++;
            looks++;
        }
    }
}
