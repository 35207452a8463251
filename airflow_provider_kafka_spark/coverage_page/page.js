// The page: it reads, draws, and answers to pointer and keyboard.

import { AIRFLOW } from "./api.js";
import { Chart, MAX_LANES, fillOf, readColours } from "./chart.js";
import { at, button, download, go, make, serverName, topicName } from "./elements.js";
import { exportRows, toCsv, toJson } from "./export.js";
import { buildPairs, lookOf, markWaiting, rangesOf } from "./pairs.js";
import { readLedger } from "./reading.js";
import { openReplay } from "./replay.js";
import { attentionTable } from "./table.js";
import { openRuns, segmentLines, showTip } from "./tips.js";
import { STATES, WORDS, count, formatCount, formatTime, label } from "./words.js";

const DAYS = 31;
const REFRESH_MS = 30_000;
const MAX_PAIRS = 50;
const VIEW = ["source", "topic", "dag", "state", "sort"];

const address = new URLSearchParams(window.location.search);
const theRun = { dagId: address.get("dag_id") ?? "", runId: address.get("run_id") ?? "" };
const isOneRun = theRun.dagId !== "" && theRun.runId !== "";

let charts = [];
let reading = 0;
let stopReading = () => {};
let refreshTimer = 0;
let filter = {};
/** What was read last: pairs, notes, ... */
let ledger = null;

// Theme: Airflow's own choice, else the system's.

function applyTheme() {
  let chosen = null;
  try {
    chosen = window.localStorage.getItem("theme");
  } catch {
    // Storage may be forbidden; then the system decides.
  }
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
  else delete document.documentElement.dataset.theme;
  drawLegend();
  for (const chart of charts) chart.recolour();
}

function swatch(paint) {
  const canvas = make("canvas", { width: 52, height: 28, "aria-hidden": "true" });
  const ink = canvas.getContext("2d");
  ink.scale(2, 2);
  paint(ink);
  return canvas;
}

function drawLegend() {
  const colours = readColours();
  const items = STATES.map((state) => {
    const drawn = swatch((ink) => {
      ink.fillStyle = fillOf(ink, state, colours);
      ink.fillRect(0, 0, 26, 14);
      ink.strokeStyle = colours[state];
      ink.strokeRect(0.5, 0.5, 25, 13);
    });
    return make("li", { title: WORDS[state] }, drawn, make("span", { text: label(state) }));
  });
  const line = swatch((ink) => {
    ink.fillStyle = colours.claim;
    ink.fillRect(0, 11, 26, 3);
  });
  const title = "An event claims it that no task has made. It counts for nothing.";
  at("legend").replaceChildren(...items, make("li", { title }, line, make("span", { text: "Not by a task" })));
}

// Reading

function utcInput(moment) {
  return moment.toISOString().slice(0, 16);
}

function inputMoment(id) {
  return at(id).value === "" ? "" : new Date(`${at(id).value}Z`).toISOString();
}

/** parts: [done, total] by what is read. */
function showProgress(parts) {
  const texts = [...parts].map(([what, [done, total]]) => `${what} ${formatCount(done)} of ${formatCount(total)}`);
  const [done, total] = [0, 1].map((i) => [...parts.values()].reduce((sum, part) => sum + part[i], 0));
  at("progress").textContent = texts.length === 0 ? "Reading…" : `Reading: ${texts.join(", ")}`;
  at("bar").hidden = false;
  Object.assign(at("bar"), { max: Math.max(1, total), value: done });
}

function showSums(text) {
  at("progress").textContent = text;
  at("bar").hidden = true;
}

/** A refresh reads what the form had when it was sent, and keeps what is drawn until there is something newer. */
async function show({ isRefresh = false } = {}) {
  reading += 1;
  const mine = reading;
  const started = performance.now();
  clearTimeout(refreshTimer);
  stopReading();
  const stop = new AbortController();
  stopReading = () => stop.abort();
  if (!isRefresh) {
    for (const id of ["error", "notes", "empty", "tip", "export"]) at(id).hidden = true;
    at("pairs").replaceChildren();
    charts = [];
    ledger = null;
    showProgress(new Map());
    filter = { from: inputMoment("from"), to: inputMoment("to"), ...theRun };
  }
  const parts = new Map();
  const progress = (what, done, total) => {
    parts.set(what, [done, total]);
    if (mine === reading && !isRefresh) showProgress(parts);
  };
  try {
    const judged = judge(await readLedger(filter, { progress, signal: stop.signal }));
    const ended = performance.now();
    if (mine !== reading) return;
    if (isRefresh && isInUse()) {
      refreshLater();
      return;
    }
    ledger = judged;
    draw();
    performance.measure("coverage-read", { start: started, end: ended });
    performance.measure("coverage-draw", { start: ended, end: performance.now() });
  } catch (error) {
    if (mine !== reading) return;
    if (!isRefresh) showSums("");
    at("error-text").textContent = error.message;
    at("error").hidden = false;
  }
}

