package airflow_provider_kafka_spark.jobs.writer;

import java.util.concurrent.TimeUnit;
import org.apache.kafka.common.KafkaException;
import org.apache.spark.TaskContext;

/**
 * Keeps a Spark task to its share of the job's pace. The tasks that run share it in equal parts; the driver commits how
 * many they are, as the offset of a group, and in the text beside it whether the job is paused. A task rests only where
 * no transaction is open: readers would wait for it, and a consumer group could not catch up past it.
 */
final class Pace {
    private static final long LOOK_NANOS = TimeUnit.SECONDS.toNanos(1L);
    /** So much is sent between two rests, and so much may be made up for after a delay. */
    private static final double BURST_SECONDS = 0.5;
    /** A task that is killed ends within this time. */
    private static final long LOOK_FOR_KILL_MS = 500L;
    private static final double NANOS = 1e9;

    private final Settings settings;
    private final TargetCluster cluster;
    private final TaskContext context;
    private final boolean isSet;
    private long running;
    private boolean isPaused;
    private long lookedAt;
    /** Until when what was sent is paid for, as {@code System.nanoTime()}. */
    private long paidUntil;
    private double burstRecords;
    private double burstBytes;

    Pace(Settings settings, TargetCluster cluster, TaskContext context) {
        this.settings = settings;
        this.cluster = cluster;
        this.context = context;
        isSet = settings.paceGroup != null;
        paidUntil = System.nanoTime();
        lookedAt = paidUntil - LOOK_NANOS;
        if (isSet) {
            share(settings.paceTasks);
            look();
        }
    }

    /** Whether it is time to commit and to rest. */
    boolean isDue(Sink sink) {
        return isSet && (sink.openRecords() >= burstRecords || sink.openBytes() >= burstBytes);
    }

    /** What is going to be committed has to be paid for. */
    void charge(Sink sink) {
        if (!isSet) {
            return;
        }
        double seconds = Math.max(
            sink.openRecords() / (double) settings.paceRecords, sink.openBytes() / (double) settings.paceBytes
        ) * running;
        long earliest = System.nanoTime() - (long) (BURST_SECONDS * NANOS);
        paidUntil = Math.max(paidUntil, earliest) + (long) (seconds * NANOS);
    }

    /** Returns when everything is paid for and the job is not paused. Nothing may be open. */
    void rest() {
        if (isSet) {
            settle();
            while (isPaused) {
                context.killTaskIfInterrupted();
                Sink.pause(LOOK_FOR_KILL_MS);
                look();
            }
        }
    }

    /** Returns when everything is paid for. Nothing may be open. */
    void settle() {
        if (!isSet) {
            return;
        }
        look();
        long left = paidUntil - System.nanoTime();
        while (left > 0) {
            context.killTaskIfInterrupted();
            Sink.pause(Math.min(TimeUnit.NANOSECONDS.toMillis(left) + 1L, LOOK_FOR_KILL_MS));
            look();
            left = paidUntil - System.nanoTime();
        }
    }

    private void look() {
        long now = System.nanoTime();
        if (now - lookedAt < LOOK_NANOS) {
            return;
        }
        lookedAt = now;
        try {
            long said = cluster.runningTasks();
            isPaused = said == 0 ? isPaused : said < 0;
            long found = Math.abs(said);
            if (found > 0 && found != running) {
                paidUntil = now + (long) ((paidUntil - now) * (found / (double) running));
                share(found);
            }
        } catch (KafkaException error) {
            // The next look may succeed; until then the share is what it was.
            return;
        }
    }

    private void share(long tasks) {
        running = tasks;
        burstRecords = Math.max(1.0, settings.paceRecords * BURST_SECONDS / tasks);
        burstBytes = Math.max(1.0, settings.paceBytes * BURST_SECONDS / tasks);
    }
}
