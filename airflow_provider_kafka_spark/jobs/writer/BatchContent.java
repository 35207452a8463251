package airflow_provider_kafka_spark.jobs.writer;

import java.nio.ByteBuffer;

/** A whole record batch for the producer, but for the fields that {@link ReadyBatch} writes. */
interface BatchContent {
    int bytes();

    int count();

    long maxTimestamp();

    void writeTo(ByteBuffer memory);
}
