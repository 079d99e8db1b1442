// The interactive time line: pointer, wheel and keys move and zoom the window and step through events.

import { h, put, setAttribute, setText } from "../dom";
import { durationText, plural } from "../words";
import { table, twin } from "./charts";
import { drawEvents, eventAt, HEIGHT, inSight, laneAt, momentText, moved, type Look, type Span, type TimelineEvents, zoomed } from "./lanes";

const LONGEST = 100; // rows of the equivalent table, at most
const HINT = "Ctrl+wheel or + − zooms, drag moves, ← → walks";
const LANES = ["forward", "backward"] as const;

export interface TimelineEventsWanted {
  select(node: number): void;
  moved(span: Span): void;
}

export class Timeline {
  private readonly canvas = h("canvas", { "aria-hidden": "true" });
  private readonly stage = h("div", { class: "lanes", tabindex: 0, role: "application", "data-testid": "wb-timeline" }, this.canvas);
  private readonly readout = h("div", { class: "readout quiet", role: "status", "data-testid": "wb-timeline-readout" }, HINT);
  private readonly list = h("div");
  private readonly twin = twin(this.list);
  readonly element: HTMLElement;
  private events: TimelineEvents | null = null;
  private whole: Span = { begin: 0, end: 1 };
  private span: Span = this.whole;
  private of = ""; // the recording shown
  private describe: (node: number) => string = () => "";
  private selected = -1;
  private op = "";
  private at = -1; // the event described: under the pointer, else the chosen one
  private chosen = -1;
  private dark = false;
  private frame = 0;
  private drag: { x: number; span: Span; far: boolean } | null = null;

  constructor(private readonly wanted: TimelineEventsWanted) {
    const zoom = (factor: number) => this.zoom((this.span.begin + this.span.end) / 2, factor);
    const button = (text: string, words: string, click: () => void) => h("button", { title: words, "aria-label": words, click }, text);
    this.twin.addEventListener("toggle", () => this.fillTwin());
    this.element = h(
      "figure",
      { class: "times" },
      h(
        "div",
        { class: "row" },
        h("span", { class: "keys" }, h("i", { class: "forward" }), "forward", h("i", { class: "backward" }), "backward"),
        h(
          "span",
          { class: "buttons" },
          button("−", "Zoom out", () => zoom(2)),
          button("+", "Zoom in", () => zoom(0.5)),
          button("⤢", "All of it", () => this.go(this.whole)),
        ),
      ),
      this.stage,
      this.readout,
      this.twin,
    );
    this.stage.addEventListener("pointerdown", (event) => this.press(event));
    this.stage.addEventListener("pointermove", (event) => this.move(event));
    this.stage.addEventListener("pointerup", (event) => this.release(event));
    this.stage.addEventListener("pointercancel", () => (this.drag = null));
    this.stage.addEventListener("pointerleave", () => this.drag || this.tell(this.chosen));
    this.stage.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
    this.stage.addEventListener("keydown", (event) => this.key(event));
    if (typeof ResizeObserver !== "undefined") new ResizeObserver(() => this.paint()).observe(this.stage);
  }

  /** Shows other events; the window is kept if they belong to the same recording. */
  show(of: string, events: TimelineEvents, seconds: number, describe: (node: number) => string): void {
    const same = of === this.of && this.span !== this.whole;
    [this.of, this.events, this.describe, this.at, this.chosen] = [of, events, describe, -1, -1];
    this.whole = { begin: 0, end: Math.max(seconds, events.reach[events.reach.length - 1] ?? 0, 1e-6) };
    if (!same) this.span = this.whole;
    setText(this.readout, HINT);
    setAttribute(this.stage, "aria-label", `Time line: ${plural(events.begin.length, "event")} in ${durationText(this.whole.end)}. ${HINT}.`);
    this.fillTwin();
  }

  draw(selected: number, dark: boolean): void {
    [this.selected, this.dark] = [selected, dark];
    this.paint();
  }

  /** Highlights the events of an op; "": none is highlighted. */
  pointOut(op: string): void {
    this.op = op;
    this.paint();
  }

  /** Total seconds of a node's events, forward and backward. */
  secondsOf(node: number): [number, number] {
    const sums: [number, number] = [0, 0];
    this.events?.node.forEach((one, at) => {
      if (one === node) sums[this.events!.lane[at] as 0 | 1] += this.events!.took[at]!;
    });
    return sums;
  }

