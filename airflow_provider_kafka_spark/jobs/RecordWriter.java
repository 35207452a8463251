package airflow_provider_kafka_spark.jobs;

import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.Arrays;
import java.util.Collection;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLongArray;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.Callback;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.spark.TaskContext;
import org.apache.spark.api.java.function.FlatMapFunction;
import org.apache.spark.api.java.function.Function;
import org.apache.spark.api.python.PythonUtils;
import org.apache.spark.kafka010.KafkaConfigUpdater;
import org.apache.spark.scheduler.AccumulableInfo;
import org.apache.spark.scheduler.SparkListener;
import org.apache.spark.scheduler.SparkListenerExecutorMetricsUpdate;
import org.apache.spark.scheduler.SparkListenerTaskEnd;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.util.LongAccumulator;
import scala.Function1;
import scala.Tuple4;

/**
 * Writes the records of one Spark task to Kafka and returns one JSON text: what became of each range.
 *
 * <p>Exactly once: the transactional id belongs to run and task, so that opening a task fences its earlier writers.
 * Each transaction also commits the task's position in the source, as an offset of a consumer group of its own, and the
 * next attempt continues from there.
 *
 * <p>The input is Kafka's own records, or rows as {@link Row} reads them. Spark's compiler of generated code
 * (Janino) compiles this file on the driver: no lambdas, raw collections. It is compiled against the Spark in use.
 */
@SuppressWarnings({"rawtypes", "unchecked"})
public final class RecordWriter implements FlatMapFunction {
    private static final long serialVersionUID = 1L;
    /** A transaction is committed after this time, so that consumers of the target see its records. */
    private static final long COMMIT_NANOS = 2000000000L;
    /** How long the end of a failed task waits for the abort of its transaction. */
    private static final long ABORT_MS = 5000L;
    /** Brokers take 4,096 bytes by default (offset.metadata.max.bytes). */
    private static final int MOST_METADATA = 3500;
    /** In place of metadata that would be too long. */
    private static final String UNKNOWN = "?";

    private final HashMap settings;
    private final String rangeTable;
    private final LongAccumulator recordsRead;

    /**
     * @param settings texts by name, see {@code record_writer.py}; producer properties have the prefix {@code kafka.}
     * @param rangeTable a line for each range: topic, partition, first offset, end, index, name of its task
     * @param recordsRead is increased with every record
     */
    public RecordWriter(HashMap settings, String rangeTable, LongAccumulator recordsRead) {
        this.settings = settings;
        this.rangeTable = rangeTable;
        this.recordsRead = recordsRead;
    }

    @Override
    public Iterator call(Object input) throws Exception {
        Iterator records = (Iterator) input;
        PassRecord.PASSED.remove();
        if (!records.hasNext()) {
            return Collections.emptyIterator();
        }
        Source source = settings.containsKey("columns") ? new Row(settings) : new KafkaRecord(settings);
        source.read(records.next());
        Ranges ranges = new Ranges(rangeTable);
        Task task = new Task(settings, source, ranges.nameOfTask(source));
        try {
            task.open();
            task.copy(source, records, ranges, recordsRead);
            return Collections.singletonList(task.report()).iterator();
        } catch (RuntimeException error) {
            task.abort();
            throw error;
        } finally {
            task.close();
        }
    }

    /** Passes the records that lie in a range; expressions must not see others. */
    public static final class InRange implements Function {
        private static final long serialVersionUID = 1L;

        private final String rangeTable;
        private transient Ranges ranges;

        public InRange(String rangeTable) {
            this.rangeTable = rangeTable;
        }

        @Override
        public Object call(Object input) {
            if (ranges == null) {
                ranges = new Ranges(rangeTable);
            }
            ConsumerRecord record = (ConsumerRecord) input;
            return Boolean.valueOf(ranges.find(record.topic(), record.partition(), record.offset()) != null);
        }
    }

