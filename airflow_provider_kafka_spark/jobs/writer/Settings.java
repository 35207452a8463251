package airflow_provider_kafka_spark.jobs.writer;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.Map;
import org.apache.kafka.common.TopicPartition;

/** What all tasks of a job are to do: {@code WriterSettings} in {@code writer_messages.py} says what each field means. */
final class Settings {
    final String runId;
    final String provenanceHeader;
    /** {@code Transform} in {@code request.py}: who does a part of it reads that part. */
    final Fields transform;
    final Map<String, String> targetIds;
    /** Names of the columns of a row; null where the input is Kafka's records. */
    final String[] columns;
    /** Records of other times are counted, and copied. */
    final long countedFromMs;
    final long countedUntilMs;
    final long deliveryTimeoutMs;
    final long stallTimeoutMs;
    final long commitRecords;
    final long commitMs;
    /** The mark that the owner's group has while this job has the run; null if there is none. */
    final Mark mark;
    final String ownerGroup;
    /** For which the mark is committed. */
    final TopicPartition ownerPartition;
    /** Transactional ids begin with it; null for at least once. */
    final String idPrefix;
    final boolean isDelivered;
    /** Null if the job has no pace. */
    final String paceGroup;
    final long paceRecords;
    final long paceBytes;
    final long paceTasks;
    final String deadLetterSourceHeader;
    final String deadLetterReasonHeader;
    /** Null if none is rewritten. */
    final SchemaIds schemaIds;
    /** Whether offsets of the source are mapped to those of the target. */
    final boolean segments;
    /** Null if Spark's source reads the records. */
    final BatchSettings batches;
    final Map<String, String> producer;

    private Settings(Fields fields) {
        runId = fields.text("run_id");
        provenanceHeader = fields.optionalText("provenance_header");
        transform = fields.object("transform");
        targetIds = fields.map("target_ids");
        columns = texts(fields.optionalList("columns"));
        countedFromMs = fields.optionalNumber("counted_from_ms", Long.MIN_VALUE);
        countedUntilMs = fields.optionalNumber("counted_until_ms", Long.MAX_VALUE);
        deliveryTimeoutMs = fields.number("delivery_timeout_ms");
        stallTimeoutMs = fields.number("stall_timeout_ms");
        commitRecords = fields.number("commit_records");
        commitMs = fields.number("commit_ms");
        Fields owner = fields.optionalObject("owner");
        ownerGroup = owner == null ? null : owner.text("group");
        ownerPartition = owner == null ? null : new TopicPartition(owner.text("topic"), 0);
        mark = owner == null ? null : new Mark(owner.number("number"), owner.text("token"));
        if (owner != null) {
            owner.end();
        }
        idPrefix = fields.optionalText("id_prefix");
        isDelivered = fields.flag("delivered");
        Fields pace = fields.optionalObject("pace");
        paceGroup = pace == null ? null : pace.text("group");
        paceRecords = pace == null ? Long.MAX_VALUE : pace.optionalNumber("records_per_second", Long.MAX_VALUE);
        paceBytes = pace == null ? Long.MAX_VALUE : pace.optionalNumber("bytes_per_second", Long.MAX_VALUE);
        paceTasks = pace == null ? 1L : pace.number("tasks");
        if (pace != null) {
            pace.end();
        }
        deadLetterSourceHeader = fields.text("dead_letter_source_header");
        deadLetterReasonHeader = fields.text("dead_letter_reason_header");
        schemaIds = SchemaIds.of(transform);
        segments = fields.flag("segments");
        Fields passed = fields.optionalObject("batches");
        batches = passed == null ? null : new BatchSettings(passed);
        producer = fields.map("producer");
        fields.end();
    }

    static Settings parse(String text) {
        return new Settings(Fields.parse("WriterSettings", text));
    }

    private static String[] texts(JsonNode list) {
        if (list == null) {
            return null;
        }
        String[] texts = new String[list.size()];
        for (int i = 0; i < texts.length; i++) {
            texts[i] = Fields.item(list, i).asText();
        }
        return texts;
    }
}
