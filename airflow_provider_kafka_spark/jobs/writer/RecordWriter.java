package airflow_provider_kafka_spark.jobs.writer;

import java.util.ArrayList;
import java.util.Iterator;
import org.apache.spark.TaskContext;
import org.apache.spark.api.java.function.FlatMapFunction;
import org.apache.spark.broadcast.Broadcast;
import org.apache.spark.util.LongAccumulator;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Writes the records of one Spark task to Kafka and returns a JSON text for each of its pieces: what became of each
 * range.
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
    private final Broadcast tasks;
    private final LongAccumulator recordsRead;

    /**
     * @param settings {@code WriterSettings} as JSON
     * @param tasks for each Spark partition its pieces, a {@code Piece} as JSON on each line
     * @param recordsRead is increased with every record
     */
    public RecordWriter(String settings, Broadcast tasks, LongAccumulator recordsRead) {
        this.settings = settings;
        this.tasks = tasks;
        this.recordsRead = recordsRead;
    }

    @Override
    public Iterator call(Object records) throws Exception {
        try {
            return write(Settings.parse(settings), Piece.ofThisTask(tasks), (Iterator) records).iterator();
        } catch (WriteFailure failure) {
            throw failure.forDriver();
        }
    }

    /** One piece after the other, by the same clients. */
    private ArrayList write(Settings job, Piece[] pieces, Iterator records) throws Exception {
        TaskContext context = TaskContext.get();
        RecordCursor cursor = job.columns == null ? new RecordCursor(job) : new RowReader(job);
        TaskClients clients = new TaskClients(job, pieces[0].name, context);
        TaskInput input = new TaskInput(records, pieces.length == 1);
        ArrayList reports = new ArrayList();
        BatchReader batches = null;
        try {
            for (int i = 0; i < pieces.length; i++) {
                context.killTaskIfInterrupted();
                Piece piece = pieces[i];
                if (job.batches != null) {
                    batches = batches == null
                        ? new BatchReader(job.batches, piece, TaskClients.login(job.batches.consumer))
                        : batches.of(piece);
                }
                input.begin(piece, i == pieces.length - 1);
                SourceIterator source = new SourceIterator(batches == null ? input : batches, job, piece);
                TaskWriter writer = new TaskWriter(piece, cursor, source, batches, recordsRead, context);
                try {
                    reports.add(write(piece, writer, clients));
                } catch (OutOfMemoryError error) {
                    // Spark would end the whole JVM, and say nothing of the record.
                    throw writer.outOfMemory(error);
                }
            }
            return reports;
        } finally {
            if (batches != null) {
                batches.close();
            }
            clients.close();
        }
    }

    private static String write(Piece piece, TaskWriter writer, TaskClients clients) throws Exception {
        Object first = writer.first();
        if (first == null) {
            return TaskReport.format(piece, writer, null);
        }
        Sink sink = clients.sink(piece);
        Pace pace = clients.pace();
        try {
            clients.open(sink);
            LOG.info(
                "Piece " + piece.name + " begins at offset " + piece.first
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
        }
        return TaskReport.format(piece, writer, sink);
    }
}
