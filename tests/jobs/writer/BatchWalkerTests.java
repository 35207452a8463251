package airflow_provider_kafka_spark.jobs.writer;

import java.io.OutputStream;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Iterator;
import java.util.List;
import java.util.Random;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.record.CompressionType;
import org.apache.kafka.common.record.DefaultRecordBatch;
import org.apache.kafka.common.record.MemoryRecords;
import org.apache.kafka.common.record.MemoryRecordsBuilder;
import org.apache.kafka.common.record.Record;
import org.apache.kafka.common.record.RecordBatch;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.utils.ByteBufferOutputStream;
import org.apache.kafka.common.utils.Crc32C;
import org.apache.kafka.common.utils.Utils;

/** Records as bytes against Kafka's own classes: what they read, what they write, and what hostile bytes do. */
@SuppressWarnings({"cast", "rawtypes", "unchecked"})
public final class BatchWalkerTests {
    private static final int ATTRIBUTES = 21;
    private static final int HEADER = DefaultRecordBatch.RECORD_BATCH_OVERHEAD;
    private static final int MOST = 1024 * 1024;
    private static final CompressionType[] TYPES = CompressionType.values();

    private BatchWalkerTests() {
    }

    /** Random records of all kinds, with gaps and times in any order, are read as Kafka reads them. */
    public static void readsWhatKafkaReads() throws Exception {
        Random random = new Random(7L);
        BatchWalker walker = new BatchWalker("orders", 0, MOST);
        for (int round = 0; round < 30; round++) {
            DefaultRecordBatch batch = batch(random, TYPES[round % TYPES.length], 1 + random.nextInt(40));
            equal(kafkas(batch), ours(walker, batch));
        }
    }

    /** Two snappy streams, one after the other, are one to its library. */
    public static void readsSnappyStreamsThatFollowEachOther() throws Exception {
        DefaultRecordBatch plain = batch(new Random(10L), CompressionType.NONE, 30);
        byte[] all = bytes(plain);
        int middle = (all.length + HEADER) / 2;
        ByteBufferOutputStream both = new ByteBufferOutputStream(MOST);
        both.write(all, 0, HEADER);
        snappy(all, HEADER, middle, both);
        snappy(all, middle, all.length, both);
        DefaultRecordBatch two = ofSnappy(both);
        equal(kafkas(plain), kafkas(two));
        equal(kafkas(plain), ours(new BatchWalker("orders", 0, MOST), two));
    }

    /** What the library would end the executor for, or take half a gigabyte for, is an error before. */
    public static void whatFollowsASnappyStreamIsChecked() throws Exception {
        byte[] all = bytes(batch(new Random(11L), CompressionType.NONE, 5));
        ByteBuffer heads = ByteBuffer.allocate(16 * 65000);
        while (heads.hasRemaining()) {
            heads.putLong(0x82534e4150505900L).putInt(1).putInt(1);
        }
        byte[][] ends = {heads.array(), {0x1f, -1, -1, -1}, {-128, 0, 0, 0}, {0, 0, 0, 0}};
        for (int i = 0; i < ends.length; i++) {
            ByteBufferOutputStream stream = new ByteBufferOutputStream(MOST);
            stream.write(all, 0, HEADER);
            snappy(all, HEADER, all.length, stream);
            stream.write(ends[i], 0, ends[i].length);
            check(isDamaged(new BatchWalker("orders", 0, MOST), ofSnappy(stream)), "end " + i + " is an error");
        }
    }

    /** What is collected is read by Kafka as it was, with the deltas of its new batch. */
    public static void writesWhatKafkaReads() throws Exception {
        Random random = new Random(8L);
        BatchWalker walker = new BatchWalker("orders", 0, MOST);
        TargetBatch target = new TargetBatch(0, 10 * MOST);
        HeaderBytes headers = new HeaderBytes(true, new Provenance(settings("null"), piece()));
        for (int round = 0; round < 20; round++) {
            DefaultRecordBatch batch = batch(random, TYPES[round % TYPES.length], 1 + random.nextInt(300));
            walker.open(batch);
            while (walker.next()) {
                headers.read(walker);
                int size = target.sizeOf(walker, headers, walker.timestamp);
                target.append(walker, headers, walker.timestamp, size, null);
            }
            DefaultRecordBatch written = written(target);
            check(written.isValid(), "its checksum is right");
            check(written.lastOffset() == target.count() - 1, "it has as many offsets as records");
            List expected = kafkas(batch);
            List found = kafkas(written);
            for (int i = 0; i < expected.size(); i++) {
                String text = (String) expected.get(i);
                expected.set(i, i + text.substring(text.indexOf(' ')));
            }
            equal(expected, found);
            check(written.maxTimestamp() == maxTimestamp(written), "its largest time is right");
            target.clear();
        }
    }

