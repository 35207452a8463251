// One pair's lanes on a canvas, with pointer and keyboard.

import { clampView, ticks, zoomView } from "./offsets.js";
import { STATES, formatCount } from "./words.js";

const GUTTER = 58;
const AXIS = 22;
const LANE = 14;
const STEP = 19;
const RIGHT = 8;
// What is rare is drawn last and not thinner than this, so that one lost offset in a million is seen.
const MIN_WIDTH = 2;
const THIN = 6;
const DRAG = 5;
// Pixels beside the pointer in which a segment may be hit.
const NEAR = 8;
const ORDER = ["covered", "empty", "unseen", "duplicated", "waiting", "unfinished", "failed", "lost", "missing"];
const SOLID = ["covered", "duplicated"];
// On the paper's colour, others on their own.
const ON_PAPER = ["missing", "waiting", "unseen", "empty"];
/** A canvas has a largest height; more partitions have pages. */
export const MAX_LANES = 200;

/** The colours of the current theme, from elements of the style sheet's classes. */
export function readColours() {
  const probe = document.createElement("span");
  document.body.append(probe);
  const colours = {};
  for (const name of [...STATES, "lane", "back", "focus", "claim"]) {
    probe.className = `ink-${name}`;
    colours[name] = getComputedStyle(probe).color;
  }
  probe.className = "";
  colours.text = getComputedStyle(probe).color;
  probe.remove();
  return colours;
}

/** A state has a pattern too, and not its colour alone. */
export function fillOf(context, state, colours) {
  if (SOLID.includes(state)) return colours[state];
  const tile = document.createElement("canvas");
  tile.width = tile.height = 8;
  const ink = tile.getContext("2d");
  const isOnPaper = ON_PAPER.includes(state);
  ink.fillStyle = isOnPaper ? colours.back : colours[state];
  ink.fillRect(0, 0, 8, 8);
  ink.strokeStyle = ink.fillStyle = isOnPaper ? colours[state] : colours.back;
  ink.lineWidth = state === "missing" ? 2.5 : 1.5;
  ink.beginPath();
  if (state === "missing" || state === "unfinished") line(ink, [-2, 10, 10, -2], [-2, 2, 2, -2], [6, 10, 10, 6]);
  if (state === "failed") line(ink, [4, 0, 4, 8]);
  if (state === "lost") line(ink, [0, 0, 8, 8], [0, 8, 8, 0]);
  if (state === "waiting") line(ink, [-2, -2, 10, 10], [-2, 6, 2, 10], [6, -2, 10, 2]);
  if (state === "unseen") ink.fillRect(3, 3, 2, 2);
  if (state === "empty") line(ink, [0, 4, 8, 4]);
  ink.stroke();
  return context.createPattern(tile, "repeat");
}

function line(ink, ...lines) {
  for (const [x1, y1, x2, y2] of lines) {
    ink.moveTo(x1, y1);
    ink.lineTo(x2, y2);
  }
}

/** The segments, which are sorted, that have an offset of these. */
function between(segments, from, until) {
  const firstAfter = (isAfter) => {
    let [low, high] = [0, segments.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (isAfter(segments[middle])) high = middle;
      else low = middle + 1;
    }
    return low;
  };
  return segments.slice(firstAfter((segment) => segment.until > from), firstAfter((segment) => segment.from >= until));
}

