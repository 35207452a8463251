package airflow_provider_kafka_spark.jobs.writer;

import com.fasterxml.jackson.databind.node.ArrayNode;
import java.util.ArrayList;

/**
 * Which offsets of the target hold the records of a piece: runs of consecutive offsets on both sides. All are in the
 * target partition of the same number.
 */
@SuppressWarnings("cast")
final class Segments {
    private static final int RADIX = 36;

    private final ArrayList<Segment> segments = new ArrayList<Segment>();
    private Segment last = new Segment(0L, 0L, 0L);

    /** Called by the producer's own thread, in which all acknowledgements arrive. */
    void add(long from, long until, long target) {
        if (last.until == from && last.target + last.until - last.from == target && !segments.isEmpty()) {
            last.until = until;
            return;
        }
        last = new Segment(from, until, target);
        segments.add(last);
    }

    /**
     * Three numbers to base 36 for each: how far it is after the one before in the source, how long it is, and how far
     * it is after the one before in the target.
     */
    String format() {
        StringBuilder text = new StringBuilder();
        Segment before = new Segment(0L, 0L, 0L);
        for (Segment each : segments) {
            text.append(text.length() == 0 ? "" : " ").append(base36(each.from - before.until)).append(' ')
                .append(base36(each.until - each.from)).append(' ')
                .append(base36(each.target - before.target - (before.until - before.from)));
            before = each;
        }
        return text.toString();
    }

    /** Takes what {@link #format} gave. */
    void parse(String text) {
        String[] numbers = text.trim().split(" ");
        Segment before = new Segment(0L, 0L, 0L);
        for (int i = 0; i + 2 < numbers.length; i += 3) {
            long from = before.until + Long.parseLong(numbers[i], RADIX);
            long size = Long.parseLong(numbers[i + 1], RADIX);
            long target = before.target + before.until - before.from + Long.parseLong(numbers[i + 2], RADIX);
            add(from, from + size, target);
            before = new Segment(from, from + size, target);
        }
    }

    /** A list of first and end in the source, and first in the target. */
    void write(ArrayNode list) {
        for (Segment each : segments) {
            list.addArray().add(each.from).add(each.until).add(each.target);
        }
    }

    private static String base36(long number) {
        return Long.toString(number, RADIX);
    }

    private static final class Segment {
        final long from;
        final long target;
        long until;

        Segment(long from, long until, long target) {
            this.from = from;
            this.until = until;
            this.target = target;
        }
    }
}
