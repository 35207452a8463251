package airflow_provider_kafka_spark.jobs.writer;

import java.nio.charset.StandardCharsets;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.header.internals.RecordHeaders;

/** The header that says which run wrote a record, and which source record it is. */
final class Provenance {
    private final String header;
    private final StringBuilder text = new StringBuilder();
    private final int start;

    Provenance(Settings settings, Piece piece) {
        header = settings.provenanceHeader;
        text.append(settings.runId).append('|').append(piece.topic).append('|').append(piece.partition).append('|');
        start = text.length();
    }

    /** Does nothing if the job asks for no header. */
    void addTo(RecordHeaders headers, long offset, long timestamp) {
        if (header != null) {
            text.setLength(start);
            text.append(offset).append('|').append(timestamp);
            // Names of topics are ASCII.
            headers.add(new RecordHeader(header, text.toString().getBytes(StandardCharsets.ISO_8859_1)));
        }
    }
}