    /** The header takes the place of all earlier ones of its name, is the last one, and the others keep their order. */
    public static void theHeaderIsTheLastOne() throws Exception {
        String value = "run|orders|0|5|-7";
        Header[] before = {header("a", "1"), header("from", "old"), header("a", "2"), header("from", "older")};
        check(withHeader(before, true).equals("a=1,a=2,from=" + value), withHeader(before, true));
        check(withHeader(before, false).equals("from=" + value), withHeader(before, false));
        check(withHeader(new Header[0], true).equals("from=" + value), withHeader(new Header[0], true));
    }

    /** Keys go where Kafka's own producer sends them. */
    public static void keysHaveThePartitionOfTheJavaProducer() {
        Random random = new Random(9L);
        for (int size = 0; size < 70; size++) {
            byte[] all = new byte[size + 9];
            random.nextBytes(all);
            byte[] key = Arrays.copyOfRange(all, 4, 4 + size);
            check(KeyHash.murmur2(ByteBuffer.wrap(all), 4, size) == Utils.murmur2(key), "a key of " + size + " bytes");
            check(
                KeyHash.partition(ByteBuffer.wrap(all), 4, size, 7) == Utils.toPositive(Utils.murmur2(key)) % 7,
                "the partition of a key of " + size + " bytes"
            );
        }
    }

    /** Each byte of a batch with a right checksum changed: it is an error wherever it is one for Kafka. */
    public static void aChangedByteIsReadAsKafkaReadsItOrAnError() throws Exception {
        BatchWalker walker = new BatchWalker("orders", 0, MOST);
        int failed = 0;
        for (CompressionType type : TYPES) {
            byte[] whole = bytes(batch(new Random(3L), type, 2));
            for (int at = ATTRIBUTES; at < whole.length; at++) {
                for (int bit = 1; bit < 256; bit <<= 1) {
                    failed += changed(walker, whole, at, bit) ? 1 : 0;
                }
            }
        }
        check(failed > 200, failed + " changes were errors");
    }

    /** Lengths that lie, numbers of too many bytes and records that are not there. */
    public static void whatLiesIsAnError() throws Exception {
        // Size, attributes, time, offset, key size, value size, headers.
        byte[][] lies = {
            {12, 0, 0, 0, 1, 1},
            {14, 0, 0, 0, 1, 1, 0},
            {10, 0, 0, 0, 1, 1, 0},
            {12, 0, 0, 0, 40, 1, 0},
            {12, 0, 0, 0, 1, 100, 0},
            {12, 0, 0, 0, 1, 1, 1},
            {12, 0, 0, 0, 1, 1, 127},
            {12, 0, 0, 2, 1, 1, 0},
            {12, 0, 0, 1, 1, 1, 0},
            {-1, -1, -1, -1, 15, 0, 0, 0, 1, 1, 0},
            {-1, -1, -1, -1, -1, -1, -1, -1, -1, -1, 1, 0},
            {36, 0, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, 1, 0, 1, 1, 0},
            {30, 0, 0, -1, -1, -1, -1, -1, -1, -1, -1, -1, 1, 1, 1, 0},
            {16, 0, 0, 0, 1, 1, 2, 1, 0},
            {1},
            {},
        };
        BatchWalker walker = new BatchWalker("orders", 0, MOST);
        for (int i = 0; i < lies.length; i++) {
            check(isDamaged(walker, raw(lies[i], 1)), "lie " + i + " is an error");
        }
        // As many as a larger record may have.
        byte[] manyHeaders = {14, 0, 0, 0, 1, 1, (byte) 0xD0, 0x0F};
        check(isDamaged(walker, raw(manyHeaders, 1)), "1,000 headers in no byte are an error");
        int places = places(walker);
        check(places < 1000, places + " places for the parts of headers");
        byte[] right = {12, 0, 0, 0, 1, 1, 0};
        check(!isDamaged(walker, raw(right, 1)), "the truth is none");
        for (int count : new int[] {0, 2, -1, Integer.MAX_VALUE, Integer.MIN_VALUE}) {
            check(isDamaged(walker, raw(right, count)), count + " records are an error");
        }
    }