    /**
     * Makes a row of each record, and passes the record on beside it, to the writer of the same task. So SQL computes
     * only what an expression names, and the rest stays as it was.
     */
    public static final class PassRecord implements Function {
        private static final long serialVersionUID = 1L;
        /** Of each thread that runs a task: the records whose rows the writer has not read yet, mostly one. */
        static final ThreadLocal PASSED = new ThreadLocal();

        private final Function1 toRow;

        /** @param toRow makes a row of a record */
        public PassRecord(Function1 toRow) {
            this.toRow = toRow;
        }

        @Override
        public Object call(Object record) {
            ArrayDeque passed = (ArrayDeque) PASSED.get();
            if (passed == null) {
                passed = new ArrayDeque();
                PASSED.set(passed);
            }
            passed.add(record);
            return toRow.apply(record);
        }

        /** The next record, which the row of this offset was made of. */
        static ConsumerRecord take(long offset) {
            ArrayDeque passed = (ArrayDeque) PASSED.get();
            ConsumerRecord record = passed == null ? null : (ConsumerRecord) passed.poll();
            if (record == null || record.offset() != offset) {
                throw new IllegalStateException(
                    "The row of offset " + offset + " came with the record "
                        + (record == null ? "of another thread" : String.valueOf(record.offset())) + "."
                );
            }
            return record;
        }
    }

    /** On the driver: how many records all tasks have read until now, from the executors' heartbeats. */
    public static final class ReadCounter extends SparkListener {
        private final HashMap byTask = new HashMap();
        private final LongAccumulator total;

        public ReadCounter(LongAccumulator total) {
            this.total = total;
        }

        public synchronized long recordsRead() {
            long sum = 0;
            for (Iterator each = byTask.values().iterator(); each.hasNext(); ) {
                sum += ((Long) each.next()).longValue();
            }
            return sum;
        }

        @Override
        public synchronized void onExecutorMetricsUpdate(SparkListenerExecutorMetricsUpdate event) {
            for (scala.collection.Iterator each = event.accumUpdates().iterator(); each.hasNext(); ) {
                Tuple4 task = (Tuple4) each.next();
                scala.collection.Iterator metrics = ((scala.collection.Iterable) task._4()).iterator();
                while (metrics.hasNext()) {
                    AccumulableInfo metric = (AccumulableInfo) metrics.next();
                    // Compared by id, because metrics in a heartbeat have no name.
                    if (metric.id() == total.id() && metric.update().isDefined()) {
                        byTask.put(task._1(), metric.update().get());
                    }
                }
            }
        }

        @Override
        public synchronized void onTaskEnd(SparkListenerTaskEnd event) {
            Long task = Long.valueOf(event.taskInfo().taskId());
            if (event.taskInfo().successful() && event.taskMetrics() != null) {
                byTask.put(task, Long.valueOf(event.taskMetrics().inputMetrics().recordsRead()));
            } else {
                byTask.remove(task);
            }
        }
    }

    /** One record to be written, and where it came from. One object is reused for all records of a task. */
    private abstract static class Source {
        String topic;
        int partition;
        long offset;
        long timestamp;
        boolean kept;
        byte[] key;
        byte[] value;
        RecordHeaders headers;
        String targetTopic;
        Integer targetPartition;

        abstract void read(Object input);

        String name() {
            return topic + "[" + partition + "]@" + offset;
        }
    }

    /** Kafka's own records: nothing is converted. */
    private static class KafkaRecord extends Source {
        private final boolean includeHeaders;
        private final boolean preservePartition;
        private final long windowStart;
        private final long windowEnd;

        KafkaRecord(Map settings) {
            targetTopic = (String) settings.get("target_topic");
            includeHeaders = settings.containsKey("include_headers");
            preservePartition = settings.containsKey("preserve_partition");
            windowStart = number(settings, "window_start_ms", Long.MIN_VALUE);
            windowEnd = number(settings, "window_end_ms", Long.MAX_VALUE);
        }

