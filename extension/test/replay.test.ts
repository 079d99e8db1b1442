// The kernel of a stand-alone replay: answers from a file, moves its pass between recorded places, refuses the rest in a sentence.
import { afterEach, describe, expect, it, vi } from "vitest";
import { embed } from "../src/replay/embed";
import { ReplayFile } from "../src/replay/file";
import { keyOf, ReplayKernel } from "../src/replay/kernel";
import { VERSION, type Inspect, type StepTo, type Stepped, type ToKernel, type ToView } from "../src/view/protocol";
import { FakeKernel } from "./page/kernel";
import { mlp } from "./page/recordings";

const fake = new FakeKernel(mlp());
const base = { v: VERSION, re: null, recording: "r1" };
const inspect = (node: number, what: "value" | "grad", id = 9): Inspect => ({
  ...{ type: "inspect", v: VERSION, id, node, what, facet: -2, rows: -2, cols: -2, index: [], pool: "mean", image: "", exact: false },
});
const said = (text: string) => ({ ...base, type: "inspected", node: 1, what: "grad", missing: text }) as unknown as ToView;

/** A file of a pass of four steps; no gradient arrives at the third. */
function file(): ReplayFile {
  const steps = (index: number) => (index && index !== 3 ? [fake.step(index)] : []);
  const stepped = (index: number) =>
    ({ ...base, type: "stepped", index, total: 4, steps: steps(index), done: index === 4, failed: false, sentence: `at ${index}`, stopped: "", runs: false }) as Stepped;
  const line = { first: 0, last: 4, count: 4, peak_event: 2, events: { index: 0, dtype: "float64", shape: [4] } };
  const more = { seconds: null, bands: { index: 1, dtype: "float64", shape: [4, 7] }, phases: [], cells: [] };
  const memory = { ...base, type: "memory", line: { ...line, ...more } } as unknown as ToView;
  const faces = { ...base, type: "faces", faces: [0, 1, 2].map((node) => ({ node })) } as unknown as ToView;
  const elements = { ...base, type: "elements", shape: [2, 3], texts: ["0.1", "0.2", "0.3", "1.1", "1.2", "1.3"], path: "w" } as unknown as ToView;
  const stepper = { ...base, type: "stepper", mode: "live", plan: [7, 5, 3, 1], index: 0, sentence: "", stopped: "" } as unknown as ToView;
  const messages: [ToView, Float64Array[]][] = [
    ...([0, 1, 2, 4].map((index) => [stepped(index), []]) as [ToView, Float64Array[]][]),
    [stepper, []],
    [said("not yet"), []],
    [said("there"), []],
    [memory, [Float64Array.of(0, 1, 2, 3), Float64Array.from({ length: 28 }, (_, at) => at)]],
    [faces, []],
    [elements, []],
    [{ ...stepper, number: 1, passes: ["a", "b", "c"], plan: [7, 5] } as ToView, []],
    [{ ...stepped(0), sentence: "the second" } as ToView, []],
    [{ ...stepped(2), sentence: "its end" } as ToView, []],
    [{ ...base, type: "lesson", title: "L", pages: [], at: 0, role: "", trouble: "" } as ToView, []],
  ];
  const parts: Uint8Array[] = [];
  const table: number[][] = [];
  let at = 0;
  for (const [message, buffers] of messages) {
    const all = [new TextEncoder().encode(JSON.stringify(message)), ...buffers.map((one) => new Uint8Array(one.buffer))];
    table.push([at, ...all.map((part) => part.length)]);
    at += all.reduce((sum, part) => sum + part.length, 0);
    parts.push(...all);
  }
  const bytes = Uint8Array.from(parts.flatMap((part) => [...part]));
  const ways = { "next op": [1, 2, 4, 4, 4], "previous op": [0, 0, 1, 2, 2], "next module": "There is no module here.", out: [4, 4, 4, 4, 4] };
  const pass = { start: 0, total: 4, plan: [7, 5, 3, 1], told: { 0: 0, 1: 1, 2: 2, 4: 3 }, ways, stops: { 2: "norm > 1" } };
  const answers = {
    inspect: { [keyOf(inspect(1, "grad"))]: [0, 5, 2, 6], [keyOf(inspect(2, "grad"))]: [0, 5, 1, -1] },
    ask_memory: { [keyOf({ type: "ask_memory", v: VERSION, id: 1 })]: [0, 7] },
    ask_faces: { [keyOf({ type: "ask_faces", v: VERSION, id: 1, nodes: [0, 1, 2] })]: [0, 8] },
    elements: { "1 value": [0, 9] },
  };
  const facts = { format: "gradient-workbench replay", version: 2, title: "", facts: [], recording: "r1", saved: "", budget: "", left: "3 of 9 were left out." };
  const second = { start: 2, total: 2, plan: [7, 5], told: { 0: 11, 2: 12 }, ways: {}, stops: {} };
  const scenes = [
    { opening: [4, 13], pages: [0, null, 2], pass, answers },
    { opening: [10], pages: [], pass: second, answers: {} },
    null,
  ];
  return new ReplayFile({ ...facts, shown: 0, scenes, messages: table }, bytes);
}

