package airflow_provider_kafka_spark.jobs.writer;

import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.HashMap;
import java.util.Iterator;
import java.util.Map;

/** Rewrites schema ids: {@code SchemaIds} in {@code writer_messages.py} says what each field means. */
@SuppressWarnings({"cast", "rawtypes"})
final class SchemaIds {
    /** A zero byte and the id. */
    private static final int HEAD = 5;

    private final HashMap<Integer, Integer> keys;
    private final HashMap<Integer, Integer> values;

    SchemaIds(Fields fields) {
        keys = parse(fields.map("keys"));
        values = parse(fields.map("values"));
        fields.end();
    }

    /** Changes the key and the value of a record. What does not have the format stays as it is. */
    void rewrite(RecordCursor record) {
        record.key = rewritten(record.key, keys, "key", record);
        record.value = rewritten(record.value, values, "value", record);
    }

    private static byte[] rewritten(byte[] content, HashMap<Integer, Integer> ids, String name, RecordCursor record) {
        if (ids.isEmpty() || content == null || content.length < HEAD || content[0] != 0) {
            return content;
        }
        int id = ByteBuffer.wrap(content).getInt(1);
        Integer other = (Integer) ids.get(Integer.valueOf(id));
        if (other == null) {
            throw WriteFailure.ofData(
                WriteFailure.OPTION, "schema_id_map has no id for schema " + id + " of the " + name + " of record "
                    + record.name() + ". Add it with the id that the schema has in the target's registry, or leave "
                    + "such records out with where.", record.name()
            );
        }
        // The source's bytes may be read again.
        byte[] copy = Arrays.copyOf(content, content.length);
        ByteBuffer.wrap(copy).putInt(1, other.intValue());
        return copy;
    }

    private static HashMap<Integer, Integer> parse(Map<String, String> texts) {
        HashMap<Integer, Integer> ids = new HashMap<Integer, Integer>();
        for (Iterator each = texts.entrySet().iterator(); each.hasNext(); ) {
            Map.Entry entry = (Map.Entry) each.next();
            ids.put(Integer.valueOf((String) entry.getKey()), Integer.valueOf((String) entry.getValue()));
        }
        return ids;
    }
}
