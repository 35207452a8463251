package airflow_provider_kafka_spark.jobs.writer;

import com.fasterxml.jackson.databind.node.ObjectNode;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * A failure of a task by a code of {@code core.errors}, or by an error of Kafka's client. Its message is one JSON text,
 * which {@link TaskMonitor} takes to the driver: {@code TaskFailure} in {@code writer_messages.py} says what each field
 * means.
 */
final class WriteFailure extends RuntimeException {
    static final String OPTION = "KS103";
    static final String EXPRESSION = "KS104";
    static final String TARGET = "KS107";
    static final String TARGET_RECREATED = "KS108";
    static final String BROKER_UNAVAILABLE = "KS501";
    static final String JOB_FAILED = "KS701";
    static final String RUN_TAKEN_OVER = "KS708";
    static final String PROGRESS_UNKNOWN = "KS711";
    static final String TRANSACTION_ENDED = "KS712";
    static final String SOURCE_STALLED = "KS713";
    static final String SOURCE_DAMAGED = "KS715";
    static final String JOB_MEMORY = "KS716";
    private static final long serialVersionUID = 1L;
    private static final String PREFIX = "WriteFailure: ";
    private static final Logger LOG = LoggerFactory.getLogger(WriteFailure.class);

    private WriteFailure(ObjectNode json, Throwable cause) {
        super(json.toString(), cause);
    }

    /** A failure that is not about one record, and that another attempt may not have. */
    static WriteFailure of(String code, String message, Throwable cause) {
        return new WriteFailure(json(code, message, null, 0, null, cause, ClientErrors.isPermanent(cause)), cause);
    }

    /** The same, where the client's error says which it is. */
    static WriteFailure ofClient(String message, Throwable cause) {
        return of(null, message, cause);
    }

    /** A failure of one record, which each attempt would have again. */
    static WriteFailure ofData(String code, String message, String record) {
        return new WriteFailure(json(code, message, record, 0, null, null, true), null);
    }

    /** The memory of this JVM was not enough for a record; of one that was not read yet, {@code bytes} is 0. */
    static WriteFailure ofMemory(String record, int bytes, OutOfMemoryError cause) {
        return new WriteFailure(json(JOB_MEMORY, "", record, bytes, null, cause, false), cause);
    }

    /** A record that was not written. */
    static WriteFailure ofRecord(String record, int bytes, String target, Throwable cause) {
        String message = "Record " + record + " was not written to " + target + ".";
        boolean isPermanent = ClientErrors.isPermanent(cause);
        return new WriteFailure(json(null, message, record, bytes, target, cause, isPermanent), cause);
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
        String code, String message, String record, int bytes, String target, Throwable cause, boolean isPermanent
    ) {
        return Fields.newObject().put("code", code).put("message", message).put("record", record)
            .put("record_bytes", bytes).put("target", target)
            .put("reason", cause == null ? "" : ClientErrors.reason(cause)).put("permanent", isPermanent);
    }
}
