// Airflow's REST API, read with the session of the user who has this page open.
// The session's cookie goes along because the page is of the same origin; Airflow decides what the user may see.

import {
  ACTIVE_STATES,
  ASSET_NAME,
  FAILED_STATES,
  OPERATORS,
  entriesOfEvent,
  entriesOfTask,
  formatTime,
  isOfTask,
  ofTopic,
  rangesParam,
} from "./coverage.js";

// The page lies one folder under Airflow's own path, which may be / or, for example, /airflow/.
export const AIRFLOW = new URL("../", document.baseURI);

const PAGE = 100;
const PARALLEL = 6;
const TIMEOUT_MS = 30_000;
const MAX_EVENTS = 10_000;
const MAX_TASKS = 200;
const MAX_KNOWN_TASKS = 20;
const MAX_DAGS = 500;
// How far clocks may differ, and more than a reading takes.
const OVERLAP_MS = 600_000;

export class ApiError extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

const ADVICE = {
  401: "Your session has ended. Log in to Airflow, then reload this page.",
  403: "Your user may not read this. Ask an administrator of Airflow for the permission.",
  404: "Airflow does not have it: it was deleted, or this Airflow is older than 3.3.",
};

async function request(path, { query = {}, body } = {}) {
  const url = new URL(`api/v2/${path}`, AIRFLOW);
  for (const [name, value] of Object.entries(query)) {
    for (const each of [value].flat()) url.searchParams.append(name, each);
  }
  const init = { credentials: "same-origin", headers: { Accept: "application/json" } };
  if (body !== undefined) {
    init.method = "POST";
    init.headers["Content-Type"] = "application/json";
    init.body = JSON.stringify(body);
  }
  let response;
  let answer;
  try {
    response = await fetch(url, { ...init, signal: AbortSignal.timeout(TIMEOUT_MS) });
    answer = await response.text();
  } catch (error) {
    const what = error.name === "TimeoutError" ? `did not answer within ${TIMEOUT_MS / 1000} s` : "could not be reached";
    throw new ApiError(0, `Airflow's API ${what} (${path}).`);
  }
  if (!response.ok) throw new ApiError(response.status, errorText(response.status, path, answer));
  try {
    return JSON.parse(answer);
  } catch {
    throw new ApiError(response.status, `Airflow's API did not answer with JSON (${path}).`);
  }
}

function errorText(status, path, answer) {
  let detail = "";
  try {
    const found = JSON.parse(answer).detail;
    detail = typeof found === "string" ? found : JSON.stringify(found ?? "");
  } catch {
    // A proxy's page, not Airflow's answer.
  }
  const advice = ADVICE[status] ?? (status >= 500 ? "Try again; the API server's log has the reason." : "");
  return [`Airflow's API answered ${status} (${path}).`, advice, detail.slice(0, 300)].filter(Boolean).join(" ");
}

function segmentPath(...parts) {
  return parts.map(encodeURIComponent).join("/");
}

/** Call work for each item, some in parallel; results are in the order of the items. */
async function inParallel(items, work) {
  const results = new Array(items.length);
  let next = 0;
  const worker = async () => {
    while (next < items.length) {
      const index = next;
      next += 1;
      results[index] = await work(items[index]);
    }
  };
  await Promise.all(Array.from({ length: Math.min(PARALLEL, items.length) }, worker));
  return results;
}

/** All items of a list in pages, up to a maximum; several pages are read at once. */
async function readAll(path, key, query, maximum, onProgress = () => {}) {
  const first = await request(path, { query: { ...query, limit: PAGE, offset: 0 } });
  const items = first[key];
  const total = first.total_entries;
  // An administrator may have set a smaller maximum for a page.
  const size = items.length;
  const offsets = [];
  for (let offset = size; size > 0 && offset < Math.min(total, maximum); offset += size) offsets.push(offset);
  let read = size;
  const pages = await inParallel(offsets, async (offset) => {
    const page = await request(path, { query: { ...query, limit: size, offset } });
    read += page[key].length;
    onProgress(read, total);
    return page[key];
  });
  return { items: [items, ...pages].flat().slice(0, maximum), total };
}