        @Override
        void read(Object input) {
            ConsumerRecord record = (ConsumerRecord) input;
            topic = record.topic();
            partition = record.partition();
            offset = record.offset();
            timestamp = record.timestamp();
            kept = timestamp >= windowStart && timestamp < windowEnd;
            key = (byte[]) record.key();
            value = (byte[]) record.value();
            headers = includeHeaders ? (RecordHeaders) record.headers() : new RecordHeaders();
            targetPartition = preservePartition ? Integer.valueOf(partition) : null;
        }
    }

    /**
     * Rows of Spark SQL, with the columns of {@code to_rows} in {@code transform.py}. What has no column comes from the
     * record that was passed on beside the row.
     */
    private static final class Row extends KafkaRecord {
        private final int offsetColumn;
        private final int keptColumn;
        private final int topicColumn;
        private final int partitionColumn;
        private final int timestampColumn;
        private final int keyColumn;
        private final int valueColumn;
        private final int headersColumn;
        private final int targetTopicColumn;
        private final int targetPartitionColumn;

        Row(Map settings) {
            super(settings);
            List columns = Arrays.asList(((String) settings.get("columns")).split(" "));
            offsetColumn = columns.indexOf("offset");
            keptColumn = columns.indexOf("_keep");
            topicColumn = columns.indexOf("topic");
            partitionColumn = columns.indexOf("partition");
            timestampColumn = columns.indexOf("timestamp");
            keyColumn = columns.indexOf("key");
            valueColumn = columns.indexOf("value");
            headersColumn = columns.indexOf("headers");
            targetTopicColumn = columns.indexOf("target_topic");
            targetPartitionColumn = columns.indexOf("target_partition");
        }

        @Override
        void read(Object input) {
            InternalRow row = (InternalRow) input;
            offset = row.getLong(offsetColumn);
            if (topicColumn < 0) {
                super.read(PassRecord.take(offset));
            } else {
                topic = row.getUTF8String(topicColumn).toString();
                partition = row.getInt(partitionColumn);
                timestamp = Math.floorDiv(row.getLong(timestampColumn), 1000L);
            }
            kept = row.getBoolean(keptColumn);
            if (!kept) {
                return;
            }
            if (keyColumn >= 0) {
                key = row.isNullAt(keyColumn) ? null : row.getBinary(keyColumn);
            }
            if (valueColumn >= 0) {
                value = row.isNullAt(valueColumn) ? null : row.getBinary(valueColumn);
            }
            if (headersColumn >= 0) {
                headers = row.isNullAt(headersColumn) ? new RecordHeaders() : headersOf(row.getArray(headersColumn));
            }
            if (targetTopicColumn >= 0) {
                if (row.isNullAt(targetTopicColumn)) {
                    throw new IllegalStateException("UNSUPPORTED: null topic present in the data, at record " + name());
                }
                targetTopic = row.getUTF8String(targetTopicColumn).toString();
            }
            if (targetPartitionColumn >= 0) {
                boolean isNull = row.isNullAt(targetPartitionColumn);
                targetPartition = isNull ? null : Integer.valueOf(row.getInt(targetPartitionColumn));
            }
        }

        private RecordHeaders headersOf(ArrayData items) {
            RecordHeaders found = new RecordHeaders();
            for (int i = 0; i < items.numElements(); i++) {
                InternalRow header = items.getStruct(i, 2);
                if (header == null || header.isNullAt(0)) {
                    throw new IllegalStateException("The headers of record " + name() + " have a null key.");
                }
                byte[] content = header.isNullAt(1) ? null : header.getBinary(1);
                found.add(new RecordHeader(header.getUTF8String(0).toString(), content));
            }
            return found;
        }
    }

    /** The counts of one range in this task; see {@code WriteResult} in {@code record_writer.py}. */
    private static final class Counts {
        final int index;
        final Acknowledged written = new Acknowledged();
        long read;
        long skipped;
        long before;

