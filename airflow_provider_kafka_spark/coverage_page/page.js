// The page: it reads, draws, and answers to pointer and keyboard.
// Whatever comes from the API becomes text, by textContent, and never markup.

import {
  AIRFLOW,
  readLedger,
  readReplayDags,
  runUrl,
  startRun,
  taskUrl,
} from "./api.js";
import { Chart, fillOf, readColours } from "./chart.js";
import {
  LABELS,
  MEANINGS,
  STATES,
  buildPairs,
  countOffsets,
  formatCount,
  formatRange,
  formatTime,
  rangesOf,
  rangesParam,
  runConf,
  serverName,
  topicName,
} from "./coverage.js";

const DAYS = 31;
const REFRESH_MS = 30_000;
const MAX_PAIRS = 50;
const MAX_ROWS = 200;
const MAX_RUNS = 20;
const MAX_TIP_RUNS = 3;
const ATTENTION = ["gap", "lost", "failed", "running"];

const at = (id) => document.getElementById(id);
const address = new URLSearchParams(window.location.search);
const theRun = { dagId: address.get("dag_id") ?? "", runId: address.get("run_id") ?? "" };
const isOneRun = theRun.dagId !== "" && theRun.runId !== "";

let charts = [];
let reading = 0;
let refreshTimer = 0;
let filter = {};

function make(tag, { text, className, ...attributes } = {}, ...children) {
  const element = document.createElement(tag);
  if (text !== undefined) element.textContent = text;
  if (className) element.className = className;
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

function button(text, action, attributes = {}) {
  const element = make("button", { text, type: "button", ...attributes });
  element.addEventListener("click", action);
  return element;
}

/** Airflow shows the page in a frame that may not leave it, so its own window follows the link. */
function go(url, event) {
  const owner = window.parent === window ? document : window.parent.document;
  const anchor = owner.createElement("a");
  anchor.href = url;
  if (event?.ctrlKey || event?.metaKey) anchor.target = "_blank";
  anchor.click();
}

function link(text, url) {
  const anchor = make("a", { text, href: url });
  anchor.addEventListener("click", (event) => {
    event.preventDefault();
    go(url, event);
  });
  return anchor;
}

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

function drawLegend() {
  const colours = readColours();
  at("legend").replaceChildren(
    ...STATES.map((state) => {
      const swatch = make("canvas", { width: 52, height: 28, "aria-hidden": "true" });
      const ink = swatch.getContext("2d");
      ink.scale(2, 2);
      ink.fillStyle = fillOf(ink, state, colours);
      ink.fillRect(0, 0, 26, 14);
      ink.strokeStyle = colours[state];
      ink.strokeRect(0.5, 0.5, 25, 13);
      return make("li", { title: MEANINGS[state] }, swatch, make("span", { text: LABELS[state] }));
    }),
  );
}

// Reading

function utcInput(moment) {
  return moment.toISOString().slice(0, 16);
}

function inputMoment(id) {
  return at(id).value === "" ? "" : new Date(`${at(id).value}Z`).toISOString();
}

/** A refresh reads what the form had when it was sent, and keeps what is drawn until there is something newer. */
async function show({ isRefresh = false } = {}) {
  reading += 1;
  const mine = reading;
  const started = performance.now();
  clearTimeout(refreshTimer);
  if (!isRefresh) {
    for (const id of ["error", "notes", "empty", "tip"]) at(id).hidden = true;
    at("pairs").replaceChildren();
    charts = [];
    at("progress").textContent = "Reading…";
    filter = { from: inputMoment("from"), to: inputMoment("to"), topic: at("topic").value.trim(), ...theRun };
  }
  try {
    const ledger = await readLedger(filter, (read, total) => {
      if (mine === reading && !isRefresh) at("progress").textContent = `Reading… ${formatCount(read)} of ${formatCount(total)} events`;
    });
    if (mine !== reading) return;
    if (isRefresh && isInUse()) {
      refreshLater();
      return;
    }
    const read = performance.now();
    charts = [];
    draw(ledger);
    performance.measure("coverage-read", { start: started, end: read });
    performance.measure("coverage-draw", { start: read, end: performance.now() });
  } catch (error) {
    if (mine !== reading) return;
    if (!isRefresh) at("progress").textContent = "";
    at("error-text").textContent = error.message;
    at("error").hidden = false;
  }
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

function draw({ entries, notes, hasCopies }) {
  const { pairs, outdated } = buildPairs(entries);
  const messages = [...notes];
  if (outdated > 0) {
    messages.push(`${count(outdated, "run")} read or wrote an earlier topic of the same name, since deleted: not drawn.`);
  }
  if (pairs.length > MAX_PAIRS) {
    messages.push(`Only ${MAX_PAIRS} of ${pairs.length} pairs of topics are drawn. Name a target topic to see others.`);
  }
  at("notes").replaceChildren(...messages.map((text) => make("li", { text })));
  at("notes").hidden = messages.length === 0;
  at("pairs").replaceChildren(...pairs.slice(0, MAX_PAIRS).map(drawPair));
  for (const chart of charts) chart.draw();
  at("empty").hidden = pairs.length > 0;
  at("empty-earlier").hidden = !hasCopies;
  at("empty-begin").hidden = hasCopies;
  const runs = new Set(entries.map((entry) => entry.kafkaRun)).size;
  at("progress").textContent =
    pairs.length === 0 ? "" : `${count(pairs.length, "pair")} of topics, ${count(runs, "run")}. Read at ${formatTime(Date.now())}.`;
  if (pairs.some((pair) => pair.counts.running > 0n)) refreshLater();
}

/** count(1, "run") is "1 run"; a number, or a BigInt. */
function count(number, what) {
  return `${formatCount(number)} ${what}${String(number) === "1" ? "" : "s"}`;
}

// One pair of topics

function drawPair(pair) {
  const title = `${pair.topic} → ${topicName(pair.target.topic)}`;
  const section = make("section", { className: "pair", "aria-label": title });
  const sums = STATES.filter((state) => pair.counts[state] > 0n)
    .map((state) => `${LABELS[state].toLowerCase()} ${formatCount(pair.counts[state])}`)
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
    hover: (lane, segment, x, y, isKeyboard) => showTip(lane, segment, x, y, isKeyboard),
    leave: () => {
      at("tip").hidden = true;
    },
    open: (lane, segment, event) => openSegment(pair, lane, segment, event),
    view: showSpan,
  });
  charts.push(chart);
  showSpan(chart.view);
  const gaps = rangesOf(pair, ["gap"]);
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
  if (gaps.length > 0) tools.append(button(`Replay ${count(gaps.length, "gap")}…`, () => openReplay(pair, gaps)));
  section.append(
    make("h2", { text: title }),
    make("p", { className: "servers", text: `${serverName(pair.source)} → ${serverName(pair.target.server)} · offsets: ${sums}` }),
    canvas,
    tools,
    attentionTable(pair),
  );
  return section;
}

