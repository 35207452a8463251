// The entries of the ledger, from asset events and from what tasks have stored. core/ledger/entry.py has the same
// rules, and both are tested against tests/core/ledger/coverage_cases.json.

import { compactRanges, isCompact } from "./compact.js";
import { mergeRanges, parseRange } from "./offsets.js";

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
/** Of one list of an entry; no copy makes more, and Airflow would take them. */
export const MAX_RANGES = 100_000;
/** Characters of a part of a value, and how many it has at most. */
const [PART, MAX_PARTS] = [30_000, 1_000];
const TIME = /^\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:\d\d)$/;

class Malformed extends Error {}

function check(isRight) {
  if (!isRight) throw new Malformed();
}

const isText = (value) => typeof value === "string";

function text(value, name, fallback) {
  const found = value[name] ?? fallback;
  check(isText(found) && !(value[name] === null));
  return found;
}

function texts(value) {
  check(Array.isArray(value) && value.every(isText));
  return value;
}

function isObject(value) {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function names(value) {
  if (value === undefined) return new Map();
  check(isObject(value) && Object.values(value).every(isText));
  return new Map(Object.entries(value));
}

function parseRanges(value) {
  if (value === undefined) return [];
  const found = isCompact(value) ? compactRanges(value, MAX_RANGES) : value;
  const size = typeof found === "number" ? found : found?.length;
  if (size > MAX_RANGES) throw Object.assign(new Malformed(), { ranges: size });
  check(Array.isArray(found));
  if (found !== value) return found;
  const parsed = found.map(parseRange);
  check(!parsed.includes(null));
  return parsed;
}

function ranges(value) {
  return mergeRanges(parseRanges(value));
}

/** When a worker looked at logs, and of each partition all offsets, also of empty ones: of source and target. */
function looks(log) {
  if (log === undefined || log === null) return { sourceLog: null, targetLog: null, lags: [] };
  check(isObject(log) && isText(log.at) && TIME.test(log.at));
  const at = Date.parse(log.at);
  check(!Number.isNaN(at));
  const [sourceLog, targetLog] = [log.source, log.target].map((list) => ({ at, ranges: parseRanges(list) }));
  return { sourceLog, targetLog, lags: lags(log.groups ?? [], at, "groups" in log) };
}

/** How far behind consumer groups were. */
function lags(value, at, isGiven) {
  check(Array.isArray(value) && value.length <= MAX_RANGES && (!isGiven || value !== null));
  return value.map((row) => {
    check(isObject(row) && ["source", "target"].includes(row.side));
    check(Number.isInteger(row.behind) && row.behind >= 0 && row.behind < 2 ** 63);
    return { groupId: text(row, "group_id"), topic: text(row, "topic"), side: row.side, behind: row.behind, at };
  });
}

function integer(value) {
  return Number.isSafeInteger(value) ? value : null;
}

function read(value) {
  check(["running", "partial", "complete"].includes(value.state));
  const filtered = value.filtered ?? false;
  check(typeof filtered === "boolean" && value.filtered !== null);
  return {
    kafkaRun: text(value, "run_id"),
    state: value.state,
    delivered: ranges(value.offset_ranges),
    planned: ranges(value.planned_ranges),
    lost: ranges(value.missing_ranges),
    empty: ranges(value.empty_ranges),
    // A server is empty if its connection is gone.
    source: text(value, "source"),
    sourceCluster: text(value, "source_cluster_id", ""),
    topicIds: names(value.source_topic_ids),
    targetServer: text(value, "target"),
    targetCluster: text(value, "target_cluster_id", ""),
    targetIds: names(value.target_topic_ids),
    targetTopics: texts(value.target_topics),
    // Of the expression that has decided where each record went.
    targetExpression: text(value, "target_expr", ""),
    // The only target of a source topic, where each has one of its own.
    topicMap: names(value.topic_map),
    ...looks(value.log),
    isFiltered: filtered,
    recordsRead: integer(value.records_read),
    recordsWritten: integer(value.records_written),
    startedAt: isText(value.started_at) ? value.started_at : "",
    seconds: typeof value.seconds === "number" ? value.seconds : null,
    tryNumber: integer(value.try_number),
  };
}

/** The rows of a task's state, where a value that is stored in parts is whole; null if one of them is absent. */
export function wholeRows(rows) {
  const values = new Map(rows.map(({ key, value }) => [key, value]));
  const whole = ({ key, value }) => {
    if (!isObject(value) || Object.keys(value).join() !== "parts") return value;
    if (!Array.isArray(value.parts) || value.parts.length > MAX_PARTS) return null;
    const parts = value.parts.map((digest) => values.get(partKey(String(key), String(digest))));
    if (!parts.every((part) => isText(part) && part.length <= PART)) return null;
    try {
      return JSON.parse(parts.join(""));
    } catch {
      return null;
    }
  };
  return rows.map((row) => ({ ...row, value: whole(row) }));
}

/** As core/wire/state_parts.py has it: ledger.0123/copy of ledger/copy. */
function partKey(key, digest) {
  const [name] = key.split("/");
  return `${name}.${digest.slice(0, 16)}${key.slice(name.length)}`;
}

/** The entry; or, if it is none of this version, an object with the number of its ranges, if they are too many. */
function readEntry(value) {
  if (!isObject(value) || value.version !== VERSION || !("offset_ranges" in value)) return { unread: true };
  try {
    return read(value);
  } catch (error) {
    if (!(error instanceof Malformed)) throw error;
    return { unread: true, tooMany: error.ranges };
  }
}

/** Whether a task has made the event, and nobody through Airflow's API, which notes that in the extra. */
export function isOfTask(event) {
  return Boolean(event?.source_task_id) && !event?.extra?.from_rest_api;
}

/** All entries of events and tasks; what is not read is counted, and named where it has too many ranges. */
export class Entries {
  constructor() {
    this.all = [];
    this.skipped = 0;
    this.refused = [];
    /** What events claim that no task has made: it counts for nothing. */
    this.claims = [];
    this.notByTask = 0;
  }

  /** A function that called several operators has an entry of each. */
  addEvent(event) {
    const extra = event?.extra;
    const where = {
      dagId: event.source_dag_id ?? "",
      dagRunId: event.source_run_id ?? "",
      taskId: event.source_task_id ?? "",
      mapIndex: integer(event.source_map_index) ?? -1,
      at: event.timestamp ?? "",
    };
    const isClaim = !isOfTask(event);
    if (isClaim) this.notByTask += 1;
    // Without an extra it is of a function that called no operator, or none that had something to copy.
    if (!isObject(extra) || Object.keys(extra).length === 0) return;
    const values = [extra, ...(Array.isArray(extra.more) ? extra.more : [])];
    for (const value of values) {
      const entry = readEntry(value);
      if (isClaim) {
        if (!entry.unread) this.claims.push({ ...entry, ...where, planned: [] });
      } else this.#add(entry, where, { planned: [], isActive: false });
    }
  }

  /** rows: of the task state store. Returns whether one of them is of the ledger. */
  addTask(task, rows) {
    const state = task.state ?? "no_status";
    const where = {
      dagId: task.dag_id,
      dagRunId: task.dag_run_id,
      taskId: task.task_id,
      mapIndex: integer(task.map_index) ?? -1,
      taskState: task.state ?? "cleared",
    };
    const ours = rows.filter(({ key }) => key === "ledger" || String(key).startsWith("ledger/"));
    for (const { value, updated_at: updatedAt } of ours) {
      const entry = readEntry(value);
      const planned = entry.state === "complete" ? [] : entry.planned;
      const more = { planned, isActive: ACTIVE_STATES.includes(state), isOfTask: true };
      more.wasKilled = task.state === "failed" && entry.state === "running";
      this.#add(entry, { ...where, at: updatedAt ?? task.start_date ?? "" }, more);
    }
    return ours.length > 0;
  }

  #add(entry, where, more) {
    if (!entry.unread) {
      this.all.push({ ...entry, ...where, ...more });
      return;
    }
    this.skipped += 1;
    if (entry.tooMany) this.refused.push({ ...where, ranges: entry.tooMany });
  }
}
