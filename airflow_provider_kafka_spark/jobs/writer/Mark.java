package airflow_provider_kafka_spark.jobs.writer;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;

/** Which submission and which driver have a run: the part of the owner's mark that a task compares. */
@SuppressWarnings("cast")
final class Mark {
    final long number;
    final String token;

    Mark(long number, String token) {
        this.number = number;
        this.token = token;
    }

    /** The mark beside a committed offset, or null. */
    static Mark of(OffsetAndMetadata committed) {
        if (committed == null) {
            return null;
        }
        try {
            JsonNode json = new ObjectMapper().readTree(committed.metadata());
            return json.has("number") && json.has("token")
                ? new Mark(((JsonNode) json.get("number")).asLong(), ((JsonNode) json.get("token")).asText()) : null;
        } catch (JsonProcessingException error) {
            // It is no mark: a task that finds no other one must not write.
            return null;
        }
    }

    boolean isSame(Mark other) {
        return other != null && other.number == number && other.token.equals(token);
    }

    @Override
    public String toString() {
        return "submission " + number + " (" + token + ")";
    }
}
