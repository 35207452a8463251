package airflow_provider_kafka_spark.jobs.writer;

import java.nio.charset.StandardCharsets;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.header.internals.RecordHeaders;

/** The header that says which run wrote a record, and which source record it is. */
final class Provenance {
    private final String header;
    private final String deadLetterHeader;
    private final String reasonHeader;
    private final StringBuilder text = new StringBuilder();
    private final int start;

    Provenance(Settings settings, Piece piece) {
        header = settings.provenanceHeader;
        deadLetterHeader = settings.deadLetterSourceHeader;
        reasonHeader = settings.deadLetterReasonHeader;
        text.append(settings.runId).append('|').append(piece.topic).append('|').append(piece.partition).append('|');
        start = text.length();
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
