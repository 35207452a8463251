package airflow_provider_kafka_spark.jobs.writer;

import java.time.Duration;
import java.util.HashMap;
import java.util.Map;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.spark.TaskContext;
import org.apache.spark.api.python.PythonUtils;
import org.apache.spark.kafka010.KafkaConfigUpdater;

/**
 * What a Spark task opens once for all its pieces, as soon as one of them has a record: to start a producer takes longer
 * than to copy a small piece.
 */
@SuppressWarnings({"cast", "rawtypes", "unchecked"})
final class TaskClients {
    private final Settings job;
    private final String name;
    private final TaskContext context;
    private Map login;
    private TargetCluster cluster;
    private Pace pace;
    private KafkaProducer producer;
    private boolean isOpen;

    /** @param name of the task, unique in its run: its transactional id ends with it */
    TaskClients(Settings job, String name, TaskContext context) {
        this.job = job;
        this.name = name;
        this.context = context;
    }

    /** A client's settings. Where they have no login, Spark may have obtained a token for these brokers. */
    static Map login(Map settings) {
        return new KafkaConfigUpdater("executor", PythonUtils.toScalaMap(new HashMap(settings)))
            .setAuthenticationConfigIfNeeded().build();
    }

    Pace pace() {
        if (pace == null) {
            pace = new Pace(job, cluster(), context);
        }
        return pace;
    }

    Sink sink(Piece piece) {
        TargetCluster asked = cluster();
        if (job.isDelivered) {
            return new DeliveredSink(job, piece, asked, context);
        }
        if (producer == null) {
            producer = newProducer();
        }
        return job.idPrefix == null
            ? (Sink) new PlainSink(job, piece, producer, asked, context)
            : (Sink) new TransactionalSink(job, piece, producer, asked, context);
    }

    /** Only the first sink of a task fences its earlier attempts. */
    void open(Sink sink) {
        if (isOpen) {
            sink.openNext();
        } else {
            sink.open();
            isOpen = true;
        }
    }

    void close() {
        try {
            if (producer != null) {
                producer.close(Duration.ZERO);
            }
        } finally {
            if (cluster != null) {
                cluster.close();
            }
        }
    }

    private TargetCluster cluster() {
        if (cluster == null) {
            login = login(job.producer);
            cluster = new AdminTargetCluster(job, login);
        }
        return cluster;
    }

    private KafkaProducer newProducer() {
        HashMap config = new HashMap(login);
        if (job.idPrefix != null) {
            config.put("transactional.id", job.idPrefix + name);
        }
        try {
            return new KafkaProducer(config, new ByteArraySerializer(), new ByteArraySerializer());
        } catch (KafkaException error) {
            throw WriteFailure.ofClient("The producer of piece " + name + " could not be made.", error);
        }
    }
}
