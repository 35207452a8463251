// What the entries say of each offset, for each pair of a source topic and a target topic. core/ledger/pairs.py and
// core/ledger/coverage.py have the same rules, and both are tested against tests/core/ledger/coverage_cases.json.

import { compare, countOffsets } from "./offsets.js";
import { STATES } from "./words.js";

/** Entries that a segment names; it counts the others. */
export const MAX_ENTRIES = 10;

/**
 * All pairs, sorted by name. Each has lanes, one for each partition, with segments that do not overlap.
 *
 * entries and claims: of Entries. A claim, of an event that no task has made, is kept beside the segments.
 * outdated: how many entries have something that does not count, since its topic was deleted and recreated.
 */
export function buildPairs(entries, claims = []) {
  const ledger = new Ledger(entries);
  for (const entry of ledger.entries) ledger.add(entry);
  for (const claim of claims) ledger.addClaim(claim);
  const pairs = [...ledger.pairs.values()].filter(({ intervals }) => intervals.size > 0);
  for (const pair of pairs) finishPair(pair, ledger);
  return { pairs: pairs.sort((a, b) => compare(pairName(a), pairName(b))), outdated: ledger.outdated.size };
}

export function pairName({ source, topic, target }) {
  return `${source}/${topic} → ${target.server}/${target.topic}`;
}

function moment({ at }) {
  return Date.parse(at) || 0;
}

const key = (...parts) => JSON.stringify(parts);

/** The task of an entry or of a waiting task, over all runs. */
const taskKey = ({ dagId, taskId }) => key(dagId, taskId);

/** Facts that are of many pairs: names of clusters, ids of topics, and looks at logs. */
class Ledger {
  constructor(entries) {
    this.entries = entries.toSorted((a, b) => moment(a) - moment(b));
    this.pairs = new Map();
    this.outdated = new Set();
    this.clusters = new Map();
    for (const { source, sourceCluster, targetServer, targetCluster } of this.entries) {
      if (source && sourceCluster) this.clusters.set(source, sourceCluster);
      if (targetServer && targetCluster) this.clusters.set(targetServer, targetCluster);
    }
    this.topicIds = this.#latestIds((entry) => [this.sourceOf(entry), entry.topicIds]);
    this.targetIds = this.#latestIds((entry) => [this.targetOf(entry), entry.targetIds]);
    this.families = this.#knownTargets();
    this.sourceLogs = this.#latestLooks((e) => [e.sourceLog, this.sourceOf(e), e.topicIds, this.topicIds]);
    this.targetLogs = this.#latestLooks((e) => [e.targetLog, this.targetOf(e), e.targetIds, this.targetIds]);
    this.lags = this.#latestLags();
  }

  /** Connections may name different servers of one cluster: its id says so, where it is known. */
  sourceOf({ source, sourceCluster }) {
    return sourceCluster || (this.clusters.get(source) ?? source);
  }

  targetOf({ targetServer, targetCluster }) {
    return targetCluster || (this.clusters.get(targetServer) ?? targetServer);
  }