function attentionTable(pair) {
  const list = rangesOf(pair, ATTENTION).sort(
    (a, b) => ATTENTION.indexOf(a.segment.state) - ATTENTION.indexOf(b.segment.state) || a.partition - b.partition,
  );
  const details = make("details");
  details.append(make("summary", { text: `Gaps, lost, failed and running ranges: ${formatCount(list.length)}` }));
  // Thousands of rows are made only for somebody who opens them.
  details.addEventListener(
    "toggle",
    () => {
      const head = ["State", "Partition", "Offsets", "Count", "What to do"].map((text) => make("th", { text, scope: "col" }));
      const rows = list.slice(0, MAX_ROWS).map((range) => attentionRow(pair, range));
      const table = make("table", {}, make("thead", {}, make("tr", {}, ...head)), make("tbody", {}, ...rows));
      details.append(make("div", { className: "scroll", tabindex: "0", role: "region", "aria-label": "Ranges" }, table));
      if (list.length > MAX_ROWS) {
        details.append(make("p", { className: "hint", text: `The first ${MAX_ROWS} of ${formatCount(list.length)} ranges.` }));
      }
    },
    { once: true },
  );
  return list.length > 0 ? details : "";
}

function attentionRow(pair, range) {
  const { state, entries } = range.segment;
  const action = make("td");
  if (state === "gap") action.append(button("Replay this…", () => openReplay(pair, [range])));
  else {
    const [entry] = entries;
    const advice = { lost: "Aged out; nothing to do here. ", failed: "Clear the task: ", running: "Wait for " }[state];
    action.append(advice, canBeOpened(entry) ? link(taskName(entry), taskUrl(entry)) : taskName(entry));
  }
  return make(
    "tr",
    {},
    make("td", { text: LABELS[state] }),
    make("td", { text: range.partition }),
    make("td", { text: `${formatCount(range.from)} to ${formatCount(range.until)}` }),
    make("td", { className: "number", text: formatCount(range.until - range.from) }),
    action,
  );
}

