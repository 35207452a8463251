package airflow_provider_kafka_spark.jobs.writer;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.Map;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;

/** Which submission and which driver have a run: the part of the owner's mark that a task compares. */
@SuppressWarnings("cast")
final class Mark {
    final long number;
    final String token;

    Mark(long number, String token) {
        this.number = number;
        this.token = token;
    }

    /** The mark with the highest number among the offsets of the owner's group, or null. */
    static Mark newest(Map<TopicPartition, OffsetAndMetadata> offsets) {
        Mark newest = null;
        for (OffsetAndMetadata offset : offsets.values()) {
            Mark mark = offset == null ? null : parse(offset.metadata());
            if (mark != null && (newest == null || mark.number > newest.number)) {
                newest = mark;
            }
        }
        return newest;
    }

    boolean isSame(Mark other) {
        return other != null && other.number == number && other.token.equals(token);
    }

    @Override
    public String toString() {
        return "submission " + number + " (" + token + ")";
    }

    private static Mark parse(String metadata) {
        try {
            JsonNode json = new ObjectMapper().readTree(metadata);
            return json.has("number") && json.has("token")
                ? new Mark(((JsonNode) json.get("number")).asLong(), ((JsonNode) json.get("token")).asText()) : null;
        } catch (JsonProcessingException error) {
            // It is no mark: a task that finds no other one must not write.
            return null;
        }
    }
}