  #latestIds(idsOf) {
    const latest = new Map();
    for (const entry of this.entries) {
      const [cluster, ids] = idsOf(entry);
      for (const [topic, id] of ids) if (id) latest.set(key(cluster, topic), id);
    }
    return latest;
  }

  /** Runs of one expression count for each target that any of them has reached. */
  #knownTargets() {
    const families = new Map();
    for (const entry of this.entries.filter(({ targetExpression }) => targetExpression)) {
      for (const topic of topicsOf(entry)) {
        const family = this.#family(entry, topic);
        families.set(family, new Set([...(families.get(family) ?? []), ...entry.targetTopics]));
      }
    }
    return families;
  }

  #family(entry, topic) {
    return key(this.sourceOf(entry), topic, this.targetOf(entry), entry.targetExpression);
  }

  /** Of each partition the latest look, if it was at the topic that is there now: one may look at a few of them. */
  #latestLooks(lookOf) {
    const latest = new Map();
    for (const entry of this.entries) {
      const [look, cluster, ids, idsNow] = lookOf(entry);
      if (!look) continue;
      for (const [topic, ranges] of Map.groupBy(look.ranges, (range) => range.topic)) {
        const place = key(cluster, topic);
        const isGone = ids.get(topic) && ids.get(topic) !== idsNow.get(place);
        if (isGone) continue;
        if (!latest.has(place)) latest.set(place, new Map());
        const known = latest.get(place);
        for (const range of ranges) {
          if (!(known.get(range.partition)?.at > look.at)) known.set(range.partition, { at: look.at, range });
        }
      }
    }
    return new Map([...latest].map(([place, known]) => [place, wholeLook([...known.values()])]));
  }

  /** Of each topic the last known lag of each group, sorted. */
  #latestLags() {
    const latest = new Map();
    for (const entry of this.entries) {
      for (const lag of entry.lags) {
        const place = key(lag.side, lag.side === "target" ? this.targetOf(entry) : this.sourceOf(entry), lag.topic);
        const groups = latest.get(place) ?? new Map();
        if (!(groups.get(lag.groupId)?.at > lag.at)) groups.set(lag.groupId, lag);
        latest.set(place, groups);
      }
    }
    return latest;
  }

  lagsOf(...place) {
    return [...(this.lags.get(key(...place))?.values() ?? [])].sort((a, b) => compare(a.groupId, b.groupId));
  }

  targetsOf(entry, topic) {
    if (entry.topicMap.has(topic)) return [entry.topicMap.get(topic)];
    const targets = entry.targetExpression ? [...this.families.get(this.#family(entry, topic))] : entry.targetTopics;
    return targets.length > 0 ? new Set(targets) : [""];
  }

  add(entry) {
    const source = this.sourceOf(entry);
    const target = this.targetOf(entry);
    for (const topic of topicsOf(entry)) {
      const id = entry.topicIds.get(topic);
      if (id && id !== this.topicIds.get(key(source, topic))) {
        this.outdated.add(entry);
        continue;
      }
      for (const name of this.targetsOf(entry, topic)) {
        const targetId = entry.targetIds.get(name);
        const isGone = Boolean(targetId) && targetId !== this.targetIds.get(key(target, name));
        if (isGone && entry.delivered.some((range) => range.topic === topic)) this.outdated.add(entry);
        const pair = this.#pair(source, topic, target, name);
        pair.source ||= entry.source;
        pair.target.server ||= entry.targetServer;
        addIntervals(pair.intervals, entry, topic, isGone);
      }
    }
  }

  /** It makes no pair, and no lane. */
  addClaim(entry) {
    for (const range of entry.delivered) {
      for (const name of entry.targetTopics) {
        const pair = this.pairs.get(key(this.sourceOf(entry), range.topic, this.targetOf(entry), name));
        pair?.claims.push({ ...range, entry });
      }
    }
  }

  #pair(source, topic, target, name) {
    const place = key(source, topic, target, name);
    if (!this.pairs.has(place)) {
      // The servers are as the earliest entry names them.
      const sides = { source: "", topic, target: { server: "", topic: name } };
      const logs = { sourceLog: this.sourceLogs.get(key(source, topic)), targetLog: this.targetLogs.get(key(target, name)) };
      const lags = [...this.lagsOf("source", source, topic), ...this.lagsOf("target", target, name)];
      this.pairs.set(place, { ...sides, intervals: new Map(), claims: [], ...logs, lags });
    }
    return this.pairs.get(place);
  }
}

function wholeLook(looks) {
  return { at: looks.reduce((last, { at }) => Math.max(last, at), 0), ranges: looks.map(({ range }) => range) };
}

/** Topics of whose offsets an entry says something. */
function topicsOf({ delivered, planned, lost, empty }) {
  return new Set([delivered, planned, lost, empty].flatMap((list) => list.map(({ topic }) => topic)));
}

function addIntervals(intervals, entry, topic, isGone) {
  const kinds = [
    [isGone ? "gone" : entry.isFiltered ? "filtered" : "whole", entry.delivered],
    [entry.isActive ? "unfinished" : "failed", entry.planned],
    ["lost", entry.lost],
    ["empty", entry.empty],
  ];
  for (const [kind, list] of kinds) {
    for (const range of list) {
      if (range.topic !== topic) continue;
      if (!intervals.has(range.partition)) intervals.set(range.partition, []);
      intervals.get(range.partition).push({ from: range.from, until: range.until, kind, entry });
    }
  }
}

