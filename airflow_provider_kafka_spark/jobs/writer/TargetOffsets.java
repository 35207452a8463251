package airflow_provider_kafka_spark.jobs.writer;

import com.fasterxml.jackson.databind.node.ArrayNode;
import java.util.HashMap;
import java.util.TreeMap;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;

/** First and last offset of what was acknowledged in each partition of the targets. */
@SuppressWarnings("cast")
final class TargetOffsets {
    private static final int RADIX = 36;

    private final HashMap<TopicPartition, Span> spans = new HashMap<TopicPartition, Span>();
    private Span last;

    /**
     * Called by the producer's own thread, in which all acknowledgements arrive.
     *
     * @param record the first
     * @param count of records, at consecutive offsets
     */
    void add(RecordMetadata record, int count) {
        Span span = last;
        if (span == null || span.partition != record.partition() || !span.topic.equals(record.topic())) {
            span = span(record.topic(), record.partition());
            last = span;
        }
        if (record.hasOffset()) {
            span.add(record.offset(), record.offset() + count - 1);
        }
    }

    void clear() {
        spans.clear();
        last = null;
    }

    /** A line for each topic: its name, and three numbers to base 36 for each partition. */
    String format() {
        TreeMap<String, String> lines = new TreeMap<String, String>();
        for (Span span : spans.values()) {
            if (span.last >= 0) {
                String line = (String) lines.get(span.topic);
                lines.put(span.topic, (line == null ? span.topic : line) + " " + span.format());
            }
        }
        StringBuilder text = new StringBuilder();
        for (String line : lines.values()) {
            text.append(line).append("\n");
        }
        return text.toString();
    }

    /** Adds what {@link #format} gave. */
    void parse(String text) {
        String[] lines = text.split("\n");
        for (int i = 0; i < lines.length; i++) {
            String[] fields = lines[i].split(" ");
            for (int j = 1; j + 2 < fields.length; j += 3) {
                long from = Long.parseLong(fields[j + 1], RADIX);
                span(fields[0], Integer.parseInt(fields[j], RADIX))
                    .add(from, from + Long.parseLong(fields[j + 2], RADIX));
            }
        }
    }

    /** A list of topic, partition, first and last offset for each partition. */
    void write(ArrayNode list) {
        for (Span span : spans.values()) {
            if (span.last >= 0) {
                list.addObject().put("topic", span.topic).put("partition", span.partition)
                    .put("first", span.first).put("last", span.last);
            }
        }
    }

    private Span span(String topic, int partition) {
        TopicPartition name = new TopicPartition(topic, partition);
        Span span = (Span) spans.get(name);
        if (span == null) {
            span = new Span(topic, partition);
            spans.put(name, span);
        }
        return span;
    }

    private static final class Span {
        final String topic;
        final int partition;
        long first = Long.MAX_VALUE;
        long last = -1;

        Span(String topic, int partition) {
            this.topic = topic;
            this.partition = partition;
        }

        void add(long from, long to) {
            first = Math.min(first, from);
            last = Math.max(last, to);
        }

        String format() {
            return base36(partition) + " " + base36(first) + " " + base36(last - first);
        }

        private static String base36(long number) {
            return Long.toString(number, RADIX);
        }
    }
}
