// What the page reads: the events of the ledger's asset, what tasks that run or failed have stored, and which tasks of
// the same DAGs have not begun.

import { inParallel, readAll, readRights, refusal, request, segmentPath } from "./api.js";
import { ACTIVE_STATES, ASSET_NAME, Entries, FAILED_STATES, MAX_RANGES, OPERATORS, isOfTask, wholeRows } from "./entries.js";
import { compactSize, isCompact } from "./compact.js";
import { formatCount, formatTime } from "./words.js";

const MAX_EVENTS = 10_000;
const MAX_TASKS = 2_000;
const MAX_STORES = 400;
const MAX_FUNCTIONS = 100;
// Each set is searched for by itself: of thousands that have not begun, none hides one that runs, or that failed.
const NOT_BEGUN = ["queued", "scheduled", "no_status"];
const SETS = [ACTIVE_STATES.filter((state) => !NOT_BEGUN.includes(state)), NOT_BEGUN, FAILED_STATES];
/** In all entries: more are slow to draw, and hide each other. */
export const MAX_ALL_RANGES = 300_000;
const MAX_NAMED = 3;
// How far clocks may differ, and more than a reading takes.
const OVERLAP_MS = 600_000;

/**
 * Read what is known of a time.
 *
 * filter: from, to (ISO 8601 or ""), dagId and runId (of one DAG run, or "").
 * on: {progress(what, done, total), signal}.
 * Returns the Entries, notes for the reader, the tasks that wait, whether there is any event of the asset, and whether
 * the user may make runs.
 */
export async function readLedger(filter, on) {
  const notes = [];
  const rights = await readRights(on);
  if (!rights.assets) throw new Error(refusal("assets"));
  const begun = new Date(Date.now() - OVERLAP_MS).toISOString();
  const [last, events, ours] = await Promise.all([
    readLastEvent(on),
    readEvents(filter, notes, on),
    readTasks(searchesOfOperators(filter), rights, notes, on),
  ]);
  const known = knownFunctions(events);
  const others = await readTasks(searchesOfFunctions(filter, [...known.values()]), rights, notes, on);
  const functions = others.filter((task) => known.has(functionKey(task.dag_id, task.task_id)));
  const tasks = [...new Map([...ours, ...functions].map((task) => [task.id, task])).values()].filter(isBefore(filter.to));
  const stores = await readStores(tasks, notes, on);
  // A task may have ended since its events were read.
  if (!filter.to || filter.to > begun) {
    const since = { ...filter, from: filter.from > begun ? filter.from : begun };
    events.push(...(await readEvents(since, [], { ...on, progress: () => {} })));
  }
  // An event that arrives while pages are read moves others to the next page.
  const all = [...new Map(events.map((event) => [event.id, event])).values()];
  if (isLastUnread(last, filter, all)) {
    notes.push(
      `The last copy, of ${formatTime(last.timestamp)}, cannot be shown: its DAG was deleted, or your user may not read it.`,
    );
  }
  const found = new Entries();
  refuseTooMany([...all.filter(isOfTask).map(ofEvent), ...stores.map(ofStore)]);
  for (const event of withFewClaims(all, notes)) found.addEvent(event);
  const waiting = [];
  for (const { task, rows } of stores) {
    const hasEntry = found.addTask(task, rows);
    if (!hasEntry && ACTIVE_STATES.includes(stateOf(task))) waiting.push(waitingTask(task));
  }
  notes.push(...notesOf(found));
  return { found, notes: [...new Set(notes)], waiting, hasCopies: last !== null, may: rights.runs && rights.dags };
}

/** One that has not begun has no start. */
function isBefore(to) {
  return ({ start_date: start }) => !to || !start || Date.parse(start) < Date.parse(to);
}

const stateOf = (task) => task.state ?? "no_status";

function waitingTask(task) {
  const where = { dagId: task.dag_id, dagRunId: task.dag_run_id, taskId: task.task_id, mapIndex: task.map_index };
  return { ...where, state: task.state ?? "not scheduled yet" };
}

/** Number and time of the last event of the ledger's asset; null if there was none. */
async function readLastEvent({ signal }) {
  const query = { name_pattern: ASSET_NAME, only_active: false };
  const { items } = await readAll("assets", "assets", { query, maximum: 100, signal });
  const last = items.find((asset) => asset.name === ASSET_NAME)?.last_asset_event;
  return last?.timestamp ? last : null;
}