export class Chart {
  /** on: {hover(lane, segment, x, y), leave(), open(lane, segment, event), view(view)} */
  constructor(canvas, pair, on) {
    this.canvas = canvas;
    this.pair = pair;
    this.lanes = pair.lanes.slice(0, MAX_LANES);
    this.on = on;
    this.view = { from: pair.low, until: pair.high };
    this.focus = null;
    this.drag = null;
    this.colours = readColours();
    canvas.addEventListener("pointermove", (event) => this.#move(event));
    canvas.addEventListener("pointerdown", (event) => this.#down(event));
    canvas.addEventListener("pointerup", (event) => this.#up(event));
    canvas.addEventListener("pointercancel", () => this.#endDrag());
    canvas.addEventListener("pointerleave", () => this.on.leave());
    canvas.addEventListener("keydown", (event) => this.#key(event));
    canvas.addEventListener("blur", () => {
      this.focus = null;
      this.on.leave();
      this.draw();
    });
    new ResizeObserver(() => this.draw()).observe(canvas);
  }

  show(view) {
    this.view = view;
    this.draw();
    this.on.view(view);
  }

  get isZoomed() {
    return this.view.from !== this.pair.low || this.view.until !== this.pair.high;
  }

  /** The partitions from this place on, as many as a canvas takes. */
  showLanes(first) {
    this.lanes = this.pair.lanes.slice(first, first + MAX_LANES);
    this.focus = null;
    this.draw();
  }

  zoom(isIn) {
    this.show(zoomView(this.view, isIn, this.pair.low, this.pair.high));
  }

  shift(isRight) {
    const part = (this.view.until - this.view.from) / 2n || 1n;
    const by = isRight ? part : -part;
    this.show(clampView(this.view.from + by, this.view.until + by, this.pair.low, this.pair.high));
  }

  showAll() {
    this.show({ from: this.pair.low, until: this.pair.high });
  }

  recolour() {
    this.colours = readColours();
    this.draw();
  }

  draw() {
    const scale = window.devicePixelRatio || 1;
    const width = this.canvas.clientWidth;
    const height = AXIS + STEP * this.lanes.length + 4;
    this.canvas.style.height = `${height}px`;
    this.canvas.width = Math.round(width * scale);
    this.canvas.height = Math.round(height * scale);
    this.width = width - GUTTER - RIGHT;
    if (this.width <= 0) return;
    const ink = this.canvas.getContext("2d");
    ink.scale(scale, scale);
    ink.font = "11px system-ui, sans-serif";
    this.#drawAxis(ink);
    const fills = Object.fromEntries(STATES.map((state) => [state, fillOf(ink, state, this.colours)]));
    this.lanes.forEach((lane, index) => this.#drawLane(ink, lane, AXIS + STEP * index, fills));
    if (this.focus) this.#drawFocus(ink);
    if (this.drag) this.#drawDrag(ink, height);
  }

  #drawAxis(ink) {
    ink.fillStyle = ink.strokeStyle = this.colours.text;
    ink.textBaseline = "middle";
    for (const offset of ticks(this.view.from, this.view.until, this.width / 140)) {
      const x = this.#x(offset);
      const text = formatCount(offset);
      const half = ink.measureText(text).width / 2;
      ink.textAlign = "center";
      ink.fillText(text, Math.max(GUTTER + half - 4, Math.min(x, GUTTER + this.width + RIGHT - half)), 8);
      ink.fillRect(Math.min(x, GUTTER + this.width - 1), 16, 1, 4);
    }
  }

  #drawLane(ink, lane, y, fills) {
    ink.fillStyle = this.colours.text;
    ink.textAlign = "right";
    ink.fillText(String(lane.partition), GUTTER - 8, y + LANE / 2);
    ink.fillStyle = this.colours.lane;
    ink.fillRect(GUTTER, y + LANE / 2 - 1, this.width, 2);
    const seen = this.#visible(lane);
    const byState = Map.groupBy(seen, ({ state }) => state);
    for (const state of ORDER) this.#drawState(ink, state, byState.get(state) ?? [], y, fills);
    this.#drawClaims(ink, lane, y);
    this.#drawBorders(ink, seen, y);
  }

  #drawState(ink, state, segments, y, fills) {
    const isSolid = SOLID.includes(state);
    // Neighbours of one state are one rectangle: thousands of runs may share a pixel.
    let start = null;
    let end = null;
    const flush = () => {
      if (start === null) return;
      const width = Math.max(MIN_WIDTH, end - start);
      // A pattern is not seen in a thin one.
      ink.fillStyle = width < THIN ? this.colours[state] : fills[state];
      ink.fillRect(start, y, width, LANE);
      if (!isSolid && width >= THIN) {
        ink.strokeStyle = this.colours[state];
        ink.lineWidth = 1;
        ink.strokeRect(start + 0.5, y + 0.5, Math.max(1, width - 1), LANE - 1);
      }
      start = null;
    };
    for (const segment of segments) {
      const left = this.#x(segment.from);
      const right = this.#x(segment.until);
      // Thin ones that touch on the screen are one.
      if (start !== null && left <= Math.max(end, start + MIN_WIDTH) + 0.01) end = Math.max(end, right);
      else {
        flush();
        start = left;
        end = right;
      }
    }
    flush();
  }

  /** What events claim that no task has made: a line under the lane. */
  #drawClaims(ink, lane, y) {
    ink.fillStyle = this.colours.claim;
    for (const { from, until } of lane.claims) {
      if (until <= this.view.from || from >= this.view.until) continue;
      const left = this.#x(from);
      ink.fillRect(left, y + LANE, Math.max(MIN_WIDTH, this.#x(until) - left), 2);
    }
  }

  /** Between two runs, where they are far enough from each other to be seen. */
  #drawBorders(ink, seen, y) {
    ink.fillStyle = this.colours.back;
    for (const segment of seen) {
      const left = this.#x(segment.from);
      if (left > GUTTER && this.#x(segment.until) - left >= 5) ink.fillRect(left, y, 1, LANE);
    }
  }

  #drawFocus(ink) {
    const { lane, segment } = this.focus;
    const y = AXIS + STEP * lane;
    const left = Math.max(GUTTER, this.#x(segment.from));
    const right = Math.min(GUTTER + this.width, this.#x(segment.until));
    ink.strokeStyle = this.colours.focus;
    ink.lineWidth = 2;
    ink.strokeRect(left - 1, y - 2, Math.max(MIN_WIDTH, right - left) + 2, LANE + 4);
  }

  #drawDrag(ink, height) {
    const { from, to } = this.drag;
    ink.globalAlpha = 0.25;
    ink.fillStyle = this.colours.text;
    ink.fillRect(Math.min(from, to), 0, Math.abs(to - from), height);
    ink.globalAlpha = 1;
  }

  #visible(lane) {
    return between(lane.segments, this.view.from, this.view.until);
  }

  #x(offset) {
    let at = offset;
    if (at < this.view.from) at = this.view.from;
    if (at > this.view.until) at = this.view.until;
    // The difference first: it fits into a number with a precision that is far below a pixel.
    return GUTTER + (Number(at - this.view.from) / Number(this.view.until - this.view.from)) * this.width;
  }

  #offset(x) {
    const share = Math.max(0, Math.min(1, (x - GUTTER) / this.width));
    const parts = 1_000_000n;
    return this.view.from + ((this.view.until - this.view.from) * BigInt(Math.round(share * 1e6))) / parts;
  }

  #at(x, y) {
    const index = Math.floor((y - AXIS) / STEP);
    const lane = this.lanes[index];
    if (!lane || x < GUTTER - MIN_WIDTH || x > GUTTER + this.width + MIN_WIDTH) return null;
    const [near, far] = [this.#offset(x - NEAR), this.#offset(x + NEAR) + 1n];
    const hits = between(lane.segments, near, far)
      .map((segment) => ({ segment, left: this.#x(segment.from), right: this.#x(segment.until) }))
      .filter(({ left, right }) => x >= left - 1 && x <= Math.max(right, left + MIN_WIDTH) + 1);
    // A thin one is hit before its wide neighbour, and the one that is drawn last before others.
    const thin = hits
      .filter(({ left, right }) => right - left < THIN)
      .sort((a, b) => ORDER.indexOf(b.segment.state) - ORDER.indexOf(a.segment.state));
    const best = (thin[0] ?? hits.find(({ left, right }) => x >= left && x <= right) ?? hits[0])?.segment;
    return best === undefined ? null : { lane: index, segment: best };
  }

  #move(event) {
    if (this.drag) {
      this.drag.to = Math.max(GUTTER, Math.min(GUTTER + this.width, event.offsetX));
      this.draw();
      return;
    }
    const hit = this.#at(event.offsetX, event.offsetY);
    if (hit) this.on.hover(this.lanes[hit.lane], hit.segment, event.pageX, event.pageY);
    else this.on.leave();
  }

  #down(event) {
    if (event.button !== 0) return;
    const at = Math.max(GUTTER, Math.min(GUTTER + this.width, event.offsetX));
    this.drag = { from: at, to: at };
    this.canvas.setPointerCapture(event.pointerId);
  }

  #up(event) {
    const drag = this.#endDrag();
    if (!drag) return;
    const [left, right] = [drag.from, drag.to].sort((a, b) => a - b);
    if (right - left >= DRAG) {
      this.on.leave();
      const from = this.#offset(left);
      this.show(clampView(from, this.#offset(right), this.pair.low, this.pair.high));
      return;
    }
    const hit = this.#at(event.offsetX, event.offsetY);
    if (hit) this.on.open(this.lanes[hit.lane], hit.segment, event);
  }

  #endDrag() {
    const drag = this.drag;
    this.drag = null;
    this.draw();
    return drag;
  }

  #key(event) {
    if ((event.ctrlKey || event.metaKey || event.altKey) && event.key !== "Enter") return;
    const actions = {
      ArrowRight: () => this.#step(1),
      ArrowLeft: () => this.#step(-1),
      ArrowDown: () => this.#changeLane(1),
      ArrowUp: () => this.#changeLane(-1),
      g: () => this.#nextMissing(),
      "+": () => this.zoom(true),
      "=": () => this.zoom(true),
      "-": () => this.zoom(false),
      0: () => this.showAll(),
      Enter: () => this.focus && this.on.open(this.lanes[this.focus.lane], this.focus.segment, event),
      Escape: () => this.on.leave(),
    };
    const action = actions[event.key.length === 1 ? event.key.toLowerCase() : event.key];
    if (!action) return;
    event.preventDefault();
    action();
  }

  #step(by) {
    if (!this.focus) return this.#focusOn(0, this.lanes[0].segments[0]);
    const { segments } = this.lanes[this.focus.lane];
    const next = segments[segments.indexOf(this.focus.segment) + by];
    return next && this.#focusOn(this.focus.lane, next);
  }

