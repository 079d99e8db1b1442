// Loops and folds as stacks, and what lies between nodes: compared with the plain definitions, tried on random graphs.
import { describe, expect, it } from "vitest";
import { dress, isKept } from "../src/view/graph/dress";
import { drawBox } from "../src/view/graph/draw";
import { layout } from "../src/view/graph/layout";
import { shownText } from "../src/view/graph/loops";
import { marksOf } from "../src/view/graph/marks";
import { keyOf } from "../src/view/graph/walk";
import { gradients } from "../src/view/panes/gradients";
import type { Stepped, Stepper } from "../src/view/protocol";
import { litOf, pathsBetween, toInputs, toLoss } from "../src/view/graph/trace";
import { stacked } from "../src/view/graph/stacks";
import { ALL, countBoxes, HARD_CAP, TOP, type Tree } from "../src/view/graph/tree";
import { reduce, START, type Recording, type State } from "../src/view/store";
import { randomDag, received, recordingOf } from "./dag";
import { random } from "./page/kernel";
import { Builder, lstm, mlp, transformer } from "./page/recordings";

function started(builder: Builder): State {
  return builder.graphs("r1").reduce((state, message) => reduce(state, received(message)), START);
}

/** Everything that is in a group, by its definition: up from each node. */
function inside(tree: Tree, group: number): number[] {
  return Array.from({ length: tree.size }, (_, node) => node).filter((node) => {
    for (let at = tree.home[node]!; at !== TOP; at = tree.parent(at)) if (at === group) return true;
    return false;
  });
}

describe("a loop as a stack", () => {
  it("shows the chosen turn, and says what those before and after it come to", () => {
    const state = reduce(started(lstm(500)), { do: "iterate", loop: 0, to: 12 });
    const { tree } = state.recording!;
    const labels = tree.children.get(0)!.filter((member) => member.group).map(({ id }) => tree.groups.get(id)!.label);
    expect(labels).toEqual(["turns 1–12", "turn 13", "turns 14–500"]);
    // 17 ops in each of the 499 hidden ones
    expect(shownText(tree, 0)).toMatch(/^for t, 500 iterations: turn 13 is shown; 1–12, 14–500 hidden: 8\.5k ops, /);
    expect(tree.totals.get(tree.children.get(0)!.filter((member) => member.group)[0]!.id)).toMatchObject({ ops: 12 * 17 });
  });

  it("adds up, whatever is chosen: totals are those of the nodes inside, every node is in one box", () => {
    const next = random(4);
    let { recording, loops, open } = started(lstm(30));
    for (let round = 0; round < 20; round++) {
      const tree = stacked(loops.trees!.full, new Map([[0, Math.floor(next() * 31) - 1]]));
      for (const [id, group] of tree.groups) {
        const own = inside(tree, id);
        expect(tree.totals.get(id), group.label).toEqual({
          ops: own.filter((node) => recording!.nodes.kind[node] === "op").length,
          parameters: own.reduce((sum, node) => sum + (recording!.nodes.kind[node] === "parameter" ? recording!.nodes.bytes[node]! / 4 : 0), 0),
          bytes: own.reduce((sum, node) => sum + recording!.nodes.bytes[node]!, 0),
          nodes: own.length,
        });
        const from = tree.children.get(id)!.map((member) => member.first);
        expect(from).toEqual([...from].sort((a, b) => a - b));
      }
      const seen = [...tree.children.values()].flat().filter((member) => !member.group).map((member) => member.id);
      expect(new Set(seen).size).toBe(seen.length);
      expect(seen.length).toBe(tree.host.filter((host) => host < 0).length);
      expect(layout({ ...recording!, tree }, open, "down").boxes).toHaveLength(countBoxes(tree, open));
    }
  });

  it("opens in the iteration that comes what was open in the one that goes, and leaves the user's choice alone", () => {
    const first = started(lstm(40));
    const one = first.recording!.tree.stacks.get(0)!.items[0]!;
    expect(first.open.has(one)).toBe(true);
    const second = reduce(first, { do: "iterate", loop: 0, to: 7 });
    expect(second.open.has(second.recording!.tree.stacks.get(0)!.items[7]!)).toBe(true);
    const closed = reduce(reduce(second, { do: "toggle", group: second.recording!.tree.stacks.get(0)!.items[7]! }), { do: "iterate", loop: 0, to: 9 });
    expect(closed.open.has(closed.recording!.tree.stacks.get(0)!.items[9]!)).toBe(false);
    expect(reduce(closed, { do: "iterate", loop: 0, to: 99 }).recording!.tree.stacks.get(0)!.at).toBe(39); // no further than the last
    expect(reduce(closed, { do: "iterate", loop: 5, to: 1 })).toBe(closed); // no loop
  });

  it("unrolls under the cap, and refuses above it with a sentence", () => {
    const small = reduce(started(lstm(40)), { do: "iterate", loop: 0, to: ALL });
    expect(small.recording!.tree.stacks.get(0)!.hidden).toEqual([]);
    expect(small.recording!.tree.children.get(0)!.filter((member) => member.group)).toHaveLength(40);
    const before = started(lstm(2100));
    const large = reduce(before, { do: "iterate", loop: 0, to: ALL });
    expect(large.recording).toBe(before.recording);
    expect(large.status.sentence).toContain(`at most ${HARD_CAP} are drawn`);
  });

  it("is opened by a click on what stands for the hidden ones, and by all that is hidden", () => {
    const state = started(lstm(40));
    const [hidden] = state.recording!.tree.stacks.get(0)!.hidden;
    expect(reduce(state, { do: "toggle", group: hidden!.id }).recording!.tree.stacks.get(0)!.at).toBe(ALL);
    const everything = reduce(state, { do: "open all", group: TOP });
    expect(everything.recording!.tree.stacks.get(0)!.at).toBe(ALL);
    expect(countBoxes(everything.recording!.tree, everything.open)).toBe(40 * 17 + 40 + 1); // ops, iterations, the loop; W and U stand on the ops that use them
  });

  it("of a fold shows the first, and says how many more there are", () => {
    const { tree } = started(transformer(12)).recording!;
    const stack = [...tree.stacks.values()][0]!;
    expect(stack).toMatchObject({ at: 0 });
    const { id } = stack.hidden[0]!;
    expect(tree.groups.get(id)).toMatchObject({ label: "11 more", count: 11 });
    const each = tree.totals.get(stack.items[1]!)!;
    expect(tree.totals.get(id)).toMatchObject({ ops: 11 * each.ops, parameters: 11 * each.parameters, bytes: 11 * each.bytes });
  });

  it("says where a fold has the same weights everywhere", () => {
    const b = new Builder("shared");
    const fold = b.group("fold", "f", "Linear ×6, same weights", -1, 6);
    let x = b.node("input", "", [2], [], { name: "x" });
    const w = b.node("parameter", "", [2, 2], [], { name: "w" });
    for (let n = 0; n < 6; n++) {
      const group = b.group("module", `f:${n + 1}`, "Linear", fold);
      x = b.node("op", "relu", [2], [b.node("op", "matmul", [2], [x, w], { group })], { group });
    }
    const { tree } = started(b).recording!;
    expect(tree.groups.get([...tree.stacks.values()][0]!.hidden[0]!.id)!.label).toBe("5 more, same weights");
  });
});

