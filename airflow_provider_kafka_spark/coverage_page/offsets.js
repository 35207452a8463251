// Ranges of offsets, and views of them.
// Offsets are BigInt: Kafka's go up to 2^63 - 1, and JavaScript's numbers are exact up to 2^53 only.

// Numbers have no leading zeros.
const RANGE = /^([a-zA-Z0-9._-]{1,249}):(0|[1-9]\d{0,9}):(0|[1-9]\d{0,18}):(0|[1-9]\d{0,18})$/;
export const MAX_PARTITION = 2 ** 31 - 1;
export const MAX_OFFSET = 2n ** 63n - 1n;

/** Parse "topic:partition:from:until", until exclusive; null if it is not that. A range may be empty. */
export function parseRange(text) {
  const found = typeof text === "string" ? RANGE.exec(text) : null;
  if (!found || found[1] === "." || found[1] === "..") return null;
  const range = { topic: found[1], partition: Number(found[2]), from: BigInt(found[3]), until: BigInt(found[4]) };
  const isValid = range.from <= range.until && range.until <= MAX_OFFSET && range.partition <= MAX_PARTITION;
  return isValid ? range : null;
}

export function formatRange({ topic, partition, from, until }) {
  return `${topic}:${partition}:${from}:${until}`;
}

export function compare(a, b) {
  return a < b ? -1 : a > b ? 1 : 0;
}

/** The union of ranges, sorted, without empty ones. */
export function mergeRanges(ranges) {
  const merged = [];
  const sorted = ranges.toSorted((a, b) => compare(a.topic, b.topic) || a.partition - b.partition || compare(a.from, b.from));
  for (const range of sorted) {
    const last = merged.at(-1);
    const isNext = last?.topic === range.topic && last.partition === range.partition && range.from <= last.until;
    if (isNext && last.until < range.until) last.until = range.until;
    else if (!isNext && range.from < range.until) merged.push({ ...range });
  }
  return merged;
}

export function countOffsets(list) {
  return list.reduce((sum, { from, until }) => sum + (until - from), 0n);
}

/** The span of offsets that a view shows, moved into the bounds low and high, and has one offset or more. */
export function clampView(from, until, low, high) {
  let size = until - from;
  if (size < 1n) size = 1n;
  if (size > high - low) size = high - low;
  let start = from;
  if (start < low) start = low;
  if (start + size > high) start = high - size;
  return { from: start, until: start + size };
}

/** The view zoomed by a factor of 2 in or out, around its middle. */
export function zoomView(view, isIn, low, high) {
  const size = view.until - view.from;
  const next = isIn ? (size + 1n) / 2n : size * 2n;
  const start = view.from + (size - next) / 2n;
  return clampView(start, start + next, low, high);
}

/** Round offsets for an axis, at most about as many as the maximum. */
export function ticks(from, until, maximum) {
  const size = until - from;
  const minimum = size / BigInt(Math.max(1, Math.floor(maximum))) + 1n;
  const power = 10n ** BigInt(String(minimum).length - 1);
  const step = [1n, 2n, 5n, 10n].map((factor) => factor * power).find((each) => each >= minimum);
  const result = [];
  for (let at = ((from + step - 1n) / step) * step; at <= until; at += step) result.push(at);
  return result;
}
