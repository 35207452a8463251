package airflow_provider_kafka_spark.jobs.writer;

import java.util.Collections;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.producer.Producer;
import org.apache.kafka.common.KafkaException;
import org.apache.spark.TaskContext;

/**
 * Exactly once: each transaction also commits how far the piece is. The transactional id belongs to run and Spark task,
 * so that opening the first sink fences the task's earlier attempts, and each sink goes on from what they committed.
 */
final class TransactionalSink extends Sink {
    /** How long the end of a failed attempt waits for the abort of its transaction. */
    private static final long ABORT_MS = 5000L;

    TransactionalSink(
        Settings settings, Piece piece, Producer<byte[], byte[]> producer, TargetCluster cluster, TaskContext context
    ) {
        super(settings, piece, producer, cluster, context);
    }

    @Override
    void open() {
        try {
            // An attempt that lost its run must not fence the one that has it now.
            checkOwner();
            producer.initTransactions();
        } catch (KafkaException error) {
            throw failure("Piece " + piece.name + " could not begin.", error);
        }
        openNext();
    }

    /** What is loaded has everything that earlier attempts committed: they are fenced. */
    @Override
    void openNext() {
        try {
            if (!progress.load(checkOwner().progress)) {
                throw WriteFailure.of(
                    WriteFailure.PROGRESS_UNKNOWN, "The progress of piece " + piece.name + " must be in the group "
                        + piece.slotGroup + "; it is not. This Spark task has written nothing of it. A retry finds out "
                        + "what was delivered.", null
                );
            }
        } catch (KafkaException error) {
            throw failure("Piece " + piece.name + " could not begin.", error);
        }
    }

    @Override
    void beginTransaction() {
        producer.beginTransaction();
    }

    @Override
    void endTransaction(long position) {
        try {
            begin();
            producer.sendOffsetsToTransaction(
                Collections.singletonMap(piece.slotPartition, progress.toCommit(position)),
                new ConsumerGroupMetadata(piece.slotGroup)
            );
            producer.commitTransaction();
        } catch (KafkaException error) {
            String message = "Piece " + piece.name + " could not commit its transaction.";
            throw failure(message, error);
        }
    }

    /** Aborts an open transaction, which consumers of the target would wait for. */
    @Override
    void abort() {
        if (!isOpen()) {
            return;
        }
        // A task that is killed is interrupted, which must not keep it from the abort.
        boolean isInterrupted = Thread.interrupted();
        Abort abort = new Abort(producer);
        abort.start();
        try {
            abort.join(ABORT_MS);
        } catch (InterruptedException interrupted) {
            isInterrupted = true;
        }
        if (isInterrupted) {
            Thread.currentThread().interrupt();
        }
    }

    @Override
    WriteFailure failure(String message, Throwable cause) {
        if (!ClientErrors.isFenced(cause)) {
            return WriteFailure.ofClient(message, cause);
        }
        try {
            checkOwner();
        } catch (WriteFailure takenOver) {
            return takenOver;
        } catch (KafkaException unknown) {
            cause.addSuppressed(unknown);
        }
        String why = ClientErrors.isForgotten(cause)
            ? "they have forgotten its transactional id, which rested for longer than their "
                + "transactional.id.expiration.ms. Nothing of it is in the target. A retry goes on from what was "
                + "committed, with the id anew."
            : "it was open for longer than transaction.timeout.ms, or another attempt of the same task took over. "
                + "Nothing of it is in the target. A retry goes on from what was committed; if it happens again, raise "
                + "kafka.transaction.timeout.ms in sink_options.";
        return WriteFailure.of(
            WriteFailure.TRANSACTION_ENDED, "The brokers ended the transaction of piece " + piece.name + ": " + why,
            cause
        );
    }

    /** Brokers that are away must not hold the end of a task. */
    private static final class Abort extends Thread {
        private final Producer<byte[], byte[]> producer;

        Abort(Producer<byte[], byte[]> producer) {
            super("abort-transaction");
            this.producer = producer;
            setDaemon(true);
        }

        @Override
        public void run() {
            try {
                producer.abortTransaction();
            } catch (RuntimeException error) {
                // It is fenced, closed or out of reach: the broker aborts, at the latest at the transaction's time-out.
                Thread.yield();
            }
        }
    }
}
