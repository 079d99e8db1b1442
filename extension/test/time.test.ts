// The time line: what is in sight, what lies under the pointer, moving and zooming; and the time tab on a kernel in the page.
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import type { Channel } from "../src/view/channel";
import { Controller } from "../src/view/controller";
import {
  drawEvents,
  eventAt,
  firstAbove,
  inSight,
  momentText,
  moved,
  ticks,
  timelineEvents,
  zoomed,
  type TimelineEvents,
} from "../src/view/panes/lanes";
import { TimePane } from "../src/view/panes/time";
import { VERSION, type Timing, type TimeTotal } from "../src/view/protocol";
import { createStore } from "../src/view/store";
import { random } from "./page/kernel";
import { mlp } from "./page/recordings";

/** A lane of events that do not touch, another with one around others. */
function some(count: number, seed = 1): TimelineEvents {
  const next = random(seed);
  const events: number[] = [];
  const places: number[] = [];
  const ops: number[] = [];
  let at = 0;
  for (let k = 0; k < count; k++) {
    const took = next() * 1e-5;
    events.push(at, k % 50 === 49 ? took * 40 : took); // now and then one is around those that follow
    places.push(k, k % 3 === 2 ? 1 : 0);
    ops.push(k % 4);
    at += next() * 2e-5;
  }
  return timelineEvents(events, places, ops, ["add", "mul", "tanh", "sum"]);
}

describe("the time line", () => {
  it("finds what is in sight as looking at every event does", () => {
    const events = some(500);
    const next = random(7);
    const whole = events.reach[499]!;
    for (let trial = 0; trial < 200; trial++) {
      const begin = next() * whole;
      const end = begin + next() * whole * 0.05;
      const [first, last] = inSight(events, { begin, end });
      for (let at = 0; at < 500; at++) {
        const touches = events.begin[at]! <= end && events.begin[at]! + events.took[at]! > begin;
        if (touches) expect(at >= first && at < last).toBe(true);
      }
    }
    expect(inSight(events, { begin: whole + 1, end: whole + 2 })).toEqual([500, 500]);
    expect(firstAbove([1, 2, 2, 3], 2)).toBe(3);
    expect(firstAbove([], 2)).toBe(0);
  });

  it("tells the event under the pointer: of its lane, the innermost, or the nearest within reach", () => {
    const events = timelineEvents([0, 10, 2, 3, 12, 1], [7, 1, 8, 1, 9, 0], [0, 1, 0], ["a", "b"]);
    expect(eventAt(events, 1, 3, 0)).toBe(1); // inside both
    expect(eventAt(events, 1, 8, 0)).toBe(0); // inside the outer one
    expect(eventAt(events, 0, 3, 0)).toBe(-1);
    expect(eventAt(events, 0, 11.8, 0.5)).toBe(2);
    expect(eventAt(events, 0, 11, 0.5)).toBe(-1);
  });

  it("zooms about the pointer and never shows what is beyond the whole", () => {
    const whole = { begin: 0, end: 8 };
    const near = zoomed(whole, whole, 2, 0.5);
    expect(near).toEqual({ begin: 1, end: 5 }); // 2 stays a quarter from the left
    expect(zoomed(near, whole, 2, 2)).toEqual(whole);
    expect(zoomed(near, whole, 2, 100)).toEqual(whole);
    expect(moved(near, whole, 100)).toEqual({ begin: 4, end: 8 });
    expect(moved(near, whole, -100)).toEqual({ begin: 0, end: 4 });
    const least = zoomed(whole, whole, 3, 0);
    expect(least.end - least.begin).toBeCloseTo(1e-9, 12);
  });

  it("writes round moments, apart enough to be told apart", () => {
    expect(ticks({ begin: 0, end: 1 }, 450)).toEqual([0, 0.2, 0.4, 0.6000000000000001, 0.8, 1]);
    expect(ticks({ begin: 0, end: 0 }, 450)).toEqual([]);
    expect(momentText(0.0123456, 0.5, 0.00001)).toBe("12.35 ms");
    expect(momentText(0.6000000000000001, 1, 0.2)).toBe("0.6 s");
    expect(momentText(5, 10, 2)).toBe("5 s");
    expect(momentText(0, 1, 0.1)).toBe("0");
    expect(momentText(0.00000125, 0.0000099, 0.00000001)).toBe("1.25 µs");
    const texts = ticks({ begin: 0.7601, end: 0.76018 }, 320).map((moment) => momentText(moment, 0.76018, 2e-5));
    expect(new Set(texts).size).toBe(texts.length);
  });

  it("draws at most one hairline for each pixel and lane, however many events there are", () => {
    const count = 68_000;
    const events = timelineEvents(
      Array.from({ length: 2 * count }, (_, k) => (k % 2 ? 1e-6 : (k / 2) * 2e-6)),
      Array.from({ length: 2 * count }, (_, k) => (k % 2 ? 0 : k / 2)),
      new Array<number>(count).fill(0),
      ["mul"],
    );
    let rectangles = 0;
    const context = new Proxy({} as CanvasRenderingContext2D, {
      get: (_, name) => (name === "measureText" ? () => ({ width: 20 }) : () => void (name === "fillRect" && rectangles++)),
      set: () => true,
    });
    const look = { lanes: ["", ""] as const, text: "", quiet: "", line: "", back: "", font: "" };
    const none = { node: -1, op: -1, event: -1 };
    expect(drawEvents(context, events, { begin: 0, end: events.reach[count - 1]! }, 320, look, none)).toBe(count);
    expect(rectangles).toBeLessThan(320 + 20);
    rectangles = 0;
    // zoomed in, only what is in sight is looked at
    expect(drawEvents(context, events, { begin: 1e-3, end: 1e-3 + 40e-6 }, 320, look, none)).toBeLessThanOrEqual(23);
    expect(rectangles).toBeGreaterThan(15);
  });
});

