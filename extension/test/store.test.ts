// The store: messages and gestures in, state out; what is known of gradients at each step; search.
import { describe, expect, it } from "vitest";
import { gradients, widthOfNorm } from "../src/view/panes/gradients";
import { VERSION, type Inspected, type Stepped, type Stepper, type ToView } from "../src/view/protocol";
import { find } from "../src/view/graph/search";
import { countBoxes, HARD_CAP } from "../src/view/graph/tree";
import { reduce, START, type State } from "../src/view/store";
import { allGroups, recordingOf } from "./dag";
import { FakeKernel, summarise } from "./page/kernel";
import { Builder, lstm, mlp, transformer } from "./page/recordings";
import { NOTHING } from "./page/tensors";

function get(state: State, message: ToView): State {
  return reduce(state, { do: "receive", received: { message, buffers: [] } });
}

function started(builder: Builder, name = "r1"): State {
  return builder.graphs(name).reduce((state, message) => get(state, message), START);
}

const kernel = new FakeKernel(mlp());
const start = { mode: "live", plan: kernel.plan, index: 0, failed: false, sentence: "", stopped: "", runs: false, number: 0 } as const;
const pass: Stepper = { type: "stepper", v: VERSION, recording: "r1", ...start, passes: ["loss"] };
const stepped = (index: number, from: number, to: number, recording = "r1"): Stepped => ({
  ...{ type: "stepped", v: VERSION, re: null, recording, index, total: kernel.plan.length, done: false, failed: false, stopped: "", runs: false },
  sentence: `at ${index}`,
  steps: Array.from({ length: Math.max(0, to - from + 1) }, (_, at) => kernel.step(from + at)),
});

describe("graph messages", () => {
  it("gives the same recording from one message and from chunks of any size", () => {
    const whole = started(mlp()).recording!;
    for (const size of [1, 2, 5, 20]) {
      const built = mlp()
        .graphs("r1", size)
        .reduce((state, message) => get(state, message), START).recording!;
      expect(built.nodes).toEqual(whole.nodes);
      expect(built.edges).toEqual(whole.edges);
      expect(built.sites).toEqual(whole.sites);
      expect([...built.tree.totals]).toEqual([...whole.tree.totals]);
      expect([...built.tree.home]).toEqual([...whole.tree.home]);
    }
  });

  it("says so when a part is missing, and keeps what it has", () => {
    const [first, , third] = mlp().graphs("r1", 5);
    const state = get(get(START, first!), third!);
    expect(state.status.tone).toBe("error");
    expect(state.recording!.tree.size).toBe(5);
  });

  it("starts anew with another recording and forgets the old one's pass and selection", () => {
    let state = get(get(started(mlp()), pass), stepped(2, 1, 2));
    state = reduce(state, { do: "select", node: 3 });
    state = get(reduce(state, { do: "overlay", to: "bytes" }), transformer(2).graphs("r2")[0]!);
    expect([state.recording!.name, state.pass, state.selected, state.inspected]).toEqual(["r2", null, -1, null]);
    expect(state.overlay).toBe("bytes");
  });

  it("opens on the tab of the session, which a pass that follows does not change", () => {
    const [graph] = mlp().graphs("r1");
    const tabs = (["graph", "checks"] as const).map((view) => get(get(START, { ...graph!, view }), pass).tab);
    expect(tabs).toEqual(["step", "checks"]);
  });

  it("forgets the faces of an iteration when the graph of the next one comes", () => {
    const face = { node: 0, value: 1.5, health: [], saves: [], kept_inputs: [], kept_result: false, base: -1, version: 0 };
    const shown = get(started(mlp()), { type: "faces", v: VERSION, re: null, recording: "r1", faces: [face] } as unknown as ToView);
    expect(shown.faces.get(0)?.value).toBe(1.5);
    expect(get(shown, mlp().graphs("r1")[0]!).faces.size).toBe(0);
  });

  it("drops what belongs to another recording", () => {
    const state = get(started(mlp()), pass);
    expect(get(state, stepped(1, 1, 1, "other"))).toBe(state);
    expect(get(state, { ...pass, recording: "other" })).toBe(state);
    expect(get(state, { ...mlp().graphs("other")[0]!, start: 5 })).toBe(state);
  });

  it("does not change the state it was given", () => {
    const state = get(get(started(mlp()), pass), stepped(1, 1, 1));
    const text = () => JSON.stringify(state, (_, value: unknown) => (value instanceof Set || value instanceof Map ? [...value] : value));
    const before = text();
    get(get(state, pass), stepped(3, 2, 3));
    get(state, { ...mlp().graphs("r1")[0]!, groups: [] });
    reduce(state, { do: "toggle", group: 1 });
    reduce(state, { do: "search", query: "matmul" });
    expect(text()).toBe(before);
  });
});