        Counts(int index) {
            this.index = index;
        }
    }

    /**
     * How many records are acknowledged, counted by the producer's own thread. In the middle of an array, so that no
     * cache line is shared with what the task's thread counts at the same time.
     */
    private static final class Acknowledged {
        private static final int MIDDLE = 16;

        private final AtomicLongArray count = new AtomicLongArray(2 * MIDDLE);

        void add() {
            // One thread writes, so this need not be atomic. Readers see it, and what was written before it, later.
            count.lazySet(MIDDLE, count.get(MIDDLE) + 1);
        }

        long get() {
            return count.get(MIDDLE);
        }
    }

    /** All planned ranges, by partition. */
    private static final class Ranges {
        private final HashMap byPartition = new HashMap();
        private OfPartition last;
        private Range current;

        Ranges(String table) {
            String[] lines = table.split("\n");
            for (int i = 0; i < lines.length; i++) {
                String[] fields = lines[i].split(" ");
                TopicPartition name = new TopicPartition(fields[0], Integer.parseInt(fields[1]));
                OfPartition of = (OfPartition) byPartition.get(name);
                if (of == null) {
                    of = new OfPartition(name);
                    byPartition.put(name, of);
                }
                of.add(new Range(fields));
            }
        }

        String nameOfTask(Source source) {
            OfPartition of = (OfPartition) byPartition.get(new TopicPartition(source.topic, source.partition));
            if (of == null) {
                throw new IllegalStateException("Record " + source.name() + " lies in no planned range.");
            }
            return of.nearest(source.offset).task;
        }

        /** The range that a record lies in, or null. */
        Range find(String topic, int partition, long offset) {
            if (last == null || last.name.partition() != partition || !last.name.topic().equals(topic)) {
                last = (OfPartition) byPartition.get(new TopicPartition(topic, partition));
                current = null;
            }
            if (last == null) {
                return null;
            }
            if (current == null || offset < current.from || offset >= current.until) {
                Range nearest = last.nearest(offset);
                current = offset >= nearest.from && offset < nearest.until ? nearest : null;
            }
            return current;
        }
    }

    private static final class OfPartition {
        final TopicPartition name;
        private final TreeMap byStart = new TreeMap();

        OfPartition(TopicPartition name) {
            this.name = name;
        }

        void add(Range range) {
            byStart.put(Long.valueOf(range.from), range);
        }

        /** The last range that starts at an offset or before it; else the first one. */
        Range nearest(long offset) {
            Map.Entry found = byStart.floorEntry(Long.valueOf(offset));
            return (Range) (found == null ? byStart.firstEntry() : found).getValue();
        }
    }

    private static final class Range {
        final long from;
        final long until;
        final int index;
        final String task;

        Range(String[] fields) {
            from = Long.parseLong(fields[2]);
            until = Long.parseLong(fields[3]);
            index = Integer.parseInt(fields[4]);
            task = fields[5];
        }
    }

    /** First and last offset of what was acknowledged in one partition of a target. */
    private static final class Written {
        final String topic;
        final int partition;
        long first = Long.MAX_VALUE;
        long last = -1;

        Written(String topic, int partition) {
            this.topic = topic;
            this.partition = partition;
        }

        void add(long from, long to) {
            first = Math.min(first, from);
            last = Math.max(last, to);
        }

        /** For the metadata of a committed offset: a line for each topic, numbers in base 36; UNKNOWN if too long. */
        static String format(Collection all) {
            TreeMap byTopic = new TreeMap();
            for (Iterator each = all.iterator(); each.hasNext(); ) {
                Written w = (Written) each.next();
                String before = (String) byTopic.get(w.topic);
                String numbers = base36(w.partition) + " " + base36(w.first) + " " + base36(w.last - w.first);
                byTopic.put(w.topic, (before == null ? w.topic : before) + " " + numbers);
            }
            StringBuilder text = new StringBuilder();
            for (Iterator each = byTopic.values().iterator(); each.hasNext(); ) {
                text.append((String) each.next()).append("\n");
            }
            return text.length() > MOST_METADATA ? UNKNOWN : text.toString();
        }

