// What the page computes, without a document: entries of the ledger, and the state of each offset.
// Offsets are BigInt: Kafka's go up to 2^63 - 1, and JavaScript's numbers are exact up to 2^53 only.

export const VERSION = 1;
// The asset whose events are the ledger.
export const ASSET_NAME = "kafka_spark_copies";
export const OPERATORS = [
  "KafkaToKafkaBatchOperator",
  "ReplayOffsetRangesOperator",
  "KafkaToKafkaAvailableNowOperator",
];
// A task that was cleared has no state until it is scheduled.
export const ACTIVE_STATES = [
  "running",
  "deferred",
  "restarting",
  "up_for_retry",
  "up_for_reschedule",
  "queued",
  "scheduled",
  "no_status",
];
export const FAILED_STATES = ["failed", "upstream_failed", "removed"];
export const STATES = ["covered", "twice", "gap", "lost", "running", "failed"];
export const LABELS = {
  covered: "Covered",
  twice: "Covered twice",
  gap: "Gap",
  lost: "Lost",
  running: "Running now",
  failed: "Failed or partial",
};
export const MEANINGS = {
  covered: "A run read these offsets and delivered their records.",
  twice: "Runs with different run ids delivered these offsets.",
  gap: "No run that is shown here claims these offsets.",
  lost: "A run planned these offsets, and they were no longer available.",
  running: "A running task has planned these offsets.",
  failed: "A failed task planned these offsets. Clear that task: it continues where it stopped.",
};

const RANGE = /^(.+):(\d{1,10}):(\d{1,19}):(\d{1,19})$/s;

/** Parse "topic:partition:from:until", until exclusive; null if it is not that. A range may be empty. */
export function parseRange(text) {
  const found = typeof text === "string" ? RANGE.exec(text) : null;
  if (!found) return null;
  const range = { topic: found[1], partition: Number(found[2]), from: BigInt(found[3]), until: BigInt(found[4]) };
  return range.from <= range.until ? range : null;
}

export function formatRange({ topic, partition, from, until }) {
  return `${topic}:${partition}:${from}:${until}`;
}

// Of one entry; Airflow takes larger events than any copy makes.
const MAX_RANGES = 100_000;

/** The union of a list of ranges, so that the sweep meets each offset once for an entry; with a null if one is malformed. */
function ranges(value) {
  const all = Array.isArray(value) ? value.slice(0, MAX_RANGES).map(parseRange) : [];
  if (all.includes(null) || value?.length > MAX_RANGES) return [null];
  const merged = [];
  for (const range of all.sort(compareRanges)) {
    const last = merged.at(-1);
    const isNext = last?.topic === range.topic && last.partition === range.partition && range.from <= last.until;
    if (isNext && last.until < range.until) last.until = range.until;
    else if (!isNext && range.from < range.until) merged.push(range);
  }
  return merged;
}

function compareRanges(a, b) {
  return compare(a.topic, b.topic) || a.partition - b.partition || compare(a.from, b.from);
}

function text(value) {
  return typeof value === "string" ? value : "";
}

function number(value) {
  return Number.isSafeInteger(value) ? value : null;
}

/** The ledger's fields of an event's extra or of a task's entry; null if it is not of this version. */
function readLedger(value) {
  if (typeof value !== "object" || value?.version !== VERSION) return null;
  if (typeof value.source !== "string" || !Array.isArray(value.offset_ranges)) return null;
  const covered = ranges(value.offset_ranges);
  const lost = ranges(value.missing_ranges);
  const planned = ranges(value.planned_ranges);
  if ([...covered, ...lost, ...planned].includes(null)) return null;
  return {
    kafkaRun: text(value.run_id),
    state: text(value.state),
    // Empty if the connection is gone.
    source: value.source,
    sourceCluster: text(value.source_cluster_id),
    topicIds: typeof value.source_topic_ids === "object" ? (value.source_topic_ids ?? {}) : {},
    targetIds: typeof value.target_topic_ids === "object" ? (value.target_topic_ids ?? {}) : {},
    // The only target of a source topic, where each has one of its own.
    topicMap: new Map(Object.entries(typeof value.topic_map === "object" ? (value.topic_map ?? {}) : {})),
    targetServer: text(value.target),
    targetCluster: text(value.target_cluster_id),
    targetTopics: Array.isArray(value.target_topics) ? value.target_topics.filter((t) => text(t) !== "") : [],
    covered,
    lost,
    planned,
    isFiltered: value.filtered === true,
    recordsRead: number(value.records_read),
    recordsWritten: number(value.records_written),
    startedAt: text(value.started_at),
    seconds: typeof value.seconds === "number" ? value.seconds : null,
    tryNumber: number(value.try_number),
  };
}

