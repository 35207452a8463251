package tests.jobs.writer;

import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.spark.api.java.function.Function;

/**
 * Passes records on, and fails at one of them as Scala's code may: by a checked exception, or an error. It fails when a
 * system property is set: by then the records before it have arrived.
 */
public final class FailAt implements Function {
    private static final long serialVersionUID = 1L;

    private final String kind;
    private final long offset;
    private final String property;

    public FailAt(String kind, String offset, String property) {
        this.kind = kind;
        this.offset = Long.parseLong(offset);
        this.property = property;
    }

    @Override
    public Object call(Object input) throws Exception {
        if (((ConsumerRecord) input).offset() == offset) {
            long deadline = System.nanoTime() + 60_000_000_000L;
            while (System.getProperty(property) == null && System.nanoTime() < deadline) {
                Thread.sleep(20L);
            }
            if (kind.equals("StackOverflowError")) {
                return Integer.valueOf(recurse(0));
            }
            throw new java.io.IOException("checked");
        }
        return Boolean.TRUE;
    }

    private static int recurse(int depth) {
        return recurse(depth + 1) + 1;
    }
}
