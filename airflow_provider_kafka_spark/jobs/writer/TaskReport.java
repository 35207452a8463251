package airflow_provider_kafka_spark.jobs.writer;

import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.Collection;

/** What a task returns: {@code TaskReport} in {@code writer_messages.py} says what each field means. */
final class TaskReport {
    private TaskReport() {
    }

    /** @param sink null if the piece had no records */
    static String format(Piece piece, Collection<RangeCounts> counts, Sink sink) {
        ObjectNode report = Fields.newObject().put("piece", piece.name);
        ArrayNode ranges = report.putArray("ranges");
        for (RangeCounts range : counts) {
            ranges.addArray().add(range.index).add(range.read).add(range.acknowledged.get() + range.alreadyCommitted)
                .add(range.filtered).add(range.alreadyCommitted).add(range.rejected);
        }
        ArrayNode targets = report.putArray("targets");
        if (sink != null) {
            sink.progress.targets.write(targets);
        }
        report.put("targets_unknown", sink != null && sink.progress.hasUnknownTargets());
        report.put("resumed_at", sink == null ? null : sink.progress.resumedAt());
        report.put("changed", sink == null ? 0L : sink.changed());
        report.put("first_changed", sink == null ? null : sink.firstChanged());
        return report.toString();
    }
}
