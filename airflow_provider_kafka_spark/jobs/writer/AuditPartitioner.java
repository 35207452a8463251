package airflow_provider_kafka_spark.jobs.writer;

import org.apache.spark.Partitioner;

/** Chunks that follow each other are merged in one task, so that what is missing makes few ranges. */
public final class AuditPartitioner extends Partitioner {
    private static final long serialVersionUID = 1L;

    private final int count;
    private final int bits;

    /**
     * @param count of Spark partitions
     * @param bits how many chunks follow each other, as a power of two
     */
    public AuditPartitioner(Integer count, Integer bits) {
        this.count = count.intValue();
        this.bits = bits.intValue();
    }

    @Override
    public int numPartitions() {
        return count;
    }

    @Override
    public int getPartition(Object key) {
        long group = ((Long) key).longValue() >>> bits;
        return (int) Math.floorMod(group ^ (group >>> 43 - bits), (long) count);
    }
}
