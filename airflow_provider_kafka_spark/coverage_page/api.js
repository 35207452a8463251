// Airflow's REST API, read with the session of the user who has this page open.
// The session's cookie goes along because the page is of the same origin; Airflow decides what the user may see.

import { ACTIVE_STATES, FAILED_STATES, OPERATORS, entriesOfTask, entryOfEvent, parseAsset, rangesParam } from "./coverage.js";

// The page lies one folder under Airflow's own path, which may be / or, for example, /airflow/.
export const AIRFLOW = new URL("../", document.baseURI);

const PAGE = 100;
const PARALLEL = 6;
const TIMEOUT_MS = 30_000;
const MAX_ASSETS = 200;
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
 * Read the events of all assets kafka://..., and what running and failed tasks have written.
 *
 * filter: from, to (ISO 8601 or ""), topic (part of the target's address), dagId and runId (of one DAG run, or "").
 */
export async function readLedger(filter, onProgress) {
  const notes = [];
  const begun = new Date(Date.now() - OVERLAP_MS).toISOString();
  const assets = await readAssets(filter, notes);
  const events = await readEvents(assets, filter, notes, onProgress);
  const tasks = await readTasks(filter, entriesOf(events), notes).catch((error) => {
    notes.push(`Running and failed tasks cannot be shown. ${error.message}`);
    return [];
  });
  // A task may have ended since its events were read.
  if (!filter.to || filter.to > begun) {
    const since = { ...filter, from: filter.from > begun ? filter.from : begun };
    events.push(...(await readEvents(await readAssets(filter, []), since, [], () => {})));
  }
  const all = [...new Map(events.map((event) => [event.id, event])).values()];
  const entries = entriesOf(all);
  if (entries.length < all.length) {
    notes.push(`Skipped ${all.length - entries.length} of ${all.length} events: of another provider or another version.`);
  }
  return { entries: [...entries, ...tasks], notes, assets: assets.length };
}

async function readAssets(filter, notes) {
  const found = await readAll(
    "assets",
    "assets",
    { uri_pattern: filter.topic ? `kafka%://%${filter.topic}` : "kafka%://", only_active: false, order_by: "-updated_at" },
    MAX_ASSETS,
  );
  // In Airflow's pattern, _ is any character.
  const needle = filter.topic.toLowerCase();
  const assets = found.items.filter((asset) => parseAsset(asset.uri) !== null && asset.uri.toLowerCase().includes(needle));
  if (found.total > found.items.length) {
    notes.push(`Only ${MAX_ASSETS} of ${found.total} target topics are shown. Name a topic to see others.`);
  }
  return assets;
}

async function readEvents(assets, filter, notes, onProgress) {
  const query = { order_by: "-timestamp" };
  if (filter.runId) {
    const ofRun = { ...query, source_dag_id: filter.dagId, source_run_id: filter.runId };
    const { items } = await readAll("assets/events", "asset_events", ofRun, MAX_EVENTS, onProgress);
    return items.filter((event) => parseAsset(event.uri) !== null);
  }
  if (filter.from) query.timestamp_gte = filter.from;
  if (filter.to) query.timestamp_lt = filter.to;
  const since = filter.from ? Date.parse(filter.from) : 0;
  const active = assets.filter((asset) => Date.parse(asset.last_asset_event?.timestamp ?? "") >= since);
  const share = Math.max(PAGE, Math.floor(MAX_EVENTS / Math.max(1, active.length)));
  const lists = await inParallel(active, async (asset) => {
    const ofAsset = { ...query, asset_id: asset.id };
    const { items, total } = await readAll("assets/events", "asset_events", ofAsset, share, onProgress);
    if (total > items.length) {
      notes.push(`${asset.uri}: only the last ${items.length} of ${total} events are shown. Choose a shorter time.`);
    }
    // Of a DAG that was deleted, or that the user may not read, Airflow tells the time of the last event and no more.
    if (total === 0 && (!filter.to || Date.parse(asset.last_asset_event.timestamp) < Date.parse(filter.to))) {
      notes.push(`${asset.uri}: its events cannot be shown. Their DAG was deleted, or your user may not read it.`);
    }
    return items;
  });
  // An event that arrives while pages are read moves others to the next page.
  return [...new Map(lists.flat().map((event) => [event.id, event])).values()];
}

function entriesOf(events) {
  return events.map(entryOfEvent).filter((entry) => entry !== null);
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
    const store = await request(`dags/${run}`, { query: { map_index: task.map_index, limit: PAGE } });
    const read = entriesOfTask(task, store.task_state_store);
    skipped += read.skipped;
    return read.entries;
  });
  if (skipped > 0) notes.push(`Skipped what ${skipped} tasks left: it is of another version.`);
  const needle = filter.topic.toLowerCase();
  return lists.flat().filter((entry) => {
    const names = entry.targets.map((target) => `${target.server}/${target.topic}`.toLowerCase());
    return names.length === 0 || names.some((name) => name.includes(needle));
  });
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