        static void parse(String text, Map all) {
            String[] lines = text.split("\n");
            for (int i = 0; i < lines.length; i++) {
                String[] fields = lines[i].split(" ");
                for (int j = 1; j + 2 < fields.length; j += 3) {
                    Written w = new Written(fields[0], Integer.parseInt(fields[j], 36));
                    long from = Long.parseLong(fields[j + 1], 36);
                    w.add(from, from + Long.parseLong(fields[j + 2], 36));
                    all.put(new TopicPartition(w.topic, w.partition), w);
                }
            }
        }

        private static String base36(long number) {
            return Long.toString(number, 36);
        }
    }

    /** How far the earlier attempts of a task came, and which driver may write for its run. */
    private static final class Progress {
        private final Map settings;
        private final Map login;
        /** Holds the progress of one task and plan. */
        final String group;
        private final HashSet partitions = new HashSet();
        /** Progress is committed for this partition, which only has to exist: the offset is one of the source. */
        TopicPartition partition;
        /** Whether it is unknown where the earlier attempts wrote to. */
        boolean isUnknown;
        /** Source offset up to which everything is done, exclusive. */
        long position = Long.MIN_VALUE;

        Progress(Map settings, Map login, String group) {
            this.settings = settings;
            this.login = login;
            this.group = group;
            String[] topics = ((String) settings.get("target_topics")).split(" ");
            for (int i = 0; i < topics.length; i++) {
                partitions.add(new TopicPartition(topics[i], 0));
            }
            partition = new TopicPartition(topics[0], 0);
        }

        /** Fails if another driver has taken over the run since this one began, or has finished it. */
        void checkOwner() {
            String owner = null;
            Map found = committed((String) settings.get("owner_group"));
            for (Iterator each = found.values().iterator(); each.hasNext(); ) {
                OffsetAndMetadata mark = (OffsetAndMetadata) each.next();
                owner = mark == null ? owner : mark.metadata();
            }
            if (!settings.get("owner").equals(owner)) {
                throw new IllegalStateException(
                    "RUN_TAKEN_OVER: task " + group + " must not write: " + (owner == null ? "nobody" : owner)
                        + " has the run, and this job is " + settings.get("owner") + "."
                );
            }
        }

        void load(Map writtenTo) {
            for (Iterator each = committed(group).entrySet().iterator(); each.hasNext(); ) {
                Map.Entry entry = (Map.Entry) each.next();
                OffsetAndMetadata found = (OffsetAndMetadata) entry.getValue();
                if (found != null && found.offset() > position) {
                    partition = (TopicPartition) entry.getKey();
                    position = found.offset();
                    isUnknown = found.metadata().equals(UNKNOWN);
                    Written.parse(found.metadata(), writtenTo);
                }
            }
        }

        private Map committed(String groupId) {
            Map config = new HashMap(login);
            config.put("group.id", groupId);
            config.put("enable.auto.commit", "false");
            // With this level the answer waits until a transaction that is being committed has ended.
            config.put("isolation.level", "read_committed");
            KafkaConsumer consumer =
                new KafkaConsumer(config, new ByteArrayDeserializer(), new ByteArrayDeserializer());
            try {
                return consumer.committed(partitions, Duration.ofSeconds(60));
            } finally {
                consumer.close(Duration.ofSeconds(5));
            }
        }
    }

    /** Aborts a transaction; brokers that are away must not hold the end of a task. */
    private static final class Abort extends Thread {
        private final KafkaProducer producer;

        Abort(KafkaProducer producer) {
            super("abort-transaction");
            this.producer = producer;
            setDaemon(true);
        }

