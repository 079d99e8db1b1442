// The time line of live bytes: total or bands by category, phases and cells on the axis, and a brush below to pan and zoom.

import { readBuffer, type Numbers } from "../../buffers";
import { h, put, s, setAttribute } from "../../dom";
import type { Line, Span, Total } from "../../protocol";
import { bytesText } from "../../words";
import { table, twin } from "../charts";

export type By = "event" | "time";

export interface Drawn {
  line: Line;
  buffers: readonly DataView[];
}

export interface ChartActions {
  window(first: number, last: number): void;
  moment(event: number): void;
}

const [WIDE, TALL, LOW] = [1000, 132, 26]; // in SVG units

/** The data of a window, with the position of each event on the axis. */
class Points {
  readonly events: Numbers;
  readonly seconds: Numbers | null;
  readonly bands: Numbers;
  readonly kinds: number;
  private readonly begin: number;
  private readonly end: number;

  constructor(
    readonly line: Line,
    buffers: readonly DataView[],
    readonly by: By,
  ) {
    this.events = readBuffer(line.events, buffers);
    this.bands = readBuffer(line.bands, buffers);
    this.seconds = line.seconds && readBuffer(line.seconds, buffers);
    this.kinds = line.bands.shape[1] ?? 0;
    const at = this.by === "time" && this.seconds ? this.seconds : null;
    this.begin = at ? (at[0] ?? 0) : line.first;
    this.end = at ? Math.max(at[at.length - 1] ?? 1, this.begin + 1e-9) : Math.max(line.last, line.first + 1);
  }

  get count(): number {
    return this.events.length;
  }

  /** The start of a point, from 0 to WIDE; the point after the last is the right edge. */
  x(at: number): number {
    if (at >= this.count) return WIDE;
    const value = this.by === "time" && this.seconds ? this.seconds[at]! : this.events[at]!;
    return ((value - this.begin) / (this.end - this.begin)) * WIDE;
  }

  sum(at: number): number {
    let total = 0;
    for (let kind = 0; kind < this.kinds; kind++) total += this.bands[at * this.kinds + kind]!;
    return total;
  }

  /** The point at a position between 0 and WIDE. */
  at(x: number): number {
    let [low, high] = [0, this.count - 1];
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (this.x(middle) <= x) low = middle;
      else high = middle - 1;
    }
    return low;
  }

  /** The position of an event; on the time axis an event between two points is placed at the first. */
  xOf(event: number): number {
    let [low, high] = [0, Math.max(0, this.count - 1)];
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (this.events[middle]! <= event) low = middle;
      else high = middle - 1;
    }
    return this.by === "event" ? ((event - this.begin) / (this.end - this.begin)) * WIDE : this.x(low);
  }
}

export class MemoryChart {
  readonly element: HTMLElement;
  private readonly scene = s("g");
  private readonly svg = s(
    "svg",
    { class: "live", viewBox: `0 0 ${WIDE} ${TALL}`, preserveAspectRatio: "none", role: "img", "data-testid": "wb-memory-line" },
    this.scene,
  );
  private readonly cursor = s("line", { class: "cursor", y1: 0, y2: TALL });
  private readonly chosen = s("rect", { class: "brush", y: 0, height: TALL });
  private readonly plot = h(
    "div",
    {
      class: "plot",
      tabindex: 0,
      role: "slider",
      "aria-label": "Event on the time line of live bytes",
      "data-testid": "wb-memory-plot",
      title: "Click: what was alive then. Drag: zoom in. Double click: the whole. Arrow keys move, + and − zoom, P is the peak.",
    },
    this.svg,
  );
  private readonly axis = h("div", { class: "spans" });
  private readonly caption = h("figcaption");
  private readonly frame = s("rect", { class: "brush", y: 0, height: LOW });
  private readonly shape = s("g");
  private readonly overview = s(
    "svg",
    {
      class: "overview",
      viewBox: `0 0 ${WIDE} ${LOW}`,
      preserveAspectRatio: "none",
      "aria-hidden": "true",
      "data-testid": "wb-memory-overview",
    },
    this.shape,
    this.frame,
  );
  private readonly twin = twin(h("div"));
  private points: Points | null = null;
  private whole: Points | null = null;
  private event = -1;
  private totals: readonly Total[] = [];

