// Thousands of ranges in few bytes, as core/offsets/compact_rows.py writes them.

import { MAX_OFFSET, MAX_PARTITION, parseRange } from "./offsets.js";

export function isCompact(value) {
  return typeof value === "object" && value !== null && !Array.isArray(value) && "compact" in value;
}

/** The ranges, or null if they are malformed; of more than the maximum only how many there are at least. */
export function compactRanges({ compact, offsets }, maximum) {
  if (compact !== 1 || typeof offsets !== "object" || offsets === null) return null;
  const ranges = [];
  for (const [topic, coded] of Object.entries(offsets)) {
    const numbers = parseRange(`${topic}:0:0:0`) && numbersIn(coded);
    if (numbers === null) return null;
    let partition = 0n;
    for (let at = 0; at < numbers.length; ) {
      const [step, count] = [numbers[at], Number(numbers[at + 1])];
      const end = at + 2 + 2 * count;
      if ((at > 0 && step === 0n) || !(count > 0) || end > numbers.length) return null;
      if (ranges.length + count > maximum) return ranges.length + count;
      partition += step;
      let until = 0n;
      for (at += 2; at < end; at += 2) {
        const from = until + numbers[at];
        until = from + numbers[at + 1];
        ranges.push({ topic, partition: Number(partition), from, until });
      }
      if (until > MAX_OFFSET || partition > MAX_PARTITION) return null;
    }
  }
  return ranges;
}

/** How many ranges there are, without making them: each has two numbers, after two of its partition. */
export function compactSize({ offsets }) {
  let ranges = 0;
  for (const coded of Object.values(offsets ?? {})) {
    const numbers = numbersIn(coded) ?? [];
    for (let at = 0; at + 1 < numbers.length; ) {
      // A malformed one may claim any number.
      const count = Math.min(Number(numbers[at + 1]), (numbers.length - at - 2) / 2);
      ranges += count;
      at += 2 + 2 * Math.max(1, count);
    }
  }
  return Math.floor(ranges);
}

/** The numbers of a text in Base64, seven bits a byte, the lowest first; null if it is malformed. */
function numbersIn(coded) {
  let bytes;
  try {
    bytes = atob(typeof coded === "string" ? coded : "?");
  } catch {
    return null;
  }
  const numbers = [];
  let value = 0n;
  let shift = 0n;
  for (const letter of bytes) {
    const byte = letter.charCodeAt(0);
    value |= BigInt(byte & 0x7f) << shift;
    shift += 7n;
    if (shift > 63n && byte > 0x7f) return null;
    if (byte < 0x80) {
      numbers.push(value);
      value = shift = 0n;
    }
  }
  return shift === 0n ? numbers : null;
}
