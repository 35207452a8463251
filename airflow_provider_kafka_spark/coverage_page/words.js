// The words for what is known of offsets: those of the command coverage.

/** In the order of the legend. */
export const WORDS = {
  covered: "A run has read these offsets to their end, and delivered their records.",
  duplicated: "Runs with different run ids have delivered them to the same topic. Runs with a filter do not count.",
  missing: "No run has copied them, and none is going to. They lie between offsets that runs name.",
  waiting: "No run has copied them yet. Runs that have not begun lie between those that copied what is beside them.",
  unfinished: "A task that runs, waits for its retry or was cleared is to deliver them.",
  failed: "A task that failed was to deliver them. Clear it: it delivers the rest.",
  lost: "They were no longer in the source when a run was to read them.",
  empty: "A run has looked, and no record is there: markers of transactions, or what was compacted.",
  unseen: "They are in the log, before the first or after the last offset that any run names: nobody has looked at them.",
};
export const STATES = Object.keys(WORDS);
/** What somebody has to look at, most urgent first. */
export const ATTENTION = ["missing", "failed", "lost", "waiting", "unfinished", "unseen"];

export function label(state) {
  return state[0].toUpperCase() + state.slice(1);
}

/** count(1, "run") is "1 run"; a number, or a BigInt. */
export function count(number, what) {
  return `${formatCount(number)} ${what}${String(number) === "1" ? "" : "s"}`;
}

/** 1234567n as "1,234,567". */
export function formatCount(value) {
  return String(value).replace(/\B(?=(\d{3})+$)/g, ",");
}

/** "2026-11-24T01:00:00.123Z" as "2026-11-24 01:00:00 UTC". */
export function formatTime(value) {
  const moment = new Date(value);
  return Number.isNaN(moment.getTime()) ? "unknown" : `${moment.toISOString().slice(0, 19).replace("T", " ")} UTC`;
}
