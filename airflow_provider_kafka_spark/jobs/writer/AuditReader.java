package airflow_provider_kafka_spark.jobs.writer;

import com.fasterxml.jackson.databind.JsonNode;
import java.nio.charset.StandardCharsets;
import java.util.ArrayDeque;
import java.util.Arrays;
import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.spark.TaskContext;
import org.apache.spark.api.java.function.PairFlatMapFunction;
import org.apache.spark.broadcast.Broadcast;
import org.apache.spark.executor.InputMetrics;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.util.LongAccumulator;
import scala.Tuple2;

/**
 * Reads source or target, and gives for each chunk of source offsets what was found: two numbers for each record, its
 * place in the chunk with its kind, and its fingerprint. {@link AuditMerger} puts them together.
 *
 * <p>Janino compiles this class, as {@link RecordWriter} says.
 */
@SuppressWarnings({"cast", "rawtypes", "unchecked"})
public final class AuditReader implements PairFlatMapFunction {
    static final int SELECTED = 0;
    static final int FILTERED = 1;
    static final int DELIVERED = 2;
    private static final long serialVersionUID = 1L;
    /** Entries that a task holds at most. */
    private static final int MAX_ENTRIES = 1 << 18;

    private final String settings;
    private final Broadcast ranges;
    private final LongAccumulator recordsRead;

    /**
     * @param settings {@code AuditSettings} as JSON
     * @param ranges {@code AuditRanges} as JSON
     * @param recordsRead is increased with every record
     */
    public AuditReader(String settings, Broadcast ranges, LongAccumulator recordsRead) {
        this.settings = settings;
        this.ranges = ranges;
        this.recordsRead = recordsRead;
    }

    @Override
    public Iterator call(Object records) {
        AuditRanges audited = AuditRanges.parse(((String[]) ranges.value())[0]);
        return new Chunks((Iterator) records, new Job(Fields.parse("AuditSettings", settings)), audited, recordsRead);
    }

    /** What the reader is to do: {@code AuditSettings} in {@code audit_messages.py} says what each field means. */
    private static final class Job {
        final String input;
        final byte[][] runs;
        final boolean compares;
        final boolean withTimestamp;
        final boolean withHeaders;
        final String header;
        final List<String> replacedHeaders;
        final long windowStart;
        final long windowEnd;

        Job(Fields fields) {
            input = fields.text("input");
            JsonNode ids = fields.optionalList("run_ids");
            runs = ids == null ? null : new byte[ids.size()][];
            for (int i = 0; runs != null && i < runs.length; i++) {
                runs[i] = (Fields.item(ids, i).asText() + "|").getBytes(StandardCharsets.UTF_8);
            }
            compares = fields.flag("compares");
            withTimestamp = fields.flag("with_timestamp");
            withHeaders = fields.flag("with_headers");
            header = fields.text("provenance_header");
            replacedHeaders = Arrays.asList(header, fields.text("reason_header"));
            windowStart = fields.optionalNumber("window_start_ms", Long.MIN_VALUE);
            windowEnd = fields.optionalNumber("window_end_ms", Long.MAX_VALUE);
            fields.end();
        }
    }

    /** The entries of one chunk. */
    private static final class Entries {
        long[] items = new long[8];
        int size;

        void add(long place, long fingerprint) {
            if (size == items.length) {
                items = Arrays.copyOf(items, size * 2);
            }
            items[size++] = place;
            items[size++] = fingerprint;
        }
    }

    /** Reads on when it is asked for a chunk. */
    private static final class Chunks implements Iterator {
        private final Iterator records;
        private final Job job;
        private final AuditRanges ranges;
        private final LongAccumulator recordsRead;
        private final TaskContext context = TaskContext.get();
        private final InputMetrics metrics = context.taskMetrics().inputMetrics();
        private final ArrayDeque<Object> ready = new ArrayDeque<Object>();
        private HashMap<Long, Entries> open = new HashMap<Long, Entries>();
        private int held;
        /** Of the last record, which the next one mostly shares. */
        private String lastTopic;
        private int lastNumber = -1;
        private int lastIndex = -1;
        private long lastKey = -1L;
        private Entries lastEntries;

        private String topic;
        private int number;
        private long offset;
        private long timestamp;
        private boolean selected;
        private byte[] key;
        private byte[] value;
        private Header[] headers;

        Chunks(Iterator records, Job job, AuditRanges ranges, LongAccumulator recordsRead) {
            this.records = records;
            this.job = job;
            this.ranges = ranges;
            this.recordsRead = recordsRead;
        }

        @Override
        public boolean hasNext() {
            try {
                return isReady();
            } catch (OutOfMemoryError error) {
                // Spark would end the whole JVM, and say nothing of the record.
                throw WriteFailure.ofMemory(next(job.runs == null ? "source" : "target"), 0, error).forDriver();
            }
        }

        /** The record after the last one that was read; of the first one, the name is not known. */
        private String next(String side) {
            return topic == null
                ? "the first record of a part of the " + side : RecordCursor.nameOf(topic, number, offset + 1L);
        }

        private boolean isReady() {
            while (ready.isEmpty() && records.hasNext()) {
                context.killTaskIfInterrupted();
                read(records.next());
                recordsRead.add(1L);
                metrics.incRecordsRead(1L);
                if (job.runs == null) {
                    addSource();
                } else {
                    addTarget();
                }
                if (held >= MAX_ENTRIES) {
                    flush();
                }
            }
            if (ready.isEmpty() && held > 0) {
                flush();
            }
            return !ready.isEmpty();
        }