  constructor(private readonly actions: ChartActions) {
    this.element = h("figure", { class: "timeline" }, this.plot, this.axis, this.overview, this.caption, this.twin);
    this.plot.addEventListener("pointerdown", (down) => this.select(down));
    this.plot.addEventListener("dblclick", () => this.all());
    this.plot.addEventListener("keydown", (event) => this.key(event));
    this.plot.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
    this.overview.addEventListener("pointerdown", (down) => this.pan(down));
    this.twin.addEventListener("toggle", () => this.tabulate());
  }

  /** Draws the chart; `held` is the size of a GPU's pool, 0 without one. */
  draw(shown: Drawn, whole: Drawn, totals: readonly Total[], by: By, stacked: boolean, event: number, held: number): void {
    this.points = new Points(shown.line, shown.buffers, by);
    this.whole = shown === whole ? this.points : new Points(whole.line, whole.buffers, by);
    [this.totals, this.event] = [totals, event];
    const { points } = this;
    let most = held;
    let top = 0;
    for (let at = 0; at < points.count; at++) top = Math.max(top, points.sum(at));
    most = Math.max(most, top, 1);
    const y = (bytes: number) => (TALL - (bytes / most) * (TALL - 8)).toFixed(1);
    this.scene.replaceChildren(...(stacked ? this.bandPaths(points, y) : this.sumPaths(points, y)));
    const peak = points.line.peak_event;
    if (peak >= points.line.first && peak < points.line.last) {
      this.scene.append(s("line", { class: "peak", x1: 0, x2: WIDE, y1: y(top), y2: y(top) }));
    }
    if (held > 0) this.scene.append(s("line", { class: "pool", x1: 0, x2: WIDE, y1: y(held), y2: y(held) }));
    this.scene.append(s("line", { class: "axis", x1: 0, x2: WIDE, y1: TALL - 0.5, y2: TALL - 0.5 }), this.cursor, this.chosen);
    setAttribute(this.chosen, "width", 0);
    setAttribute(this.svg, "aria-label", `Live bytes over ${points.line.count} events; the most here are ${bytesText(top)}`);
    this.mark();
    this.spans(points);
    this.drawOverview();
    const { first, last, count } = points.line;
    const when = (at: number, edge: number) =>
      by === "time" && points.seconds ? secondsText(points.seconds[at] ?? 0) : edge === first ? `event ${first}` : `event ${edge - 1}`;
    put(
      this.caption,
      h("span", {}, when(0, first)),
      h(
        "span",
        { class: "middle" },
        `dashed: ${peak >= first && peak < last ? "the peak, " : ""}${bytesText(top)}${held > 0 ? `; dotted: the pool holds ${bytesText(held)}` : ""}`,
        last - first < count ? h("button", { class: "link", "data-testid": "wb-memory-whole", click: () => this.all() }, "show all") : null,
      ),
      h("span", {}, when(points.count - 1, last)),
    );
    this.tabulate();
  }

  private sumPaths(points: Points, y: (bytes: number) => string): SVGElement[] {
    let d = "";
    for (let at = 0; at < points.count; at++) {
      d += `${at ? "H" : "M"}${points.x(at).toFixed(2)}${at ? "V" : " "}${y(points.sum(at))}`;
    }
    if (!d) return [];
    d += `H${WIDE}`;
    return [s("path", { class: "area", d: `${d}V${TALL}H0Z` }), s("path", { class: "line", d })];
  }

  private bandPaths(points: Points, y: (bytes: number) => string): SVGElement[] {
    const below = new Float64Array(points.count);
    const paths: SVGElement[] = [];
    for (let kind = 0; kind < points.kinds; kind++) {
      let [up, back, any] = ["", "", false];
      for (let at = 0; at < points.count; at++) {
        const bytes = points.bands[at * points.kinds + kind]!;
        any ||= bytes > 0;
        const [x, next] = [points.x(at).toFixed(2), points.x(at + 1).toFixed(2)];
        back = `H${next}V${y(below[at]!)}H${x}${back}`;
        below[at]! += bytes;
        up += `${at ? "H" : "M"}${x}${at ? "V" : " "}${y(below[at]!)}`;
      }
      const name = this.totals[kind]?.category ?? "";
      if (any) paths.push(s("path", { class: `band of-${name}`, d: `${up}${back}Z` }, s("title", {}, name)));
    }
    return paths;
  }