describe("the backward pass", () => {
  it("shows at index k exactly the steps 1 to k, forwards and back", () => {
    let state = get(get(started(mlp()), pass), stepped(5, 1, 5));
    const expectAt = (index: number) => {
      const known = gradients(state.pass);
      const expected = new Map<number, number | null>();
      for (let k = 1; k <= index; k++) {
        const step = kernel.step(k);
        expected.set(step.node, step.upstream.norm);
        for (const c of step.contributions) expected.set(c.target, c.total.norm);
      }
      expect(new Map([...known.total].map(([node, summary]) => [node, summary.norm]))).toEqual(expected);
      expect([...known.done].sort()).toEqual(kernel.plan.slice(0, index).sort());
      expect(known.current).toBe(index ? kernel.plan[index - 1] : -1);
    };
    expectAt(5);
    state = get(state, stepped(2, 1, 0));
    expectAt(2);
    state = get(state, stepped(0, 1, 0));
    expectAt(0);
    state = get(state, stepped(5, 1, 0));
    expectAt(5);
    state = get(state, stepped(kernel.plan.length, 6, kernel.plan.length));
    expectAt(kernel.plan.length);
  });

  it("keeps the steps when the same pass is announced again, and drops them for another", () => {
    const state = get(get(started(mlp()), pass), stepped(3, 1, 3));
    expect(get(state, pass).pass!.steps.size).toBe(3);
    expect(get(state, { ...pass, plan: [...kernel.plan].reverse() }).pass!.steps.size).toBe(0);
  });

  it("draws a thousandth of the largest norm half as far above the thinnest line", () => {
    expect(widthOfNorm(10, 10)).toBe(5);
    expect(widthOfNorm(0.01, 10)).toBeCloseTo(3.3, 1);
    expect(widthOfNorm(1e-9, 10)).toBe(1.5);
    expect(widthOfNorm(0, 10)).toBe(1.5);
    expect(widthOfNorm(null, 10)).toBe(5);
  });

  it("has no norm where the kernel has none", () => {
    const summary = summarise([2], [1, NaN]);
    expect([summary.norm, summary.nan]).toEqual([null, 1]);
  });
});

describe("inspection", () => {
  const answer = (node: number): Inspected => ({
    ...{ ...NOTHING, re: 1, recording: "r1", node, what: "value", missing: "gone" },
  });
  it("takes an answer only for the selected node", () => {
    const state = reduce(started(mlp()), { do: "select", node: 7 });
    expect(state.tab).toBe("value");
    expect(get(state, answer(6)).inspected).toBeNull();
    expect(get(state, answer(7)).inspected!.message.missing).toBe("gone");
  });
  it("shows a problem's sentence and points at its node", () => {
    const state = get(started(mlp()), { type: "problem", v: VERSION, re: null, sentence: "It broke.", node: 4 });
    expect(state.status).toEqual({ sentence: "It broke.", tone: "error" });
    expect(state.focus).toBe("n4");
  });
});

