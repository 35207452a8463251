package airflow_provider_kafka_spark.jobs.writer;

import java.util.Iterator;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.spark.QueryContext;
import org.apache.spark.SparkThrowable;
import org.apache.spark.TaskKilledException;
import org.apache.spark.api.java.function.FlatMapFunction;
import org.apache.spark.unsafe.Platform;

/**
 * Passes the rows that Spark SQL computes of records. Where an expression fails, Spark's error quotes the record, and
 * the logs, Spark's UI and Airflow would show it: the failure names the record and the kind of error instead.
 */
@SuppressWarnings({"deprecation", "rawtypes"})
public final class ComputedRows implements FlatMapFunction {
    private static final long serialVersionUID = 1L;
    /** Errors that pass through them are no expression's, and quote no record. */
    private static final String[] OTHERS = {
        "org.apache.kafka.", "org.apache.spark.sql.kafka010.", "org.apache.spark.streaming.kafka010.",
        "org.apache.spark.broadcast.", "org.apache.spark.storage.", "org.apache.spark.memory."
    };
    private static final int LONGEST_FRAGMENT = 200;

    @Override
    public Iterator call(Object rows) {
        RecordHandoff.clear();
        return new Guarded((Iterator) rows);
    }

    private static final class Guarded implements Iterator {
        private final Iterator rows;

        Guarded(Iterator rows) {
            this.rows = rows;
        }

        @Override
        public boolean hasNext() {
            try {
                return rows.hasNext();
            } catch (Throwable error) {
                throw fail(error);
            }
        }

        @Override
        public Object next() {
            try {
                return rows.next();
            } catch (Throwable error) {
                throw fail(error);
            }
        }

        @Override
        public void remove() {
            throw new UnsupportedOperationException();
        }
    }

    /** Also checked exceptions, which Scala throws unannounced. */
    private static RuntimeException fail(Throwable error) {
        ConsumerRecord record = RecordHandoff.last();
        String name = record == null
            ? null : RecordCursor.nameOf(record.topic(), record.partition(), record.offset());
        String shown = name == null ? "a record" : "record " + name;
        if (error instanceof StackOverflowError) {
            // Spark would end the executor for it, and with it other tasks.
            String message = "An expression needs too much stack for " + shown + ". An expression in where, columns or "
                + "target_topic_expr is too deep, or a regular expression in it needs too much stack for the value: "
                + "simplify it, or leave such records out with where.";
            return WriteFailure.ofData(WriteFailure.EXPRESSION, message, name).forDriver();
        }
        if (record != null && isOfTimestamp(error)) {
            String message = "Record " + name + " has the timestamp " + record.timestamp()
                + " ms, which Spark SQL cannot hold: it ends in the year 294247. Such a number is of microseconds or "
                + "nanoseconds. Without SQL such records are copied as they are: leave where, columns, reject_when and "
                + "target_topic_expr out (keys and headers are filters that need none), or leave out its offset.";
            return WriteFailure.ofData(WriteFailure.EXPRESSION, message, name).forDriver();
        }
        if (error instanceof Error || error instanceof TaskKilledException || isOfAnother(error)) {
            Platform.throwException(error);
        }
        String message = "An expression fails on " + shown + ": " + kind(error) + ". It would fail again: use "
            + "try_cast, get or coalesce, or leave such records out with where. What the record holds is not shown.";
        return WriteFailure.ofData(WriteFailure.EXPRESSION, message, name).forDriver();
    }

    /** Whether Spark's connector could not make its microseconds of a record's milliseconds. */
    private static boolean isOfTimestamp(Throwable error) {
        for (Throwable each = error; each != null; each = each.getCause()) {
            for (StackTraceElement frame : each.getStackTrace()) {
                if (each instanceof ArithmeticException && frame.getMethodName().equals("millisToMicros")) {
                    return true;
                }
            }
        }
        return false;
    }

    private static boolean isOfAnother(Throwable error) {
        for (Throwable each = error; each != null; each = each.getCause()) {
            for (StackTraceElement frame : each.getStackTrace()) {
                for (String prefix : OTHERS) {
                    if (frame.getClassName().startsWith(prefix)) {
                        return true;
                    }
                }
            }
        }
        return false;
    }

    /** Spark's name of the error, and the part of the expression; without them, the class of the first cause. */
    private static String kind(Throwable error) {
        String found = null;
        Throwable first = error;
        for (Throwable each = error; each != null; each = each.getCause()) {
            first = each;
            if (each instanceof SparkThrowable && ((SparkThrowable) each).getErrorClass() != null) {
                found = ((SparkThrowable) each).getErrorClass() + fragment((SparkThrowable) each);
            }
        }
        return found == null ? first.getClass().getSimpleName() : found;
    }

    private static String fragment(SparkThrowable error) {
        QueryContext[] contexts = error.getQueryContext();
        String text = contexts == null || contexts.length == 0 ? "" : contexts[0].fragment();
        if (text.length() > LONGEST_FRAGMENT) {
            text = text.substring(0, LONGEST_FRAGMENT) + "...";
        }
        return text.isEmpty() ? "" : " in " + text;
    }
}