/** Of a DAG that was deleted, or that the user may not read, Airflow has the time of the last event and no more. */
function isLastUnread(last, { from, to, runId }, all) {
  if (last === null || runId || all.some(({ id }) => id === last.id)) return false;
  const at = Date.parse(last.timestamp);
  return (!from || at >= Date.parse(from)) && (!to || at < Date.parse(to));
}

async function readEvents(filter, notes, { progress, signal }) {
  const query = { name_prefix_pattern: ASSET_NAME, order_by: "-timestamp" };
  if (filter.runId) Object.assign(query, { source_dag_id: filter.dagId, source_run_id: filter.runId });
  else if (filter.from) query.timestamp_gte = filter.from;
  if (filter.to && !filter.runId) query.timestamp_lt = filter.to;
  const onProgress = (done, total) => progress("events", done, total);
  const read = await readAll("assets/events", "asset_events", { query, maximum: MAX_EVENTS, signal, onProgress });
  if (read.isCut) {
    notes.push(`Only the last ${formatCount(MAX_EVENTS)} of ${formatCount(read.total)} copies are shown. Choose a shorter time.`);
  }
  return read.items.filter((event) => event.name === ASSET_NAME);
}

function searchesOfOperators({ from, to, dagId, runId }) {
  const [dag, run] = runId ? [dagId, runId].map(encodeURIComponent) : ["~", "~"];
  const path = `dags/${dag}/dagRuns/${run}/taskInstances`;
  const query = { order_by: "-start_date", ...(runId ? {} : { operator: OPERATORS }) };
  const ended = { ...(from ? { updated_at_gte: from } : {}), ...(to ? { start_date_lt: to } : {}) };
  // A task that runs is of this time, whenever it began.
  return SETS.map((state) => ({ path, query: { ...query, state, ...(state === FAILED_STATES ? ended : {}) } }));
}

const functionKey = (dagId, taskId) => JSON.stringify([dagId, taskId]);

/** An operator of another name, or one that a @task function calls, is known by the tasks that succeeded. */
function knownFunctions(events) {
  const of = events.filter((event) => isOfTask(event) && event.source_dag_id);
  const found = new Map(of.map((event) => [functionKey(event.source_dag_id, event.source_task_id), event]));
  return new Map([...found].slice(0, MAX_FUNCTIONS));
}

/** For all DAGs and all tasks of them at once: what it finds may be another task. */
function searchesOfFunctions({ from, to, runId }, known) {
  if (runId || known.length === 0) return [];
  const unique = (name) => [...new Set(known.map((event) => event[name]))];
  const body = { dag_ids: unique("source_dag_id"), task_ids: unique("source_task_id"), order_by: "-start_date" };
  const path = "dags/~/dagRuns/~/taskInstances/list";
  const ended = { ...(from ? { end_date_gte: from } : {}), ...(to ? { start_date_lt: to } : {}) };
  return SETS.map((states) => {
    const state = states.map((each) => (each === "no_status" ? null : each));
    return { path, body: { ...body, state, ...(states === FAILED_STATES ? ended : {}) } };
  });
}

async function readTasks(searches, rights, notes, { signal }) {
  try {
    if (!rights.task_instances) throw new Error(refusal("/taskInstances"));
    const lists = await inParallel(searches, ({ path, ...search }) =>
      readAll(path, "task_instances", { ...search, maximum: MAX_TASKS, signal }),
    );
    for (const { isCut, total } of lists) {
      if (isCut) notes.push(`Only ${formatCount(MAX_TASKS)} of ${formatCount(total)} tasks that run, wait or failed were read.`);
    }
    return lists.flatMap(({ items }) => items);
  } catch (error) {
    notes.push(`Running, waiting and failed tasks cannot be shown. ${error.message}`);
    return [];
  }
}