  /** Phases and cells as strips below the plot. */
  private spans(points: Points): void {
    const strip = (spans: readonly Span[], kind: string) =>
      spans.length
        ? h(
            "div",
            { class: `ribbon ${kind}` },
            ...spans.flatMap((span) => {
              const [left, right] = [points.xOf(Math.max(span.first, points.line.first)), points.xOf(Math.min(span.last, points.line.last))];
              if (right <= left || span.last <= points.line.first || span.first >= points.line.last) return [];
              const percent = (value: number) => `${((value / WIDE) * 100).toFixed(3)}%`;
              const style = `left:${percent(left)};width:${percent(right - left)}`;
              return [h("span", { class: `${span.label.replace(/\W.*/, "").toLowerCase()}`, style, title: span.label }, h("i", {}, span.label))];
            }),
          )
        : null;
    put(this.axis, strip(points.line.phases, "phase"), strip(points.line.cells, "cell"));
  }

  private drawOverview(): void {
    const whole = this.whole!;
    const { first, last, count } = this.points!.line;
    this.overview.toggleAttribute("hidden", count < 40);
    let most = 1;
    for (let at = 0; at < whole.count; at++) most = Math.max(most, whole.sum(at));
    this.shape.replaceChildren(...this.sumPaths(whole, (bytes) => (LOW - (bytes / most) * (LOW - 2)).toFixed(1)).slice(0, 1));
    setAttribute(this.frame, "x", whole.xOf(first).toFixed(2));
    setAttribute(this.frame, "width", Math.max(4, (last >= count ? WIDE : whole.xOf(last)) - whole.xOf(first)).toFixed(2));
  }

  private mark(): void {
    const points = this.points!;
    const inside = this.event >= points.line.first && this.event < points.line.last;
    this.cursor.toggleAttribute("hidden", !inside);
    if (inside) for (const end of ["x1", "x2"]) setAttribute(this.cursor, end, points.xOf(this.event).toFixed(2));
    setAttribute(this.plot, "aria-valuemin", 0);
    setAttribute(this.plot, "aria-valuemax", Math.max(0, points.line.count - 1));
    setAttribute(this.plot, "aria-valuenow", Math.max(0, this.event));
    setAttribute(this.plot, "aria-valuetext", this.event < 0 ? "no event chosen" : `event ${this.event} of ${points.line.count}`);
  }

  private all(): void {
    this.actions.window(0, this.points!.line.count);
  }

  private place(event: PointerEvent | WheelEvent, element: Element): number {
    const box = element.getBoundingClientRect();
    return Math.min(WIDE, Math.max(0, ((event.clientX - box.left) / Math.max(1, box.width)) * WIDE));
  }

  /** Selects a moment by a click, or a window by dragging. */
  private select(down: PointerEvent): void {
    if (down.button !== 0 || !this.points) return;
    const from = this.place(down, this.plot);
    const { points } = this;
    if (this.plot.setPointerCapture && down.pointerId !== undefined) this.plot.setPointerCapture(down.pointerId);
    const move = (event: PointerEvent) => {
      const to = this.place(event, this.plot);
      setAttribute(this.chosen, "x", Math.min(from, to));
      setAttribute(this.chosen, "width", Math.abs(to - from));
    };
    const up = (event: PointerEvent) => {
      stop();
      setAttribute(this.chosen, "width", 0);
      const to = this.place(event, this.plot);
      if (Math.abs(to - from) < 6) return this.actions.moment(points.events[points.at(from)]!);
      const [a, b] = [points.at(Math.min(from, to)), points.at(Math.max(from, to))];
      this.actions.window(points.events[a]!, Math.min(points.line.last, Math.max(points.events[b]! + 1, points.events[a]! + 2)));
    };
    const stop = () => {
      this.plot.removeEventListener("pointermove", move);
      this.plot.removeEventListener("pointerup", up);
      this.plot.removeEventListener("pointercancel", stop);
    };
    this.plot.addEventListener("pointermove", move);
    this.plot.addEventListener("pointerup", up);
    this.plot.addEventListener("pointercancel", stop);
  }