        @Override
        public Object next() {
            return ready.poll();
        }

        @Override
        public void remove() {
            throw new UnsupportedOperationException();
        }

        private void flush() {
            for (Iterator each = open.entrySet().iterator(); each.hasNext(); ) {
                Map.Entry entry = (Map.Entry) each.next();
                Entries found = (Entries) entry.getValue();
                ready.add(new Tuple2(entry.getKey(), Arrays.copyOf(found.items, found.size)));
            }
            open = new HashMap<Long, Entries>();
            held = 0;
            lastEntries = null;
        }

        private void read(Object input) {
            if (job.input.equals("rows")) {
                readRow((InternalRow) input);
                return;
            }
            ConsumerRecord record;
            if (job.input.equals("beside")) {
                InternalRow row = (InternalRow) input;
                record = RecordHandoff.take(row.getLong(0));
                selected = row.getBoolean(1);
            } else {
                record = (ConsumerRecord) input;
                selected = record.timestamp() >= job.windowStart && record.timestamp() < job.windowEnd;
            }
            topic = record.topic();
            number = record.partition();
            offset = record.offset();
            timestamp = record.timestamp();
            key = (byte[]) record.key();
            value = (byte[]) record.value();
            headers = job.runs == null && !job.withHeaders ? null : record.headers().toArray();
        }

        /** A row of the public reader, with the columns of {@code ROW} in {@code jobs/audit.py}. */
        private void readRow(InternalRow row) {
            topic = row.getUTF8String(0).toString();
            number = row.getInt(1);
            offset = row.getLong(2);
            timestamp = Math.floorDiv(row.getLong(3), 1000L);
            key = row.isNullAt(4) ? null : row.getBinary(4);
            value = row.isNullAt(5) ? null : row.getBinary(5);
            ArrayData items = row.isNullAt(6) ? null : row.getArray(6);
            headers = new Header[items == null ? 0 : items.numElements()];
            for (int i = 0; i < headers.length; i++) {
                InternalRow header = items.getStruct(i, 2);
                byte[] content = header.isNullAt(1) ? null : header.getBinary(1);
                headers[i] = new RecordHeader(header.getUTF8String(0).toString(), content);
            }
            selected = row.getBoolean(7);
        }

        private void addSource() {
            if (number != lastNumber || !topic.equals(lastTopic)) {
                lastTopic = topic;
                lastNumber = number;
                lastIndex = ranges.partition(AuditRanges.name(topic, number));
            }
            if (lastIndex >= 0 && ranges.find(lastIndex, offset) >= 0) {
                add(lastIndex, offset, selected ? SELECTED : FILTERED, fingerprint());
            }
        }

        /**
         * A segment says which source record it is, or the last header; those before it came with that record.
         */
        private void addTarget() {
            if (ranges.segments.find(topic, number, offset)) {
                addDelivered(ranges.segments.partition(), ranges.segments.offset());
                return;
            }
            int last = headers.length - 1;
            if (last < 0 || !headers[last].key().equals(job.header)) {
                return;
            }
            byte[] text = headers[last].value();
            int start = text == null ? 0 : prefix(text);
            int bar = start == 0 ? -1 : indexOf(text, start);
            int second = bar < 0 ? -1 : indexOf(text, bar + 1);
            int third = second < 0 ? -1 : indexOf(text, second + 1);
            if (third < 0) {
                return;
            }
            int index = ranges.partition(new String(text, start, second - start, StandardCharsets.ISO_8859_1));
            addDelivered(index, number(text, second + 1, third));
        }

        private void addDelivered(int index, long from) {
            if (index >= 0 && from >= 0 && ranges.find(index, from) >= 0) {
                add(index, from, DELIVERED, fingerprint());
            }
        }

        private long fingerprint() {
            if (!job.compares) {
                return 0L;
            }
            long found = Fingerprint.of(key, value);
            if (job.withTimestamp) {
                found = Fingerprint.add(found, timestamp);
            }
            return job.withHeaders ? Fingerprint.add(found, headers, job.replacedHeaders) : found;
        }

        private void add(int index, long at, int kind, long fingerprint) {
            long chunk = AuditRanges.key(index, at);
            if (lastEntries == null || chunk != lastKey) {
                Long boxed = Long.valueOf(chunk);
                lastEntries = (Entries) open.get(boxed);
                if (lastEntries == null) {
                    lastEntries = new Entries();
                    open.put(boxed, lastEntries);
                }
                lastKey = chunk;
            }
            lastEntries.add(((at & (AuditRanges.CHUNK - 1)) << 2) | kind, fingerprint);
            held++;
        }

        /** The length of the audited run's id and the bar after it; 0 for another run. */
        private int prefix(byte[] text) {
            for (int i = 0; i < job.runs.length; i++) {
                byte[] run = job.runs[i];
                int at = 0;
                while (at < run.length && at < text.length && text[at] == run[at]) {
                    at++;
                }
                if (at == run.length) {
                    return at;
                }
            }
            return 0;
        }

        private static int indexOf(byte[] text, int from) {
            for (int i = from; i < text.length; i++) {
                if (text[i] == '|') {
                    return i;
                }
            }
            return -1;
        }

        /** A plain number, or -1. Others may write headers that look like ours. */
        private static long number(byte[] text, int from, int until) {
            long found = 0L;
            for (int i = from; i < until; i++) {
                int digit = text[i] - '0';
                if (digit < 0 || digit > 9) {
                    return -1L;
                }
                found = found * 10L + digit;
            }
            return until == from || until - from > 18 ? -1L : found;
        }
    }
}
