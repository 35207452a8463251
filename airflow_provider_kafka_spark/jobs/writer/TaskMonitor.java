package airflow_provider_kafka_spark.jobs.writer;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.HashMap;
import java.util.HashSet;
import org.apache.spark.ExceptionFailure;
import org.apache.spark.SparkContext;
import org.apache.spark.scheduler.AccumulableInfo;
import org.apache.spark.scheduler.SparkListener;
import org.apache.spark.scheduler.SparkListenerExecutorMetricsUpdate;
import org.apache.spark.scheduler.SparkListenerJobStart;
import org.apache.spark.scheduler.SparkListenerTaskEnd;
import org.apache.spark.scheduler.SparkListenerTaskStart;
import org.apache.spark.util.LongAccumulator;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import scala.Tuple4;

/**
 * On the driver, for one job group: how many records its tasks have read until now, from the executors' heartbeats, and
 * how a task failed. At a failure that each attempt would have again, it cancels the group.
 */
@SuppressWarnings({"cast", "rawtypes"})
public final class TaskMonitor extends SparkListener {
    private static final Logger LOG = LoggerFactory.getLogger(TaskMonitor.class);
    private static final String GROUP = "spark.jobGroup.id";

    private final SparkContext context;
    private final String group;
    private final LongAccumulator total;
    private final HashSet<Integer> stages = new HashSet<Integer>();
    private final HashMap<Long, Long> readByTask = new HashMap<Long, Long>();
    private int running;
    private int succeeded;
    private String failure;
    private boolean isPermanent;

    /**
     * @param group of the jobs that are watched
     * @param total what the writer's tasks increase with every record
     */
    public TaskMonitor(SparkContext context, String group, LongAccumulator total) {
        this.context = context;
        this.group = group;
        this.total = total;
    }

    public synchronized long recordsRead() {
        long sum = 0;
        for (Long read : readByTask.values()) {
            sum += read.longValue();
        }
        return sum;
    }

    /** How many tasks run now. */
    public synchronized int running() {
        return running;
    }

    /** How many tasks have succeeded. */
    public synchronized int succeeded() {
        return succeeded;
    }

    /** The first failure that each attempt would have again, or else the last one, as JSON; null if there is none. */
    public synchronized String failure() {
        return failure;
    }

    @Override
    public synchronized void onJobStart(SparkListenerJobStart event) {
        if (event.properties() != null && group.equals(event.properties().getProperty(GROUP))) {
            for (scala.collection.Iterator each = event.stageIds().iterator(); each.hasNext(); ) {
                stages.add((Integer) each.next());
            }
        }
    }

    @Override
    public synchronized void onExecutorMetricsUpdate(SparkListenerExecutorMetricsUpdate event) {
        for (scala.collection.Iterator each = event.accumUpdates().iterator(); each.hasNext(); ) {
            Tuple4 task = (Tuple4) each.next();
            scala.collection.Iterator metrics = ((scala.collection.Iterable) task._4()).iterator();
            while (metrics.hasNext()) {
                AccumulableInfo metric = (AccumulableInfo) metrics.next();
                // Compared by id, because metrics in a heartbeat have no name.
                if (metric.id() == total.id() && metric.update().isDefined()) {
                    readByTask.put((Long) task._1(), (Long) metric.update().get());
                }
            }
        }
    }

    @Override
    public synchronized void onTaskStart(SparkListenerTaskStart event) {
        if (stages.contains(Integer.valueOf(event.stageId()))) {
            running++;
        }
    }

    @Override
    public synchronized void onTaskEnd(SparkListenerTaskEnd event) {
        if (!stages.contains(Integer.valueOf(event.stageId()))) {
            return;
        }
        running--;
        if (event.taskInfo().successful()) {
            succeeded++;
        }
        Long task = Long.valueOf(event.taskInfo().taskId());
        if (event.taskInfo().successful() && event.taskMetrics() != null) {
            readByTask.put(task, Long.valueOf(event.taskMetrics().inputMetrics().recordsRead()));
        } else {
            readByTask.remove(task);
        }
        if (event.reason() instanceof ExceptionFailure) {
            String found = WriteFailure.find(((ExceptionFailure) event.reason()).description());
            if (found != null) {
                keep(found);
            }
        }
    }

    private void keep(String text) {
        if (isPermanent) {
            return;
        }
        failure = text;
        try {
            isPermanent = ((JsonNode) new ObjectMapper().readTree(text).get("permanent")).asBoolean();
        } catch (java.io.IOException error) {
            LOG.warn("The failure of a task cannot be read: " + text);
        }
        if (isPermanent) {
            context.cancelJobGroup(group);
        }
    }
}
