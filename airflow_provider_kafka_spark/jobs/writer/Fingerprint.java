package airflow_provider_kafka_spark.jobs.writer;

import java.nio.charset.StandardCharsets;
import java.util.Collection;
import org.apache.kafka.common.header.Header;
import org.apache.spark.sql.catalyst.expressions.XXH64;
import org.apache.spark.unsafe.Platform;

/** A hash of what a record holds, of 64 bits. Null differs from empty. */
final class Fingerprint {
    private static final long SEED = 42L;
    private static final long NULL = -1L;

    private Fingerprint() {
    }

    static long of(byte[] key, byte[] value) {
        return add(add(SEED, key), value);
    }

    static long add(long hash, long number) {
        return XXH64.hashLong(number, hash);
    }

    static long add(long hash, byte[] content) {
        if (content == null) {
            return XXH64.hashLong(NULL, hash);
        }
        long sized = XXH64.hashLong(content.length, hash);
        return XXH64.hashUnsafeBytes(content, Platform.BYTE_ARRAY_OFFSET, content.length, sized);
    }

    /** @param ignored names of headers that a copy replaces */
    static long add(long hash, Header[] headers, Collection<String> ignored) {
        long found = hash;
        long count = 0L;
        for (int i = 0; i < headers.length; i++) {
            if (!ignored.contains(headers[i].key())) {
                found = add(found, headers[i].key().getBytes(StandardCharsets.UTF_8));
                found = add(found, headers[i].value());
                count++;
            }
        }
        return XXH64.hashLong(count, found);
    }
}
