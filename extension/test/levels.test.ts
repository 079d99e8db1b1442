// Levels of folding: what each opens, which one a window begins with, and what an architecture leaves out.
import { describe, expect, it } from "vitest";
import { firstView, LEGIBLE, namedAt, readableAt, wholeView, WORDS } from "../src/view/graph/fit";
import { fromAfar } from "../src/view/graph/face";
import { layout } from "../src/view/graph/layout";
import { firstLook, levelsOf, shownAt } from "../src/view/graph/levels";
import { named } from "../src/view/graph/names";
import { boxOf, TOP } from "../src/view/graph/tree";
import { keyOf } from "../src/view/graph/walk";
import { reduce, START, type State } from "../src/view/store";
import { randomDag, received, recordingOf } from "./dag";
import { random } from "./page/kernel";
import { Builder, lstm, mlp, transformer } from "./page/recordings";

const started = (builder: Builder, window = { w: 0, h: 0 }): State =>
  builder.graphs("r1").reduce((state, message) => reduce(state, received(message)), reduce(START, { do: "window", to: window, keep: false }));
const names = (state: State) => levelsOf(state.recording!.trees).map(({ name }) => name);

/** A random graph in which every third op moves or casts. */
function withPlumbing(seed: number): Builder {
  const [builder, next] = [randomDag(seed, 40, 5), random(seed + 1)];
  builder.nodes.op.forEach((op, node) => {
    if (op && next() < 0.4) builder.nodes.op[node] = ["reshape", "transpose", "getitem", "to_dtype"][Math.floor(next() * 4)]!;
  });
  return builder;
}

describe("levels", () => {
  it("go from the model by its blocks and layers to every op", () => {
    expect(names(started(transformer(12)))).toEqual(["model", "stages", "blocks", "layers", "ops"]);
    expect(names(started(mlp()))).toEqual(["model", "layers", "ops"]);
  });

  it("open more boxes one after the other, the last one everything", () => {
    for (const builder of [transformer(12), lstm(40), mlp(), randomDag(3, 60, 7)]) {
      const { trees } = recordingOf(builder);
      const levels = levelsOf(trees);
      for (const [at, level] of levels.entries()) if (at) expect(level.boxes).toBeGreaterThanOrEqual(levels[at - 1]!.boxes);
      expect(levels.slice(0, -1).every(({ plain }) => plain)).toBe(true);
    }
  });

  it("are chosen by number; what was chosen stays when the window changes", () => {
    const state = started(transformer(12), { w: 900, h: 420 });
    const ops = reduce(state, { do: "level", to: 4 });
    expect(ops).toMatchObject({ level: 4, touched: true });
    expect(ops.recording!.tree).toBe(ops.recording!.trees.full);
    expect(reduce(ops, { do: "window", to: { w: 300, h: 200 }, keep: false }).level).toBe(4);
    expect(reduce(ops, { do: "level", to: 9 })).toBe(ops);
    const opened = reduce(state, { do: "toggle", group: [...state.recording!.tree.children.get(TOP)!].find(({ group }) => group)!.id });
    expect(opened.level).toBe(-1);
  });

  it("begin with the deepest one that is whole and readable: a larger window shows a deeper one", () => {
    for (const builder of [transformer(12), transformer(3), lstm(40), mlp(), randomDag(5, 50, 6)]) {
      let before = 0;
      for (const window of [{ w: 400, h: 260 }, { w: 860, h: 420 }, { w: 1400, h: 800 }, { w: 3800, h: 2000 }]) {
        const { recording, open, level } = started(builder, window);
        expect(level).toBe(firstLook(recording!, window).level);
        expect(level).toBeGreaterThanOrEqual(before);
        before = level;
        if (!level) continue;
        const down = layout(recording!, open, "down");
        const right = layout(recording!, open, "right");
        expect([down, right].some((scene) => wholeView(scene, window).k >= readableAt(scene))).toBe(true);
      }
    }
  });

  it("open the part that holds nearly all ops a level further than the others, where there is room", () => {
    const builder = new Builder("encoder");
    const model = builder.group("module", "model", "Model", -1);
    let at = builder.node("input", "", [4], [], { group: model });
    const chain = (group: number, ops: number) => {
      for (let op = 0; op < ops; op++) at = builder.node("op", "add", [4], [at], { group });
    };
    const part = (name: string, around: number) => builder.group("module", name, name, around);
    const embeddings = part("embeddings", model);
    for (const name of ["words", "places"]) chain(part(name, embeddings), 2);
    const encoder = part("encoder", model);
    for (const name of ["first", "second", "third"]) chain(part(name, encoder), 12 + 2 * name.length);
    const pooler = part("pooler", model);
    for (const name of ["dense", "tanh"]) chain(part(name, pooler), 1);
    const first = (window: { w: number; h: number }) => {
      const { recording, open, level } = started(builder, window);
      return { level, open: [...open].map((id) => recording!.tree.groups.get(id)!.name).sort() };
    };
    expect(first({ w: 420, h: 300 })).toEqual({ level: 0, open: ["encoder", "model"] });
    expect(first({ w: 420, h: 180 })).toEqual({ level: 0, open: ["model"] });
    // Its level goes back to what all of that level open.
    const state = started(builder, { w: 420, h: 300 });
    expect(reduce(state, { do: "level", to: 0 }).open).toEqual(levelsOf(state.recording!.trees)[0]!.open);
  });

  it("choose anew with another window, unless the user looks at a part", () => {
    const state = started(transformer(12), { w: 400, h: 260 });
    const larger = { do: "window", to: { w: 3800, h: 2000 } } as const;
    expect(reduce(state, { ...larger, keep: false }).level).toBeGreaterThan(state.level);
    expect(reduce(state, { ...larger, keep: true }).level).toBe(state.level);
  });

  it("draw every title at 11 pixels or more where the whole is shown", () => {
    const window = { w: 860, h: 420 };
    const { recording, open } = started(transformer(12), window);
    const scene = layout(recording!, open, "down");
    const { k } = firstView(scene, window);
    for (const box of scene.boxes) expect(k * Math.max(15, Math.min(LEGIBLE / k, fromAfar(box).title))).toBeGreaterThanOrEqual(LEGIBLE - 0.01);
    expect(readableAt(scene)).toBeLessThanOrEqual(WORDS);
    expect(namedAt(scene)).toBeLessThan(WORDS);
  });
});

