// The pane's elements: headers that stay in sight, what is drawn anew and what is not, and when a large graph is drawn.
import { afterEach, describe, expect, it, vi } from "vitest";
import { drawBox } from "../src/view/graph/draw";
import { HEADER, titleWidth } from "../src/view/graph/face";
import { Headers } from "../src/view/graph/headers";
import { layout, type Box } from "../src/view/graph/layout";
import { marksOf } from "../src/view/graph/marks";
import { GraphPane } from "../src/view/graph/pane";
import { WORDS } from "../src/view/graph/fit";
import { NO_GRADIENTS } from "../src/view/panes/gradients";
import { TOP } from "../src/view/graph/tree";
import view from "../src/view/index";
import { reduce, START, type Recording, type State } from "../src/view/store";
import { allGroups, randomDag, received, recordingOf } from "./dag";
import { random } from "./page/kernel";
import { Builder, lstm, transformer } from "./page/recordings";


type Rect = [left: number, top: number, right: number, bottom: number];

describe("headers of open groups", () => {
  /** Where each header's title stands, by its box's key. */
  function headersIn(recording: Recording, direction: "right" | "down", views: Rect[]): { open: Box[]; at: Map<string, Rect>[]; home: boolean } {
    const scene = layout(recording, allGroups(recording), direction);
    const open = scene.boxes.filter((box) => box.kind === "open");
    const drawn = new Map(open.map((box) => [box.key, drawBox(box, recording)]));
    const own = new Map([...drawn].map(([key, element]) => [key, element.querySelector(".header")!]));
    const layer = document.createElementNS("http://www.w3.org/2000/svg", "g");
    const headers = new Headers(layer);
    headers.show(open);
    const at = views.map((seen) => {
      headers.stick(drawn, seen);
      return new Map(
        open.map((box) => {
          const moved = own.get(box.key)!.parentNode === layer;
          const [x, y] = moved ? own.get(box.key)!.getAttribute("transform")!.match(/-?[\d.]+/g)!.map(Number) : [box.x, box.y];
          return [box.key, [x!, y!, x! + titleWidth(box.face), y! + HEADER] as Rect];
        }),
      );
    });
    headers.stick(drawn, [-1, -1, Infinity, Infinity]);
    return { open, at, home: open.every((box) => own.get(box.key)!.parentNode === drawn.get(box.key)) && !layer.childNodes.length };
  }

  it("stand in what is seen of their group wherever there is room for them, below those of the groups around it", () => {
    let moved = 0;
    for (const [seed, direction] of [[1, "down"], [2, "right"], [3, "down"], [4, "right"]] as const) {
      const recording = recordingOf(seed < 3 ? randomDag(seed, 60, 6) : transformer(seed));
      const next = random(seed);
      const [, , width, height] = layout(recording, allGroups(recording), direction).bounds;
      const views = Array.from({ length: 30 }, (): Rect => {
        const [x, y] = [next() * width * 0.9, next() * height * 0.9];
        return [x, y, x + 900, y + 700];
      });
      const { open, at, home } = headersIn(recording, direction, views);
      expect(home).toBe(true); // all of the graph in sight: every header is where it was
      views.forEach(([left, top, right, bottom], number) => {
        for (const { key, parent, depth, face, x, y, w, h } of open) {
          const [l, t, r, b] = at[number]!.get(key)!;
          if (x >= right || y >= bottom || x + w <= left || y + h <= top) {
            expect([l, t]).toEqual([x, y]); // nothing of it is seen
            continue;
          }
          if (l !== x || t !== y) moved++;
          expect(l).toBeGreaterThanOrEqual(x - 0.1);
          expect(b).toBeLessThanOrEqual(y + h + 0.1);
          if (r > x + w + 0.1) expect(l).toBeCloseTo(x); // a title wider than its group
          if (x + w - Math.max(x, left) >= titleWidth(face)) expect(l).toBeGreaterThanOrEqual(left - 0.1);
          const room = depth * HEADER;
          if (room < 0.4 * (bottom - top) && y + h - Math.max(y, top) >= room + HEADER) expect(t).toBeGreaterThanOrEqual(top - 0.1);
          const around = parent === TOP ? undefined : at[number]!.get(`g${parent}`);
          if (around && t + HEADER < y + h - 0.1) expect(t).toBeGreaterThanOrEqual(around[3] - 0.1);
        }
      });
    }
    expect(moved).toBeGreaterThan(100);
  });
});

