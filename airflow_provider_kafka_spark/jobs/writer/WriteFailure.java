package airflow_provider_kafka_spark.jobs.writer;

import com.fasterxml.jackson.databind.node.ObjectNode;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * A failure that has a name. Its message is one JSON text, which {@link TaskMonitor} takes to the driver:
 * {@code TaskFailure} in {@code writer_messages.py} says what each field means.
 */
final class WriteFailure extends RuntimeException {
    static final String REFUSED = "refused";
    static final String NOT_ACKNOWLEDGED = "not_acknowledged";
    static final String TAKEN_OVER = "taken_over";
    static final String TARGET_RECREATED = "target_recreated";
    static final String PROGRESS_UNKNOWN = "progress_unknown";
    static final String TRANSACTION_ENDED = "transaction_ended";
    static final String COULD_NOT_BEGIN = "could_not_begin";
    static final String COULD_NOT_COMMIT = "could_not_commit";
    static final String SOURCE_STALLED = "source_stalled";
    static final String SOURCE_DAMAGED = "source_damaged";
    static final String NULL_TOPIC = "null_topic";
    static final String UNKNOWN_SCHEMA_ID = "unknown_schema_id";
    static final String NULL_HEADER_KEY = "null_header_key";
    static final String OUTSIDE_OF_PIECE = "outside_of_piece";
    static final String EXPRESSION = "expression";
    static final String STACK_OVERFLOW = "stack_overflow";
    private static final long serialVersionUID = 1L;
    private static final String PREFIX = "WriteFailure: ";
    private static final Logger LOG = LoggerFactory.getLogger(WriteFailure.class);

    private WriteFailure(ObjectNode json, Throwable cause) {
        super(json.toString(), cause);
    }

    /** A failure that is not about one record, and that another attempt may not have. */
    static WriteFailure of(String kind, String message, Throwable cause) {
        return new WriteFailure(json(kind, message, null, 0, null, cause, ClientErrors.isPermanent(cause)), cause);
    }

    /** A failure of one record, which each attempt would have again. */
    static WriteFailure ofData(String kind, String message, String record) {
        return new WriteFailure(json(kind, message, record, 0, null, null, true), null);
    }

    /** A record that was not written. */
    static WriteFailure ofRecord(String record, int bytes, String target, Throwable cause) {
        boolean isPermanent = ClientErrors.isPermanent(cause);
        String kind = isPermanent ? REFUSED : NOT_ACKNOWLEDGED;
        String message = "Record " + record + " was not written to " + target + ".";
        return new WriteFailure(json(kind, message, record, bytes, target, cause, isPermanent), cause);
    }

    /** The same as an error that Spark's driver can read: it does not have the classes of this package. */
    IllegalStateException forDriver() {
        LOG.warn("The task fails.", this);
        IllegalStateException known = new IllegalStateException(PREFIX + getMessage());
        known.setStackTrace(getStackTrace());
        return known;
    }

    /** The JSON text in the message of {@link #forDriver}, or null. */
    static String find(String message) {
        return message != null && message.startsWith(PREFIX) ? message.substring(PREFIX.length()) : null;
    }

    private static ObjectNode json(
        String kind, String message, String record, int bytes, String target, Throwable cause, boolean isPermanent
    ) {
        return Fields.newObject().put("kind", kind).put("message", message).put("record", record)
            .put("record_bytes", bytes).put("target", target)
            .put("reason", cause == null ? "" : ClientErrors.reason(cause)).put("permanent", isPermanent);
    }
}