/** As many lines of three ops each, one after the other; a module in the middle, and a line of one op at the end. */
function straight(lines: number): Builder {
  const b = new Builder("straight");
  const x = b.node("input", "", [4, 4], [], { name: "x" });
  const block = b.group("module", "block", "Block");
  let h = x;
  for (let line = 1; line <= lines; line++) {
    const site = b.site(line, `h${line} = tanh(h${line - 1} @ w${line} + h${line - 1})`);
    const w = b.node("leaf", "", [4, 4], [], { name: `w${line}` });
    const made = b.node("op", "matmul", [4, 4], [h, w], { site });
    if (line === 3) h = b.node("op", "relu", [4, 4], [b.node("op", "neg", [4, 4], [made], { site, group: block })], { site, group: block });
    h = b.node("op", "tanh", [4, 4], [b.node("op", "add", [4, 4], [line === 3 ? h : made, h], { site })], { site, name: `h${line}` });
  }
  b.root = b.node("op", "sum", [], [h], { site: b.site(lines + 1, "loss = h.sum()"), name: "loss" });
  return b;
}

describe("straight-line code", () => {
  const boxes = (state: State) => state.recording!.trees.plain.children.get(TOP)!.map(({ group, id }) => (group ? state.recording!.trees.plain.groups.get(id)!.label : state.recording!.nodes.op[id] || "x"));

  it("shows a line of source in one box, what other boxes lie between in two; data stays outside", () => {
    const state = started(straight(9), { w: 900, h: 700 });
    const line = (at: number) => `h${at} = tanh(h${at - 1} @ w${at} + h${at - 1})`;
    expect(boxes(state)).toEqual(["x", line(1), line(2), "matmul", "Block", line(3), ...[4, 5, 6, 7, 8, 9].map(line), "sum"]);
    expect(names(state)).toEqual(["model", "ops"]);
    expect([...state.recording!.trees.full.groups.values()].map(({ label }) => label)).toEqual(["Block"]);
  });

  it("shows several lines in one box where there are many, and leaves code with few ops as it is", () => {
    const alone = (lines: number) => {
      const b = straight(lines);
      b.nodes.group.fill(-1);
      b.groups.length = 0;
      return started(b, { w: 860, h: 420 });
    };
    const many = alone(49);
    expect(boxes(many)).toEqual(["x", ...[1, 8, 15, 22, 29, 36, 43].map((from) => `lines ${from}–${from + 6}`), "sum"]);
    expect([names(alone(9)), names(many)]).toEqual([["lines", "ops"], ["outline", "lines", "ops"]]);
    expect(names(alone(5))).toEqual(["ops"]);
    const { recording, open } = many;
    const scene = layout(recording!, open, "down");
    expect(firstView(scene, { w: 860, h: 420 })).toEqual(wholeView(scene, { w: 860, h: 420 }));
  });
});

describe("names from far away", () => {
  it("are those of the groups where their insides have no room for any, and never lie on each other", () => {
    const { recording } = started(transformer(12));
    const level = levelsOf(recording!.trees).at(-1)!;
    const scene = layout(shownAt(recording!, level), level.open, "down");
    let before = Infinity;
    for (const k of [0.38, 0.3, 0.2, 0.12, 0.06]) {
      const names = named(scene, k);
      expect(names.length).toBeGreaterThan(0);
      expect(names.length).toBeLessThanOrEqual(before);
      before = names.length;
      for (const box of names) {
        for (const other of names) {
          const apart = box === other || Math.abs(box.y + box.h / 2 - other.y - other.h / 2) * k >= LEGIBLE || Math.abs(box.x + box.w / 2 - other.x - other.w / 2) * k > LEGIBLE;
          expect(apart, `${box.face.title} and ${other.face.title} at ${k}`).toBe(true);
        }
      }
    }
    expect(named(scene, 0.3).some(({ kind }) => kind === "op")).toBe(true);
    expect(named(scene, 0.12).every(({ kind }) => kind === "open")).toBe(true);
  });
});

