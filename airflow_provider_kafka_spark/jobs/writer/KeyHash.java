package airflow_provider_kafka_spark.jobs.writer;

import java.nio.ByteBuffer;

/** The partition of a key, as Kafka's Java producer chooses it ({@code Utils.murmur2}); the key is not taken out. */
final class KeyHash {
    private static final int SEED = 0x9747b28c;
    private static final int FACTOR = 0x5bd1e995;
    private static final int SHIFT = 24;

    private KeyHash() {
    }

    static int partition(ByteBuffer bytes, int at, int size, int partitions) {
        return (murmur2(bytes, at, size) & Integer.MAX_VALUE) % partitions;
    }

    static int murmur2(ByteBuffer bytes, int at, int size) {
        int hash = SEED ^ size;
        int place = at;
        int rest = at + size;
        for (; rest - place >= 4; place += 4) {
            int four = Integer.reverseBytes(bytes.getInt(place)) * FACTOR;
            four ^= four >>> SHIFT;
            hash = hash * FACTOR ^ four * FACTOR;
        }
        if (rest > place) {
            for (int i = rest - 1; i >= place; i--) {
                hash ^= (bytes.get(i) & 0xff) << 8 * (i - place);
            }
            hash *= FACTOR;
        }
        hash ^= hash >>> 13;
        hash *= FACTOR;
        return hash ^ hash >>> 15;
    }
}
