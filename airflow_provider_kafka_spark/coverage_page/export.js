// What is shown, as CSV and JSON.

import { formatRange } from "./offsets.js";

const COLUMNS = ["source", "target_server", "target_topic", "topic", "partition", "from_offset", "until_offset", "state", "runs"];

/** Rows of pairs: what is known of each range of the states, or of all if there are none. */
export function exportRows(pairs, states = []) {
  return pairs.flatMap((pair) =>
    pair.lanes.flatMap(({ partition, segments }) =>
      segments
        .filter(({ state }) => states.length === 0 || states.includes(state))
        .map((segment) => ({
          source: pair.source,
          target_server: pair.target.server,
          target_topic: pair.target.topic,
          topic: pair.topic,
          partition,
          // As texts: readers of JSON have no exact numbers beyond 2^53.
          from_offset: String(segment.from),
          until_offset: String(segment.until),
          range: formatRange({ topic: pair.topic, partition, from: segment.from, until: segment.until }),
          state: segment.state,
          runs: [...new Set(segment.entries.map(({ dagId, dagRunId, taskId }) => `${dagId}/${dagRunId}/${taskId}`))],
        })),
    ),
  );
}

export function toJson(rows) {
  return `${JSON.stringify(rows, null, 1)}\n`;
}

/** RFC 4180. A name that a spreadsheet would take for a formula gets an apostrophe. */
export function toCsv(rows) {
  const cell = (value) => {
    const text = String(Array.isArray(value) ? value.join(" ") : value);
    const safe = /^[=+\-@\t\r]/.test(text) ? `'${text}` : text;
    return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
  };
  return [COLUMNS, ...rows.map((row) => COLUMNS.map((name) => row[name]))].map((line) => `${line.map(cell).join(",")}\r\n`).join("");
}
