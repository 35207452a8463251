package airflow_provider_kafka_spark.jobs.writer;

import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.Arrays;
import java.util.Collections;
import java.util.Iterator;
import java.util.Map;
import java.util.TreeMap;
import org.apache.spark.api.java.function.FlatMapFunction;
import org.apache.spark.broadcast.Broadcast;
import scala.Tuple2;

/**
 * Puts together what {@link AuditReader} found of source and target, and returns one JSON text:
 * {@code AuditTaskReport} in {@code audit_messages.py} says what each field means.
 */
@SuppressWarnings({"cast", "rawtypes", "unchecked"})
public final class AuditMerger implements FlatMapFunction {
    private static final long serialVersionUID = 1L;
    private static final byte NONE = -1;

    private final Broadcast ranges;
    private final int maxRanges;
    private final int maxSamples;
    private final boolean compares;

    /**
     * @param ranges {@code AuditRanges} as JSON
     * @param maxRanges missing ranges of a task at most
     * @param maxSamples records that are named at most
     */
    public AuditMerger(Broadcast ranges, Integer maxRanges, Integer maxSamples, Boolean compares) {
        this.ranges = ranges;
        this.maxRanges = maxRanges.intValue();
        this.maxSamples = maxSamples.intValue();
        this.compares = compares.booleanValue();
    }

    @Override
    public Iterator call(Object chunks) {
        AuditRanges audited = AuditRanges.parse(((String[]) ranges.value())[0]);
        Task task = new Task(audited, maxRanges, maxSamples, compares);
        for (Iterator each = (Iterator) chunks; each.hasNext(); ) {
            Tuple2 chunk = (Tuple2) each.next();
            task.add(((Long) chunk._1()).longValue(), (Iterable) chunk._2());
        }
        return Collections.singletonList(task.format()).iterator();
    }

    /** The counts of one Spark task. */
    private static final class Task {
        private static final int ONCE = 0;
        private static final int DOUBLED = 1;
        private static final int EXTRA = 2;
        private static final int MISSING = 3;
        private static final int FILTERED = 4;
        private static final int UNKNOWN = 5;
        private static final int DIFFERENT = 6;
        private static final int NOT_COMPARED = 7;
        private static final int COUNTS = 8;

        private final AuditRanges ranges;
        private final boolean compares;
        private final Places missing;
        private final Samples duplicated;
        private final Samples different;
        private final TreeMap<Integer, long[]> counts = new TreeMap<Integer, long[]>();
        private final byte[] kinds = new byte[AuditRanges.CHUNK];
        private final long[] fingerprints = new long[AuditRanges.CHUNK];
        private final int[] copies = new int[AuditRanges.CHUNK];
        private final boolean[] differs = new boolean[AuditRanges.CHUNK];

        Task(AuditRanges ranges, int maxRanges, int maxSamples, boolean compares) {
            this.ranges = ranges;
            this.compares = compares;
            missing = new Places(maxRanges);
            duplicated = new Samples(maxSamples);
            different = new Samples(maxSamples);
        }

        void add(long key, Iterable found) {
            Arrays.fill(kinds, NONE);
            Arrays.fill(copies, 0);
            Arrays.fill(differs, false);
            // The source comes first, since a copy is compared with it.
            read(found, true);
            read(found, false);
            classify(AuditRanges.partitionOf(key), AuditRanges.firstOffset(key));
        }

        private void read(Iterable found, boolean ofSource) {
            for (Iterator each = found.iterator(); each.hasNext(); ) {
                long[] items = (long[]) each.next();
                for (int i = 0; i < items.length; i += 2) {
                    int place = (int) (items[i] >>> 2);
                    int kind = (int) (items[i] & 3L);
                    if (ofSource && kind != AuditReader.DELIVERED) {
                        kinds[place] = (byte) kind;
                        fingerprints[place] = items[i + 1];
                    } else if (!ofSource && kind == AuditReader.DELIVERED) {
                        copies[place]++;
                        differs[place] |= kinds[place] != NONE && items[i + 1] != fingerprints[place];
                    }
                }
            }
        }

        private void classify(int partition, long first) {
            int range = -1;
            long[] of = null;
            long start = -1L;
            long end = -1L;
            for (int i = 0; i < AuditRanges.CHUNK; i++) {
                int kind = kinds[i];
                int count = copies[i];
                if (kind == NONE && count == 0) {
                    continue;
                }
                long offset = first + i;
                if (range < 0 || offset >= ranges.ends[range]) {
                    if (start >= 0) {
                        missing.add(partition, start, end);
                        start = -1L;
                    }
                    range = ranges.find(partition, offset);
                    of = of(range);
                }
                boolean isMissing = false;
                if (count > 0) {
                    addDelivered(of, partition, offset, i, count);
                } else if (kind == AuditReader.FILTERED) {
                    of[FILTERED]++;
                } else if (ranges.mayHaveAged[partition]) {
                    of[UNKNOWN]++;
                } else {
                    of[MISSING]++;
                    isMissing = true;
                }
                if (isMissing) {
                    start = start < 0 ? offset : start;
                    end = offset + 1;
                } else if (start >= 0) {
                    missing.add(partition, start, end);
                    start = -1L;
                }
            }
            if (start >= 0) {
                missing.add(partition, start, end);
            }
        }