/**
 * Read the events of the ledger's asset, and what running and failed tasks have written.
 *
 * filter: from, to (ISO 8601 or ""), topic (part of the target's address), dagId and runId (of one DAG run, or "").
 */
export async function readLedger(filter, onProgress) {
  const notes = [];
  const begun = new Date(Date.now() - OVERLAP_MS).toISOString();
  const last = await readLastEvent();
  const events = await readEvents(filter, notes, onProgress);
  const tasks = await readTasks(filter, entriesOf(events), notes).catch((error) => {
    notes.push(`Running and failed tasks cannot be shown. ${error.message}`);
    return [];
  });
  // A task may have ended since its events were read.
  if (!filter.to || filter.to > begun) {
    const since = { ...filter, from: filter.from > begun ? filter.from : begun };
    events.push(...(await readEvents(since, [], () => {})));
  }
  // An event that arrives while pages are read moves others to the next page.
  const all = [...new Map(events.map((event) => [event.id, event])).values()];
  // Of a DAG that was deleted, or that the user may not read, Airflow tells the time of the last event and no more.
  if (last !== null && !filter.runId && isWithin(last.timestamp, filter) && !all.some(({ id }) => id === last.id)) {
    notes.push(
      `The last copy, of ${formatTime(last.timestamp)}, cannot be shown: its DAG was deleted, or your user may not read it.`,
    );
  }
  // Without an extra it is of a function that called no operator, or none that had something to copy.
  const skipped = all.filter((event) => Object.keys(event.extra ?? {}).length > 0 && entriesOfEvent(event).length === 0);
  const byApi = skipped.filter((event) => !isOfTask(event)).length;
  if (byApi > 0) {
    notes.push(`${byApi} events were made through Airflow's API, and not by a task: they count for nothing.`);
  }
  if (skipped.length > byApi) {
    notes.push(`Skipped ${skipped.length - byApi} of ${all.length} events: of another version.`);
  }
  return { entries: ofTopic([...entriesOf(all), ...tasks], filter.topic), notes, hasCopies: last !== null };
}

/** Number and time of the last event of the ledger's asset; null if there was none. */
async function readLastEvent() {
  const { items } = await readAll("assets", "assets", { name_pattern: ASSET_NAME, only_active: false }, PAGE);
  const last = items.find((asset) => asset.name === ASSET_NAME)?.last_asset_event;
  return last?.timestamp ? last : null;
}

function isWithin(timestamp, { from, to }) {
  const moment = Date.parse(timestamp);
  return (!from || moment >= Date.parse(from)) && (!to || moment < Date.parse(to));
}

async function readEvents(filter, notes, onProgress) {
  const query = { name_prefix_pattern: ASSET_NAME, order_by: "-timestamp" };
  if (filter.runId) Object.assign(query, { source_dag_id: filter.dagId, source_run_id: filter.runId });
  else if (filter.from) query.timestamp_gte = filter.from;
  if (filter.to && !filter.runId) query.timestamp_lt = filter.to;
  const { items, total } = await readAll("assets/events", "asset_events", query, MAX_EVENTS, onProgress);
  if (total > items.length) {
    notes.push(`Only the last ${items.length} of ${total} copies are shown. Choose a shorter time.`);
  }
  return items.filter((event) => event.name === ASSET_NAME);
}

function entriesOf(events) {
  return events.flatMap(entriesOfEvent);
}

