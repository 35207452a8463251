package airflow_provider_kafka_spark.jobs.writer;

import org.apache.kafka.common.record.MutableRecordBatch;
import org.apache.kafka.common.record.RecordBatch;
import org.apache.kafka.common.record.TimestampType;

/** A record batch of the source, of which only the header was read. */
final class SourceBatch {
    final MutableRecordBatch batch;
    final long first;
    final long last;
    /** How many records it has; 0 if only its records can tell. */
    final int count;
    final int bytes;

    SourceBatch(MutableRecordBatch batch) {
        this.batch = batch;
        first = batch.baseOffset();
        last = batch.lastOffset();
        bytes = batch.sizeInBytes();
        Integer found = batch.countOrNull();
        count = found == null ? 0 : found.intValue();
    }

    /** Why a broker would refuse it or change what is in it, as {@code TaskReport} has it; null if it would not. */
    String obstacle(long maxBytes) {
        if (batch.magic() != RecordBatch.MAGIC_VALUE_V2) {
            return "older_format";
        }
        if (count != last - first + 1 || batch.deleteHorizonMs().isPresent()) {
            return "compacted";
        }
        if (batch.timestampType() != TimestampType.CREATE_TIME) {
            return "log_append_time";
        }
        return bytes > maxBytes ? "too_large" : null;
    }
}
