package airflow_provider_kafka_spark.jobs.writer;

import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.util.Optional;
import org.apache.kafka.clients.Metadata;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.internals.SubscriptionState;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.message.FetchResponseData;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.common.utils.Timer;

/**
 * A consumer's fetches as they came from the broker. Leaders, sessions, logins and positions stay the consumer's; only
 * its reading of records is left out. All that is not public of the consumer is reached here.
 */
@SuppressWarnings({"cast", "rawtypes", "unchecked"})
final class ConsumerInternals {
    private static final String PACKAGE = "org.apache.kafka.clients.consumer.internals.";
    private static final Class[] NONE = {};
    private static final Class[] TIMER = {Timer.class};

    private final Class classic = Members.type(PACKAGE + "ClassicKafkaConsumer");
    private final Class fetcherType = Members.type(PACKAGE + "Fetcher");
    private final Class bufferType = Members.type(PACKAGE + "FetchBuffer");
    private final Field delegateOf = Members.field(KafkaConsumer.class, "delegate");
    private final Field fetcherOf = Members.field(classic, "fetcher");
    private final Field clientOf = Members.field(classic, "client");
    private final Field subscriptionsOf = Members.field(classic, "subscriptions");
    private final Method updateMetadata = Members.method(classic, "updateAssignmentMetadataIfNeeded", TIMER);
    private final Method sendFetches = Members.method(fetcherType, "sendFetches", NONE);
    private final Class fetchType = Members.type(PACKAGE + "CompletedFetch");
    private final Field collectorOf = Members.field(fetcherType, "fetchCollector");
    private final Method check =
        Members.method(Members.type(PACKAGE + "FetchCollector"), "initialize", new Class[] {fetchType});
    private final Field bufferOf = Members.field(fetcherType, "fetchBuffer");
    private final Method take = Members.method(bufferType, "poll", NONE);
    private final Field dataOf = Members.field(fetchType, "partitionData");
    private final Field leaderOf = Members.field(SubscriptionState.FetchPosition.class, "currentLeader");
    private final Class clientType = Members.type(PACKAGE + "ConsumerNetworkClient");
    private final Method pollNetwork = Members.method(clientType, "poll", TIMER);
    private final Method transmit = Members.method(clientType, "transmitSends", NONE);

    private Object delegate;
    private Object fetcher;
    private Object client;
    private Object collector;
    private Object buffer;
    private SubscriptionState subscriptions;
    private TopicPartition partition;

    /** @throws UnsupportedOperationException if this client lacks what is needed; it names what */
    ConsumerInternals() {
        // The members above are looked up.
    }

    /** @param consumer has the partition assigned, and a position in it */
    void open(KafkaConsumer consumer, TopicPartition assigned) {
        partition = assigned;
        delegate = Members.get(delegateOf, consumer);
        if (!classic.isInstance(delegate)) {
            throw Members.missing("ClassicKafkaConsumer behind group.protocol=" + delegate.getClass().getName());
        }
        fetcher = Members.get(fetcherOf, delegate);
        client = Members.get(clientOf, delegate);
        collector = Members.get(collectorOf, fetcher);
        buffer = Members.get(bufferOf, fetcher);
        subscriptions = (SubscriptionState) Members.get(subscriptionsOf, delegate);
    }

    /** The next fetch that has records, or null if there was none within this time. */
    FetchResponseData.PartitionData next(long ms) {
        Timer timer = Time.SYSTEM.timer(ms);
        do {
            Members.call(updateMetadata, delegate, new Object[] {timer});
            request();
            Object fetch = Members.call(take, buffer, NONE);
            if (fetch == null) {
                Members.call(pollNetwork, client, new Object[] {timer});
                continue;
            }
            // The consumer's own check of one answer. At an error it throws, or looks for another leader. Others may
            // have come since, so the buffer as a whole is not for it: their records would be dropped.
            if (Members.call(check, collector, new Object[] {fetch}) == null) {
                continue;
            }
            FetchResponseData.PartitionData data = (FetchResponseData.PartitionData) Members.get(dataOf, fetch);
            if (data.records() != null && data.records().sizeInBytes() > 0) {
                return data;
            }
        } while (timer.notExpired());
        return null;
    }

    /** Go on at an offset, and let the fetch from there travel while the one before is written. */
    void moveTo(long offset, int leaderEpoch) {
        SubscriptionState.FetchPosition before = subscriptions.position(partition);
        Optional epoch = leaderEpoch < 0 ? Optional.empty() : Optional.of(Integer.valueOf(leaderEpoch));
        Metadata.LeaderAndEpoch leader = (Metadata.LeaderAndEpoch) Members.get(leaderOf, before);
        subscriptions.position(partition, new SubscriptionState.FetchPosition(offset, epoch, leader));
        request();
        Members.call(transmit, client, NONE);
    }

    private void request() {
        Members.call(sendFetches, fetcher, NONE);
    }
}
