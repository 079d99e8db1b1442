// The time line: events in two lanes on a canvas. The cost of drawing depends on the visible events; those narrower than a pixel share one.

export interface TimelineEvents {
  begin: Float64Array; // seconds, ascending
  took: Float64Array;
  reach: Float64Array; // the latest end of this event and all earlier ones, for binary search
  node: Int32Array; // -1: not in the graph
  lane: Uint8Array; // 0 forward, 1 backward
  op: Int32Array; // index into `names`
  names: readonly string[];
}

export interface Span {
  begin: number; // seconds
  end: number;
}

/** Unpacks the columns sent by the kernel: pairs of begin and duration, pairs of node and lane, and ops. */
export function timelineEvents(
  events: ArrayLike<number>,
  places: ArrayLike<number>,
  ops: ArrayLike<number>,
  names: readonly string[],
): TimelineEvents {
  const count = ops.length;
  const [begin, took, reach] = [new Float64Array(count), new Float64Array(count), new Float64Array(count)];
  const [node, lane] = [new Int32Array(count), new Uint8Array(count)];
  let latest = -Infinity;
  for (let at = 0; at < count; at++) {
    begin[at] = events[2 * at]!;
    took[at] = events[2 * at + 1]!;
    latest = Math.max(latest, begin[at]! + took[at]!);
    reach[at] = latest;
    node[at] = places[2 * at]!;
    lane[at] = places[2 * at + 1]!;
  }
  return { begin, took, reach, node, lane, op: Int32Array.from(ops), names };
}

/** The index of the first value larger than `than`; the values are ascending. */
export function firstAbove(values: ArrayLike<number>, than: number): number {
  let [low, high] = [0, values.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (values[middle]! > than) high = middle;
    else low = middle + 1;
  }
  return low;
}

/** The range of events that may be visible: the first index, and one past the last. */
export function inSight({ begin, reach }: TimelineEvents, span: Span): [number, number] {
  return [firstAbove(reach, span.begin), firstAbove(begin, span.end)];
}

/** The event at a moment in a lane, or the nearest one within `slack` seconds; of nested events the innermost. -1: none. */
export function eventAt(events: TimelineEvents, lane: number, moment: number, slack: number): number {
  const [first, last] = inSight(events, { begin: moment - slack, end: moment + slack });
  let [found, distance] = [-1, Infinity];
  for (let at = first; at < last; at++) {
    if (events.lane[at] !== lane) continue;
    const [begin, end] = [events.begin[at]!, events.begin[at]! + events.took[at]!];
    const away = moment < begin ? begin - moment : moment > end ? moment - end : 0;
    if (away <= distance && away <= slack) [found, distance] = [at, away];
  }
  return found;
}

/** Scales the span about a moment, but keeps it within the whole and at least a nanosecond wide. */
export function zoomed(span: Span, whole: Span, about: number, factor: number): Span {
  const width = Math.min(whole.end - whole.begin, Math.max(1e-9, (span.end - span.begin) * factor));
  const share = (about - span.begin) / Math.max(1e-12, span.end - span.begin);
  return moved({ begin: about - share * width, end: about + (1 - share) * width }, whole, 0);
}

export function moved({ begin, end }: Span, whole: Span, by: number): Span {
  const width = end - begin;
  const from = Math.max(whole.begin, Math.min(whole.end - width, begin + by));
  return { begin: from, end: from + width };
}

/** Round moments about `apart` pixels apart. */
export function ticks(span: Span, width: number, apart = 90): number[] {
  const rough = ((span.end - span.begin) * apart) / Math.max(1, width);
  if (!(rough > 0)) return [];
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((n) => n * power).find((n) => n >= rough)!;
  const found: number[] = [];
  for (let k = Math.ceil(span.begin / step); k * step <= span.end; k++) found.push(k * step);
  return found;
}

/** A moment in a unit suitable for `longest`, with enough digits to distinguish moments `step` apart. */
export function momentText(seconds: number, longest: number, step: number): string {
  const [unit, name] = longest >= 1 ? [1, "s"] : longest >= 1e-3 ? [1e-3, "ms"] : [1e-6, "µs"];
  const digits = Math.max(0, Math.min(9, -Math.floor(Math.log10(Math.max(step, 1e-12) / unit) + 1e-9)));
  return seconds === 0 ? "0" : `${(seconds / unit).toFixed(digits)} ${name}`;
}

export interface Look {
  lanes: readonly [string, string]; // colors
  text: string;
  quiet: string;
  line: string;
  back: string;
  font: string;
}