/** An event that somebody made by the API has no task. */
function canBeOpened(entry) {
  return entry.dagId !== "" && entry.dagRunId !== "" && entry.taskId !== "";
}

function taskName({ dagId, taskId, mapIndex }) {
  const mapped = mapIndex >= 0 ? `[${mapIndex}]` : "";
  return dagId === "" ? "an unknown task" : `${dagId}.${taskId}${mapped}`;
}

// What a segment says

function entryLines(entry) {
  const lines = [`${taskName(entry)}, DAG run ${entry.dagRunId || "unknown"}`];
  const took = entry.seconds === null ? "" : `, ${entry.seconds.toFixed(1)} s`;
  const tryText = entry.tryNumber === null ? "" : `, try ${entry.tryNumber}`;
  lines.push(`Run ${entry.kafkaRun || "unknown"}${tryText}: ${formatTime(entry.startedAt || entry.at)}${took}`);
  if (entry.recordsRead !== null && entry.kind === "copied") {
    lines.push(`The whole run: ${formatCount(entry.recordsRead)} records read, ${formatCount(entry.recordsWritten ?? 0)} written`);
  }
  if (entry.isFiltered) lines.push("It had a filter: records of these offsets may have been left out on purpose.");
  if (entry.kind === "running" && entry.taskState !== "running") lines.push(`The task is ${entry.taskState}.`);
  if (entry.wasKilled) lines.push("The task ended without saying what it delivered of its plan. That is not known until it is cleared.");
  return lines;
}

function segmentLines(lane, segment) {
  const offsets = `offsets ${formatCount(segment.from)} to ${formatCount(segment.until)}`;
  const lines = [
    { text: `${LABELS[segment.state]}: partition ${lane.partition}, ${offsets}`, isFirst: true },
    { text: `${count(segment.until - segment.from, "offset")}. ${MEANINGS[segment.state]}` },
  ];
  for (const entry of segment.entries.slice(0, MAX_TIP_RUNS)) {
    lines.push(...entryLines(entry).map((text, i) => ({ text, isFirst: i === 0 })));
  }
  const more = segment.entries.length - MAX_TIP_RUNS;
  if (more > 0) lines.push({ text: `and ${more} more` });
  if (segment.state === "gap") lines.push({ text: "Click, or press Enter, to replay it." });
  return lines;
}

function asText(lines) {
  return lines.map(({ text }) => text.replace(/\.$/, "")).join(". ");
}

function showTip(lane, segment, x, y, isKeyboard = false) {
  const tip = at("tip");
  const lines = segmentLines(lane, segment);
  tip.replaceChildren(...lines.map(({ text, isFirst }) => make("p", { text, className: isFirst ? "first" : "" })));
  tip.hidden = false;
  const right = window.scrollX + document.documentElement.clientWidth;
  const bottom = window.scrollY + document.documentElement.clientHeight;
  tip.style.left = `${Math.max(0, Math.min(x + 14, right - tip.offsetWidth - 8))}px`;
  const under = y + 18;
  tip.style.top = `${under + tip.offsetHeight > bottom ? Math.max(0, y - tip.offsetHeight - 18) : under}px`;
  if (isKeyboard) at("announcer").textContent = asText(lines);
}

function openSegment(pair, lane, segment, event) {
  if (segment.state === "gap") {
    openReplay(pair, [{ topic: pair.topic, partition: lane.partition, from: segment.from, until: segment.until }]);
    return;
  }
  const runs = [...new Map(segment.entries.map((entry) => [taskUrl(entry), entry])).values()];
  if (runs.length === 1 && canBeOpened(runs[0])) {
    go(taskUrl(runs[0]), event);
    return;
  }
  at("runs-range").textContent = asText(segmentLines(lane, { ...segment, entries: [] }));
  const items = runs.slice(0, MAX_RUNS).map((entry) => {
    const [name, ...rest] = entryLines(entry);
    const heading = canBeOpened(entry) ? link(name, taskUrl(entry)) : make("span", { text: name });
    return make("li", {}, heading, ...rest.map((text) => make("div", { text })));
  });
  if (runs.length > MAX_RUNS) items.push(make("li", { text: `and ${runs.length - MAX_RUNS} more` }));
  at("runs-list").replaceChildren(...items);
  at("tip").hidden = true;
  at("runs").showModal();
}

