package airflow_provider_kafka_spark.jobs.writer;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.utils.ByteUtils;

/** The header that says which run wrote a record, and which source record it is. */
final class Provenance {
    /** Two numbers of 20 characters, the line between them, and two sizes. */
    private static final int LARGEST = 51;
    private static final long RADIX = 10L;

    private final String header;
    private final String deadLetterHeader;
    private final String reasonHeader;
    private final StringBuilder text = new StringBuilder();
    private final int start;
    /** The value as far as it is the same for all records. */
    private final byte[] prefix;
    private final byte[] name;
    private final ByteBuffer encoded;
    private final int afterName;
    private final byte[] numbers = new byte[LARGEST];

    Provenance(Settings settings, Piece piece) {
        header = settings.provenanceHeader;
        deadLetterHeader = settings.deadLetterSourceHeader;
        reasonHeader = settings.deadLetterReasonHeader;
        text.append(settings.runId).append('|').append(piece.topic).append('|').append(piece.partition).append('|');
        start = text.length();
        prefix = text.toString().getBytes(StandardCharsets.ISO_8859_1);
        name = header == null ? null : header.getBytes(StandardCharsets.UTF_8);
        encoded = ByteBuffer.allocate(prefix.length + (name == null ? 0 : name.length) + LARGEST);
        if (name != null) {
            ByteUtils.writeVarint(name.length, encoded);
            encoded.put(name);
        }
        afterName = encoded.position();
    }

    /** The header's name; null if the job asks for none. */
    byte[] name() {
        return name;
    }

    /** The whole header of a record as bytes, from 0 to the limit of a buffer that is used again; null if there is none. */
    ByteBuffer encoded(BatchWalker record) {
        if (name == null) {
            return null;
        }
        int at = decimals(record.timestamp, numbers.length);
        numbers[--at] = '|';
        at = decimals(record.offset, at);
        encoded.clear();
        encoded.position(afterName);
        ByteUtils.writeVarint(prefix.length + numbers.length - at, encoded);
        encoded.put(prefix).put(numbers, at, numbers.length - at).flip();
        return encoded;
    }

    /** Write a number so that it ends before a place, and return where it begins. */
    private int decimals(long number, int end) {
        int at = end;
        long rest = number;
        do {
            numbers[--at] = (byte) ('0' + Math.abs(rest % RADIX));
            rest /= RADIX;
        } while (rest != 0);
        if (number < 0) {
            numbers[--at] = '-';
        }
        return at;
    }

    /** Adds the header if the job asks for it, and to each dead letter, which gets its reason as well. */
    void addTo(RecordCursor record) {
        String name = header;
        if (record.rejection != null) {
            name = deadLetterHeader;
            replace(record.headers, reasonHeader, record.rejection.getBytes(StandardCharsets.UTF_8));
        }
        if (name != null) {
            text.setLength(start);
            text.append(record.offset).append('|').append(record.timestamp);
            // Names of topics are ASCII.
            replace(record.headers, name, text.toString().getBytes(StandardCharsets.ISO_8859_1));
        }
    }

    /** The last copy counts: what an earlier one has written under this name goes. */
    private static void replace(RecordHeaders headers, String name, byte[] value) {
        headers.remove(name);
        headers.add(new RecordHeader(name, value));
    }
}