  #changeLane(by) {
    if (!this.focus) return this.#focusOn(0, this.lanes[0].segments[0]);
    const lane = this.lanes[this.focus.lane + by];
    if (!lane) return undefined;
    const at = this.focus.segment.from;
    const next = lane.segments.find(({ until }) => until > at) ?? lane.segments.at(-1);
    return this.#focusOn(this.focus.lane + by, next);
  }

  /** The next missing range, in the order of lanes; from the end, the first. */
  #nextMissing() {
    const all = this.lanes.flatMap((lane, index) => lane.segments.map((segment) => ({ lane: index, segment })));
    const start = this.focus ? all.findIndex((each) => each.segment === this.focus.segment) + 1 : 0;
    const next = [...all.slice(start), ...all.slice(0, start)].find(({ segment }) => segment.state === "missing");
    if (next) this.#focusOn(next.lane, next.segment);
  }

  #focusOn(lane, segment) {
    this.focus = { lane, segment };
    if (segment.from < this.view.from || segment.until > this.view.until) {
      const size = this.view.until - this.view.from;
      this.show(clampView(segment.from - size / 4n, segment.from - size / 4n + size, this.pair.low, this.pair.high));
    } else this.draw();
    const box = this.canvas.getBoundingClientRect();
    const x = (Math.max(GUTTER, this.#x(segment.from)) + Math.min(GUTTER + this.width, this.#x(segment.until))) / 2;
    const y = AXIS + STEP * lane + LANE;
    this.on.hover(this.lanes[lane], segment, box.left + window.scrollX + x, box.top + window.scrollY + y, true);
  }
}
