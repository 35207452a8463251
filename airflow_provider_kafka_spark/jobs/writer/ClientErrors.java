package airflow_provider_kafka_spark.jobs.writer;

import java.util.regex.Pattern;
import org.apache.kafka.common.errors.AuthenticationException;
import org.apache.kafka.common.errors.AuthorizationException;
import org.apache.kafka.common.errors.InvalidPidMappingException;
import org.apache.kafka.common.errors.InvalidProducerEpochException;
import org.apache.kafka.common.errors.InvalidTimestampException;
import org.apache.kafka.common.errors.InvalidTopicException;
import org.apache.kafka.common.errors.ProducerFencedException;
import org.apache.kafka.common.errors.RecordTooLargeException;

/** What the errors of Kafka's clients mean. The producer's own error may only point to an earlier one. */
final class ClientErrors {
    private static final int MAX_CAUSES = 10;
    /** The producer's errors about a partition that the target does not have. */
    private static final Pattern NO_PARTITION =
        Pattern.compile("(?s).*(Invalid partition: -|Partition \\d+ of topic \\S+ with partition count \\d+).*");

    private ClientErrors() {
    }

    /** Whether the brokers take nothing more from this producer. */
    static boolean isFenced(Throwable error) {
        return has(error, ProducerFencedException.class) || has(error, InvalidProducerEpochException.class)
            || isForgotten(error);
    }

    /** Whether the brokers no longer know the producer's transactional id. */
    static boolean isForgotten(Throwable error) {
        return has(error, InvalidPidMappingException.class);
    }

    private static boolean has(Throwable error, Class<?> kind) {
        Throwable cause = error;
        for (int depth = 0; cause != null && depth < MAX_CAUSES; depth++) {
            if (kind.isInstance(cause)) {
                return true;
            }
            cause = cause.getCause();
        }
        return false;
    }

    /** Whether every attempt would have the same error. */
    static boolean isPermanent(Throwable error) {
        Throwable cause = error;
        for (int depth = 0; cause != null && depth < MAX_CAUSES; depth++) {
            if (cause instanceof RecordTooLargeException || cause instanceof InvalidTimestampException
                || cause instanceof InvalidTopicException || cause instanceof AuthorizationException
                || cause instanceof AuthenticationException
                || cause instanceof org.apache.kafka.common.InvalidRecordException
                || NO_PARTITION.matcher(String.valueOf(cause.getMessage())).matches()) {
                return true;
            }
            cause = cause.getCause();
        }
        return false;
    }

    /** The error with its causes, in one line. */
    static String reason(Throwable error) {
        StringBuilder text = new StringBuilder(String.valueOf(error));
        Throwable cause = error.getCause();
        for (int depth = 0; cause != null && depth < MAX_CAUSES; depth++) {
            text.append("; caused by ").append(cause);
            cause = cause.getCause();
        }
        return text.toString().replace('\n', ' ');
    }
}