  private paint(): void {
    cancelAnimationFrame(this.frame);
    this.frame = requestAnimationFrame(() => this.paintNow());
  }

  private paintNow(): void {
    const { events, canvas, stage, span } = this;
    const width = stage.clientWidth;
    const context = canvas.getContext("2d");
    stage.dataset.span = `${span.begin} ${span.end}`;
    if (!events || !context || !width) return;
    const ratio = devicePixelRatio || 1;
    if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(HEIGHT * ratio)) {
      [canvas.width, canvas.height] = [Math.round(width * ratio), Math.round(HEIGHT * ratio)];
      canvas.style.cssText = `width:${width}px;height:${HEIGHT}px`;
    }
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    const marked = { node: this.selected, op: this.op ? events.names.indexOf(this.op) : -1, event: this.at };
    const looked = drawEvents(context, events, span, width, lookOf(stage, this.dark), marked);
    stage.dataset.looked = String(looked);
  }

  private moment(x: number): number {
    return this.span.begin + (x / Math.max(1, this.stage.clientWidth)) * (this.span.end - this.span.begin);
  }

  private go(span: Span): void {
    this.span = span;
    this.paint();
    this.fillTwin();
    if (this.events) this.wanted.moved(span);
  }

  private zoom(about: number, factor: number): void {
    const span = zoomed(this.span, this.whole, about, factor);
    const all = span.end - span.begin >= 0.999999 * (this.whole.end - this.whole.begin);
    this.go(all ? this.whole : span);
  }

  private tell(at: number): void {
    if (at === this.at) return;
    this.at = at;
    setText(this.readout, at < 0 ? HINT : this.words(at));
    this.paint();
  }

  private words(at: number): string {
    const { lane, took, begin } = this.events!;
    return `${lane[at] ? "backward of " : ""}${this.called(at)}: ${durationText(took[at]!)}, at ${this.momentText(begin[at]!)}`;
  }

  /** The op, and the name of its result unless that already contains the op. */
  private called(at: number): string {
    const { names, op, node } = this.events!;
    const [name, made] = [names[op[at]!]!, this.describe(node[at]!)];
    return made.startsWith(`${name} `) || !made ? made || name : `${name}, ${made}`;
  }

  /** A moment, to a hundredth of the window. */
  private momentText(seconds: number): string {
    return momentText(seconds, this.span.end, (this.span.end - this.span.begin) / 100);
  }

  private under({ offsetX, offsetY }: MouseEvent): number {
    const lane = laneAt(offsetY);
    if (!this.events || lane < 0) return -1;
    return eventAt(this.events, lane, this.moment(offsetX), (3 * (this.span.end - this.span.begin)) / Math.max(1, this.stage.clientWidth));
  }

  private press(event: PointerEvent): void {
    if (event.button !== 0) return;
    this.drag = { x: event.clientX, span: this.span, far: false };
    this.stage.setPointerCapture?.(event.pointerId);
  }

  private move(event: PointerEvent): void {
    const { drag } = this;
    if (!drag) return this.tell(this.under(event));
    const by = event.clientX - drag.x;
    if (Math.abs(by) > 3) drag.far = true;
    if (!drag.far) return;
    this.go(moved(drag.span, this.whole, (-by * (drag.span.end - drag.span.begin)) / Math.max(1, this.stage.clientWidth)));
  }

  private release(event: PointerEvent): void {
    const clicked = this.drag && !this.drag.far;
    this.drag = null;
    if (clicked) this.choose(this.under(event));
  }

  private choose(at: number): void {
    const node = at < 0 ? -1 : this.events!.node[at]!;
    this.chosen = at;
    this.tell(at);
    if (node >= 0) this.wanted.select(node);
  }

  private wheel(event: WheelEvent): void {
    if (!event.ctrlKey && !event.metaKey) return; // the page scrolls
    event.preventDefault();
    this.zoom(this.moment(event.offsetX), 1.0015 ** event.deltaY);
  }

  private key(event: KeyboardEvent): void {
    const middle = (this.span.begin + this.span.end) / 2;
    const page = (this.span.end - this.span.begin) / 3;
    const act = {
      "+": () => this.zoom(middle, 0.5),
      "=": () => this.zoom(middle, 0.5),
      "-": () => this.zoom(middle, 2),
      "0": () => this.go(this.whole),
      " ": () => this.go(this.whole),
      ArrowRight: () => (event.shiftKey ? this.go(moved(this.span, this.whole, page)) : this.walk(1)),
      ArrowLeft: () => (event.shiftKey ? this.go(moved(this.span, this.whole, -page)) : this.walk(-1)),
      ArrowDown: () => this.cross(1),
      ArrowUp: () => this.cross(0),
      Home: () => this.reach(0, 1),
      End: () => this.reach((this.events?.begin.length ?? 0) - 1, -1),
      Enter: () => this.choose(this.at),
    }[event.key];
    if (!act || event.ctrlKey || event.metaKey || event.altKey || !this.events) return;
    event.preventDefault();
    event.stopPropagation();
    act();
  }

  /** Moves to the next event in the same lane; the first time, to the first visible event. */
  private walk(by: 1 | -1): void {
    const { lane } = this.events!;
    if (this.at < 0) return this.reach(inSight(this.events!, this.span)[0], by);
    let at = this.at + by;
    while (at >= 0 && at < lane.length && lane[at] !== lane[this.at]) at += by;
    this.reach(at, by);
  }

  /** Switches to the other lane: to the event of the same node, else to the one nearest in time. */
  private cross(to: 0 | 1): void {
    const { lane, node, begin } = this.events!;
    const from = this.at < 0 ? inSight(this.events!, this.span)[0] : this.at;
    let best = node.findIndex((one, at) => lane[at] === to && one >= 0 && one === node[from]);
    if (best < 0) {
      lane.forEach((one, at) => {
        if (one === to && (best < 0 || Math.abs(begin[at]! - begin[from]!) < Math.abs(begin[best]! - begin[from]!))) best = at;
      });
    }
    this.reach(best, 1);
  }

  /** Describes the event, and moves the window so that it is visible. */
  private reach(at: number, by: 1 | -1): void {
    const { begin, took } = this.events!;
    if (at < 0 || at >= begin.length) return;
    this.chosen = at;
    this.tell(at);
    const width = this.span.end - this.span.begin;
    if (begin[at]! < this.span.begin || begin[at]! + took[at]! > this.span.end) {
      this.go(moved({ begin: 0, end: width }, this.whole, begin[at]! - (by > 0 ? 0.2 : 0.8) * width));
    }
  }

  /** Lists the longest visible events in a table, as an alternative to the picture. */
  private fillTwin(): void {
    const { events } = this;
    if (!this.twin.open || !events) return;
    const [first, last] = inSight(events, this.span);
    const longest = Array.from({ length: last - first }, (_, k) => first + k)
      .sort((a, b) => events.took[b]! - events.took[a]!)
      .slice(0, LONGEST)
      .sort((a, b) => a - b);
    const rows = longest.map((at) => [
      events.node[at]! >= 0
        ? h("button", { class: "link", click: () => this.choose(at) }, this.called(at))
        : this.called(at),
      LANES[events.lane[at] as 0 | 1],
      this.momentText(events.begin[at]!),
      durationText(events.took[at]!),
    ]);
    put(
      this.list,
      last - first > LONGEST ? h("p", { class: "quiet" }, `The ${LONGEST} longest of ${last - first} events in sight.`) : null,
      table(["event", "lane", "begins", "takes"], rows, [2, 3]),
    );
  }
}

function lookOf(element: HTMLElement, dark: boolean): Look {
  const style = getComputedStyle(element);
  const colour = (name: string, fallback: string) => style.getPropertyValue(name).trim() || fallback;
  return {
    lanes: [colour("--wb-accent", dark ? "#82b4ff" : "#1d5fbf"), colour("--wb-warm", dark ? "#ffae73" : "#b8470b")],
    text: colour("--wb-text", dark ? "#e7eaef" : "#1c2430"),
    quiet: colour("--wb-quiet", dark ? "#a7b1be" : "#56606e"),
    line: colour("--wb-line", dark ? "#4d5867" : "#b4bdc9"),
    back: colour("--wb-frame", dark ? "#1a1f26" : "#f2f5f9"),
    font: `11px ${style.fontFamily}`,
  };
}
