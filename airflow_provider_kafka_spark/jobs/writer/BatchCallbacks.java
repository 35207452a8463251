package airflow_provider_kafka_spark.jobs.writer;

import java.lang.reflect.Constructor;
import java.util.AbstractList;
import java.util.ArrayList;
import java.util.Collections;
import java.util.Iterator;
import java.util.List;
import java.util.function.Function;
import org.apache.kafka.clients.producer.Callback;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.clients.producer.internals.FutureRecordMetadata;
import org.apache.kafka.clients.producer.internals.ProduceRequestResult;
import org.apache.kafka.common.errors.InvalidTimestampException;
import org.apache.kafka.common.record.MemoryRecordsBuilder;
import org.apache.kafka.common.record.Record;
import org.apache.kafka.common.record.RecordBatch;
import org.apache.kafka.common.utils.Time;

/**
 * What the producer calls for a ready-made batch: one callback. Only where it splits the batch, because the target
 * takes less than when the job began, it iterates over those of the single records, before it writes them anew.
 */
@SuppressWarnings({"cast", "rawtypes", "unchecked"})
final class BatchCallbacks extends AbstractList implements Callback {
    private final Constructor newThunk;
    private final MemoryRecordsBuilder records;
    private final ProduceRequestResult result;
    private final AckCallback acknowledged;
    private List thunks;

    /** @param acknowledged is called for the batch, or for each of its records */
    BatchCallbacks(
        Constructor newThunk, MemoryRecordsBuilder records, ProduceRequestResult result, AckCallback acknowledged,
        long timestamp
    ) {
        this.newThunk = newThunk;
        this.records = records;
        this.result = result;
        this.acknowledged = acknowledged;
        thunks = Collections.singletonList(thunk(this, 0, timestamp));
    }

    @Override
    public Object get(int index) {
        return thunks.get(index);
    }

    @Override
    public int size() {
        return thunks.size();
    }

    @Override
    public Iterator iterator() {
        ArrayList single = new ArrayList(acknowledged.count);
        for (Iterator each = records.build().records().iterator(); each.hasNext(); ) {
            Record record = (Record) each.next();
            int bytes = Math.max(0, record.keySize()) + Math.max(0, record.valueSize());
            AckCallback callback = acknowledged.ofRecord(single.size(), bytes);
            if (record.timestamp() < RecordBatch.NO_TIMESTAMP) {
                throw refused(callback, record.timestamp());
            }
            callback.noteIfChanged(record.headers());
            single.add(thunk(callback, single.size(), record.timestamp()));
        }
        thunks = single;
        return single.iterator();
    }

    @Override
    public void onCompletion(RecordMetadata metadata, Exception error) {
        // The error of the first record may only say that another one was refused.
        for (int i = 0; error != null && i < acknowledged.count; i++) {
            RuntimeException ofRecord = result.error(i);
            if (ClientErrors.isPermanent(ofRecord)) {
                acknowledged.ofRecord(i, acknowledged.bytes).onCompletion(null, ofRecord);
                return;
            }
        }
        acknowledged.onCompletion(metadata, error);
    }

    /** The producer would drop the batch without an answer, and its flush would wait for it. */
    private RuntimeException refused(AckCallback callback, long timestamp) {
        final RuntimeException error = new InvalidTimestampException(
            "The target takes smaller batches than was known when the copy began, and Kafka's producer, which makes them "
                + "smaller, writes no timestamp below -1, such as " + timestamp + ". A clear of the task goes on from "
                + "what was committed, with batches as small as the target's max.message.bytes, if it may be described."
        );
        callback.onCompletion(null, error);
        result.set(-1L, RecordBatch.NO_TIMESTAMP, new Function() {
            @Override
            public Object apply(Object index) {
                return error;
            }
        });
        result.done();
        return error;
    }

    private Object thunk(Callback callback, int index, long timestamp) {
        FutureRecordMetadata future = new FutureRecordMetadata(result, index, timestamp, 0, 0, Time.SYSTEM);
        try {
            return newThunk.newInstance(new Object[] {callback, future});
        } catch (ReflectiveOperationException error) {
            throw new IllegalStateException(error);
        }
    }
}