    /** However much a batch decompresses to, no more memory is taken than a record may have. */
    public static void aBombTakesNoMemory() throws Exception {
        BatchWalker walker = new BatchWalker("orders", 0, MOST);
        byte[] large = new byte[64 * MOST];
        for (CompressionType type : TYPES) {
            if (type != CompressionType.NONE) {
                DefaultRecordBatch bomb = built(compression(type), large);
                check(isDamaged(walker, bomb), "a bomb of " + type + " is an error");
                Object window = Members.get(Members.field(BatchWalker.class, "source"), walker);
                int taken = ((RecordBytes) window).bytes().capacity();
                check(taken <= MOST, "a bomb of " + type + " took " + taken + " bytes");
            }
        }
    }

    /** A header needs two bytes, and its places more: a record that has no others is an error before they are made. */
    public static void aBombOfHeadersTakesNoMemory() throws Exception {
        BatchWalker walker = new BatchWalker("orders", 0, MOST);
        for (CompressionType type : TYPES) {
            check(isDamaged(walker, ofHeaders(type, 400000)), "a bomb of headers in " + type + " is an error");
            int places = places(walker);
            check(4 * places <= MOST, "a bomb of headers in " + type + " took " + places + " places");
            check(!isDamaged(walker, ofHeaders(type, MOST / 64)), "as many as can be read in " + type + " are none");
        }
    }

    private static int places(BatchWalker walker) {
        return ((int[]) Members.get(Members.field(BatchWalker.class, "headers"), walker)).length;
    }

    /** A record with so many headers of no bytes. */
    private static DefaultRecordBatch ofHeaders(CompressionType type, int count) throws Exception {
        Header[] headers = new Header[count];
        Arrays.fill(headers, new RecordHeader("", new byte[0]));
        MemoryRecordsBuilder builder = MemoryRecords.builder(
            ByteBuffer.allocate(MOST), compression(type), TimestampType.CREATE_TIME, 0L
        );
        builder.append(1L, (ByteBuffer) null, null, headers);
        return first(builder.build());
    }

    private static DefaultRecordBatch batch(Random random, CompressionType type, int count) {
        MemoryRecordsBuilder builder = new MemoryRecordsBuilder(
            ByteBuffer.allocate(MOST), RecordBatch.MAGIC_VALUE_V2, compression(type), TimestampType.CREATE_TIME,
            100L, RecordBatch.NO_TIMESTAMP, RecordBatch.NO_PRODUCER_ID, RecordBatch.NO_PRODUCER_EPOCH,
            RecordBatch.NO_SEQUENCE, false, false, 5, MOST
        );
        long offset = 100L;
        for (int i = 0; i < count; i++) {
            Header[] headers = new Header[random.nextInt(random.nextInt(10) == 0 ? 200 : 4)];
            for (int h = 0; h < headers.length; h++) {
                headers[h] = new RecordHeader("name" + random.nextInt(3), some(random, 20));
            }
            long time = random.nextInt(20) == 0 ? random.nextLong() >>> 1 : 1000L * random.nextInt(1000);
            builder.appendWithOffset(
                offset, time, some(random, 30), some(random, random.nextInt(20) == 0 ? 2000 : 200), headers
            );
            offset += random.nextInt(4) == 0 ? 1 + random.nextInt(300) : 1;
        }
        return first(builder.build());
    }

    /** The compiler of the writer calls no static method of an interface. */
    static Compression compression(CompressionType type) {
        Object builder = Members.call(
            Members.method(Compression.class, "of", new Class[] {CompressionType.class}), null, new Object[] {type}
        );
        return (Compression) ((Compression.Builder) builder).build();
    }