/** What tasks have stored; those that have not begun, nothing. */
async function readStores(tasks, notes, { progress, signal }) {
  const isNew = (task) => !task.start_date && task.try_number <= 1;
  const begun = tasks.filter((task) => !isNew(task));
  const some = begun.slice(0, MAX_STORES);
  if (begun.length > some.length) {
    notes.push(`Of ${formatCount(begun.length)} tasks that run, wait or failed, only the last ${MAX_STORES} were read.`);
  }
  let done = 0;
  let refused = null;
  const stores = await inParallel(some, async (task) => {
    const path = segmentPath(task.dag_id, "dagRuns", task.dag_run_id, "taskInstances", task.task_id, "state-store");
    let rows = [];
    try {
      const store = await request(`dags/${path}`, { query: { map_index: task.map_index, limit: 100 }, signal });
      rows = wholeRows(store.task_state_store);
    } catch (error) {
      // It was deleted meanwhile, or its run's id is a part of no address: "." leads elsewhere.
      if (error.status === 404) {
        notes.push(`What task ${task.task_id} of DAG ${task.dag_id} left in run ${task.dag_run_id} cannot be read.`);
      } else refused = error;
      return null;
    }
    done += 1;
    progress("tasks", done, some.length);
    return { task, rows };
  });
  if (refused !== null) notes.push(`Running, waiting and failed tasks cannot be shown. ${refused.message}`);
  return [...stores.filter((store) => store !== null), ...tasks.filter(isNew).map((task) => ({ task, rows: [] }))];
}

/** How many ranges of an entry are drawn: one that has too many is not read. */
function sizeOf(value) {
  const lists = ["offset_ranges", "planned_ranges", "missing_ranges", "empty_ranges"].map((name) => value?.[name]);
  const size = (list) => (Array.isArray(list) ? list.length : isCompact(list) ? compactSize(list) : 0);
  const sizes = lists.map(size);
  return sizes.some((each) => each > MAX_RANGES) ? 0 : sizes.reduce((sum, each) => sum + each, 0);
}

function ofEvent({ extra, source_task_id: task, source_dag_id: dag, source_run_id: run }) {
  const more = Array.isArray(extra?.more) ? extra.more : [];
  return { name: nameOf(dag, task, run), ranges: [extra, ...more].reduce((sum, value) => sum + sizeOf(value), 0) };
}

/** What no task has made counts for nothing, and so refuses nothing: what is too much of it is counted only. */
function withFewClaims(events, notes) {
  const claimed = events.filter((event) => !isOfTask(event)).reduce((sum, event) => sum + ofEvent(event).ranges, 0);
  if (claimed <= MAX_ALL_RANGES) return events;
  notes.push(`Not drawn: ${formatCount(claimed)} ranges that events not by a task claim, which is too many.`);
  return events.map((event) => (isOfTask(event) ? event : { ...event, source_task_id: null, extra: {} }));
}

function ofStore({ task, rows }) {
  const name = nameOf(task.dag_id, task.task_id, task.dag_run_id);
  return { name, ranges: rows.reduce((sum, { value }) => sum + sizeOf(value), 0) };
}

function nameOf(dagId, taskId, dagRunId) {
  return `${dagId}.${taskId}, DAG run ${dagRunId}`;
}

/** Before anything is drawn, so that a page with too much says so, and does not freeze. */
function refuseTooMany(sizes) {
  const all = sizes.reduce((sum, { ranges }) => sum + ranges, 0);
  if (all <= MAX_ALL_RANGES) return;
  const largest = sizes.toSorted((a, b) => b.ranges - a.ranges).slice(0, MAX_NAMED);
  const named = largest.map(({ name, ranges }) => `${name} (${formatCount(ranges)})`).join("; ");
  throw new Error(
    `The copies of this time have ${formatCount(all)} ranges; the page draws at most ${formatCount(MAX_ALL_RANGES)}. ` +
      `The largest: ${named}. Choose a shorter time, or use the command airflow kafka-spark coverage.`,
  );
}

function notesOf({ skipped, refused, notByTask }) {
  const notes = [];
  if (notByTask > 0) {
    notes.push(`Events not by a task: ${formatCount(notByTask)}, made through Airflow's API. What they claim counts for nothing.`);
  }
  for (const { dagId, taskId, dagRunId, ranges } of refused.slice(0, MAX_NAMED)) {
    notes.push(`Not drawn: ${nameOf(dagId, taskId, dagRunId)} has an entry with ${formatCount(ranges)} ranges, which is too many.`);
  }
  if (skipped > refused.length) {
    notes.push(`Entries that were skipped: ${formatCount(skipped - refused.length)}, of another version or malformed.`);
  }
  return notes;
}