function targetsOf({ targetServer, targetTopics }) {
  return targetTopics.map((topic) => ({ server: targetServer, topic }));
}

/** Whether a task has made the event, and nobody through Airflow's API, which notes that in the extra. */
export function isOfTask(event) {
  return Boolean(event?.source_task_id) && !event?.extra?.from_rest_api;
}

/** The entries of an event: of a function that called several operators it has several; none if of another version. */
export function entriesOfEvent(event) {
  const extra = event?.extra;
  if (!isOfTask(event)) return [];
  const more = Array.isArray(extra?.more) ? extra.more : [];
  return [extra, ...more]
    .map(readLedger)
    .filter((ledger) => ledger !== null)
    .map((ledger) => ({
      ...ledger,
      kind: "copied",
      planned: [],
      targets: targetsOf(ledger),
      dagId: text(event.source_dag_id),
      dagRunId: text(event.source_run_id),
      taskId: text(event.source_task_id),
      mapIndex: number(event.source_map_index) ?? -1,
      at: text(event.timestamp),
    }));
}

/** Entries with the targets alone whose address has this text in it; one whose targets are not known yet stays. */
export function ofTopic(entries, topic) {
  const needle = topic.toLowerCase();
  const isMeant = (target) => `${target.server}/${target.topic}`.toLowerCase().includes(needle);
  return entries
    .filter(({ targets }) => targets.length === 0 || targets.some(isMeant))
    .map((entry) => ({ ...entry, targets: entry.targets.filter(isMeant) }));
}

/** Entries of a task that runs or failed, from its rows in the task state store; others are counted as skipped. */
export function entriesOfTask(task, rows) {
  const entries = [];
  let skipped = 0;
  for (const { key, value, updated_at: updatedAt } of rows) {
    if (key !== "ledger" && !text(key).startsWith("ledger/")) continue;
    const ledger = readLedger(value);
    if (ledger === null) {
      skipped += 1;
      continue;
    }
    entries.push({
      ...ledger,
      kind: ledger.state === "complete" ? "copied" : ACTIVE_STATES.includes(task.state ?? "no_status") ? "running" : "failed",
      wasKilled: task.state === "failed" && ledger.state === "running",
      taskState: text(task.state) || "cleared",
      targets: targetsOf(ledger),
      dagId: text(task.dag_id),
      dagRunId: text(task.dag_run_id),
      taskId: text(task.task_id),
      mapIndex: number(task.map_index) ?? -1,
      at: text(updatedAt) || text(task.start_date),
    });
  }
  return { entries, skipped };
}

/**
 * Group entries by the source's cluster and topic, and the target's.
 * Each pair has lanes, one for each partition, whose segments do not overlap and leave nothing out. Entries of a topic
 * that was deleted and made again since, which has another id, are left out and counted; and so is what went to one.
 */
export function buildPairs(entries) {
  const clusterOf = nameClusters(entries);
  const latestIds = findLatestIds(entries, (entry) =>
    [...topicsOf(entry)].map((topic) => [topicKey(clusterOf(entry.source), topic), entry.topicIds[topic]]),
  );
  const latestTargetIds = findLatestIds(entries, (entry) =>
    entry.targets.map(({ server, topic }) => [topicKey(clusterOf(server), topic), entry.targetIds[topic]]),
  );
  const pairs = new Map();
  const waiting = [];
  const outdated = new Set();
  const all = { pairs, clusterOf, latestIds, latestTargetIds, outdated };
  const add = (entry, target, onlyTopic) => addEntry(all, entry, target, onlyTopic);
  for (const entry of entries) {
    // A running task whose target is an expression does not know its topics yet.
    if (entry.targets.length === 0) waiting.push(entry);
    for (const target of entry.targets) add(entry, target);
  }
  for (const entry of waiting) {
    for (const topic of topicsOf(entry)) {
      const known = [...pairs.values()].filter(
        (pair) =>
          pair.topic === topic &&
          clusterOf(pair.source) === clusterOf(entry.source) &&
          clusterOf(pair.target.server) === clusterOf(entry.targetServer),
      );
      const targets = known.length > 0 ? known.map((pair) => pair.target) : [{ server: entry.targetServer, topic: "" }];
      for (const target of targets) add(entry, target, topic);
    }
  }
  const result = [...pairs.values()];
  for (const pair of result) finishPair(pair);
  return { pairs: result.sort((a, b) => compare(pairName(a), pairName(b))), outdated: outdated.size };
}

