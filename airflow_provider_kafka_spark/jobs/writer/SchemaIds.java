package airflow_provider_kafka_spark.jobs.writer;

import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.HashMap;
import java.util.Iterator;

/** Rewrites schema ids: {@code schema_ids.py} says which form the map has. */
@SuppressWarnings({"cast", "rawtypes"})
final class SchemaIds {
    /** A zero byte and the id. */
    private static final int HEAD = 5;

    private final HashMap<Integer, Integer> keys;
    private final HashMap<Integer, Integer> values;

    private SchemaIds(HashMap<Integer, Integer> keys, HashMap<Integer, Integer> values) {
        this.keys = keys;
        this.values = values;
    }

    /** Those in keys and values that no expression makes; null if there are none. */
    static SchemaIds of(Fields transform) {
        Fields sides = transform.object("schema_id_map");
        Fields columns = transform.object("columns");
        HashMap<Integer, Integer> keys = parse(sides, "keys", columns.has("key"));
        HashMap<Integer, Integer> values = parse(sides, "values", columns.has("value"));
        return keys.isEmpty() && values.isEmpty() ? null : new SchemaIds(keys, values);
    }

    /** Changes the key and the value of a record. What does not have the format stays as it is. */
    void rewrite(RecordCursor record) {
        record.key = rewritten(record.key, keys, "key", record);
        record.value = rewritten(record.value, values, "value", record);
    }

    /**
     * The same, of a record as bytes.
     *
     * @param contentAt where key and value are in these bytes
     */
    void rewrite(RecordCursor record, byte[] bytes, int contentAt) {
        BatchWalker place = record.place;
        int moved = contentAt - place.contentAt;
        rewrite(bytes, place.keyAt + moved, place.keySize, keys, "key", record);
        rewrite(bytes, place.valueAt + moved, place.valueSize, values, "value", record);
    }

    private static byte[] rewritten(byte[] content, HashMap<Integer, Integer> ids, String name, RecordCursor record) {
        if (ids.isEmpty() || content == null || content.length < HEAD || content[0] != 0) {
            return content;
        }
        // The source's bytes may be read again.
        byte[] copy = Arrays.copyOf(content, content.length);
        rewrite(ByteBuffer.wrap(copy), ids, name, record);
        return copy;
    }

    /** Changes an id where its content is already in its place. */
    private static void rewrite(
        byte[] bytes, int at, int size, HashMap<Integer, Integer> ids, String name, RecordCursor record
    ) {
        if (!ids.isEmpty() && size >= HEAD && bytes[at] == 0) {
            rewrite((ByteBuffer) ByteBuffer.wrap(bytes, at, size).slice(), ids, name, record);
        }
    }

    private static void rewrite(ByteBuffer content, HashMap<Integer, Integer> ids, String name, RecordCursor record) {
        int id = content.getInt(1);
        Integer other = (Integer) ids.get(Integer.valueOf(id));
        if (other == null) {
            throw WriteFailure.ofData(
                WriteFailure.OPTION, "schema_id_map has no id for schema " + id + " of the " + name + " of record "
                    + record.name() + ". Add it with the id that the schema has in the target's registry, or leave "
                    + "such records out with where.", record.name()
            );
        }
        content.putInt(1, other.intValue());
    }

    private static HashMap<Integer, Integer> parse(Fields sides, String side, boolean isComputed) {
        HashMap<Integer, Integer> ids = new HashMap<Integer, Integer>();
        if (isComputed || !sides.has(side)) {
            return ids;
        }
        Fields entries = sides.object(side);
        for (Iterator<String> each = entries.names(); each.hasNext(); ) {
            String id = (String) each.next();
            ids.put(Integer.valueOf(id), Integer.valueOf((int) entries.number(id)));
        }
        return ids;
    }
}