// Replay

const replay = { pair: null, list: [], dags: [] };

async function openReplay(pair, list) {
  Object.assign(replay, { pair, list, dags: [] });
  at("tip").hidden = true;
  at("replay-title").textContent = `Replay ${pair.topic} → ${topicName(pair.target.topic)}`;
  at("replay-count").textContent =
    `${count(countOffsets(list), "offset")} in ${count(list.length, "range")}, from ${serverName(pair.source)} to ` +
    `${serverName(pair.target.server)}. There may be fewer records: compaction and transactions use offsets without records.`;
  at("replay-ranges").value = list.map(formatRange).join("\n");
  at("replay-conf").value = "";
  at("replay-dag").replaceChildren();
  at("replay-plan-label").hidden = true;
  at("replay-plan").checked = true;
  at("replay-start").disabled = true;
  say("");
  at("replay-dag-note").textContent = "Looking for DAGs with a param named offset_ranges or ranges…";
  at("replay").showModal();
  try {
    const { dags, note } = await readReplayDags();
    if (replay.pair !== pair || replay.list !== list) return;
    replay.dags = dags;
    at("replay-dag").replaceChildren(...dags.map(({ dagId }) => make("option", { text: dagId, value: dagId })));
    if (dags.length === 0) {
      at("replay-dag-note").textContent =
        `No DAG that you may read has a param named offset_ranges, or ranges of type array. ${note} ` +
        "Copy the ranges from here, or add the example DAG replay_incident.";
      return;
    }
    chooseDag(note);
  } catch (error) {
    at("replay-dag-note").textContent = error.message;
  }
}

function chosenDag() {
  return replay.dags.find(({ dagId }) => dagId === at("replay-dag").value);
}

function chooseDag(note = "") {
  const { params, isPaused } = chosenDag();
  const isPlanned = "plan_only" in params;
  at("replay-plan-label").hidden = !isPlanned;
  at("replay-dag-note").textContent = [
    `The ranges go into its param ${rangesParam(params).name}.`,
    isPlanned ? "" : "It has no param plan_only: whether it shows a plan first is the DAG's own affair.",
    isPaused ? "The DAG is paused: the run waits until it is unpaused." : "",
    note,
  ]
    .filter(Boolean)
    .join(" ");
  fillConf();
  at("replay-start").disabled = false;
  say("");
}

function fillConf() {
  const conf = runConf(chosenDag().params, replay.pair, replay.list, at("replay-plan").checked);
  at("replay-conf").value = JSON.stringify(conf, null, 2);
}

function say(text, isError = false) {
  at("replay-result").textContent = text;
  at("replay-result").className = isError ? "failed" : "";
}

async function start() {
  const { dagId } = chosenDag();
  let conf;
  try {
    conf = JSON.parse(at("replay-conf").value);
  } catch (error) {
    say(`The configuration must be JSON; ${error.message}`, true);
    return;
  }
  at("replay-start").disabled = true;
  say("Starting…");
  try {
    const runId = await startRun(dagId, conf);
    say("Started: ");
    at("replay-result").append(link(runId, runUrl(dagId, runId)));
    at("replay-cancel").textContent = "Close";
  } catch (error) {
    say(`Nothing was started. ${error.message}`, true);
    at("replay-start").disabled = false;
  }
}

// Start

at("filter").addEventListener("submit", (event) => {
  event.preventDefault();
  show();
});
at("again").addEventListener("click", () => show());
at("runs-close").addEventListener("click", () => at("runs").close());
at("replay-cancel").addEventListener("click", () => at("replay").close());
at("replay").addEventListener("close", () => {
  at("replay-cancel").textContent = "Cancel";
});
at("replay-dag").addEventListener("change", () => chooseDag());
at("replay-plan").addEventListener("change", fillConf);
at("replay-start").addEventListener("click", start);
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
at("topic").value = address.get("topic") ?? "";
applyTheme();
show();