/** Connections may name different servers of one cluster: its id says so, where it is known. */
function nameClusters(entries) {
  const ids = new Map();
  for (const { source, sourceCluster, targetServer, targetCluster } of entries) {
    if (sourceCluster) ids.set(source, sourceCluster);
    if (targetCluster) ids.set(targetServer, targetCluster);
  }
  return (server) => ids.get(server) ?? server;
}

function topicKey(cluster, topic) {
  return JSON.stringify([cluster, topic]);
}

/** Topics of whose offsets an entry says something. */
function topicsOf({ kind, covered, lost, planned }) {
  return new Set([...covered, ...lost, ...(kind === "copied" ? [] : planned)].map((range) => range.topic));
}

/** Of each topic the id in the latest entry that has one; idsOf gives the keys and ids of an entry. */
function findLatestIds(entries, idsOf) {
  const latest = new Map();
  for (const entry of entries) {
    const moment = Date.parse(entry.at) || 0;
    for (const [key, id] of idsOf(entry)) {
      if (id !== undefined && !(latest.get(key)?.moment > moment)) latest.set(key, { moment, id });
    }
  }
  return latest;
}

export function pairName({ source, topic, target }) {
  return `${serverName(source)}/${topic} → ${serverName(target.server)}/${topicName(target.topic)}`;
}

export function serverName(server) {
  return server || "(server not known)";
}

export function topicName(topic) {
  return topic || "(topic not known yet)";
}

function compare(a, b) {
  return a < b ? -1 : a > b ? 1 : 0;
}

function addEntry({ pairs, clusterOf, latestIds, latestTargetIds, outdated }, entry, target, onlyTopic = null) {
  const to = topicKey(clusterOf(target.server), target.topic);
  const latestTarget = latestTargetIds.get(to)?.id;
  const isTargetGone = (entry.targetIds[target.topic] ?? latestTarget) !== latestTarget;
  const kinds = [
    ["covered", entry.covered],
    ["lost", entry.lost],
    [entry.kind, entry.kind === "copied" ? [] : entry.planned],
  ];
  for (const [kind, list] of kinds) {
    for (const range of list) {
      if (onlyTopic !== null && range.topic !== onlyTopic) continue;
      if (target.topic !== "" && (entry.topicMap.get(range.topic) ?? target.topic) !== target.topic) continue;
      const from = topicKey(clusterOf(entry.source), range.topic);
      const isSourceGone = (entry.topicIds[range.topic] ?? latestIds.get(from)?.id) !== latestIds.get(from)?.id;
      if (isSourceGone || (isTargetGone && kind === "covered")) {
        outdated.add(entry);
        continue;
      }
      const key = from + to;
      let pair = pairs.get(key);
      if (!pair) pairs.set(key, (pair = { key, source: entry.source, topic: range.topic, target, intervals: new Map() }));
      const intervals = pair.intervals.get(range.partition) ?? [];
      intervals.push({ from: range.from, until: range.until, kind, entry });
      pair.intervals.set(range.partition, intervals);
    }
  }
}

function finishPair(pair) {
  pair.lanes = [...pair.intervals.entries()]
    .sort(([a], [b]) => a - b)
    .map(([partition, intervals]) => ({ partition, segments: sweep(intervals) }));
  delete pair.intervals;
  pair.low = smallest(pair.lanes.map((lane) => lane.segments[0].from));
  pair.high = largest(pair.lanes.map((lane) => lane.segments.at(-1).until));
  pair.counts = Object.fromEntries(STATES.map((state) => [state, 0n]));
  for (const lane of pair.lanes) {
    for (const segment of lane.segments) pair.counts[segment.state] += segment.until - segment.from;
  }
}

function smallest(values) {
  return values.reduce((a, b) => (b < a ? b : a));
}

function largest(values) {
  return values.reduce((a, b) => (b > a ? b : a));
}

/**
 * Sweep over one partition's intervals, and return segments in order, each with one state and its entries.
 * What is covered was delivered, whatever else happened to it; a gap is what lies between and nothing claims.
 */
export function sweep(intervals) {
  const points = [];
  for (const interval of intervals) {
    points.push({ at: interval.from, isStart: true, interval }, { at: interval.until, isStart: false, interval });
  }
  points.sort((a, b) => (a.at < b.at ? -1 : a.at > b.at ? 1 : 0));
  const segments = [];
  const active = new Set();
  for (let i = 0; i < points.length; ) {
    const from = points[i].at;
    for (; i < points.length && points[i].at === from; i += 1) {
      if (points[i].isStart) active.add(points[i].interval);
      else active.delete(points[i].interval);
    }
    if (i === points.length) break;
    segments.push({ from, until: points[i].at, ...judge(active) });
  }
  return mergeEqual(segments);
}

