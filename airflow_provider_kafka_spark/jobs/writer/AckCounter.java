package airflow_provider_kafka_spark.jobs.writer;

import java.util.concurrent.atomic.AtomicLongArray;

/**
 * How many records are acknowledged, counted by the producer's own thread. In the middle of an array, so that no
 * cache line is shared with what the task's thread counts at the same time.
 */
final class AckCounter {
    private static final int MIDDLE = 16;

    private final AtomicLongArray count = new AtomicLongArray(2 * MIDDLE);

    void add(int records) {
        // One thread writes, so this need not be atomic. Readers see it, and what was written before it, later.
        count.lazySet(MIDDLE, count.get(MIDDLE) + records);
    }

    long get() {
        return count.get(MIDDLE);
    }
}
