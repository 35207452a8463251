package airflow_provider_kafka_spark.jobs.writer;

import org.apache.kafka.clients.producer.Producer;
import org.apache.spark.TaskContext;

/**
 * The producer's flush, with a bound. Its own waits for ever if the producer's I/O thread has ended: the time-outs of
 * records are the work of this thread, and an error of the JVM ends it, such as a lack of direct memory.
 */
final class Flush extends Thread {
    private static final long LOOK_MS = 100L;
    private final Producer<byte[], byte[]> producer;
    private volatile RuntimeException error;

    private Flush(Producer<byte[], byte[]> producer) {
        super("flush-producer");
        this.producer = producer;
        setDaemon(true);
    }

    /**
     * Flushes until the end, the deadline or the end of the task.
     *
     * @param deadline as {@code System.nanoTime()}
     * @throws RuntimeException as the producer's flush
     */
    static void until(long deadline, Producer<byte[], byte[]> producer, TaskContext context) {
        Flush flush = new Flush(producer);
        flush.start();
        try {
            while (!flush.isDone() && System.nanoTime() < deadline) {
                context.killTaskIfInterrupted();
            }
        } finally {
            // One that has no end leaves no thread.
            flush.interrupt();
        }
    }

    @Override
    public void run() {
        try {
            producer.flush();
        } catch (RuntimeException failed) {
            error = failed;
        }
    }

    private boolean isDone() {
        try {
            join(LOOK_MS);
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
            throw new IllegalStateException("The task was interrupted.", interrupted);
        }
        if (isAlive()) {
            return false;
        }
        if (error != null) {
            throw error;
        }
        return true;
    }
}