    private static void snappy(byte[] bytes, int from, int until, ByteBufferOutputStream target) throws Exception {
        OutputStream stream = compression(CompressionType.SNAPPY).wrapForOutput(target, RecordBatch.MAGIC_VALUE_V2);
        stream.write(bytes, from, until - from);
        stream.close();
    }

    private static DefaultRecordBatch ofSnappy(ByteBufferOutputStream written) {
        ByteBuffer batch = (ByteBuffer) written.buffer().duplicate().flip();
        batch.putInt(8, batch.limit() - 12);
        batch.putShort(ATTRIBUTES, (short) CompressionType.SNAPPY.id);
        return first(MemoryRecords.readableRecords(batch));
    }

    private static byte[] some(Random random, int most) {
        if (random.nextInt(5) == 0) {
            return null;
        }
        byte[] bytes = new byte[random.nextInt(most)];
        random.nextBytes(bytes);
        return bytes;
    }

    private static DefaultRecordBatch built(Compression compression, byte[] value) {
        MemoryRecordsBuilder builder = MemoryRecords.builder(
            ByteBuffer.allocate(MOST), compression, TimestampType.CREATE_TIME, 0L
        );
        builder.append(1L, null, value);
        return first(builder.build());
    }

    private static DefaultRecordBatch first(MemoryRecords records) {
        return (DefaultRecordBatch) records.batches().iterator().next();
    }

    private static byte[] bytes(DefaultRecordBatch batch) {
        ByteBuffer all = ByteBuffer.allocate(batch.sizeInBytes());
        batch.writeTo(all);
        return all.array();
    }

    /** A batch of these bytes, as an uncompressed one that says it has so many records. */
    private static DefaultRecordBatch raw(byte[] records, int count) {
        ByteBuffer all = ByteBuffer.allocate(DefaultRecordBatch.RECORD_BATCH_OVERHEAD + records.length);
        DefaultRecordBatch.writeHeader(
            all, 0L, 0, all.capacity(), RecordBatch.MAGIC_VALUE_V2, CompressionType.NONE, TimestampType.CREATE_TIME, 0L, 0L,
            -1L, (short) -1, -1, false, false, false, -1, count
        );
        all.position(DefaultRecordBatch.RECORD_BATCH_OVERHEAD);
        all.put(records);
        all.flip();
        return first(MemoryRecords.readableRecords(all));
    }

    private static DefaultRecordBatch written(TargetBatch target) {
        ByteBuffer all = target.plain();
        target.writeHeader(all, CompressionType.NONE);
        PackedBatch packed = new PackedBatch(all, target.count(), target.maxTimestamp());
        return first(new ReadyBatch(ByteBuffer.allocate(all.limit()), packed).build());
    }

    /** Whether a batch with one changed bit is an error; otherwise it is read as Kafka reads it. */
    private static boolean changed(BatchWalker walker, byte[] whole, int at, int bit) {
        byte[] copy = (byte[]) whole.clone();
        copy[at] = (byte) (copy[at] ^ bit);
        ByteBuffer all = ByteBuffer.wrap(copy);
        all.putInt(DefaultRecordBatch.CRC_OFFSET, (int) Crc32C.compute(copy, ATTRIBUTES, copy.length - ATTRIBUTES));
        DefaultRecordBatch batch = first(MemoryRecords.readableRecords(all));
        String what = "byte " + at + ", bit " + bit + " of " + whole.length;
        List found;
        try {
            found = ours(walker, batch);
        } catch (Exception error) {
            return true;
        }
        try {
            equal(kafkas(batch), found);
        } catch (RuntimeException error) {
            throw new AssertionError(what + " is an error for Kafka: " + error);
        } catch (AssertionError error) {
            throw new AssertionError(what + ": " + error.getMessage());
        }
        return false;
    }

    private static boolean isDamaged(BatchWalker walker, DefaultRecordBatch batch) throws Exception {
        try {
            ours(walker, batch);
            return false;
        } catch (RuntimeException error) {
            return true;
        }
    }