function judge(active) {
  const ofKind = (kind) => [...active].filter((interval) => interval.kind === kind).map((interval) => interval.entry);
  // Ranges of one entry may overlap.
  const of = (kind) => [...new Set(ofKind(kind))];
  const covered = of("covered");
  const whole = covered.filter((entry) => !entry.isFiltered);
  if (whole.length > 0) {
    const runs = new Set(whole.map((entry) => entry.kafkaRun));
    return { state: runs.size > 1 ? "twice" : "covered", entries: covered };
  }
  // A run with a filter has not delivered what another one was to deliver whole.
  if (covered.length > 0 && [...of("running"), ...of("failed")].every((entry) => entry.isFiltered)) {
    return { state: "covered", entries: covered };
  }
  for (const state of ["running", "failed", "lost"]) {
    const entries = of(state);
    if (entries.length > 0) return { state, entries };
  }
  return { state: "gap", entries: [] };
}

function mergeEqual(segments) {
  const merged = [];
  for (const segment of segments) {
    const last = merged.at(-1);
    const isSame =
      last !== undefined &&
      last.state === segment.state &&
      last.entries.length === segment.entries.length &&
      last.entries.every((entry, i) => entry === segment.entries[i]);
    if (isSame) last.until = segment.until;
    else merged.push(segment);
  }
  return merged;
}

/** Segments of these states, as ranges that the replay operator takes. */
export function rangesOf(pair, states) {
  return pair.lanes.flatMap(({ partition, segments }) =>
    segments
      .filter((segment) => states.includes(segment.state))
      .map((segment) => ({ topic: pair.topic, partition, from: segment.from, until: segment.until, segment })),
  );
}

export function countOffsets(list) {
  return list.reduce((sum, { from, until }) => sum + (until - from), 0n);
}

/** 1234567n as "1,234,567". */
export function formatCount(value) {
  return String(value).replace(/\B(?=(\d{3})+$)/g, ",");
}

/** "2026-11-24T01:00:00.123Z" as "2026-11-24 01:00:00 UTC". */
export function formatTime(value) {
  const moment = new Date(value);
  return Number.isNaN(moment.getTime()) ? "unknown" : `${moment.toISOString().slice(0, 19).replace("T", " ")} UTC`;
}

/** The span of offsets that a view shows, moved into the bounds low and high, and has one offset or more. */
export function clampView(from, until, low, high) {
  let size = until - from;
  if (size < 1n) size = 1n;
  if (size > high - low) size = high - low;
  let start = from;
  if (start < low) start = low;
  if (start + size > high) start = high - size;
  return { from: start, until: start + size };
}

/** The view zoomed by a factor of 2 in or out, around its middle. */
export function zoomView(view, isIn, low, high) {
  const size = view.until - view.from;
  const next = isIn ? (size + 1n) / 2n : size * 2n;
  const start = view.from + (size - next) / 2n;
  return clampView(start, start + next, low, high);
}

/** Round offsets for an axis, at most about as many as the maximum. */
export function ticks(from, until, maximum) {
  const size = until - from;
  const minimum = size / BigInt(Math.max(1, Math.floor(maximum))) + 1n;
  const power = 10n ** BigInt(String(minimum).length - 1);
  const step = [1n, 2n, 5n, 10n].map((factor) => factor * power).find((each) => each >= minimum);
  const result = [];
  for (let at = ((from + step - 1n) / step) * step; at <= until; at += step) result.push(at);
  return result;
}

/** The param of a DAG that takes ranges, or null. A run's form calls it offset_ranges or ranges. */
export function rangesParam(params) {
  for (const name of ["offset_ranges", "ranges"]) {
    const type = params?.[name]?.schema?.type;
    const types = Array.isArray(type) ? type : [type];
    if (params?.[name] === undefined) continue;
    if (name === "offset_ranges" || types.includes("array")) return { name, isList: !types.includes("string") };
  }
  return null;
}

/** The configuration of a run: the DAG's own defaults, with the ranges and what else is known filled in. */
export function runConf(params, pair, list, isPlanOnly) {
  const conf = Object.fromEntries(Object.entries(params).map(([name, param]) => [name, param?.value ?? null]));
  const { name, isList } = rangesParam(params);
  const texts = list.map(formatRange);
  conf[name] = isList ? texts : JSON.stringify(texts);
  if ("topic" in conf) conf.topic = pair.topic;
  if ("target_topic" in conf && pair.target.topic) conf.target_topic = pair.target.topic;
  if ("plan_only" in conf) conf.plan_only = isPlanOnly;
  return conf;
}
