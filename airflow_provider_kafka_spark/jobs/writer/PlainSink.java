package airflow_provider_kafka_spark.jobs.writer;

import org.apache.kafka.clients.producer.Producer;
import org.apache.kafka.common.KafkaException;
import org.apache.spark.TaskContext;

/**
 * At least once: no transactions. From time to time everything is acknowledged, and the task looks whether its job still
 * has the run, which narrows what a task that was suspended can write twice.
 */
final class PlainSink extends Sink {
    PlainSink(
        Settings settings, Piece piece, Producer<byte[], byte[]> producer, TargetCluster cluster, TaskContext context
    ) {
        super(settings, piece, producer, cluster, context);
    }

    @Override
    void open() {
        look();
    }

    @Override
    void openNext() {
        look();
    }

    @Override
    void beginTransaction() {
        // There are none.
    }

    @Override
    void endTransaction(long position) {
        look();
    }

    @Override
    void abort() {
        // What was sent stays.
    }

    @Override
    WriteFailure failure(String message, Throwable cause) {
        return WriteFailure.ofClient(message, cause);
    }

    private void look() {
        if (settings.mark != null) {
            try {
                checkOwner();
            } catch (KafkaException error) {
                throw failure("The owner of the run of piece " + piece.name + " is unknown.", error);
            }
        }
    }
}
