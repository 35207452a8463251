// Requests to Airflow's REST API, with the session of the user who has this page open.
// The session's cookie goes along because the page is of the same origin; Airflow decides what the user may see.

// The page lies one folder under Airflow's own path, which may be / or, for example, /airflow/.
export const AIRFLOW = new URL("../", document.baseURI);

const PAGE = 100;
const PARALLEL = 6;
const TIMEOUT_MS = 30_000;

export class ApiError extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

const ADVICE = {
  401: "Your session has ended. Log in to Airflow, then reload this page.",
  404: "Airflow does not have it: it was deleted, or this Airflow is older than 3.3.",
};

// What a request needs the right for, by its path: the first one counts.
const RIGHTS = [
  [/^assets/, "read assets and their events"],
  [/\/state-store$/, "read what tasks have stored"],
  [/\/taskInstances/, "read task instances"],
  [/\/dagRuns$/, "make runs of this DAG"],
  [/^dags/, "read DAGs"],
];

/** query: values, or lists of them. body: of a POST. signal: of an AbortController. */
export async function request(path, { query = {}, body, signal } = {}) {
  return send(new URL(`api/v2/${path}`, AIRFLOW), path, { query, body, signal });
}

/**
 * What the user may do: assets, task_instances and dags may be read, runs may be made in general, and runs_of these DAGs.
 *
 * Asked before anything else, so that nothing is asked for that is refused. What is not known counts as permitted:
 * Airflow decides then.
 */
export async function readRights({ dagIds = [], signal } = {}) {
  try {
    return await send(new URL("rights", document.baseURI), "rights", { query: { dag: dagIds }, signal });
  } catch (error) {
    if (error.status === 401 || signal?.aborted) throw error;
    return { assets: true, task_instances: true, dags: true, runs: true, runs_of: dagIds };
  }
}

async function send(url, path, { query = {}, body, signal }) {
  for (const [name, value] of Object.entries(query)) {
    for (const each of [value].flat()) url.searchParams.append(name, each);
  }
  const init = { credentials: "same-origin", headers: { Accept: "application/json" } };
  if (body !== undefined) {
    init.method = "POST";
    init.headers["Content-Type"] = "application/json";
    init.body = JSON.stringify(body);
  }
  const ends = [AbortSignal.timeout(TIMEOUT_MS), ...(signal ? [signal] : [])];
  let response;
  let answer;
  try {
    response = await fetch(url, { ...init, signal: AbortSignal.any(ends) });
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
  const failed = status >= 500 ? "Try again; the API server's log has the reason." : "";
  const advice = status === 403 ? refusal(path) : (ADVICE[status] ?? failed);
  return [`Airflow's API answered ${status} (${path}).`, advice, detail.slice(0, 300)].filter(Boolean).join(" ");
}

/** What is said of a path that the user may not read. */
export function refusal(path) {
  const right = RIGHTS.find(([pattern]) => pattern.test(path))?.[1] ?? "do this";
  return `Your user may not ${right}. Ask an administrator of Airflow for the permission.`;
}

/** Parts of a path, each of which may have any character. */
export function segmentPath(...parts) {
  return parts.map(encodeURIComponent).join("/");
}

/** Call work for each item, some in parallel; results are in the order of the items. */
export async function inParallel(items, work) {
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

/**
 * All items of a list in pages, up to a maximum; several pages are read at once.
 *
 * body: of a search by POST, whose pages are in it. onProgress(read, total): after each page.
 * isCut: there are more than the maximum. A total alone does not say so: what is listed may change between two pages.
 */
export async function readAll(path, key, { query = {}, body, maximum, signal, onProgress = () => {} }) {
  const page = (limit, offset) =>
    body === undefined
      ? request(path, { query: { ...query, limit, offset }, signal })
      : request(path, { body: { ...body, page_limit: limit, page_offset: offset }, signal });
  const first = await page(PAGE, 0);
  const items = first[key];
  const total = first.total_entries ?? items.length;
  // An administrator may have set a smaller maximum for a page.
  const size = items.length;
  const offsets = [];
  for (let offset = size; size > 0 && offset < Math.min(total, maximum); offset += size) offsets.push(offset);
  let read = size;
  onProgress(read, total);
  const pages = await inParallel(offsets, async (offset) => {
    const found = (await page(size, offset))[key];
    read += found.length;
    onProgress(read, total);
    return found;
  });
  const all = [items, ...pages].flat();
  return { items: all.slice(0, maximum), total, isCut: total > maximum && all.length >= maximum };
}

/** The address of a task's page in Airflow's interface; its log is there. */
export function taskUrl({ dagId, dagRunId, taskId, mapIndex }) {
  const mapped = mapIndex >= 0 ? `/mapped/${mapIndex}` : "";
  return new URL(`dags/${segmentPath(dagId)}/runs/${segmentPath(dagRunId)}/tasks/${segmentPath(taskId)}${mapped}`, AIRFLOW).href;
}

export function runUrl(dagId, dagRunId) {
  return new URL(`dags/${segmentPath(dagId)}/runs/${segmentPath(dagRunId)}`, AIRFLOW).href;
}
