package airflow_provider_kafka_spark.jobs.writer;

import java.util.ArrayDeque;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.spark.api.java.function.Function;
import scala.Function1;

/**
 * Makes a row of each record, and passes the record on with it, to the writer of the same task. So SQL computes only
 * what an expression names, and the rest stays as it was.
 */
@SuppressWarnings({"rawtypes", "unchecked"})
public final class RecordHandoff implements Function {
    private static final long serialVersionUID = 1L;
    /** Of each thread that runs a task: the records whose rows the writer has not read yet, mostly one. */
    private static final ThreadLocal RECORDS = new ThreadLocal();

    private final Function1 toRow;

    /** @param toRow makes a row of a record */
    public RecordHandoff(Function1 toRow) {
        this.toRow = toRow;
    }

    @Override
    public Object call(Object record) {
        ArrayDeque records = (ArrayDeque) RECORDS.get();
        if (records == null) {
            records = new ArrayDeque();
            RECORDS.set(records);
        }
        records.add(record);
        return toRow.apply(record);
    }

    /** The next record, which the row of this offset was made of. */
    static ConsumerRecord take(long offset) {
        ArrayDeque records = (ArrayDeque) RECORDS.get();
        ConsumerRecord record = records == null ? null : (ConsumerRecord) records.poll();
        if (record == null || record.offset() != offset) {
            throw new IllegalStateException(
                "The row of offset " + offset + " came with the record "
                    + (record == null ? "of another thread" : String.valueOf(record.offset())) + "."
            );
        }
        return record;
    }

    /** The record that was passed on last, whose row may not be there yet; null where records come without rows. */
    static ConsumerRecord last() {
        ArrayDeque records = (ArrayDeque) RECORDS.get();
        return records == null ? null : (ConsumerRecord) records.peekLast();
    }

    /** Drops what an earlier task of this thread left. */
    static void clear() {
        RECORDS.remove();
    }
}