function judge({ found, notes, waiting, hasCopies, may }) {
  const { pairs, outdated } = buildPairs(found.all, found.claims);
  for (const pair of pairs) markWaiting(pair, waiting);
  if (outdated > 0) {
    notes.push(`${count(outdated, "run")} read or wrote an earlier topic of the same name, since deleted: that does not count.`);
  }
  return { pairs, notes, hasCopies, may, readAt: Date.now() };
}

// While something runs, the page reads again, unless nobody sees it, or somebody looks closer.

function refreshLater() {
  refreshTimer = setTimeout(() => {
    if (document.hidden || isInUse()) refreshLater();
    else show({ isRefresh: true });
  }, REFRESH_MS);
}

function isInUse() {
  const isOpen = document.querySelector("dialog[open], details[open], #tip:not([hidden])") !== null;
  return isOpen || at("pairs").contains(document.activeElement) || charts.some((chart) => chart.isZoomed);
}

// What is shown of what was read

const SORTS = {
  name: () => 0,
  missing: (a, b) => Number(b.counts.missing - a.counts.missing),
  last: (a, b) => b.lastAt - a.lastAt,
};

function shownPairs() {
  const [source, target, dag] = ["source", "topic", "dag"].map((id) => at(id).value.trim().toLowerCase());
  const state = at("state").value;
  const has = (text, part) => text.toLowerCase().includes(part);
  return ledger.pairs
    .filter(
      (pair) =>
        has(`${pair.source}/${pair.topic}`, source) &&
        // The target may not be known yet.
        (pair.target.topic === "" || has(`${pair.target.server}/${pair.target.topic}`, target)) &&
        [...pair.dagIds].some((id) => has(id, dag)) &&
        (state === "" || pair.counts[state] > 0n),
    )
    .sort(SORTS[at("sort").value]);
}

function draw() {
  const pairs = shownPairs();
  const messages = [...ledger.notes];
  if (pairs.length > MAX_PAIRS) {
    messages.push(`Only ${MAX_PAIRS} of ${pairs.length} pairs of topics are drawn. Name a source, a target or a DAG to see others.`);
  }
  charts = [];
  at("notes").replaceChildren(...messages.map((text) => make("li", { text })));
  at("notes").hidden = messages.length === 0;
  at("pairs").replaceChildren(...pairs.slice(0, MAX_PAIRS).map(drawPair));
  for (const chart of charts) chart.draw();
  at("export").hidden = pairs.length === 0;
  at("empty").hidden = pairs.length > 0;
  at("empty-filtered").hidden = ledger.pairs.length === 0;
  at("empty-earlier").hidden = ledger.pairs.length > 0 || !ledger.hasCopies;
  at("empty-begin").hidden = ledger.hasCopies;
  const runs = new Set(pairs.flatMap((pair) => [...pair.runs])).size;
  const sums = `${count(pairs.length, "pair")} of topics, ${count(runs, "run")}. Read at ${formatTime(ledger.readAt)}.`;
  showSums(pairs.length === 0 ? "" : sums);
  clearTimeout(refreshTimer);
  if (pairs.some(({ counts }) => counts.unfinished + counts.waiting > 0n)) refreshLater();
}

function exportAs(type, format) {
  const states = at("state").value === "" ? [] : [at("state").value];
  const rows = exportRows(shownPairs().slice(0, MAX_PAIRS), states);
  download(`kafka-coverage.${type}`, type === "csv" ? "text/csv" : "application/json", format(rows));
}

// One pair of topics

function drawPair(pair) {
  const title = `${pair.topic} → ${topicName(pair.target.topic)}`;
  const section = make("section", { className: "pair", "aria-label": title });
  const sums = STATES.filter((state) => pair.counts[state] > 0n)
    .map((state) => `${state} ${formatCount(pair.counts[state])}`)
    .join(" · ");
  const canvas = make("canvas", {
    className: "chart",
    tabindex: "0",
    role: "application",
    "aria-roledescription": "coverage chart",
    "aria-label": `Coverage of ${title}: ${count(pair.lanes.length, "partition")}; offsets: ${sums}.`,
    "aria-describedby": "keys-hint",
  });
  const span = make("span", { className: "span" });
  const showSpan = ({ from, until }) => {
    span.textContent = `offsets ${formatCount(from)} to ${formatCount(until)}`;
  };
  const chart = new Chart(canvas, pair, {
    hover: (lane, segment, x, y, isKeyboard) => showTip(tipLines(lane, segment), x, y, isKeyboard),
    leave: () => {
      at("tip").hidden = true;
    },
    open: (lane, segment, event) => openSegment(pair, lane, segment, event),
    view: showSpan,
  });
  charts.push(chart);
  showSpan(chart.view);
  section.append(
    make("h2", { text: title }),
    make("p", { className: "servers", text: `${serverName(pair.source)} → ${serverName(pair.target.server)} · offsets: ${sums}` }),
    make("p", { className: "servers log", text: logText(pair) }),
    canvas,
    toolsOf(pair, chart, title, span),
    attentionTable(pair, ledger.may ? (list) => replayInLog(pair, list) : undefined),
  );
  return section;
}

