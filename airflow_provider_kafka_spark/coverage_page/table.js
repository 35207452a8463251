// The table of the ranges of one pair that need attention.

import { button, make, taskLink } from "./elements.js";
import { compare } from "./offsets.js";
import { rangesOf } from "./pairs.js";
import { ATTENTION, formatCount, label } from "./words.js";

const MAX_ROWS = 200;
const ADVICE = {
  lost: "Aged out; nothing to do here. ",
  failed: "Clear the task: ",
  unfinished: "Wait for ",
  waiting: "Wait for ",
};
const byState = (a, b) => ATTENTION.indexOf(a.segment.state) - ATTENTION.indexOf(b.segment.state);
const byPartition = (a, b) => a.partition - b.partition;
const byOffset = (a, b) => compare(a.from, b.from);
const COLUMNS = [
  ["State", (a, b) => byState(a, b) || byPartition(a, b) || byOffset(a, b)],
  ["Partition", (a, b) => byPartition(a, b) || byOffset(a, b)],
  ["Offsets", (a, b) => byOffset(a, b) || byPartition(a, b)],
  ["Count", (a, b) => compare(b.until - b.from, a.until - a.from) || byPartition(a, b)],
];

/** onReplay(list): undefined if the user may not. */
export function attentionTable(pair, onReplay) {
  const list = rangesOf(pair, ATTENTION);
  if (list.length === 0) return "";
  const states = ATTENTION.filter((state) => pair.counts[state] > 0n).join(", ");
  const details = make("details", {}, make("summary", { text: `Ranges that are ${states}: ${formatCount(list.length)}` }));
  // Thousands of rows are made only for somebody who opens them.
  details.addEventListener("toggle", () => fill(details, pair, list, onReplay), { once: true });
  return details;
}

function fill(details, pair, list, onReplay) {
  const body = make("tbody");
  const heads = COLUMNS.map(([name, order]) => {
    const head = make("th", { scope: "col", className: name === "Count" ? "number" : "" }, button(name, () => sortBy(head, order)));
    return head;
  });
  const sortBy = (head, order) => {
    for (const each of heads) each.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", head === heads[3] ? "descending" : "ascending");
    body.replaceChildren(...list.toSorted(order).slice(0, MAX_ROWS).map((range) => row(range, onReplay)));
  };
  sortBy(heads[0], COLUMNS[0][1]);
  const table = make("table", {}, make("thead", {}, make("tr", {}, ...heads, make("th", { scope: "col", text: "What to do" }))), body);
  details.append(make("div", { className: "scroll", tabindex: "0", role: "region", "aria-label": "Ranges" }, table));
  if (list.length > MAX_ROWS) {
    details.append(make("p", { className: "hint", text: `The first ${MAX_ROWS} of ${formatCount(list.length)} ranges. CSV and JSON have all.` }));
  }
}

function row(range, onReplay) {
  const { state, entries, tasks = [] } = range.segment;
  const action = make("td");
  const isGone = range.lane.log !== null && range.until <= range.lane.log.from;
  if (["missing", "unseen"].includes(state)) {
    if (isGone) action.append("No longer in the log.");
    else action.append(onReplay ? button("Replay this…", () => onReplay([range])) : "Somebody who may make DAG runs can copy it.");
  } else action.append(ADVICE[state], taskLink([...entries, ...tasks][0]));
  return make(
    "tr",
    {},
    make("td", { text: label(state) }),
    make("td", { text: range.partition }),
    make("td", { text: `${formatCount(range.from)} to ${formatCount(range.until)}` }),
    make("td", { className: "number", text: formatCount(range.until - range.from) }),
    action,
  );
}