describe("the pane", () => {
  const events = new Proxy({}, { get: () => () => undefined }) as never;
  const show = (pane: GraphPane, state: State) =>
    pane.show(layout(state.recording!, state.open, "down"), state.recording!, marksOf(state, NO_GRADIENTS), false);

  it("draws what has changed, keeps the elements of what has not, and looks as if all had been drawn anew", () => {
    for (const builder of [randomDag(5, 60, 6), lstm(14), transformer(1)]) {
      const next = random(9);
      let state = reduce(START, received(builder.graphs("r1")[0]!));
      const pane = new GraphPane(events, "p-");
      show(pane, state);
      let kept = 0;
      for (let turn = 0; turn < 15; turn++) {
        const groups = [...state.recording!.tree.groups.keys()];
        const group = groups[Math.floor(next() * groups.length)]!;
        const stacked = state.recording!.tree.stacks.has(group);
        state = reduce(state, stacked && next() < 0.5 ? { do: "iterate", loop: group, to: Math.floor(next() * 30) } : { do: "toggle", group });
        const before = new Set(pane.element.querySelectorAll("[data-key]"));
        show(pane, state);
        kept += [...pane.element.querySelectorAll("[data-key]")].filter((element) => before.has(element)).length;
        const fresh = new GraphPane(events, "p-");
        show(fresh, state);
        expect(pane.element.querySelector("svg")!.innerHTML).toBe(fresh.element.querySelector("svg")!.innerHTML);
        fresh.close();
      }
      expect(kept).toBeGreaterThan(50);
      pane.close();
    }
  });
});

describe("a large graph", () => {
  afterEach(() => void vi.useRealTimers());

  it("is taken in and drawn in two tasks, and drawn as the state is by then", () => {
    vi.useFakeTimers();
    const b = new Builder("large");
    const group = b.group("module", "m", "Model");
    let x = b.node("leaf", "", [2], [], { name: "x" });
    for (let n = 0; n < 20_100; n++) x = b.node("op", "relu", [2], [x], { group });
    b.root = x;
    let receive: ((message: unknown, buffers: DataView[]) => void) | undefined;
    const model = { get: () => undefined, on: (event: string, hear: typeof receive) => event === "msg:custom" && (receive = hear), off: () => undefined, send: () => undefined };
    const el = document.body.appendChild(document.createElement("div"));
    const close = view.render({ model: model as never, el });
    const root = el.querySelector(".gradient-workbench")!.shadowRoot!;
    receive!(b.graphs("r1")[0], []);
    expect(root.textContent).toContain("20100 ops");
    expect(root.querySelectorAll("[data-key]")).toHaveLength(0);
    vi.advanceTimersByTime(0);
    expect([...root.querySelectorAll("[data-key]")].map((element) => element.getAttribute("data-key"))).toEqual(expect.arrayContaining(["g0", "g1000000000"]));
    close();
    el.remove();
  });
});

describe("the camera", () => {
  afterEach(() => void vi.useRealTimers());

  it("is dragged from where a glide ends, so that what the glide brings into sight can be read", () => {
    vi.useFakeTimers({ toFake: ["requestAnimationFrame", "cancelAnimationFrame", "performance"] });
    const recording = recordingOf(lstm(14));
    const scene = layout(recording, allGroups(recording), "down");
    const pane = new GraphPane(new Proxy({}, { get: () => () => undefined }) as never, "p-");
    pane.element.setPointerCapture = () => undefined; // jsdom has none
    const scale = () => Number(/scale\((.*)\)/.exec(pane.element.querySelector("svg > g")!.getAttribute("transform")!)![1]);
    pane.size = { w: 600, h: 400 };
    pane.show(scene, recording, marksOf({ ...START, recording }, NO_GRADIENTS), false);
    pane.fit();
    vi.advanceTimersToNextFrame();
    expect(scale()).toBeLessThan(WORDS);
    pane.reveal(scene.boxes.find((box) => box.kind === "op")!.key);
    vi.advanceTimersToNextFrame();
    expect(scale()).toBeLessThan(WORDS);
    for (const [type, x] of [["pointerdown", 100], ["pointermove", 160]] as const) {
      pane.element.dispatchEvent(new MouseEvent(type, { clientX: x, clientY: 100, buttons: 1 }));
    }
    vi.advanceTimersToNextFrame();
    expect(scale()).toBeCloseTo(WORDS, 3);
    pane.close();
  });
});