        private void addDelivered(long[] of, int partition, long offset, int place, int count) {
            of[count == 1 ? ONCE : DOUBLED]++;
            of[EXTRA] += count - 1;
            if (count > 1) {
                duplicated.add(partition, offset);
            }
            if (compares && kinds[place] == NONE) {
                of[NOT_COMPARED]++;
            } else if (compares && differs[place]) {
                of[DIFFERENT]++;
                different.add(partition, offset);
            }
        }

        private long[] of(int range) {
            Integer index = Integer.valueOf(range);
            long[] found = (long[]) counts.get(index);
            if (found == null) {
                found = new long[COUNTS];
                counts.put(index, found);
            }
            return found;
        }

        String format() {
            ObjectNode report = Fields.newObject();
            ArrayNode list = report.putArray("ranges");
            for (Iterator each = counts.entrySet().iterator(); each.hasNext(); ) {
                Map.Entry entry = (Map.Entry) each.next();
                ArrayNode item = list.addArray().add(((Integer) entry.getKey()).intValue());
                long[] of = (long[]) entry.getValue();
                for (int i = 0; i < of.length; i++) {
                    item.add(of[i]);
                }
            }
            missing.write(report.putArray("missing"));
            duplicated.write(report.putArray("duplicated"));
            different.write(report.putArray("different"));
            return report.toString();
        }
    }

    /** The first records of a kind. */
    private static final class Samples {
        private final TreeMap<Long, TreeMap<Long, Boolean>> found = new TreeMap<Long, TreeMap<Long, Boolean>>();
        private final int max;
        private int size;

        Samples(int max) {
            this.max = max;
        }

        void add(int partition, long offset) {
            Long key = Long.valueOf((long) partition);
            TreeMap offsets = (TreeMap) found.get(key);
            if (offsets == null) {
                offsets = new TreeMap<Long, Boolean>();
                found.put(key, offsets);
            }
            offsets.put(Long.valueOf(offset), Boolean.TRUE);
            size++;
            if (size > max) {
                Long last = (Long) found.lastKey();
                TreeMap ofLast = (TreeMap) found.get(last);
                ofLast.remove(ofLast.lastKey());
                if (ofLast.isEmpty()) {
                    found.remove(last);
                }
                size--;
            }
        }

        void write(ArrayNode list) {
            for (Iterator each = found.entrySet().iterator(); each.hasNext(); ) {
                Map.Entry entry = (Map.Entry) each.next();
                for (Iterator offset = ((TreeMap) entry.getValue()).keySet().iterator(); offset.hasNext(); ) {
                    list.addArray().add(((Long) entry.getKey()).longValue()).add(((Long) offset.next()).longValue());
                }
            }
        }
    }

    /** Ranges of offsets; those that touch are one. Of too many, the first ones are kept. */
    private static final class Places {
        private static final int ROOM = 1 << 16;

        private final TreeMap<Long, TreeMap<Long, Long>> found = new TreeMap<Long, TreeMap<Long, Long>>();
        private final int max;
        private int size;

        Places(int max) {
            this.max = max;
        }

        void add(int partition, long from, long until) {
            Long key = Long.valueOf((long) partition);
            TreeMap places = (TreeMap) found.get(key);
            if (places == null) {
                places = new TreeMap<Long, Long>();
                found.put(key, places);
            }
            long start = from;
            long end = until;
            Map.Entry before = places.lowerEntry(Long.valueOf(from));
            if (before != null && ((Long) before.getValue()).longValue() == from) {
                start = ((Long) before.getKey()).longValue();
                size--;
            }
            Long after = (Long) places.remove(Long.valueOf(until));
            if (after != null) {
                end = after.longValue();
                size--;
            }
            places.put(Long.valueOf(start), Long.valueOf(end));
            size++;
            if (size > max + ROOM) {
                cut();
            }
        }

        private void cut() {
            while (size > max) {
                Long last = (Long) found.lastKey();
                TreeMap ofLast = (TreeMap) found.get(last);
                ofLast.remove(ofLast.lastKey());
                if (ofLast.isEmpty()) {
                    found.remove(last);
                }
                size--;
            }
        }

        void write(ArrayNode list) {
            cut();
            for (Iterator each = found.entrySet().iterator(); each.hasNext(); ) {
                Map.Entry entry = (Map.Entry) each.next();
                for (Iterator place = ((TreeMap) entry.getValue()).entrySet().iterator(); place.hasNext(); ) {
                    Map.Entry range = (Map.Entry) place.next();
                    list.addArray().add(((Long) entry.getKey()).longValue()).add(((Long) range.getKey()).longValue())
                        .add(((Long) range.getValue()).longValue());
                }
            }
        }
    }
}
