package airflow_provider_kafka_spark.jobs.writer;

import java.util.Map;

/** What a task asks the target's brokers. Every call is bounded, and fails with a {@code KafkaException}. */
interface TargetCluster {
    /** The owner's mark and the committed progress of a piece, by one request. */
    RunState runState(Piece piece);

    /** The present ids of the topics that the settings name; a topic that does not exist is absent. */
    Map<String, String> targetIds();

    /**
     * How many tasks share the job's pace, as the driver says; negative while the job is paused; 0 if the driver does not
     * say.
     */
    long runningTasks();

    void close();
}