    private static List ours(BatchWalker walker, DefaultRecordBatch batch) throws Exception {
        ArrayList found = new ArrayList();
        walker.open(batch);
        while (walker.next()) {
            StringBuilder text = new StringBuilder().append(walker.offset).append(' ').append(walker.timestamp);
            text.append(' ').append(shown(walker.bytes, walker.keyAt, walker.keySize));
            text.append(' ').append(shown(walker.bytes, walker.valueAt, walker.valueSize));
            for (int i = 0; i < walker.headerCount; i++) {
                int name = walker.header(i, BatchWalker.NAME);
                int value = walker.header(i, BatchWalker.VALUE);
                text.append(' ').append(
                    new String(walker.bytes, name, walker.header(i, BatchWalker.NAME_SIZE), "UTF-8")
                );
                text.append('=').append(shown(walker.bytes, value, walker.header(i, BatchWalker.VALUE_SIZE)));
            }
            found.add(text.toString());
        }
        return found;
    }

    private static List kafkas(DefaultRecordBatch batch) {
        ArrayList found = new ArrayList();
        for (Iterator each = batch.iterator(); each.hasNext(); ) {
            Record record = (Record) each.next();
            StringBuilder text = new StringBuilder().append(record.offset()).append(' ').append(record.timestamp());
            text.append(' ').append(shown(record.key())).append(' ').append(shown(record.value()));
            for (Header header : record.headers()) {
                byte[] value = header.value();
                text.append(' ').append(header.key()).append('=');
                text.append(value == null ? "null" : shown(value, 0, value.length));
            }
            found.add(text.toString());
        }
        return found;
    }

    private static String shown(ByteBuffer content) {
        byte[] bytes = content == null ? null : Utils.toArray(content);
        return bytes == null ? "null" : shown(bytes, 0, bytes.length);
    }

    private static String shown(byte[] bytes, int at, int size) {
        return size < 0 ? "null" : Arrays.toString(Arrays.copyOfRange(bytes, at, at + size)).replace(" ", "");
    }

    private static long maxTimestamp(DefaultRecordBatch batch) {
        long found = Long.MIN_VALUE;
        for (Iterator each = batch.iterator(); each.hasNext(); ) {
            found = Math.max(found, ((Record) each.next()).timestamp());
        }
        return found;
    }

    private static Header header(String name, String value) throws Exception {
        return new RecordHeader(name, value.getBytes("UTF-8"));
    }

    /** The headers of a record of offset 5 and time -7 in the target. */
    private static String withHeader(Header[] before, boolean keepsOthers) throws Exception {
        MemoryRecordsBuilder builder =
            MemoryRecords.builder(ByteBuffer.allocate(MOST), Compression.NONE, TimestampType.CREATE_TIME, 5L);
        builder.append(0L, ByteBuffer.wrap(new byte[1]), null, before);
        BatchWalker walker = new BatchWalker("orders", 0, MOST);
        walker.open(first(builder.build()));
        walker.next();
        // No builder takes a time below 0.
        walker.timestamp = -7L;
        HeaderBytes headers = new HeaderBytes(keepsOthers, new Provenance(settings("'from'"), piece()));
        headers.read(walker);
        TargetBatch target = new TargetBatch(0, MOST);
        target.append(walker, headers, 0L, target.sizeOf(walker, headers, 0L), null);
        StringBuilder text = new StringBuilder();
        for (Header header : ((Record) written(target).iterator().next()).headers()) {
            text.append(text.length() == 0 ? "" : ",").append(header.key()).append('=');
            text.append(new String(header.value(), "UTF-8"));
        }
        return text.toString();
    }

    private static Settings settings(String header) {
        return Settings.parse(SinkTests.SETTINGS.replace("'provenance_header': 'from'", "'provenance_header': " + header).replace('\'', '"'));
    }

    private static Piece piece() {
        return Piece.parse(SinkTests.PIECE.replace('\'', '"'));
    }

    private static void equal(List expected, List found) {
        check(found.equals(expected), "expected " + expected + ", got " + found);
    }

    private static void check(boolean isSo, String what) {
        if (!isSo) {
            throw new AssertionError(what);
        }
    }
}
