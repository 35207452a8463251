package airflow_provider_kafka_spark.jobs.writer;

import java.util.Arrays;
import java.util.List;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.util.ArrayData;

/**
 * Rows of Spark SQL, with the columns of {@code to_rows} in {@code transform.py}. What has no column comes from the
 * record that was passed on with the row.
 */
final class RowReader extends RecordCursor {
    private final int offsetColumn;
    private final int selectedColumn;
    private final int rejectedColumn;
    private final int topicColumn;
    private final int partitionColumn;
    private final int timestampColumn;
    private final int keyColumn;
    private final int valueColumn;
    private final int headersColumn;
    private final int targetTopicColumn;
    private final int targetPartitionColumn;
    private final String deadLetterTopic;

    RowReader(Settings settings) {
        super(settings);
        List<String> columns = Arrays.asList(settings.columns);
        offsetColumn = columns.indexOf("offset");
        selectedColumn = columns.indexOf("_selected");
        rejectedColumn = columns.indexOf("_rejected");
        deadLetterTopic = settings.transform.optionalText("dead_letter_topic");
        topicColumn = columns.indexOf("topic");
        partitionColumn = columns.indexOf("partition");
        timestampColumn = columns.indexOf("timestamp");
        keyColumn = columns.indexOf("key");
        valueColumn = columns.indexOf("value");
        headersColumn = columns.indexOf("headers");
        targetTopicColumn = columns.indexOf("target_topic");
        targetPartitionColumn = columns.indexOf("target_partition");
    }

    @Override
    void read(Object input) {
        InternalRow row = (InternalRow) input;
        offset = row.getLong(offsetColumn);
        ConsumerRecord<?, ?> record = null;
        if (topicColumn < 0) {
            record = RecordHandoff.take(offset);
            super.read(record);
        } else {
            topic = row.getUTF8String(topicColumn).toString();
            partition = row.getInt(partitionColumn);
            timestamp = Math.floorDiv(row.getLong(timestampColumn), 1000L);
            findTarget();
        }
        selected = row.getBoolean(selectedColumn);
        boolean isKept = rejectedColumn < 0 || row.isNullAt(rejectedColumn);
        rejection = isKept ? null : row.getUTF8String(rejectedColumn).toString();
        if (!selected) {
            return;
        }
        if (isKept) {
            readContent(row);
            readTarget(row);
            return;
        }
        if (record == null) {
            readContent(row);
        } else {
            headers = (RecordHeaders) record.headers();
        }
        targetTopic = deadLetterTopic;
        targetPartition = null;
    }

    private void readContent(InternalRow row) {
        if (keyColumn >= 0) {
            key = row.isNullAt(keyColumn) ? null : row.getBinary(keyColumn);
        }
        if (valueColumn >= 0) {
            value = row.isNullAt(valueColumn) ? null : row.getBinary(valueColumn);
        }
        if (headersColumn >= 0) {
            headers = row.isNullAt(headersColumn) ? new RecordHeaders() : headers(row.getArray(headersColumn));
        }
    }

    private void readTarget(InternalRow row) {
        if (targetTopicColumn >= 0) {
            if (row.isNullAt(targetTopicColumn)) {
                throw WriteFailure.ofData(
                    WriteFailure.TARGET, "target_topic_expr gave null for record " + name() + ". Use coalesce in it, "
                        + "or leave such records out with where.", name()
                );
            }
            targetTopic = row.getUTF8String(targetTopicColumn).toString();
        }
        if (targetPartitionColumn >= 0) {
            boolean isNull = row.isNullAt(targetPartitionColumn);
            targetPartition = isNull ? null : Integer.valueOf(row.getInt(targetPartitionColumn));
        }
    }

    private RecordHeaders headers(ArrayData items) {
        RecordHeaders found = new RecordHeaders();
        for (int i = 0; i < items.numElements(); i++) {
            InternalRow header = items.getStruct(i, 2);
            if (header == null || header.isNullAt(0)) {
                throw WriteFailure.ofData(
                    WriteFailure.EXPRESSION, "The headers of record " + name() + " have a null key. columns['headers'] "
                        + "gave a header that is null or has no key: use filter or coalesce in it.", name()
                );
            }
            byte[] content = header.isNullAt(1) ? null : header.getBinary(1);
            found.add(new RecordHeader(header.getUTF8String(0).toString(), content));
        }
        return found;
    }
}
