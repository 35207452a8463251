// The dialog that starts a DAG run which copies ranges.

import { readAll, readRights, request, segmentPath } from "./api.js";
import { at, make, runLink, serverName, taskName, topicName } from "./elements.js";
import { countOffsets, formatRange } from "./offsets.js";
import { rangesParam, runConf } from "./replay_conf.js";
import { count } from "./words.js";

/** A DAG that has it, and a param for ranges, is offered. */
export const TAG = "kafka-spark-replay";
const MAX_DAGS = 20;
const MAX_NAMED = 3;

let dags = null;

/** The DAGs with the tag of which the user may make runs. Read once, in two requests. */
async function readDags() {
  const query = { tags: TAG, order_by: "dag_id" };
  const { items, total, isCut } = await readAll("dags", "dags", { query, maximum: MAX_DAGS });
  const ids = items.map(({ dag_id: dagId }) => dagId);
  const may = new Set(ids.length > 0 ? (await readRights({ dagIds: ids })).runs_of : []);
  const refused = ids.filter((id) => !may.has(id));
  const note = [
    isCut ? `Only ${MAX_DAGS} of ${total} DAGs with the tag are offered.` : "",
    refused.length > 0 ? `Your user may not make runs of ${refused.join(", ")}.` : "",
  ];
  return { dags: items.filter(({ dag_id: id }) => may.has(id)), refused, note: note.filter(Boolean).join(" ") };
}

const replay = { pair: null, list: [], params: null, canStart: false };

export async function openReplay(pair, list) {
  Object.assign(replay, { pair, list, params: null });
  at("tip").hidden = true;
  at("replay-title").textContent = `Replay ${pair.topic} → ${topicName(pair.target.topic)}`;
  at("replay-count").textContent =
    `${count(countOffsets(list), "offset")} in ${count(list.length, "range")}, from ${serverName(pair.source)} to ` +
    `${serverName(pair.target.server)}. There may be fewer records: compaction and transactions use offsets without records.`;
  at("replay-ranges").value = list.map(formatRange).join("\n");
  at("replay-peek").textContent = `airflow kafka-spark peek ${formatRange(list[0])}`;
  at("replay-dag").replaceChildren();
  for (const id of ["replay-how", "replay-dag-label", "replay-conf-label", "replay-plan-label"]) at(id).hidden = true;
  at("replay-plan").checked = true;
  say("");
  warn(pair);
  mayPress(false);
  at("replay-dag-note").textContent = `Looking for DAGs with the tag ${TAG}…`;
  at("replay").showModal();
  try {
    dags ??= await readDags();
    if (replay.list !== list) return;
    offer();
  } catch (error) {
    dags = null;
    at("replay-dag-note").textContent = error.message;
  }
}

/** What a run that has not begun will copy is not known: it may be the same. */
function warn({ waiting = [] }) {
  const named = waiting.slice(0, MAX_NAMED).map((task) => `${taskName(task)} in ${task.dagRunId} (${task.state})`);
  const more = waiting.length > MAX_NAMED ? `, and ${waiting.length - MAX_NAMED} more` : "";
  at("replay-warning").textContent =
    `Runs that have not begun to copy may copy the same: ${named.join("; ")}${more}. ` +
    "Wait for them, or cancel them, before you replay: what both copy at the same time is in the target twice.";
  at("replay-warning").hidden = at("replay-nevertheless-label").hidden = waiting.length === 0;
  at("replay-nevertheless").checked = false;
}

/** Nothing is started of a DAG that takes no ranges, or while runs wait and nobody has confirmed that. */
function mayPress(canStart) {
  replay.canStart = canStart;
  const isRefused = replay.pair.waiting?.length > 0 && !at("replay-nevertheless").checked;
  at("replay-start").disabled = !canStart || isRefused;
}

function offer() {
  at("replay-dag").replaceChildren(...dags.dags.map(({ dag_id: id }) => make("option", { text: id, value: id })));
  at("replay-how").hidden = dags.dags.length > 0 || dags.refused.length > 0;
  at("replay-dag-label").hidden = dags.dags.length === 0;
  at("replay-dag-note").textContent = dags.note;
  if (dags.dags.length > 0) chooseDag();
}

async function chooseDag() {
  const { list } = replay;
  const dagId = at("replay-dag").value;
  const isChosen = () => replay.list === list && at("replay-dag").value === dagId;
  mayPress(false);
  say("");
  let details;
  try {
    details = await request(`dags/${segmentPath(dagId)}/details`);
  } catch (error) {
    if (isChosen()) at("replay-dag-note").textContent = error.message;
    return;
  }
  if (!isChosen()) return;
  const { params, is_paused: isPaused } = details;
  const found = rangesParam(params);
  replay.params = params;
  at("replay-conf-label").hidden = found === null;
  at("replay-plan-label").hidden = found === null || !("plan_only" in params);
  mayPress(found !== null);
  at("replay-dag-note").textContent = [
    found === null
      ? `${dagId} has the tag ${TAG}, but no param named offset_ranges, nor ranges of type array.`
      : `The ranges go into its param ${found.name}.`,
    found === null || "plan_only" in params ? "" : "It has no param plan_only: whether it shows a plan first, the DAG decides.",
    isPaused ? "The DAG is paused: the run waits until it is unpaused." : "",
    dags.note,
  ]
    .filter(Boolean)
    .join(" ");
  if (found !== null) fillConf();
}

function fillConf() {
  const conf = runConf(replay.params, replay.pair, replay.list, at("replay-plan").checked);
  at("replay-conf").value = JSON.stringify(conf, null, 2);
}

function say(text, isError = false) {
  at("replay-result").textContent = text;
  at("replay-result").className = isError ? "failed" : "";
}

async function start() {
  const dagId = at("replay-dag").value;
  let conf;
  try {
    conf = JSON.parse(at("replay-conf").value);
  } catch (error) {
    say(`The configuration must be JSON; ${error.message}`, true);
    return;
  }
  mayPress(false);
  say("Starting…");
  try {
    const run = await request(`dags/${segmentPath(dagId)}/dagRuns`, { body: { logical_date: null, conf } });
    say("Started: ");
    at("replay-result").append(runLink(dagId, run.dag_run_id));
    at("replay-cancel").textContent = "Close";
  } catch (error) {
    say(`Nothing was started. ${error.message}`, true);
    mayPress(true);
  }
}

at("replay-cancel").addEventListener("click", () => at("replay").close());
at("replay").addEventListener("close", () => {
  at("replay-cancel").textContent = "Cancel";
  // Another DAG may have the tag when it is opened again.
  if (dags?.dags.length === 0) dags = null;
});
at("replay-dag").addEventListener("change", chooseDag);
at("replay-nevertheless").addEventListener("change", () => mayPress(replay.canStart));
at("replay-plan").addEventListener("change", fillConf);
at("replay-start").addEventListener("click", start);