  /** Drags the overview's frame, or draws a new one if the drag starts outside it. */
  private pan(down: PointerEvent): void {
    if (down.button !== 0 || !this.whole || !this.points) return;
    down.preventDefault();
    const { whole } = this;
    const { first, last, count } = this.points.line;
    const [left, right] = [whole.xOf(first), last >= count ? WIDE : whole.xOf(last)];
    const from = this.place(down, this.overview);
    const inside = from >= left && from <= right && last - first < count;
    if (this.overview.setPointerCapture && down.pointerId !== undefined) this.overview.setPointerCapture(down.pointerId);
    const eventAt = (x: number) => Math.round(whole.events[whole.at(x)] ?? 0);
    const move = (event: PointerEvent) => {
      const to = this.place(event, this.overview);
      if (inside) {
        const begin = Math.min(Math.max(0, eventAt(Math.max(0, left + to - from))), count - (last - first));
        this.actions.window(begin, begin + last - first);
      } else if (Math.abs(to - from) >= 6) {
        const [a, b] = [eventAt(Math.min(from, to)), eventAt(Math.max(from, to))];
        this.actions.window(a, Math.min(count, Math.max(b, a + 2)));
      }
    };
    const stop = () => {
      this.overview.removeEventListener("pointermove", move);
      this.overview.removeEventListener("pointerup", stop);
      this.overview.removeEventListener("pointercancel", stop);
    };
    this.overview.addEventListener("pointermove", move);
    this.overview.addEventListener("pointerup", stop);
    this.overview.addEventListener("pointercancel", stop);
  }

  private wheel(event: WheelEvent): void {
    if (!this.points || !(event.ctrlKey || event.metaKey)) return; // otherwise the page scrolls
    event.preventDefault();
    this.zoom(event.deltaY > 0 ? 1.5 : 1 / 1.5, this.points.events[this.points.at(this.place(event, this.plot))]!);
  }

  private zoom(by: number, around: number): void {
    const { first, last, count } = this.points!.line;
    const length = Math.min(count, Math.max(2, Math.round((last - first) * by)));
    const begin = Math.round(around - (around - first) * (length / Math.max(1, last - first)));
    const from = Math.max(0, Math.min(begin, count - length));
    this.actions.window(from, from + length);
  }

  private key(event: KeyboardEvent): void {
    const { points } = this;
    if (!points || event.ctrlKey || event.metaKey || event.altKey) return;
    const { first, last, count, peak_event } = points.line;
    const at = this.event < 0 ? Math.max(0, peak_event) : this.event;
    const keys: Record<string, () => void> = {
      ArrowLeft: () => this.actions.moment(Math.max(0, at - 1)),
      ArrowRight: () => this.actions.moment(Math.min(count - 1, at + 1)),
      Home: () => this.actions.moment(first),
      End: () => this.actions.moment(last - 1),
      p: () => this.actions.moment(peak_event),
      "+": () => this.zoom(1 / 2, at),
      "-": () => this.zoom(2, at),
      "0": () => this.all(),
    };
    const act = keys[event.key.length === 1 ? event.key.toLowerCase() : event.key];
    if (!act || !count) return;
    event.preventDefault();
    event.stopPropagation();
    act();
  }

  /** Fills the table with the same numbers, at most a hundred rows, while it is open. */
  private tabulate(): void {
    const place = this.twin.lastElementChild!;
    if (!this.twin.open || !this.points) return put(place);
    const { points } = this;
    const kinds = this.totals.map((total, kind) => ({ name: total.category, kind })).filter(({ kind }) => {
      for (let at = 0; at < points.count; at++) if (points.bands[at * points.kinds + kind]! > 0) return true;
      return false;
    });
    const stride = Math.max(1, Math.ceil(points.count / 100));
    const rows: string[][] = [];
    for (let at = 0; at < points.count; at += stride) {
      const time = points.seconds ? [secondsText(points.seconds[at]!)] : [];
      const shares = kinds.map(({ kind }) => bytesText(points.bands[at * points.kinds + kind]!));
      rows.push([String(points.events[at]), ...time, bytesText(points.sum(at)), ...shares]);
    }
    const head = ["event", ...(points.seconds ? ["time"] : []), "live", ...kinds.map(({ name }) => name)];
    put(place, table(head, rows, head.map((_, at) => at)));
  }
}

export function secondsText(seconds: number): string {
  return seconds >= 1 ? `${seconds.toFixed(2)} s` : seconds >= 1e-3 ? `${(1e3 * seconds).toFixed(1)} ms` : `${(1e6 * seconds).toFixed(0)} µs`;
}
