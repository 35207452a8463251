package airflow_provider_kafka_spark.jobs.writer;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.HashSet;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.Map;

/** Reads one JSON object that Python wrote. A field that is missing, unknown or of another type is an error. */
@SuppressWarnings("cast")
final class Fields {
    /** Of all texts between Python and the writer. */
    private static final int VERSION = 1;
    private static final ObjectMapper MAPPER = new ObjectMapper();

    private final String name;
    private final JsonNode object;
    private final HashSet<String> known = new HashSet<String>();

    private Fields(String name, JsonNode object) {
        this.name = name;
        this.object = object;
        if (!object.isObject()) {
            throw new IllegalArgumentException(name + " must be a JSON object; got " + object.getNodeType() + ".");
        }
    }

    /** @param name what an error calls the object */
    static Fields parse(String name, String text) {
        try {
            Fields fields = new Fields(name, MAPPER.readTree(text));
            long version = fields.number("version");
            if (version != VERSION) {
                throw new IllegalArgumentException(name + " must be of version " + VERSION + "; got " + version + ".");
            }
            return fields;
        } catch (JsonProcessingException error) {
            throw new IllegalArgumentException(name + " must be JSON; got a text of " + text.length() + " characters.");
        }
    }

    /** A JSON object to write into, with the version. */
    static ObjectNode newObject() {
        return MAPPER.createObjectNode().put("version", VERSION);
    }

    /** Fails if the object has other fields than those that were read. */
    void end() {
        for (Iterator<String> each = object.fieldNames(); each.hasNext(); ) {
            String field = (String) each.next();
            if (!known.contains(field)) {
                throw new IllegalArgumentException(name + " has the unknown field " + field + ".");
            }
        }
    }

    String text(String field) {
        JsonNode value = value(field);
        check(field, "text", value.isTextual());
        return value.asText();
    }

    String optionalText(String field) {
        return value(field).isNull() ? null : text(field);
    }

    long number(String field) {
        JsonNode value = value(field);
        check(field, "a number", value.isIntegralNumber() && value.canConvertToLong());
        return value.asLong();
    }

    long optionalNumber(String field, long otherwise) {
        return value(field).isNull() ? otherwise : number(field);
    }

    boolean flag(String field) {
        JsonNode value = value(field);
        check(field, "a boolean", value.isBoolean());
        return value.asBoolean();
    }

    JsonNode list(String field) {
        JsonNode value = value(field);
        check(field, "a list", value.isArray());
        return value;
    }

    JsonNode optionalList(String field) {
        return value(field).isNull() ? null : list(field);
    }

    Fields object(String field) {
        return new Fields(name + "." + field, value(field));
    }

    Fields optionalObject(String field) {
        return value(field).isNull() ? null : object(field);
    }

    boolean has(String field) {
        return object.has(field);
    }

    static JsonNode item(JsonNode list, int i) {
        return (JsonNode) list.get(i);
    }

    /** The names of its fields, where these are data. */
    Iterator<String> names() {
        return object.fieldNames();
    }

    /** A map of texts. */
    Map<String, String> map(String field) {
        Fields entries = object(field);
        LinkedHashMap<String, String> map = new LinkedHashMap<String, String>();
        for (Iterator<String> each = entries.names(); each.hasNext(); ) {
            String name = (String) each.next();
            map.put(name, entries.text(name));
        }
        return map;
    }

    private JsonNode value(String field) {
        known.add(field);
        JsonNode value = (JsonNode) object.get(field);
        check(field, "there", value != null);
        return value;
    }

    private void check(String field, String expected, boolean isValid) {
        if (!isValid) {
            throw new IllegalArgumentException(name + "." + field + " must be " + expected + ".");
        }
    }
}