async function readTasks(filter, events, notes) {
  const query = { order_by: "-start_date" };
  if (filter.to) query.start_date_lt = filter.to;
  // A task that runs is of this time, whenever it began.
  const failed = { state: FAILED_STATES, ...(filter.from ? { updated_at_gte: filter.from } : {}) };
  const searches = [];
  if (filter.runId) searches.push({ dag: segmentPath(filter.dagId), run: segmentPath(filter.runId) });
  else {
    searches.push({ dag: "~", run: "~", operator: OPERATORS });
    // An operator of another name, or one that a @task function calls, is known by the tasks that succeeded.
    const known = new Map(events.filter((e) => e.dagId && e.taskId).map((e) => [JSON.stringify([e.dagId, e.taskId]), e]));
    for (const { dagId, taskId } of [...known.values()].slice(0, MAX_KNOWN_TASKS)) {
      searches.push({ dag: segmentPath(dagId), run: "~", task_id: taskId });
    }
  }
  const all = searches.flatMap((search) => [{ ...search, state: ACTIVE_STATES }, { ...search, ...failed }]);
  const found = await inParallel(all, ({ dag, run, ...only }) =>
    readAll(`dags/${dag}/dagRuns/${run}/taskInstances`, "task_instances", { ...query, ...only }, MAX_TASKS),
  );
  const items = [...new Map(found.flatMap((each) => each.items).map((task) => [task.id, task])).values()];
  if (found.some(({ items: read, total }) => total > read.length)) {
    notes.push(`Of each task, only the last ${MAX_TASKS} that run or failed were read.`);
  }
  let skipped = 0;
  const lists = await inParallel(items, async (task) => {
    const run = segmentPath(task.dag_id, "dagRuns", task.dag_run_id, "taskInstances", task.task_id, "state-store");
    let store;
    try {
      store = await request(`dags/${run}`, { query: { map_index: task.map_index, limit: PAGE } });
    } catch (error) {
      // It was deleted meanwhile, or its run's id is a part of no address: "." leads elsewhere.
      if (error.status !== 404) throw error;
      notes.push(`What task ${task.task_id} of DAG ${task.dag_id} left in run ${task.dag_run_id} cannot be read.`);
      return [];
    }
    const read = entriesOfTask(task, store.task_state_store);
    skipped += read.skipped;
    return read.entries;
  });
  if (skipped > 0) notes.push(`Skipped what ${skipped} tasks left: it is of another version.`);
  return lists.flat();
}

let replayDags = null;

/** The DAGs that take ranges, with their params. Read once. */
export async function readReplayDags() {
  if (replayDags !== null) return replayDags;
  const { items, total } = await readAll("dags", "dags", { order_by: "dag_id" }, MAX_DAGS);
  const details = await inParallel(items, async (dag) => {
    try {
      return await request(`dags/${segmentPath(dag.dag_id)}/details`);
    } catch (error) {
      if (error.status === 401) throw error;
      return null;
    }
  });
  const dags = details
    .filter((dag) => dag !== null && rangesParam(dag.params) !== null)
    .map((dag) => ({ dagId: dag.dag_id, params: dag.params, isPaused: dag.is_paused === true }));
  const note = total > items.length ? `Only ${items.length} of ${total} DAGs were looked at.` : "";
  replayDags = { dags, note };
  return replayDags;
}

/** Make a DAG run; returns its id. */
export async function startRun(dagId, conf) {
  const run = await request(`dags/${segmentPath(dagId)}/dagRuns`, { body: { logical_date: null, conf } });
  return run.dag_run_id;
}

/** The address of a task's page in Airflow's interface; its log is there. */
export function taskUrl({ dagId, dagRunId, taskId, mapIndex }) {
  const mapped = mapIndex >= 0 ? `/mapped/${mapIndex}` : "";
  return new URL(`dags/${segmentPath(dagId)}/runs/${segmentPath(dagRunId)}/tasks/${segmentPath(taskId)}${mapped}`, AIRFLOW).href;
}

export function runUrl(dagId, dagRunId) {
  return new URL(`dags/${segmentPath(dagId)}/runs/${segmentPath(dagRunId)}`, AIRFLOW).href;
}