describe("the plain tree", () => {
  it("has no group without boxes: `a, b = settings` is a loop of two slices of a leaf, and both ride on what uses them", () => {
    const b = new Builder();
    const loop = b.group("loop", "f", "f() ×2", -1, 2);
    const settings = b.node("leaf", "", [2], [], { name: "settings", group: loop });
    const [one, two] = [0, 1].map(() => b.node("op", "getitem", [], [settings], { group: loop }));
    const x = b.node("input", "", [64], [], { name: "x" });
    const scaled = b.node("op", "mul", [64], [one!, x]);
    b.node("op", "add", [64], [scaled, two!]);
    const { plain } = recordingOf(b).trees;
    expect([...plain.children].map(([group]) => group)).toEqual([TOP]);
    expect(boxOf(plain, settings)).toBe(scaled);
    expect(layout(shownAt(recordingOf(b), { plain: true }), new Set([loop]), "down").boxes.length).toBeGreaterThan(1);
  });

  it("draws reshapes, slices and casts as part of what they come from, a transposed weight as part of what it goes into", () => {
    const b = new Builder("plumbing");
    const x = b.node("input", "", [4, 2], [], { name: "x" });
    const w = b.node("parameter", "", [3, 2], [], { name: "w" });
    const h = b.node("op", "relu", [4, 2], [x]);
    const flat = b.node("op", "reshape", [8], [h]);
    const back = b.node("op", "reshape", [4, 2], [flat]);
    const wT = b.node("op", "transpose", [2, 3], [w]);
    const out = b.node("op", "matmul", [4, 3], [back, wT]);
    const { trees } = recordingOf(b);
    const { plain, full } = trees;
    expect(plain.children.get(TOP)!.map(({ id }) => id)).toEqual([x, h, out].sort((a, c) => a - c));
    expect(full.children.get(TOP)!.map(({ id }) => id)).toEqual([h, flat, back, wT, out, x].sort((a, c) => a - c));
    expect([flat, back, wT, w].map((node) => boxOf(plain, node))).toEqual([h, h, out, out]);
    const scene = layout(shownAt(recordingOf(b), { plain: true }), new Set(), "right");
    expect(scene.wires.map(({ consumers }) => consumers)).toContainEqual([out]);
    expect(plain.totals.get(TOP)!.ops).toBe(5); // said as they are
  });

  it("leaves a layer of the user's own alone", () => {
    const b = new Builder("flatten");
    const x = b.node("input", "", [4, 2], [], { name: "x" });
    const h = b.node("op", "relu", [4, 2], [x]);
    const flat = b.node("op", "reshape", [8], [h], { group: b.group("module", "flatten", "Flatten") });
    b.node("op", "sum", [], [flat]);
    expect(boxOf(recordingOf(b).trees.plain, flat)).toBe(flat);
  });

  it("folds away positions that are counted on the spot, but no data", () => {
    const b = new Builder("positions");
    const idx = b.node("input", "", [4], [], { name: "idx" });
    const positions = b.node("input", "", [4], [], {});
    b.nodes.dtype[positions] = b.nodes.dtype[idx] = "int64";
    const both = [idx, positions].map((node) => b.node("op", "embedding", [4, 2], [node]));
    b.node("op", "add", [4, 2], both);
    const { plain } = recordingOf(b).trees;
    expect([idx, positions].map((node) => boxOf(plain, node))).toEqual([idx, both[1]]);
  });

  it("has a box for every node at every level, and a wire for every edge between two boxes", () => {
    for (let seed = 0; seed < 30; seed++) {
      const builder = withPlumbing(seed);
      const recording = recordingOf(builder);
      for (const level of levelsOf(recording.trees)) {
        const shown = shownAt(recording, level);
        const scene = layout(shown, level.open, "down");
        const keys = builder.nodes.op.map((_, node) => keyOf(shown, level.open, node));
        const pills = new Set(scene.boxes.flatMap(({ face }) => face.pills.map(({ node }) => `n${node}`)));
        keys.forEach((key, node) => expect(scene.byKey.has(key) || pills.has(key), `seed ${seed}, ${level.name}, node ${node}: ${key}`).toBe(true));
        if (!level.plain) continue;
        const ends = new Set(scene.wires.flatMap(({ source, consumers }) => consumers.map((consumer) => `${keys[source]} ${keys[consumer]}`)));
        builder.edges.source.forEach((source, row) => {
          const pair = [keys[source], keys[builder.edges.target[row]!]];
          if (pair[0] !== pair[1] && shown.tree.host[source]! < 0) expect(ends, `seed ${seed}, ${level.name}`).toContain(pair.join(" "));
        });
      }
    }
  });
});