async function ask(kernel: ReplayKernel, request: object): Promise<[ToView, readonly DataView[]][]> {
  const heard: [ToView, readonly DataView[]][] = [];
  const hear = (message: unknown, buffers: readonly unknown[] = []) => heard.push([message as ToView, buffers as DataView[]]);
  kernel.on("msg:custom", hear);
  kernel.send({ v: VERSION, id: 9, ...request } as ToKernel);
  expect(heard).toEqual([]); // no kernel answers before the question is out
  await Promise.resolve();
  kernel.off("msg:custom", hear);
  return heard;
}

const one = async (kernel: ReplayKernel, request: object) => (await ask(kernel, request))[0]![0];
const step = (what: StepTo["do"], to = -1, by: StepTo["by"] = "op") => ({ type: "step", do: what, to, by });

describe("the pass of a replay", () => {
  it("goes forth and back over the places that there are, and tells each step once", async () => {
    const kernel = new ReplayKernel(file());
    const walk = [step("next"), step("next"), step("next"), step("next"), step("previous"), step("first"), step("index", 3), step("node", 5), step("last")];
    const told = [];
    for (const request of walk) told.push((await one(kernel, request)) as Stepped);
    expect(told.map(({ index }) => index)).toEqual([1, 2, 4, 4, 2, 0, 4, 2, 4]);
    expect(told.map(({ steps }) => steps.map(({ index }) => index))).toEqual([[1], [2], [4], [], [], [], [], [], []]);
    expect(told.map(({ re }) => re)).toEqual(walk.map(() => 9));
    expect(told.map(({ stopped }) => stopped)).toEqual(["", "norm > 1", "", "", "norm > 1", "", "", "norm > 1", ""]);
  });

  it("runs to its breakpoints, and says where a button leads nowhere", async () => {
    const kernel = new ReplayKernel(file());
    expect(await one(kernel, step("run"))).toMatchObject({ index: 2 });
    expect(await one(kernel, step("run"))).toMatchObject({ index: 4 });
    expect(await one(kernel, step("back"))).toMatchObject({ index: 2 });
    expect(await one(kernel, step("next", -1, "module"))).toMatchObject({ type: "problem", re: 9, sentence: "There is no module here." });
    expect(await one(kernel, step("node", 99))).toMatchObject({ type: "problem", sentence: "The backward pass does not reach this node." });
  });

  it("tells a view that opens, or opens again, where the pass stands", async () => {
    const kernel = new ReplayKernel(file());
    await ask(kernel, step("next"));
    const [[stepper], , [stepped]] = (await ask(kernel, { type: "ready" })) as [[ToView, never], [ToView, never], [ToView, never]];
    expect(stepper).toMatchObject({ type: "stepper", index: 1, sentence: "at 1" });
    expect((stepped as Stepped).steps.map(({ index }) => index)).toEqual([1]);
  });
});

describe("the passes and pages of a replay", () => {
  it("are others as with a kernel, each where it was; one that had no room says so", async () => {
    const kernel = new ReplayKernel(file());
    await ask(kernel, step("next"));
    const told = await ask(kernel, step("pass", 1));
    expect(told.map(([{ type }]) => type)).toEqual(["stepper", "stepped", "stepped"]);
    expect(told[0]![0]).toMatchObject({ number: 1, plan: [7, 5], index: 2, sentence: "its end" });
    expect(told[2]![0]).toMatchObject({ re: 9, index: 2 });
    expect(await one(kernel, step("first"))).toMatchObject({ sentence: "the second", index: 0 });
    expect(await one(kernel, inspect(1, "grad"))).toMatchObject({ type: "problem" }); // an answer about the other pass is none about this
    expect(await one(kernel, step("pass", 2))).toMatchObject({ re: 9, sentence: "This pass was left out of the file: 3 of 9 were left out." });
    expect(await one(kernel, step("pass", 3))).toMatchObject({ type: "problem" });
  });

  it("turn, and bring the pass to where they belong", async () => {
    const kernel = new ReplayKernel(file());
    const turn = (to: number, follow = true) => ask(kernel, { type: "turn_page", to, follow });
    expect((await turn(2)).map(([message]) => message)).toMatchObject([{ type: "stepped", index: 2 }, { type: "lesson", re: 9, at: 2 }]);
    expect((await turn(1)).map(([message]) => message)).toMatchObject([{ index: 2 }, { at: 1 }]); // this page leaves the pass alone
    expect((await turn(-1, false)).map(([message]) => message)).toMatchObject([{ index: 2 }, { at: 1 }]); // a view goes its own way
    const opened = (await ask(kernel, { type: "ready" })).map(([message]) => message);
    expect(opened).toMatchObject([{ type: "stepper", index: 2 }, { type: "lesson", at: 1 }, { type: "stepped" }]);
    await ask(kernel, step("pass", 1));
    expect((await turn(0)).map(([message]) => message)).toMatchObject([{ type: "problem", sentence: "There is no lesson in this file." }]);
  });
});