/** What the logs had at the last look of a worker: the page itself asks no broker. */
function logText({ sourceLog, targetLog, lags }) {
  const said = (name, log) => {
    const look = lookOf(log);
    if (look === null) return `no run has looked at the ${name}'s log`;
    return `the ${name}'s log had ${count(look.offsets, "offset")} in ${count(look.partitions, "partition")} at ${formatTime(look.at)}`;
  };
  const behind = lags.map(
    ({ groupId, side, behind: offsets, at }) =>
      ` · group ${groupId} was ${count(offsets, "offset")} behind on the ${side} at ${formatTime(at)}`,
  );
  const text = `${said("source", sourceLog)} · ${said("target", targetLog)}${behind.join("")}`;
  return text[0].toUpperCase() + text.slice(1);
}

function toolsOf(pair, chart, title, span) {
  const tools = make(
    "div",
    { className: "tools", role: "group", "aria-label": `Zoom of ${title}` },
    button("Zoom in", () => chart.zoom(true)),
    button("Zoom out", () => chart.zoom(false)),
    button("←", () => chart.shift(false), { "aria-label": "To lower offsets" }),
    button("→", () => chart.shift(true), { "aria-label": "To higher offsets" }),
    button("All", () => chart.showAll(), { "aria-label": "Show all offsets" }),
    span,
  );
  if (pair.lanes.length > MAX_LANES) tools.append(lanePages(pair, chart));
  // What is no longer in the log cannot be read again.
  const missing = rangesOf(pair, ["missing"]).filter(({ lane, until }) => lane.log === null || until > lane.log.from);
  if (missing.length > 0 && ledger.may) {
    tools.append(button(`Replay ${count(missing.length, "missing range")}…`, () => replayInLog(pair, missing)));
  }
  return tools;
}

function lanePages(pair, chart) {
  const choice = make("select", { "aria-label": "Partitions that are drawn" });
  for (let first = 0; first < pair.lanes.length; first += MAX_LANES) {
    const last = pair.lanes[Math.min(first + MAX_LANES, pair.lanes.length) - 1];
    choice.append(make("option", { value: first, text: `Partitions ${pair.lanes[first].partition} to ${last.partition}` }));
  }
  choice.addEventListener("change", () => chart.showLanes(Number(choice.value)));
  return choice;
}

/** Replay what of the ranges is still in the log, at the last look. */
function replayInLog(pair, ranges) {
  const inLog = ranges.map(({ lane, from, until }) => {
    const start = lane.log === null || lane.log.from < from ? from : lane.log.from;
    return { topic: pair.topic, partition: lane.partition, from: start, until };
  });
  openReplay(pair, inLog);
}

function canReplay(lane, { state, until }) {
  const isThere = lane.log === null || until > lane.log.from;
  return ledger.may && isThere && ["missing", "unseen"].includes(state);
}

function tipLines(lane, segment) {
  const lines = segmentLines(lane, segment);
  return canReplay(lane, segment) ? [...lines, { text: "Click, or press Enter, to replay it." }] : lines;
}

function openSegment(pair, lane, segment, event) {
  if (canReplay(lane, segment)) {
    replayInLog(pair, [{ lane, from: segment.from, until: segment.until }]);
  } else if (segment.total + (segment.tasks?.length ?? 0) > 0) openRuns(lane, segment, event);
}

// Start

at("filter").addEventListener("submit", (event) => {
  event.preventDefault();
  show();
});
at("again").addEventListener("click", () => show());
at("csv").addEventListener("click", () => exportAs("csv", toCsv));
at("json").addEventListener("click", () => exportAs("json", toJson));
at("state").append(...STATES.map((state) => make("option", { value: state, text: label(state) })));
for (const id of VIEW) {
  if (address.has(id)) at(id).value = address.get(id);
  at(id).addEventListener("input", () => ledger !== null && draw());
}
at("view").addEventListener("submit", (event) => event.preventDefault());
window.addEventListener("storage", (event) => {
  if (event.key === "theme" || event.key === null) applyTheme();
});
window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", applyTheme);

if (isOneRun) {
  at("one-run").hidden = false;
  at("filter").hidden = at("window-hint").hidden = true;
  at("one-run-text").textContent =
    `Only DAG run ${theRun.runId} of DAG ${theRun.dagId}. What other runs copied is not drawn.`;
  at("all-runs").addEventListener("click", (event) => {
    event.preventDefault();
    go(new URL("plugin/kafka-coverage", AIRFLOW).href, event);
  });
} else {
  at("from").value = utcInput(new Date(Date.now() - DAYS * 24 * 3600 * 1000));
}
applyTheme();
show();