function total(name: string, forward: number, backward: number, more: Partial<TimeTotal> = {}): TimeTotal {
  return { name, label: "", site: -1, calls: 2, forward, backward, inside: 0, node: -1, ...more };
}

/** The pane beside a recorded MLP, whose ops took 1 ms, 2 ms, 3 ms, ... one after the other, and 1 ms each on the way back. */
function opened(change: Partial<Timing> = {}, live = false) {
  const builder = mlp();
  const store = createStore();
  const asked: unknown[] = [];
  const channel = {
    send: (request: unknown) => (asked.push(request), new Promise(() => undefined)),
  } as unknown as Channel;
  const pane = new TimePane({ controller: new Controller(store, channel), isDark: () => false, prefix: "", width: () => 320 });
  document.body.append(pane.element);
  for (const message of builder.graphs("r1")) {
    store.dispatch({ do: "receive", received: { message: { ...message, live }, buffers: [] } });
  }
  store.dispatch({ do: "tab", to: "time" });
  const ops = builder.nodes.kind.flatMap((kind, node) => (kind === "op" ? [node] : []));
  const names = [...new Set(ops.map((node) => builder.nodes.op[node]!))];
  const [events, places, kinds]: number[][] = [[], [], []];
  let at = 0;
  const add = (node: number, lane: number, took: number) => {
    events!.push(at, took);
    places!.push(node, lane);
    kinds!.push(names.indexOf(builder.nodes.op[node]!));
    at += took + 1e-3;
  };
  ops.forEach((node, k) => add(node, 0, (k + 1) * 1e-3));
  [...ops].reverse().forEach((node) => add(node, 1, 1e-3));
  const message: Timing = {
    ...{ type: "timing", v: VERSION, re: 1, recording: "r1", seconds: at, forward: 0.01, backward: 0.03, begin: 0, end: at, names },
    events: { index: 0, dtype: "float64", shape: [kinds!.length, 2] },
    places: { index: 1, dtype: "int32", shape: [kinds!.length, 2] },
    ops: { index: 2, dtype: "int32", shape: [kinds!.length] },
    ...{ left_out: 0, left_out_seconds: 0, cost: "Recording added about 2.8 us to each of 8 ops.", missing: "" },
    lines: [total("h = x @ w", 0.003, 0.017, { site: 0 }), total("adding up gradients in .grad", 0, 0.0001, { calls: 0 })],
    by_op: names.map((name, k) => total(name, 0.01 / (k + 1), 0.02, { node: ops[0]! })),
    by_module: [total("net.0", 0.002, 0.002, { label: "Linear", node: ops[1]!, inside: 0.001 })],
    ...change,
  };
  const bytes = (array: Float64Array | Int32Array) => new DataView(array.buffer as ArrayBuffer);
  const buffers = [bytes(Float64Array.from(events!)), bytes(Int32Array.from(places!)), bytes(Int32Array.from(kinds!))];
  store.dispatch({ do: "receive", received: { message, buffers } });
  pane.update(store.state, null);
  store.subscribe((state, before) => pane.update(state, before));
  const one = (id: string) => pane.element.querySelector<HTMLElement>(`[data-testid="${id}"]`)!;
  const key = (name: string, more: KeyboardEventInit = {}) => {
    const event = new KeyboardEvent("keydown", { key: name, bubbles: true, cancelable: true, ...more });
    one("wb-timeline").dispatchEvent(event);
    return event;
  };
  return { pane, store, asked, one, key, ops, builder, buffers, message };
}