function finishPair(pair) {
  const logs = new Map((pair.sourceLog?.ranges ?? []).map((range) => [range.partition, range]));
  const partitions = new Set([...pair.intervals.keys(), ...logs.keys()]);
  pair.lanes = [...partitions]
    .sort((a, b) => a - b)
    .map((partition) => {
      const log = logs.get(partition) ?? null;
      const known = sweep(pair.intervals.get(partition) ?? []);
      const claims = pair.claims.filter((claim) => claim.partition === partition);
      return { partition, log, segments: withUnseen(known, log), claims };
    })
    .filter(({ segments }) => segments.length > 0);
  const entries = [...pair.intervals.values()].flat().map(({ entry }) => entry);
  pair.dagIds = new Set(entries.map(({ dagId }) => dagId));
  pair.tasks = new Set(entries.map(taskKey));
  pair.runs = new Set(entries.map(({ kafkaRun }) => kafkaRun));
  pair.lastAt = entries.reduce((last, entry) => Math.max(last, moment(entry)), 0);
  delete pair.intervals;
  const edges = pair.lanes.map(({ segments }) => [segments[0].from, segments.at(-1).until]);
  pair.low = edges.reduce((low, [from]) => (from < low ? from : low), edges[0]?.[0] ?? 0n);
  pair.high = edges.reduce((high, [, until]) => (until > high ? until : high), edges[0]?.[1] ?? 1n);
  countStates(pair);
}

export function countStates(pair) {
  pair.counts = Object.fromEntries(STATES.map((state) => [state, 0n]));
  for (const { segments } of pair.lanes) {
    for (const { state, from, until } of segments) pair.counts[state] += until - from;
  }
}

/** What the log has before and after all that runs name is unseen. */
function withUnseen(segments, log) {
  if (log === null || log.from === log.until) return segments;
  const unseen = (from, until) => (from < until ? [{ from, until, state: "unseen", entries: [], total: 0 }] : []);
  if (segments.length === 0) return unseen(log.from, log.until);
  const [first, last] = [segments[0].from, segments.at(-1).until];
  const before = unseen(log.from, log.until < first ? log.until : first);
  return [...before, ...segments, ...unseen(log.from > last ? log.from : last, log.until)];
}

/**
 * Sweep over one partition's intervals, and return segments in order, each with one state and the entries that say so.
 * Each edge is looked at once, however many intervals overlap.
 */
export function sweep(intervals) {
  const edges = intervals.flatMap((interval) => [
    { at: interval.from, isStart: true, interval },
    { at: interval.until, isStart: false, interval },
  ]);
  edges.sort((a, b) => compare(a.at, b.at));
  const claims = new Claims();
  const segments = [];
  for (let i = 0; i < edges.length; ) {
    const from = edges[i].at;
    for (; i < edges.length && edges[i].at === from; i += 1) claims.pass(edges[i]);
    if (i === edges.length) break;
    const until = edges[i].at;
    const judged = claims.judge();
    if (segments.length > 0 && claims.isAsBefore(judged)) segments.at(-1).until = until;
    else segments.push({ from, until, ...judged });
    claims.before = judged;
  }
  return segments;
}

/** What claims the offsets between two edges. */
class Claims {
  constructor() {
    this.open = Object.fromEntries(["whole", "filtered", "unfinished", "failed", "lost", "empty", "gone"].map((k) => [k, new Set()]));
    /** How many edges of each kind were passed: what has the same ones has the same entries. */
    this.passed = Object.fromEntries(Object.keys(this.open).map((kind) => [kind, 0]));
    this.runs = new Map();
    this.plannedWhole = 0;
    this.before = null;
  }

  pass({ isStart, interval: { kind, entry } }) {
    if (isStart) this.open[kind].add(entry);
    else this.open[kind].delete(entry);
    this.passed[kind] += 1;
    const by = isStart ? 1 : -1;
    if (kind === "whole") {
      const runs = (this.runs.get(entry.kafkaRun) ?? 0) + by;
      if (runs === 0) this.runs.delete(entry.kafkaRun);
      else this.runs.set(entry.kafkaRun, runs);
    }
    if ((kind === "unfinished" || kind === "failed") && !entry.isFiltered) this.plannedWhole += by;
  }

