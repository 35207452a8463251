// What is said of a segment: under the pointer, to a screen reader, and in the list of runs.

import { taskUrl } from "./api.js";
import { at, canBeOpened, go, make, taskLink, taskName } from "./elements.js";
import { WORDS, count, formatCount, formatTime, label } from "./words.js";

const MAX_RUNS = 3;
const MAX_CLAIMS = 3;

function entryLines(entry) {
  const lines = [`${taskName(entry)}, DAG run ${entry.dagRunId || "unknown"}`];
  const took = entry.seconds === null ? "" : `, ${entry.seconds.toFixed(1)} s`;
  const tryText = entry.tryNumber === null ? "" : `, try ${entry.tryNumber}`;
  lines.push(`Run ${entry.kafkaRun || "unknown"}${tryText}: ${formatTime(entry.startedAt || entry.at)}${took}`);
  if (entry.recordsRead !== null && !entry.isOfTask) {
    lines.push(`The whole run: ${formatCount(entry.recordsRead)} records read, ${formatCount(entry.recordsWritten ?? 0)} written`);
  }
  if (entry.isFiltered) lines.push("It had a filter: records of these offsets may have been left out on purpose.");
  if (entry.isActive && entry.taskState !== "running") lines.push(`The task is ${entry.taskState}.`);
  if (entry.wasKilled) lines.push("The task ended without saying what it delivered of its plan. That is not known until it is cleared.");
  return lines;
}

/** The last look at the log, where that says more than the state. */
function logLines({ log }, { state, until }) {
  if (log === null || !["missing", "waiting"].includes(state) || until > log.from) return [];
  return [`The log begins at ${formatCount(log.from)} now: these records are gone.`];
}

function claimLines(lane, segment) {
  const claims = lane.claims.filter(({ from, until }) => from < segment.until && until > segment.from);
  const times = claims.slice(0, MAX_CLAIMS).map(({ entry }) => formatTime(entry.at));
  const claim = `${count(claims.length, "event")} not by a task ${claims.length === 1 ? "claims" : "claim"} to have copied from here`;
  return claims.length > 0 ? [`${claim} (${times.join(", ")}). That counts for nothing.`] : [];
}

export function segmentLines(lane, segment) {
  const offsets = `offsets ${formatCount(segment.from)} to ${formatCount(segment.until)}`;
  const lines = [
    { text: `${label(segment.state)}: partition ${lane.partition}, ${offsets}`, isFirst: true },
    { text: `${count(segment.until - segment.from, "offset")}. ${WORDS[segment.state]}` },
    ...[...logLines(lane, segment), ...claimLines(lane, segment)].map((text) => ({ text })),
  ];
  for (const entry of segment.entries.slice(0, MAX_RUNS)) {
    lines.push(...entryLines(entry).map((text, i) => ({ text, isFirst: i === 0 })));
  }
  for (const task of (segment.tasks ?? []).slice(0, MAX_RUNS)) {
    lines.push({ text: `${taskName(task)}, DAG run ${task.dagRunId}: ${task.state}`, isFirst: true });
  }
  const more = segment.total + (segment.tasks?.length ?? 0) - MAX_RUNS;
  if (more > 0) lines.push({ text: `and ${formatCount(more)} more` });
  return lines;
}

export function asText(lines) {
  return lines.map(({ text }) => text.replace(/\.$/, "")).join(". ");
}

export function showTip(lines, x, y, isKeyboard = false) {
  const tip = at("tip");
  tip.replaceChildren(...lines.map(({ text, isFirst }) => make("p", { text, className: isFirst ? "first" : "" })));
  tip.hidden = false;
  const right = window.scrollX + document.documentElement.clientWidth;
  const bottom = window.scrollY + document.documentElement.clientHeight;
  tip.style.left = `${Math.max(0, Math.min(x + 14, right - tip.offsetWidth - 8))}px`;
  const under = y + 18;
  tip.style.top = `${under + tip.offsetHeight > bottom ? Math.max(0, y - tip.offsetHeight - 18) : under}px`;
  if (isKeyboard) at("announcer").textContent = asText(lines);
}

/** The task of a segment, or a list where there are several. */
export function openRuns(lane, segment, event) {
  const entries = [...segment.entries, ...(segment.tasks ?? [])];
  const runs = [...new Map(entries.map((entry) => [taskUrl(entry), entry])).values()];
  if (runs.length === 1 && canBeOpened(runs[0])) {
    go(taskUrl(runs[0]), event);
    return;
  }
  at("runs-range").textContent = asText(segmentLines(lane, { ...segment, entries: [], tasks: [], total: 0 }));
  const items = runs.map((entry) => {
    const [name, ...rest] = "kafkaRun" in entry ? entryLines(entry) : [`${taskName(entry)}, DAG run ${entry.dagRunId}`, entry.state];
    return make("li", {}, taskLink(entry, name), ...rest.map((text) => make("div", { text })));
  });
  const more = segment.total - segment.entries.length;
  if (more > 0) items.push(make("li", { text: `and ${formatCount(more)} more` }));
  at("runs-list").replaceChildren(...items);
  at("tip").hidden = true;
  at("runs").showModal();
}

at("runs-close").addEventListener("click", () => at("runs").close());
