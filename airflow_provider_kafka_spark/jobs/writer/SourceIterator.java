package airflow_provider_kafka_spark.jobs.writer;

import java.util.Iterator;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;

/**
 * The input of a task, of which each wait is short: Spark's consumer gives up after its poll time-out, and is asked
 * again until the source has given nothing for {@code stall_timeout_ms}. Batches that are left out count.
 */
final class SourceIterator {
    private final Iterator<?> input;
    private final Settings settings;
    private final Piece piece;
    private long lastRecordAt = System.nanoTime();
    private Exception stall;

    SourceIterator(Iterator<?> input, Settings settings, Piece piece) {
        this.input = input;
        this.settings = settings;
        this.piece = piece;
    }

    /**
     * The next input; null at the end, or if the source gave nothing within one poll: {@link #isStalled} says which.
     *
     * @param now {@code System.nanoTime()}
     */
    Object next(long now) throws Exception {
        if (stall == null) {
            lastRecordAt = now;
        }
        stall = null;
        try {
            return input.hasNext() ? input.next() : null;
        } catch (Exception error) {
            // Scala throws checked exceptions that Java does not see.
            if (!(error instanceof TimeoutException)
                && !(error instanceof org.apache.kafka.common.errors.TimeoutException)) {
                throw error;
            }
            stall = error;
            if (input instanceof BatchReader && ((BatchReader) input).hasMoved()) {
                lastRecordAt = System.nanoTime();
            }
            return null;
        }
    }

    boolean isStalled() {
        return stall != null;
    }

    /** Fails if the source has given nothing for too long. */
    void checkStall() {
        long waited = TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - lastRecordAt);
        if (waited >= settings.stallTimeoutMs) {
            throw WriteFailure.of(
                WriteFailure.SOURCE_STALLED, "The source of piece " + piece.name + " gave no record for " + waited
                    + " ms. A retry goes on from what was committed. Look at the brokers of the source, or raise "
                    + "kafkaConsumer.pollTimeoutMs in source_options.", stall
            );
        }
    }
}
