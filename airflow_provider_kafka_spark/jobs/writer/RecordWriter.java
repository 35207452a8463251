package airflow_provider_kafka_spark.jobs.writer;

import java.util.Collections;
import java.util.HashMap;
import java.util.Iterator;
import java.util.Map;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.spark.TaskContext;
import org.apache.spark.api.java.function.FlatMapFunction;
import org.apache.spark.api.python.PythonUtils;
import org.apache.spark.broadcast.Broadcast;
import org.apache.spark.kafka010.KafkaConfigUpdater;
import org.apache.spark.util.LongAccumulator;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Writes the records of one Spark task to Kafka and returns one JSON text: what became of each range.
 *
 * <p>Its input is Kafka's own records, or rows as {@link RowReader} reads them. Spark's compiler of generated code
 * (Janino) compiles this package on the driver, against the Spark in use: no lambdas, and a cast wherever a value comes
 * out of a generic class, which other compilers call redundant.
 */
@SuppressWarnings({"cast", "rawtypes", "unchecked"})
public final class RecordWriter implements FlatMapFunction {
    private static final long serialVersionUID = 1L;
    private static final Logger LOG = LoggerFactory.getLogger(RecordWriter.class);

    private final String settings;
    private final Broadcast pieces;
    private final LongAccumulator recordsRead;

    /**
     * @param settings {@code WriterSettings} as JSON
     * @param pieces a {@code Piece} as JSON for each Spark partition
     * @param recordsRead is increased with every record
     */
    public RecordWriter(String settings, Broadcast pieces, LongAccumulator recordsRead) {
        this.settings = settings;
        this.pieces = pieces;
        this.recordsRead = recordsRead;
    }

    @Override
    public Iterator call(Object records) throws Exception {
        try {
            String report = write(Settings.parse(settings), Piece.ofThisTask(pieces), (Iterator) records);
            return Collections.singletonList(report).iterator();
        } catch (WriteFailure failure) {
            throw failure.forDriver();
        }
    }

    private String write(Settings job, Piece piece, Iterator records) throws Exception {
        TaskContext context = TaskContext.get();
        RecordCursor cursor = job.columns == null ? new RecordCursor(job) : new RowReader(job);
        BatchReader batches = job.batches == null ? null : new BatchReader(job.batches, piece, login(job.batches.consumer));
        try {
            SourceIterator source = new SourceIterator(batches == null ? records : batches, job, piece);
            TaskWriter writer = new TaskWriter(piece, cursor, source, batches, recordsRead, context);
            try {
                return write(job, piece, writer, context);
            } catch (OutOfMemoryError error) {
                // Spark would end the whole JVM, and say nothing of the record.
                throw writer.outOfMemory(error);
            }
        } finally {
            if (batches != null) {
                batches.close();
            }
        }
    }

    private static String write(Settings job, Piece piece, TaskWriter writer, TaskContext context) throws Exception {
        Object first = writer.first();
        if (first == null) {
            return TaskReport.format(piece, writer, null);
        }
        Map login = login(job.producer);
        TargetCluster cluster = new AdminTargetCluster(job, piece, login);
        try {
            Sink sink = newSink(job, piece, login, cluster, context);
            copy(writer, first, sink, new Pace(job, cluster, context));
            return TaskReport.format(piece, writer, sink);
        } finally {
            cluster.close();
        }
    }

    private static void copy(TaskWriter writer, Object first, Sink sink, Pace pace) throws Exception {
        try {
            sink.open();
            LOG.info(
                "Piece " + sink.piece.name + " begins at offset " + sink.piece.first
                    + (sink.progress.resumedAt() == null ? "" : " and goes on at " + sink.progress.resumedAt())
            );
            writer.copy(first, sink, pace);
        } catch (Throwable error) {
            // Also checked exceptions, which Scala throws unannounced, and errors.
            sink.abort();
            if (error instanceof Error) {
                throw (Error) error;
            }
            throw (Exception) error;
        } finally {
            sink.close();
        }
    }

    /** A client's settings. Where they have no login, Spark may have obtained a token for these brokers. */
    private static Map login(Map settings) {
        return new KafkaConfigUpdater("executor", PythonUtils.toScalaMap(new HashMap(settings)))
            .setAuthenticationConfigIfNeeded().build();
    }

    private static Sink newSink(Settings job, Piece piece, Map login, TargetCluster cluster, TaskContext context) {
        if (job.isDelivered) {
            return new DeliveredSink(job, piece, cluster, context);
        }
        HashMap config = new HashMap(login);
        if (job.idPrefix != null) {
            config.put("transactional.id", job.idPrefix + piece.name);
        }
        KafkaProducer producer;
        try {
            producer = new KafkaProducer(config, new ByteArraySerializer(), new ByteArraySerializer());
        } catch (KafkaException error) {
            String message = "The producer of piece " + piece.name + " could not be made.";
            throw WriteFailure.ofClient(message, error);
        }
        return job.idPrefix == null
            ? (Sink) new PlainSink(job, piece, producer, cluster, context)
            : (Sink) new TransactionalSink(job, piece, producer, cluster, context);
    }
}