describe("a pass through a loop", () => {
  const built = started(lstm(40));
  const { loops, recording } = built;
  const iterations = loops.trees!.full.children.get(0)!.filter((member) => member.group).map((member) => member.id);
  const opsIn = (at: number) => inside(loops.trees!.full, iterations[at]!).filter((node) => recording!.nodes.kind[node] === "op").reverse();
  const weight = recording!.nodes.name.indexOf("W");
  const stepper = (at: number, index: number): Stepper => {
    const where = { mode: "recorded", index, failed: false, sentence: "", stopped: "", runs: false, number: at, passes: [] } as const;
    return { type: "stepper", v: 1, re: null, recording: "r1", plan: [...opsIn(at), weight], ...where } as unknown as Stepper;
  };
  const pass = (state: State, at: number, index: number) => reduce(state, { do: "receive", received: { message: stepper(at, index), buffers: [] } });
  const stepped = (state: State, index: number) => {
    const step = { type: "stepped", v: 1, re: null, recording: "r1", index, total: 9, steps: [], done: false, failed: false, sentence: "", stopped: "", runs: false };
    return reduce(state, { do: "receive", received: { message: step as unknown as Stepped, buffers: [] } });
  };
  const at = (state: State) => state.recording!.tree.stacks.get(0)!.at;
  const opened = reduce(built, { do: "toggle", group: iterations[0]!, open: true });

  it("shows the iteration that it is about, as far open as the one before, at its beginning, at its end and at each step", () => {
    const [begin, end] = [pass(opened, 25, 0), pass(opened, 30, opsIn(30).length + 1)];
    expect([at(opened), at(begin), at(end), at(pass(opened, 39, 0))]).toEqual([0, 25, 30, 39]);
    expect(begin.open.has(iterations[25]!)).toBe(true);
    const away = reduce(begin, { do: "iterate", loop: 0, to: 3 });
    expect(at(away)).toBe(3);
    expect(at(stepped(away, 2))).toBe(25);
  });

  it("leaves a turn that was chosen since, when the kernel tells more of the same step", () => {
    const away = reduce(pass(opened, 25, 2), { do: "iterate", loop: 0, to: 26 });
    expect([at(stepped(away, 2)), at(pass(away, 25, 2)), at(stepped(away, 3)), at(pass(away, 30, 2))]).toEqual([26, 26, 25, 30]);
  });

  it("shows it when the code has ended and loops are found, too", () => {
    const [message] = lstm(40).graphs("r1");
    const running = reduce(START, received({ ...message!, live: true }));
    expect(at(reduce(pass(running, 25, 1), received(message!)))).toBe(25);
  });

  it("marks a weight that every iteration uses where it goes through, and reveals it there", () => {
    const last = pass(opened, 25, opsIn(25).length + 1); // its last step is the weight's
    const { tree } = last.recording!;
    const users = loops.trees!.full.consumers.of(weight);
    const own = users.filter((user) => tree.home[user] === iterations[25]);
    expect(users).toHaveLength(40);
    expect(own).toHaveLength(1);
    expect(tree.host[weight]).toBe(own[0]);
    const marks = marksOf(last, gradients(last.pass));
    expect(users.filter((user) => /current|done/.test(marks.box(`n${weight}`, user).classes))).toEqual(own);
    expect(at(reduce(reduce(last, { do: "iterate", loop: 0, to: 3 }), { do: "reveal", node: weight }))).toBe(25);
    expect(keyOf(last.recording!, new Set([0]), weight)).toBe(`g${iterations[25]}`); // its iteration, where that is closed
  });

  it("is what a line means that every iteration has run", () => {
    const line = new Set(Array.from({ length: 40 }, (_, one) => opsIn(one)[3]!));
    const moved = reduce(pass(opened, 25, 0), { do: "iterate", loop: 0, to: 3 });
    expect(at(reduce(moved, { do: "caret", nodes: line }))).toBe(25);
    expect(at(reduce(opened, { do: "caret", nodes: line }))).toBe(0); // without a pass the first turn is as good
    expect(at(reduce(opened, { do: "caret", nodes: new Set([opsIn(17)[3]!]) }))).toBe(17);
  });
});