describe("the answers of a replay", () => {
  it("are those of where the pass stands", async () => {
    const kernel = new ReplayKernel(file());
    expect(await one(kernel, inspect(1, "grad"))).toMatchObject({ re: 9, missing: "not yet" });
    await ask(kernel, step("last"));
    expect(await one(kernel, inspect(1, "grad"))).toMatchObject({ missing: "there" });
    expect(await one(kernel, inspect(2, "grad"))).toMatchObject({ type: "problem", sentence: "This was left out of the file: 3 of 9 were left out." });
  });

  it("are a sentence where the file has none", async () => {
    const kernel = new ReplayKernel(file());
    for (const type of ["break", "fork", "rerun", "train", "ask_why", "ask_slopes", "answer_question"]) {
      expect(await one(kernel, { type })).toMatchObject({ type: "problem", re: 9, sentence: expect.stringMatching(/\.$/) as string });
    }
  });

  it("are cut out of what the file has", async () => {
    const kernel = new ReplayKernel(file());
    expect(await one(kernel, { type: "ask_faces", nodes: [2, 0, 77] })).toMatchObject({ re: 9, faces: [{ node: 0 }, { node: 2 }] });
    expect(await one(kernel, { type: "ask_element", node: 1, what: "value", index: [1, 2] })).toMatchObject({ text: "1.3", path: "w[1, 2]" });
    expect(await one(kernel, { type: "ask_element", node: 2, what: "value", index: [0] })).toMatchObject({ type: "problem" });
    const [[window, buffers]] = (await ask(kernel, { type: "ask_window", first: 1, last: 3, by: "event" })) as [[ToView, DataView[]]];
    expect(window).toMatchObject({ type: "window", line: { first: 1, last: 3, events: { shape: [2] }, bands: { shape: [2, 7] } } });
    expect(buffers.map((one) => one.getFloat64(0, true))).toEqual([1, 7]);
  });
});

it("names a request as the file does", () => {
  expect(keyOf({ type: "step", v: VERSION, id: 3, do: "index", to: 2, by: "op" })).toBe('{"by":"op","do":"index","to":2}');
});

describe("a replay in a page of text", () => {
  afterEach(() => vi.unstubAllGlobals());

  it("is asked for when it comes into sight, and leaves its picture if it cannot be shown", async () => {
    document.body.innerHTML = `<div data-replay="a.replay"><img alt="a"></div><div data-replay="b.replay"><img alt="b"></div>`;
    const [first, second] = document.querySelectorAll<HTMLElement>("[data-replay]");
    let tell!: (entries: { isIntersecting: boolean; target: Element }[]) => void;
    const watched = new Set<Element>();
    class Observer {
      constructor(callback: typeof tell) {
        tell = callback;
      }
      observe = (one: Element) => watched.add(one);
      unobserve = (one: Element) => watched.delete(one);
    }
    const asked: string[] = [];
    vi.stubGlobal("IntersectionObserver", Observer);
    vi.stubGlobal("fetch", async (address: string) => {
      asked.push(address);
      return new Response("", { status: 404, statusText: "Not Found" });
    });
    embed(document.querySelectorAll<HTMLElement>("[data-replay]"));
    expect(watched).toEqual(new Set([first, second]));
    tell([{ isIntersecting: false, target: first! }, { isIntersecting: true, target: second! }]);
    await vi.waitFor(() => expect(second!.dataset.state).toBe("picture"));
    expect(asked).toEqual(["b.replay"]);
    expect(watched).toEqual(new Set([first]));
    expect(second!.querySelector("img")).not.toBeNull();
    expect(second!.textContent).toBe("The live view cannot be shown: the server answered 404 Not Found.");
  });
});
