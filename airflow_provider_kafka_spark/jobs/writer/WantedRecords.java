package airflow_provider_kafka_spark.jobs.writer;

import com.fasterxml.jackson.databind.JsonNode;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.Map;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeaders;

/** Filters by key and headers: {@code record_filter.py} says which forms a wanted key or value has. */
@SuppressWarnings({"cast", "rawtypes"})
final class WantedRecords {
    /** Null if every key is wanted; null in it stands for a record without a key. */
    private final HashSet<ByteBuffer> keys;
    private final LinkedHashMap<String, HashSet> headers = new LinkedHashMap<String, HashSet>();
    private final HashMap<String, byte[]> names = new HashMap<String, byte[]>();

    private WantedRecords(Fields transform) {
        JsonNode list = transform.optionalList("keys");
        keys = list == null ? null : parse(list);
        Fields byName = transform.object("headers");
        for (Iterator<String> each = byName.names(); each.hasNext(); ) {
            String name = (String) each.next();
            headers.put(name, parse(byName.list(name)));
            names.put(name, name.getBytes(StandardCharsets.UTF_8));
        }
    }

    /** Null if all records are wanted. */
    static WantedRecords of(Fields transform) {
        WantedRecords wanted = new WantedRecords(transform);
        return wanted.keys == null && wanted.headers.isEmpty() ? null : wanted;
    }

    /** Likewise of a record as bytes. */
    boolean has(BatchWalker record) {
        if (keys != null && !keys.contains(wrap(record.bytes, record.keyAt, record.keySize))) {
            return false;
        }
        for (Iterator each = headers.entrySet().iterator(); each.hasNext(); ) {
            Map.Entry wanted = (Map.Entry) each.next();
            if (!hasOne(record, (byte[]) names.get(wanted.getKey()), (HashSet) wanted.getValue())) {
                return false;
            }
        }
        return true;
    }

    private static boolean hasOne(BatchWalker record, byte[] name, HashSet values) {
        for (int i = 0; i < record.headerCount; i++) {
            int size = record.header(i, BatchWalker.VALUE_SIZE);
            if (record.hasName(i, name) && values.contains(wrap(record.bytes, record.header(i, BatchWalker.VALUE), size))) {
                return true;
            }
        }
        return false;
    }

    /** @param size negative for null */
    private static ByteBuffer wrap(byte[] bytes, int at, int size) {
        return size < 0 ? null : ByteBuffer.wrap(bytes, at, size);
    }

    boolean has(byte[] key, RecordHeaders found) {
        if (keys != null && !keys.contains(wrap(key))) {
            return false;
        }
        for (Iterator each = headers.entrySet().iterator(); each.hasNext(); ) {
            Map.Entry wanted = (Map.Entry) each.next();
            if (!hasOne(found.headers((String) wanted.getKey()), (HashSet) wanted.getValue())) {
                return false;
            }
        }
        return true;
    }

    private static boolean hasOne(Iterable<Header> found, HashSet values) {
        for (Iterator<Header> each = found.iterator(); each.hasNext(); ) {
            if (values.contains(wrap(((Header) each.next()).value()))) {
                return true;
            }
        }
        return false;
    }

    private static ByteBuffer wrap(byte[] bytes) {
        return bytes == null ? null : ByteBuffer.wrap(bytes);
    }

    private static HashSet<ByteBuffer> parse(JsonNode list) {
        HashSet<ByteBuffer> found = new HashSet<ByteBuffer>();
        for (int i = 0; i < list.size(); i++) {
            JsonNode item = Fields.item(list, i);
            found.add(item.isNull() ? null : ByteBuffer.wrap(bytes(item)));
        }
        return found;
    }

    private static byte[] bytes(JsonNode item) {
        if (item.isTextual()) {
            return item.asText().getBytes(StandardCharsets.UTF_8);
        }
        String hexadecimal = ((JsonNode) item.get("hex")).asText();
        byte[] bytes = new byte[hexadecimal.length() / 2];
        for (int i = 0; i < bytes.length; i++) {
            bytes[i] = (byte) Integer.parseInt(hexadecimal.substring(2 * i, 2 * i + 2), 16);
        }
        return bytes;
    }
}