describe("the time tab", () => {
  beforeEach(() => vi.spyOn(HTMLCanvasElement.prototype, "getContext").mockReturnValue(null));
  afterEach(() => {
    vi.restoreAllMocks();
    document.body.replaceChildren();
    vi.useRealTimers();
  });

  it("asks when the code has ended, and says so while it runs", () => {
    const { pane, store } = opened({}, true);
    expect(pane.asks(store.state)).toBeNull();
    expect(pane.element.textContent).toContain("still running");
    const done = opened();
    expect(done.pane.asks(done.store.state)).toEqual({ type: "ask_timing", begin: 0, end: -1 });
    expect(opened({ missing: "No op was timed." }).pane.element.textContent).toBe("No op was timed.");
  });

  it("tells sums, and what recording cost", () => {
    const { pane, one } = opened();
    const figures = [...pane.element.querySelectorAll(".figures > div")].map((figure) => figure.textContent);
    expect(figures.slice(0, 2)).toEqual(["10 msin ops", "30 msin backward"]);
    expect(one("wb-time-cost").textContent).toContain("2.8 us");
  });

  it("goes to a line's cell, points an op out, goes to a module's longest op", () => {
    const { pane, store, one, ops, builder } = opened();
    const shown: unknown[] = [];
    pane.element.addEventListener("workbench-reveal", (event) => shown.push((event as CustomEvent).detail));
    pane.element.querySelector<HTMLElement>(".totals .site")!.click();
    expect(shown).toEqual([builder.sites[0]]);
    const [line, rest] = [...pane.element.querySelectorAll(".totals tbody tr")].map((row) => row.textContent!);
    expect(line).toContain("20 ms 50 %");
    expect(rest).toContain("<1 %");
    expect(rest).toContain("–");

    one("wb-time-by_op").click();
    const op = () => pane.element.querySelector<HTMLElement>(".totals .link")!;
    op().click();
    expect(op().getAttribute("aria-pressed")).toBe("true");
    op().click();
    expect(op().getAttribute("aria-pressed")).toBe("false");

    one("wb-time-by_module").click();
    op().click();
    expect(store.state.selected).toBe(ops[1]);
    expect(store.state.tab).toBe("time");
    expect(pane.element.querySelector(".selected")!.textContent).toMatch(/forward 2 ms, backward 1 ms/);
  });

  it("is walked through by keys: each event told in words, Enter selects its node", () => {
    const { store, one, key, ops, builder } = opened();
    const told = () => one("wb-timeline-readout").textContent!;
    expect(key("ArrowRight").defaultPrevented).toBe(true);
    expect(told()).toMatch(new RegExp(`^${builder.nodes.op[ops[0]!]}.*: 1 ms, at 0$`));
    key("ArrowRight");
    expect(told()).toMatch(/: 2 ms, at 2 ms$/);
    key("ArrowDown"); // its backward step
    expect(told()).toMatch(new RegExp(`^backward of ${builder.nodes.op[ops[1]!]}.*: 1 ms`));
    key("ArrowUp");
    expect(told()).toMatch(/: 2 ms, at 2 ms$/);
    key("Enter");
    expect(store.state.selected).toBe(ops[1]);
    key("End");
    expect(told()).toMatch(/^backward of /);
    expect(key("?").defaultPrevented).toBe(false); // the view's own keys stay the view's
    expect(key("f", { ctrlKey: true }).defaultPrevented).toBe(false);
  });

  it("zooms by wheel only with Ctrl, and asks for what was left out when the window rests", async () => {
    vi.useFakeTimers();
    const { pane, one, key, asked, message } = opened({ left_out: 7, left_out_seconds: 1e-4 });
    expect(pane.element.textContent).toContain("7 short events, 100 µs together, appear when you zoom in.");
    const wheel = (ctrlKey: boolean) => {
      const event = new WheelEvent("wheel", { deltaY: -400, ctrlKey, bubbles: true, cancelable: true });
      one("wb-timeline").dispatchEvent(event);
      return event.defaultPrevented;
    };
    expect([wheel(false), wheel(true)]).toEqual([false, true]);
    key("+");
    expect(asked).toEqual([]);
    await vi.advanceTimersByTimeAsync(300);
    expect(asked).toHaveLength(1);
    const { begin, end } = asked[0] as { begin: number; end: number };
    expect(end - begin).toBeLessThan(0.3 * message.end);
    expect(end - begin).toBeGreaterThan(0);
  });

  it("has a table that says the same as the picture", () => {
    const { pane, ops, store } = opened();
    const twin = pane.element.querySelector("details")!;
    twin.open = true;
    twin.dispatchEvent(new Event("toggle"));
    const rows = [...twin.querySelectorAll("tbody tr")].map((row) => [...row.children].map((cell) => cell.textContent));
    expect(rows).toHaveLength(2 * ops.length);
    expect(rows[0]!.slice(1)).toEqual(["forward", "0", "1 ms"]);
    expect(rows[rows.length - 1]![1]).toBe("backward");
    twin.querySelector<HTMLElement>("tbody .link")!.click();
    expect(store.state.selected).toBe(ops[0]);
  });
});
