package airflow_provider_kafka_spark.jobs.writer;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.Random;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** Records of all kinds that Kafka's own producer can write. */
@SuppressWarnings({"rawtypes", "unchecked"})
public final class RandomRecords {
    private static final int LARGE = 1000000;
    private static final String[] COMPRESSIONS = {"none", "gzip", "snappy", "lz4", "zstd"};

    private RandomRecords() {
    }

    /** Fill the first partition of a topic, with each compression in turn. */
    public static void fill(String brokers, String topic, String seed, String count) throws Exception {
        Random random = new Random(Long.parseLong(seed));
        int each = Integer.parseInt(count) / COMPRESSIONS.length;
        for (String compression : COMPRESSIONS) {
            HashMap config = new HashMap();
            config.put("bootstrap.servers", brokers);
            config.put("compression.type", compression);
            config.put("linger.ms", "50");
            config.put("batch.size", String.valueOf(1 << 10 + random.nextInt(7)));
            config.put("max.request.size", String.valueOf(2 * LARGE));
            KafkaProducer producer = new KafkaProducer(config, new ByteArraySerializer(), new ByteArraySerializer());
            ArrayList sent = new ArrayList();
            for (int i = 0; i < each; i++) {
                // Twice in a row are duplicates.
                ProducerRecord record = record(random, topic, i == 7);
                sent.add(producer.send(record));
                if (random.nextInt(20) == 0) {
                    sent.add(producer.send(record));
                }
            }
            producer.close();
            for (Object future : sent) {
                ((java.util.concurrent.Future) future).get();
            }
        }
    }

    private static ProducerRecord record(Random random, String topic, boolean isLarge) {
        ArrayList headers = new ArrayList();
        int most = random.nextInt(12) == 0 ? 200 : 4;
        for (int i = random.nextInt(most); i > 0; i--) {
            headers.add(new RecordHeader(random.nextInt(4) == 0 ? "from" : "h" + random.nextInt(3), some(random, 8)));
        }
        byte[] key = random.nextInt(6) == 0 ? null : ("k" + random.nextInt(50)).getBytes();
        byte[] value = isLarge ? new byte[LARGE - 1000] : some(random, 300);
        if (value != null && value.length >= 5) {
            // A zero byte and one of three schema ids.
            random.nextBytes(value);
            System.arraycopy(new byte[] {0, 0, 0, 0, (byte) (1 + random.nextInt(3))}, 0, value, 0, 5);
        }
        long time = 1700000000000L + random.nextInt(random.nextInt(9) == 0 ? 2000000000 : 10000);
        return new ProducerRecord(
            topic, Integer.valueOf(0), Long.valueOf(time), random.nextInt(15) == 0 ? new byte[0] : key, value,
            (Iterable<Header>) headers
        );
    }

    private static byte[] some(Random random, int most) {
        return random.nextInt(6) == 0 ? null : new byte[random.nextInt(most)];
    }
}