export interface Marked {
  node: number; // selected, in both lanes; -1: none
  op: number; // highlights all events of an op; -1: none
  event: number; // under the pointer or the keys; -1: none
}

export const LANE = 34; // pixels
export const GAP = 4;
export const AXIS = 18;
export const HEIGHT = AXIS + 2 * LANE + GAP;

export function laneAt(y: number): number {
  return y < AXIS ? -1 : y < AXIS + LANE + GAP / 2 ? 0 : 1;
}

/** Draws the visible events; returns how many were examined. */
export function drawEvents(
  context: CanvasRenderingContext2D,
  events: TimelineEvents,
  span: Span,
  width: number,
  look: Look,
  marked: Marked,
): number {
  const scale = width / (span.end - span.begin);
  context.clearRect(0, 0, width, HEIGHT);
  context.font = look.font;
  context.textBaseline = "middle";
  drawAxis(context, span, width, scale, look);
  const [first, last] = inSight(events, span);
  const filled = [-1, -1]; // right end of the drawn part of each lane, in pixels
  const outlined: number[] = [];
  for (let at = first; at < last; at++) {
    const lane = events.lane[at]!;
    const x = (events.begin[at]! - span.begin) * scale;
    const right = x + events.took[at]! * scale;
    if ((marked.node >= 0 && events.node[at] === marked.node) || at === marked.event) outlined.push(at);
    const other = marked.op >= 0 && events.op[at] !== marked.op;
    if (right - x < 1.5) {
      // one line per pixel for short events; those of the marked op are drawn over it
      if (right <= filled[lane]! && (other || marked.op < 0)) continue;
      const pixel = marked.op >= 0 && !other ? Math.floor(x) : Math.max(Math.floor(x), filled[lane]!);
      paint(context, look, lane, other ? 0.15 : 0.6, pixel, 1);
      filled[lane] = Math.max(filled[lane]!, pixel + 1);
      continue;
    }
    const from = Math.max(-2, x);
    const wide = Math.min(width + 2, right) - from;
    // separates neighbors of the same color; each op has the same shade everywhere
    paint(context, look, lane, other ? 0.15 : SHADES[events.op[at]! % SHADES.length]!, from, Math.max(1, wide - (wide > 3 ? 1 : 0)));
    filled[lane] = right;
    if (wide > 26 && !other) label(context, events.names[events.op[at]!]!, Math.max(0, from), wide, lane, look);
  }
  for (const at of outlined) outline(context, events, at, span, scale, look);
  return last - first;
}

const SHADES = [0.42, 0.28, 0.56, 0.35, 0.49];

function top(lane: number): number {
  return AXIS + lane * (LANE + GAP);
}

function paint(context: CanvasRenderingContext2D, look: Look, lane: number, alpha: number, x: number, width: number): void {
  context.globalAlpha = alpha;
  context.fillStyle = look.lanes[lane]!;
  context.fillRect(x, top(lane), width, LANE);
  context.globalAlpha = 1;
}

function label(context: CanvasRenderingContext2D, name: string, x: number, wide: number, lane: number, look: Look): void {
  context.fillStyle = look.text;
  const room = wide - 8;
  const size = context.measureText(name).width;
  const shown = size <= room ? name : name.slice(0, Math.floor((name.length * room) / size) - 1) + "…";
  if (shown.length > 1) context.fillText(shown, x + 4, top(lane) + LANE / 2);
}

function outline(context: CanvasRenderingContext2D, events: TimelineEvents, at: number, span: Span, scale: number, look: Look): void {
  const x = (events.begin[at]! - span.begin) * scale;
  const width = Math.max(3, events.took[at]! * scale);
  context.lineWidth = 2;
  context.strokeStyle = look.text;
  context.strokeRect(x - (width === 3 ? 1 : 0), top(events.lane[at]!) + 1, width, LANE - 2);
}

function drawAxis(context: CanvasRenderingContext2D, span: Span, width: number, scale: number, look: Look): void {
  context.fillStyle = look.back;
  context.fillRect(0, top(0), width, LANE);
  context.fillRect(0, top(1), width, LANE);
  const moments = ticks(span, width);
  const step = (moments[1] ?? span.end) - (moments[0] ?? 0);
  for (const moment of moments) {
    const x = Math.round((moment - span.begin) * scale) + 0.5;
    context.fillStyle = look.line;
    context.fillRect(x, AXIS - 4, 1, HEIGHT - AXIS + 4);
    context.fillStyle = look.quiet;
    const text = momentText(moment, span.end, step);
    if (x + 3 + context.measureText(text).width <= width) context.fillText(text, x + 3, AXIS / 2 - 1);
  }
}
