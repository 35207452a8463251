package airflow_provider_kafka_spark.jobs.writer;

import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;

/** What a task returns: {@code TaskReport} in {@code writer_messages.py} says what each field means. */
@SuppressWarnings("cast")
final class TaskReport {
    private TaskReport() {
    }

    /** @param sink null if the piece had no records */
    static String format(Piece piece, TaskWriter writer, Sink sink) {
        ObjectNode report = Fields.newObject().put("piece", piece.name);
        ArrayNode ranges = report.putArray("ranges");
        for (RangeCounts range : writer.counts()) {
            ranges.addArray().add(range.index).add(range.read).add(range.acknowledged.get() + range.alreadyCommitted)
                .add(range.filtered).add(range.alreadyCommitted).add(range.rejected);
        }
        ArrayNode targets = report.putArray("targets");
        if (sink != null) {
            sink.progress.targets.write(targets);
        }
        report.put("targets_unknown", sink != null && sink.progress.hasUnknownTargets());
        ArrayNode segments = report.putArray("segments");
        if (sink != null && sink.progress.segments != null) {
            sink.progress.segments.write(segments);
        }
        report.put("segments_unknown", sink != null && sink.progress.hasUnknownSegments());
        report.put("resumed_at", sink == null ? null : sink.progress.resumedAt());
        report.put("changed", sink == null ? 0L : sink.changed());
        report.put("first_changed", sink == null ? null : sink.firstChanged());
        report.put("outside", writer.outside());
        report.put("batches_passed", sink == null ? 0L : sink.passed());
        report.put("bytes_written", sink == null ? 0L : sink.writtenBytes());
        report.put("records_as_bytes", sink == null ? 0L : sink.asBytes());
        return report.toString();
    }
}
