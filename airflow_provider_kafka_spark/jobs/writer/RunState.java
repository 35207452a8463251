package airflow_provider_kafka_spark.jobs.writer;

import org.apache.kafka.clients.consumer.OffsetAndMetadata;

/** What the target's brokers hold about a run: who has it, and how far one piece is. */
final class RunState {
    /** Null if no one has the run. */
    final Mark mark;
    /** What is committed in the piece's slot; null if nothing is, or if the piece has no slot. */
    final OffsetAndMetadata progress;

    RunState(Mark mark, OffsetAndMetadata progress) {
        this.mark = mark;
        this.progress = progress;
    }
}
