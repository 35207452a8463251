package benchmarks;

import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.Callback;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Headers;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * The least that a copy costs with Kafka's Java clients: one thread with a consumer for each Spark task that would run
 * at a time, one producer, the provenance header, acknowledgements counted. No Spark, no plan, no retry.
 *
 * <p>Spark's own compiler compiles it, so: no lambdas, raw collections.
 */
@SuppressWarnings({"rawtypes", "unchecked"})
public final class JavaLoop extends Thread implements Callback {
    private final Map consumerSettings;
    private final KafkaProducer producer;
    private final String source;
    private final String target;
    private final String header;
    private final Map ends;
    private final AtomicLong acknowledged;
    private volatile Exception failure;

    public JavaLoop(
        Map consumerSettings, KafkaProducer producer, String source, String target, String header, Map ends,
        AtomicLong acknowledged
    ) {
        this.consumerSettings = consumerSettings;
        this.producer = producer;
        this.source = source;
        this.target = target;
        this.header = header;
        this.ends = ends;
        this.acknowledged = acknowledged;
    }

    /** For py4j, which needs an object: copies in {@link #copy}. */
    public static final class Loop {
        /**
         * @param ends the end offset of each source partition, whose log must start at 0
         * @return how many records were acknowledged
         */
        public long copy(
            Map consumerSettings, Map producerSettings, String source, String target, String header, Map ends,
            int threads
        ) throws Exception {
            KafkaProducer producer =
                new KafkaProducer(producerSettings, new ByteArraySerializer(), new ByteArraySerializer());
            AtomicLong acknowledged = new AtomicLong();
            List loops = new ArrayList();
            for (int i = 0; i < threads; i++) {
                Map own = new HashMap();
                for (Iterator each = ends.entrySet().iterator(); each.hasNext(); ) {
                    Map.Entry end = (Map.Entry) each.next();
                    int partition = ((Number) end.getKey()).intValue();
                    if (partition % threads == i) {
                        own.put(new TopicPartition(source, partition), Long.valueOf(((Number) end.getValue()).longValue()));
                    }
                }
                JavaLoop loop = new JavaLoop(consumerSettings, producer, source, target, header, own, acknowledged);
                loops.add(loop);
                loop.start();
            }
            try {
                for (Iterator each = loops.iterator(); each.hasNext(); ) {
                    ((JavaLoop) each.next()).join();
                }
                producer.flush();
            } finally {
                producer.close(Duration.ofSeconds(30));
            }
            for (Iterator each = loops.iterator(); each.hasNext(); ) {
                Exception failure = ((JavaLoop) each.next()).failure;
                if (failure != null) {
                    throw failure;
                }
            }
            return acknowledged.get();
        }
    }

    @Override
    public void run() {
        KafkaConsumer consumer =
            new KafkaConsumer(consumerSettings, new ByteArrayDeserializer(), new ByteArrayDeserializer());
        try {
            consumer.assign(ends.keySet());
            consumer.seekToBeginning(ends.keySet());
            while (!isDone(consumer)) {
                for (Iterator each = consumer.poll(Duration.ofMillis(200)).iterator(); each.hasNext(); ) {
                    send((ConsumerRecord) each.next());
                }
            }
        } catch (RuntimeException error) {
            failure = error;
        } finally {
            consumer.close(Duration.ofSeconds(5));
        }
    }

    @Override
    public void onCompletion(RecordMetadata metadata, Exception error) {
        if (error == null) {
            acknowledged.incrementAndGet();
        } else {
            failure = error;
        }
    }

    private boolean isDone(KafkaConsumer consumer) {
        for (Iterator each = ends.entrySet().iterator(); each.hasNext(); ) {
            Map.Entry end = (Map.Entry) each.next();
            if (consumer.position((TopicPartition) end.getKey()) < ((Long) end.getValue()).longValue()) {
                return false;
            }
        }
        return true;
    }

    private void send(ConsumerRecord record) {
        Headers headers = record.headers();
        String from = "0123456789abcdef|" + source + "|" + record.partition() + "|" + record.offset() + "|";
        headers.add(header, (from + record.timestamp()).getBytes(StandardCharsets.UTF_8));
        Long timestamp = Long.valueOf(record.timestamp());
        producer.send(new ProducerRecord(target, null, timestamp, record.key(), record.value(), headers), this);
    }
}
