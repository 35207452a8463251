package airflow_provider_kafka_spark.jobs.writer;

import java.util.Iterator;
import java.util.NoSuchElementException;
import org.apache.kafka.clients.consumer.ConsumerRecord;

/** The records of one piece after the other, of a Spark task that gets those of all its pieces in their order. */
@SuppressWarnings("rawtypes")
final class TaskInput implements Iterator {
    private final Iterator records;
    private final boolean isWhole;
    private Piece piece;
    private boolean isLast;
    private Object ahead;
    /** The last record of the piece was given: nobody waits for that of the next one in its name. */
    private boolean isDone;

    /** @param isWhole the task has one piece */
    TaskInput(Iterator records, boolean isWhole) {
        this.records = records;
        this.isWhole = isWhole;
    }

    /** @param isLast what else there is belongs to it, too, so that it is found */
    void begin(Piece next, boolean isLastOfTask) {
        piece = next;
        isLast = isLastOfTask;
        isDone = false;
    }

    @Override
    public boolean hasNext() {
        if (isWhole) {
            return records.hasNext();
        }
        if (isDone && !isLast) {
            return false;
        }
        if (ahead == null && records.hasNext()) {
            ahead = records.next();
        }
        return ahead != null && (isLast || isOfPiece((ConsumerRecord) ahead));
    }

    @Override
    public Object next() {
        if (isWhole) {
            return records.next();
        }
        if (!hasNext()) {
            throw new NoSuchElementException();
        }
        ConsumerRecord found = (ConsumerRecord) ahead;
        ahead = null;
        isDone = found.offset() + 1 >= piece.until;
        return found;
    }

    @Override
    public void remove() {
        throw new UnsupportedOperationException();
    }

    private boolean isOfPiece(ConsumerRecord record) {
        return piece.holds(record.topic(), record.partition(), record.offset());
    }
}