describe("a tensor that several groups use", () => {
  it("stands on each op that uses it, and has no wire, loop or no loop", () => {
    const b = new Builder("twice");
    const w = b.node("parameter", "", [2, 2], [], { name: "w" });
    const [first, second] = ["step:1", "step:2"].map((name) => b.group("function", name, "step"));
    const x = b.node("op", "relu", [2, 2], [b.node("op", "matmul", [2, 2], [w], { group: first! })], { group: first! });
    b.root = b.node("op", "relu", [2, 2], [b.node("op", "matmul", [2, 2], [x, w], { group: second! })], { group: second! });
    const recording = recordingOf(b);
    const scene = layout(recording, new Set(recording.tree.groups.keys()), "down");
    expect(scene.boxes.filter((box) => box.face.pills.some((pill) => pill.node === w)).map((box) => box.parent)).toEqual([first, second]);
    expect(scene.wires.some((wire) => wire.source === w)).toBe(false);
  });
});

describe("many tensors that no op made", () => {
  it("become one group, which says what they are; named or not, none is lost", () => {
    const b = new Builder("scalars");
    const leaves = Array.from({ length: 40 }, (_, n) => b.node(n < 3 ? "input" : "leaf", "", [], [], { name: `w${n}` }));
    for (let round = 0; round < 2; round++) for (const leaf of leaves) b.node("op", "relu", [], [leaf]);
    const { tree } = started(b).recording!;
    const bundle = [...tree.groups.values()].find((group) => group.label === "37 leaves, 3 inputs")!;
    expect(inside(tree, bundle.id)).toEqual(leaves);
    expect(tree.totals.get(bundle.id)).toMatchObject({ nodes: 40, ops: 0 });
  });
});