  judge() {
    const { whole, filtered } = this.open;
    if (whole.size > 0) return this.#said(this.runs.size > 1 ? "duplicated" : "covered", ["whole", "filtered"]);
    // A run with a filter has not delivered what another one was to deliver whole.
    if (filtered.size > 0 && this.plannedWhole === 0) return this.#said("covered", ["filtered"]);
    for (const state of ["empty", "unfinished", "failed", "lost"]) {
      if (this.open[state].size > 0) return this.#said(state, [state]);
    }
    return { state: "missing", entries: [], total: 0, kinds: [], passed: 0 };
  }

  #said(state, kinds) {
    const entries = [];
    for (const kind of kinds) {
      for (const entry of this.open[kind]) {
        if (entries.length === MAX_ENTRIES) break;
        entries.push(entry);
      }
    }
    const sum = (of) => kinds.reduce((all, kind) => all + of(kind), 0);
    return { state, entries, total: sum((kind) => this.open[kind].size), kinds, passed: sum((kind) => this.passed[kind]) };
  }

  isAsBefore({ state, entries, total, kinds, passed }) {
    const { before } = this;
    // Of one state, other kinds are other entries.
    if (before.state !== state || before.total !== total || before.kinds.length !== kinds.length) return false;
    return before.passed === passed || (total <= MAX_ENTRIES && entries.every((entry, i) => entry === before.entries[i]));
  }
}

/** Segments of these states, as ranges that the replay operator takes. */
export function rangesOf(pair, states) {
  return pair.lanes.flatMap((lane) =>
    lane.segments
      .filter(({ state }) => states.includes(state))
      .map((segment) => ({ topic: pair.topic, partition: lane.partition, from: segment.from, until: segment.until, segment, lane })),
  );
}

const SCHEDULED = /^(?:scheduled|backfill)__(\d{4}-\d\d-\d\dT.+(?:Z|[+-]\d\d:\d\d))$/;

/** When a scheduled or backfill run was due, in milliseconds; null for others. */
export function dueTime(dagRunId) {
  const time = Date.parse(SCHEDULED.exec(dagRunId)?.[1] ?? "");
  return Number.isNaN(time) ? null : time;
}

/**
 * What is missing or unseen where runs of the same task have not begun is waiting: they were due between those that
 * copied what lies before it and after it, or after the last one.
 *
 * waiting: tasks {dagId, dagRunId, taskId, state} that have copied nothing yet, and have no plan.
 */
export function markWaiting(pair, waiting) {
  const ofPair = waiting.filter((task) => pair.tasks.has(taskKey(task)));
  pair.waiting = ofPair;
  const byTask = Map.groupBy(ofPair.filter(({ dagRunId }) => dueTime(dagRunId) !== null), taskKey);
  for (const [task, runs] of byTask) {
    for (const { segments } of pair.lanes) markLane(segments, task, runs);
  }
  if (byTask.size > 0) countStates(pair);
}

function markLane(segments, task, runs) {
  const timesOf = ({ entries }) =>
    entries.filter((entry) => taskKey(entry) === task).map(({ dagRunId }) => dueTime(dagRunId)).filter((time) => time !== null);
  const after = new Array(segments.length).fill(Infinity);
  for (let i = segments.length - 2; i >= 0; i -= 1) {
    const times = timesOf(segments[i + 1]);
    after[i] = times.length > 0 ? Math.min(...times) : after[i + 1];
  }
  let before = -Infinity;
  segments.forEach((segment, i) => {
    const times = timesOf(segment);
    if (times.length > 0) before = Math.max(...times);
    const isKnown = before > -Infinity || after[i] < Infinity;
    if (!["missing", "unseen"].includes(segment.state) || !isKnown) return;
    const between = runs.filter(({ dagRunId }) => dueTime(dagRunId) > before && dueTime(dagRunId) < after[i]);
    if (between.length > 0) {
      Object.assign(segment, { state: "waiting", entries: [], total: 0, tasks: between });
    }
  });
}

/** The sum of what a log had, and when that was. */
export function lookOf(log) {
  return log ? { at: log.at, offsets: countOffsets(log.ranges), partitions: log.ranges.length } : null;
}