        @Override
        public void run() {
            try {
                producer.abortTransaction();
            } catch (RuntimeException error) {
                // It is fenced, closed or out of reach: the broker aborts, at the latest at the transaction's time-out.
                Thread.yield();
            }
        }
    }

    /** One task: one producer, the records of one Kafka partition. */
    private static final class Task {
        private final Map settings;
        private final String topic;
        private final int partition;
        private final long firstOffset;
        private final TaskContext context = TaskContext.get();
        private final HashMap counts = new HashMap();
        private final HashMap writtenTo = new HashMap();
        private final StringBuilder provenanceText = new StringBuilder();
        private final int provenanceStart;
        private final String provenance;
        private final boolean keepTimestamps;
        private final Map properties = new HashMap();
        private final String id;
        private final long commitRecords;
        private KafkaProducer producer;
        private Progress progress;
        private Written lastWritten;
        private boolean inTransaction;
        private long transactionBegan;
        private long sentBefore;
        private long sent;
        private final Acknowledged acknowledged = new Acknowledged();
        private volatile IllegalStateException failure;

        Task(Map settings, Source firstRecord, String name) {
            this.settings = settings;
            topic = firstRecord.topic;
            partition = firstRecord.partition;
            firstOffset = firstRecord.offset;
            String prefix = (String) settings.get("transactional_prefix");
            id = prefix == null ? null : prefix + name;
            commitRecords = number(settings, "commit_records", Long.MAX_VALUE);
            provenance = (String) settings.get("provenance_header");
            keepTimestamps = settings.containsKey("preserve_timestamps");
            provenanceText.append(settings.get("run_id") + "|" + topic + "|" + partition + "|");
            provenanceStart = provenanceText.length();
            for (Iterator each = settings.entrySet().iterator(); each.hasNext(); ) {
                Map.Entry entry = (Map.Entry) each.next();
                String key = (String) entry.getKey();
                if (key.startsWith("kafka.")) {
                    properties.put(key.substring(6), entry.getValue());
                }
            }
        }

        private String name() {
            return topic + "[" + partition + "]";
        }

        void open() {
            // Where the options have no login, Spark may have obtained a token for these brokers.
            Map withLogin = new KafkaConfigUpdater("executor", PythonUtils.toScalaMap(properties))
                .setAuthenticationConfigIfNeeded().build();
            if (id == null) {
                producer = new KafkaProducer(withLogin, new ByteArraySerializer(), new ByteArraySerializer());
                return;
            }
            Progress stored = new Progress(settings, withLogin, id + "-" + settings.get("progress_key"));
            try {
                if (settings.containsKey("finished")) {
                    // An earlier try delivered all, and its report was lost: this one only counts.
                    load(stored);
                    stored.position = Long.MAX_VALUE;
                    progress = stored;
                    return;
                }
                if (context.attemptNumber() > 0) {
                    // A task that lost its run must not fence the one that has it now.
                    stored.checkOwner();
                }
                Map config = new HashMap(withLogin);
                config.put("transactional.id", id);
                producer = new KafkaProducer(config, new ByteArraySerializer(), new ByteArraySerializer());
                producer.initTransactions();
                stored.checkOwner();
                load(stored);
                progress = stored;
            } catch (KafkaException error) {
                throw new IllegalStateException("Task " + id + " could not begin: " + error, error);
            }
        }

        private void load(Progress stored) {
            stored.load(writtenTo);
            if (stored.position <= firstOffset) {
                // It is that of a stream's earlier batch: nothing of this one is done.
                writtenTo.clear();
                stored.isUnknown = false;
            }
        }