describe("paths", () => {
  /** Every path from `a` to `b`, by walking all of them. */
  function allPaths({ tree }: Recording, a: number, b: number): number[][] {
    if (a === b) return [[b]];
    return tree.consumers.of(a).flatMap((next) => allPaths({ tree } as Recording, next, b).map((path) => [a, ...path]));
  }

  it("are those that a walk along all edges finds, counted", () => {
    for (let seed = 0; seed < 40; seed++) {
      const recording = recordingOf(randomDag(seed, 16, 2));
      const next = random(seed);
      const [a, b] = [Math.floor(next() * 8), 8 + Math.floor(next() * 8)];
      const paths = allPaths(recording, a, b);
      const { nodes, sentence } = pathsBetween(recording, b, a); // whichever comes first
      expect([...nodes].sort((x, y) => x - y)).toEqual([...new Set(paths.flat())].sort((x, y) => x - y));
      const between = new Set(paths.flat()).size - 2;
      if (!paths.length) expect(sentence).toMatch(/^No path leads from /);
      else expect(sentence).toContain(`${between} node${between === 1 ? " is" : "s are"} on the ${paths.length === 1 ? "one path" : `${paths.length} paths`}`);
    }
  });

  it("lead to the inputs and to the loss", () => {
    const recording = recordingOf(mlp());
    const id = (name: string) => recording.nodes.name.indexOf(name);
    expect(toInputs(recording, id("hidden")).sentence).toBe("hidden was computed from 3 sources, 2 parameters among them, through 3 ops.");
    expect(toLoss(recording, id("hidden")).sentence).toMatch(/ on the 2 paths from hidden to loss\.$/); // through the logits, and through the penalty
    expect(toLoss(recording, id("loss")).sentence).toBe("loss reaches 0 nodes.");
  });

  it("light the groups that hide them, and pills with their boxes", () => {
    const recording = recordingOf(mlp());
    const id = (name: string) => recording.nodes.name.indexOf(name);
    const trace = pathsBetween(recording, id("layers.0.weight"), id("loss"));
    const closed = litOf(recording, new Set(), -1, trace);
    expect([...closed.path]).toContain("g0");
    const open = litOf(recording, new Set(recording.tree.groups.keys()), id("hidden"), trace);
    expect(open.path.has(`n${id("layers.0.weight")}`)).toBe(true);
    expect(open.path.has(`n${id("layers.0.bias")}`)).toBe(false);
    expect(open.beside.has(`n${id("r2")}`)).toBe(true);
    expect(open.onPath(id("hidden"), [id("r2")])).toBe(true);
  });
});

describe("what stands on a box", () => {
  it("is the value of a scalar, the shares of a tensor's health, what is kept, as text and never as markup", () => {
    const recording = recordingOf(mlp());
    const scene = layout(recording, new Set(recording.tree.groups.keys()), "down");
    const loss = recording.nodes.name.indexOf("loss");
    const box = scene.byKey.get(`n${loss}`)!;
    const element = drawBox(box, recording);
    const face = { node: loss, value: "nan", health: [], saves: ["<b>input</b> (input 0)"], kept_inputs: [0], kept_result: false, base: -1, version: 0 };
    dress(element, loss, recording, face);
    expect(element.querySelector(".shape")!.textContent).toBe("NaN");
    expect(element.querySelector(".keeps title")!.textContent).toBe("Kept for backward: <b>input</b> (input 0); 4 B");
    dress(element, loss, recording, face);
    expect(element.querySelectorAll(".keeps")).toHaveLength(1);
    const hidden = recording.nodes.name.indexOf("hidden");
    const other = drawBox(scene.byKey.get(`n${hidden}`)!, recording);
    dress(other, hidden, recording, { ...face, node: hidden, value: null, health: [1, 0, 0, 60, 39], saves: [] });
    expect(other.querySelector(".healthbar title")!.textContent).toBe("1 NaN, 60 zero, 39 positive of 100");
    const widths = [...other.querySelectorAll(".healthbar rect")].map((bar) => Number(bar.getAttribute("width")));
    expect(widths[1]! / widths[2]!).toBeCloseTo(60 / 39);
    expect(widths[0]).toBeGreaterThanOrEqual(3); // one NaN among many is seen
  });

  it("tells which wires bring what the tape keeps", () => {
    const recording = recordingOf(mlp());
    const at = (name: string) => recording.nodes.name.indexOf(name);
    const plain = { value: null, health: [], saves: [], kept_inputs: [], kept_result: false, base: -1, version: 0 };
    const faces = new Map([[at("r2"), { ...plain, node: at("r2"), kept_inputs: [1] }]]);
    expect(isKept(recording, faces, at("hidden"), [at("r2")])).toBe(true);
    expect(isKept(recording, faces, at("x"), [at("r2")])).toBe(false);
    expect(isKept(recording, new Map([[at("x"), { ...plain, node: at("x"), kept_result: true }]]), at("x"), [])).toBe(true);
  });
});
