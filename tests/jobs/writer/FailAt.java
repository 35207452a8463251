package tests.jobs.writer;

import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.spark.api.java.function.Function;

/** Passes records on, and fails at one of them as Scala's code may: by a checked exception, or an error. */
public final class FailAt implements Function {
    private static final long serialVersionUID = 1L;

    private final String kind;
    private final long offset;

    public FailAt(String kind, String offset) {
        this.kind = kind;
        this.offset = Long.parseLong(offset);
    }

    @Override
    public Object call(Object input) throws Exception {
        if (((ConsumerRecord) input).offset() == offset) {
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