        void copy(Source source, Iterator records, Ranges ranges, LongAccumulator recordsRead) {
            Counts current = null;
            Range range = null;
            long end = 0;
            while (true) {
                if (failure != null) {
                    throw failure;
                }
                context.killTaskIfInterrupted();
                if (source.partition != partition || !source.topic.equals(topic)) {
                    throw new IllegalStateException("Record " + source.name() + " is in the task of " + name() + ".");
                }
                Range found = ranges.find(source.topic, source.partition, source.offset);
                if (found != null) {
                    if (found != range) {
                        range = found;
                        current = countsOf(found.index);
                    }
                    current.read++;
                    if (!source.kept) {
                        current.skipped++;
                    } else if (progress != null && source.offset < progress.position) {
                        current.before++;
                    } else {
                        send(source, current);
                    }
                    recordsRead.add(1L);
                    context.taskMetrics().inputMetrics().incRecordsRead(1L);
                }
                end = source.offset + 1;
                if (inTransaction && isDue()) {
                    commit(end);
                }
                if (!records.hasNext()) {
                    break;
                }
                source.read(records.next());
            }
            if (progress == null) {
                awaitAll();
            } else if (inTransaction || end > progress.position) {
                commit(end);
            }
        }

        private boolean isDue() {
            return sent - sentBefore >= commitRecords
                || System.nanoTime() - transactionBegan >= COMMIT_NANOS;
        }

        /** Commits what was sent, and with it that everything before this source offset is done. */
        private void commit(long position) {
            awaitAll();
            try {
                begin();
                String written = progress.isUnknown ? UNKNOWN : Written.format(writtenTo.values());
                OffsetAndMetadata done = new OffsetAndMetadata(position, written);
                producer.sendOffsetsToTransaction(
                    Collections.singletonMap(progress.partition, done), new ConsumerGroupMetadata(progress.group)
                );
                producer.commitTransaction();
            } catch (KafkaException error) {
                throw new IllegalStateException("Task " + id + " could not commit its transaction: " + error, error);
            }
            inTransaction = false;
            progress.position = position;
        }

        private void begin() {
            if (!inTransaction) {
                producer.beginTransaction();
                inTransaction = true;
                transactionBegan = System.nanoTime();
                sentBefore = sent;
            }
        }

        /** Aborts an open transaction, which consumers of the target would wait for. */
        void abort() {
            if (inTransaction) {
                Abort abort = new Abort(producer);
                abort.start();
                try {
                    abort.join(ABORT_MS);
                } catch (InterruptedException interrupted) {
                    Thread.currentThread().interrupt();
                }
            }
        }

        private Counts countsOf(int index) {
            Counts found = (Counts) counts.get(Integer.valueOf(index));
            if (found == null) {
                found = new Counts(index);
                counts.put(Integer.valueOf(index), found);
            }
            return found;
        }

        private void send(Source source, Counts range) {
            RecordHeaders headers = source.headers;
            if (provenance != null) {
                headers.add(new RecordHeader(provenance, provenanceOf(source)));
            }
            int size = (source.key == null ? 0 : source.key.length) + (source.value == null ? 0 : source.value.length);
            Sent callback = new Sent(this, range, source.offset, source.targetTopic, size);
            Long timestamp = keepTimestamps && source.timestamp >= 0 ? Long.valueOf(source.timestamp) : null;
            try {
                if (progress != null) {
                    begin();
                }
                sent++;
                producer.send(
                    new ProducerRecord(
                        source.targetTopic, source.targetPartition, timestamp, source.key, source.value, headers
                    ),
                    callback
                );
            } catch (RuntimeException error) {
                fail(callback, error);
                throw failure;
            }
        }

        private byte[] provenanceOf(Source source) {
            provenanceText.setLength(provenanceStart);
            provenanceText.append(source.offset).append('|').append(source.timestamp);
            // Names of topics are ASCII.
            return provenanceText.toString().getBytes(StandardCharsets.ISO_8859_1);
        }

