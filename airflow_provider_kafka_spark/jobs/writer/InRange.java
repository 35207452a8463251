package airflow_provider_kafka_spark.jobs.writer;

import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.spark.api.java.function.Function;
import org.apache.spark.broadcast.Broadcast;

/** Passes the records that lie in a range; expressions must not see others. */
@SuppressWarnings({"rawtypes", "unchecked"})
public final class InRange implements Function {
    private static final long serialVersionUID = 1L;

    private final Broadcast pieces;
    private transient Piece piece;

    /** @param pieces texts, one for each Spark partition, which has one piece */
    public InRange(Broadcast pieces) {
        this.pieces = pieces;
    }

    @Override
    public Object call(Object input) {
        if (piece == null) {
            piece = Piece.ofThisTask(pieces)[0];
        }
        return Boolean.valueOf(piece.find(((ConsumerRecord) input).offset()) >= 0);
    }
}