describe("groups", () => {
  it("opens and closes, and the view no longer chooses after that", () => {
    let state = started(mlp());
    expect(state.open).toEqual(allGroups(state.recording!));
    state = reduce(state, { do: "toggle", group: 1 });
    expect(state.open.has(1)).toBe(false);
    state = get(state, mlp().graphs("r1")[0]!);
    expect(state.open.has(1)).toBe(false);
  });
  it("chooses anew when the groups are arranged anew at the end of a cell", () => {
    const [whole] = mlp().graphs("r1");
    let state = get(START, { ...whole!, live: true });
    state = reduce(state, { do: "toggle", group: 0, open: false });
    state = reduce(state, { do: "focus", key: "g0" });
    const groups = whole!.groups.map((group) => ({ ...group, id: group.id + 10, parent: group.parent < 0 ? -1 : group.parent + 10 }));
    const nodes = { ...whole!.nodes, group: whole!.nodes.group.map((group) => (group < 0 ? -1 : group + 10)) };
    state = get(state, { ...whole!, groups, nodes });
    expect(state.open).toEqual(new Set([10, 11, 12]));
    expect([state.touched, state.focus]).toEqual([false, ""]);
  });
  it("leaves what is open open while the code runs", () => {
    const parts = transformer(4).graphs("r1", 30, true);
    let state = START;
    let before = new Set<number>();
    for (const part of parts) {
      state = get(state, part);
      for (const id of before) if (state.recording!.tree.groups.has(id)) expect(state.open.has(id)).toBe(true);
      before = new Set(state.open);
    }
    expect(before.size).toBeGreaterThan(0);
  });
  it("does not open what repeats while the code runs", () => {
    const state = lstm(3)
      .graphs("r1", 10, true)
      .reduce((s, part) => get(s, part), START);
    expect(state.open.size).toBe(0);
    expect(started(lstm(3)).open.size).toBe(2); // the loop and the one turn that is shown
  });
  it("splits thousands of ops of one group into runs, so that no picture is too large", () => {
    const b = new Builder();
    let x = b.node("leaf", "", [], [], { name: "a" });
    for (let n = 0; n < 5000; n++) x = b.node("op", "mul", [], [x, x]);
    const state = started(b);
    const { tree } = state.recording!;
    expect(tree.children.get(-1)!).toHaveLength(10);
    expect([...tree.groups.values()][9]!.label).toBe("ops 4501–5000 of 5000");
    expect([...tree.totals.values()].map((total) => total.ops)).toEqual(expect.arrayContaining([5000, 500]));
    expect(tree.totals.get(-1)!.nodes).toBe(5001);
    expect(countBoxes(tree, state.open)).toBe(10);
  });
  it("refuses to draw more than the hard cap, with a sentence", () => {
    const before = started(lstm(500));
    const state = reduce(before, { do: "open all", group: -1 });
    expect(state.open).toBe(before.open);
    expect(state.status.sentence).toContain(String(HARD_CAP));
  });
  it("reveals a hidden node by opening the groups around it", () => {
    const state = started(lstm(500));
    const { nodes, groups, tree } = state.recording!;
    const within = groups.find((group) => group.name === "251")!.id;
    const node = nodes.name.findIndex((name, at) => name === "h" && nodes.group[at] === within);
    const { open, focus, recording } = reduce(state, { do: "reveal", node });
    expect(focus).toBe(`n${node}`);
    expect([...open].filter((id) => !state.open.has(id))).toEqual([within]);
    expect(tree.groups.get(tree.parent(within))!.label).toBe("turns 2–500");
    expect(recording!.tree.stacks.get(0)).toMatchObject({ at: 250 });
    expect(recording!.tree.parent(within)).toBe(0); // it is no longer hidden
  });
});

describe("search", () => {
  const recording = recordingOf(mlp());
  const names = (query: string) => find(recording, query).nodes.map((node) => recording.nodes.name[node] || recording.nodes.op[node]);
  it("finds by op, name, shape and pattern", () => {
    expect(names("matmul")).toEqual(["matmul", "matmul"]);
    expect(names("HIDDEN")).toEqual(["hidden"]);
    expect(names("32x64")).toEqual(["layers.0.weight"]);
    expect(names("(10, 32)")).toEqual(["layers.2.weight"]);
    expect(names("/^layers.*bias$/")).toEqual(["layers.0.bias", "layers.2.bias"]);
    expect(names("")).toEqual([]);
  });
  it("says what is wrong with a pattern", () => {
    expect(find(recording, "/(/").problem).not.toBe("");
  });
});