        /** Waits until every record is acknowledged. The producer's flush does not wait for batches that were split. */
        private void awaitAll() {
            producer.flush();
            long limit = number(settings, "delivery_timeout_ms", 130000L);
            long deadline = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(limit);
            while (failure == null && acknowledged.get() < sent && System.nanoTime() < deadline) {
                context.killTaskIfInterrupted();
                pause();
            }
            if (failure != null) {
                throw failure;
            }
            if (acknowledged.get() < sent) {
                throw new IllegalStateException(
                    "The target acknowledged " + acknowledged.get() + " of " + sent + " records of " + name()
                        + " within " + limit + " ms."
                );
            }
        }

        private static void pause() {
            try {
                Thread.sleep(5);
            } catch (InterruptedException interrupted) {
                Thread.currentThread().interrupt();
                throw new IllegalStateException("The task was interrupted.", interrupted);
            }
        }

        /** Called by the producer's own thread, in which all acknowledgements arrive. */
        private void acknowledge(Counts range, RecordMetadata metadata) {
            range.written.add();
            Written target = lastWritten;
            if (target == null || target.partition != metadata.partition() || !target.topic.equals(metadata.topic())) {
                TopicPartition name = new TopicPartition(metadata.topic(), metadata.partition());
                target = (Written) writtenTo.get(name);
                if (target == null) {
                    target = new Written(metadata.topic(), metadata.partition());
                    writtenTo.put(name, target);
                }
                lastWritten = target;
            }
            if (metadata.hasOffset()) {
                target.add(metadata.offset(), metadata.offset());
            }
            acknowledged.add();
        }

        private synchronized void fail(Sent record, Exception cause) {
            if (failure == null) {
                failure = new IllegalStateException(
                    "Record " + name() + "@" + record.offset + " of " + record.size + " bytes was not written to "
                        + record.targetTopic + ": " + reasonOf(cause),
                    cause
                );
            }
        }

        /** The error with its causes, in one line: the producer's own error may only point to an earlier one. */
        private static String reasonOf(Throwable error) {
            StringBuilder text = new StringBuilder(String.valueOf(error));
            Throwable cause = error.getCause();
            for (int depth = 0; cause != null && depth < 10; depth++) {
                text.append("; caused by ").append(cause);
                cause = cause.getCause();
            }
            return text.toString().replace('\n', ' ');
        }

        String report() {
            StringBuilder text = new StringBuilder("{\"ranges\": [");
            for (Iterator each = counts.values().iterator(); each.hasNext(); ) {
                Counts c = (Counts) each.next();
                long written = c.written.get() + c.before;
                text.append("[" + c.index + ", " + c.read + ", " + written + ", " + c.skipped + ", " + c.before + "]");
                text.append(each.hasNext() ? ", " : "");
            }
            text.append("], \"targets\": [");
            for (Iterator each = writtenTo.values().iterator(); each.hasNext(); ) {
                Written w = (Written) each.next();
                text.append("[\"" + w.topic + "\", " + w.partition + ", " + w.first + ", " + w.last + "]");
                text.append(each.hasNext() ? ", " : "");
            }
            text.append("], \"unknown\": ").append(progress != null && progress.isUnknown);
            return text.append(", \"group\": \"" + (progress == null ? "" : progress.group) + "\"}").toString();
        }

        void close() {
            if (producer != null) {
                producer.close(Duration.ZERO);
            }
        }
    }

    /** Passes the acknowledgement or the error of one record to its task. */
    private static final class Sent implements Callback {
        private final Task task;
        private final Counts range;
        final long offset;
        final String targetTopic;
        final int size;

        Sent(Task task, Counts range, long offset, String targetTopic, int size) {
            this.task = task;
            this.range = range;
            this.offset = offset;
            this.targetTopic = targetTopic;
            this.size = size;
        }

        @Override
        public void onCompletion(RecordMetadata metadata, Exception error) {
            if (error == null) {
                task.acknowledge(range, metadata);
            } else {
                task.fail(this, error);
            }
        }
    }

    private static long number(Map settings, String name, long otherwise) {
        String text = (String) settings.get(name);
        return text == null ? otherwise : Long.parseLong(text);
    }
}
