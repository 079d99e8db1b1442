// The tensor tabs, Compare and Model on a kernel in the page, and the arithmetic of their pictures.
import { describe, expect, it, vi } from "vitest";
import { cellText, extentOf, indexOf, indexText, readHeat } from "../src/view/panes/heat";
import { rgba } from "../src/view/panes/image";
import { axisRows, START_LOOK, withRole } from "../src/view/panes/look";
import { decades } from "../src/view/panes/model";
import { common, type SeriesData } from "../src/view/panes/series";
import { visible } from "../src/view/panes/tokens";
import type { Heat, Inspected } from "../src/view/protocol";
import { eachOnAFreshPage, openView, wait } from "./page/opened";
import { Builder, mlp } from "./page/recordings";
import { bytesOf } from "./page/tensors";

const heat = (more: Partial<Heat> = {}): Heat => ({
  ...{ axes: [0, 2, 3], index: [0, 5, 0, 0], facets: 4, first: 1, rows: 5, cols: 7, block: [2, 3], pool: "mean" },
  ...{ values: { index: 0, dtype: "float32", shape: [2, 3, 3] }, marks: { index: 1, dtype: "uint8", shape: [2, 3, 3] } },
  ...more,
});

describe("a heat map", () => {
  it("knows which elements a cell stands for, at the edges too", () => {
    expect(indexOf(heat(), { picture: 1, row: 2, col: 2 })).toEqual([[2, 2], [5, 5], [4, 4], [6, 6]]);
    expect(indexText(indexOf(heat(), { picture: 0, row: 1, col: 0 }))).toBe("[1, 5, 2–3, 0–2]");
  });
  it("says what a cell shows, and never hides a NaN behind a mean", () => {
    const data = readHeat(heat(), [bytesOf(Float32Array.from({ length: 18 }, (_, at) => at)), bytesOf(Uint8Array.from({ length: 18 }, (_, at) => (at === 3 ? 5 : 0)))]);
    expect(cellText(data, "mean", 2)).toBe("mean 2");
    expect(cellText(data, "absmax", 3)).toBe("largest magnitude 3, with NaN and −Inf");
    expect(data.pooled).toBe(true);
  });
  it("ends its colours at the largest magnitude, or at a percentile", () => {
    const values = [...Array.from({ length: 99 }, (_, at) => -(at + 1)), 1000, NaN, Infinity];
    expect([extentOf(values, "max"), extentOf(values, "99"), extentOf(values, "95")]).toEqual([1000, 99, 95]);
    expect(extentOf([0, 0, 0, 7], "95")).toBe(7);
    expect(extentOf([...new Array<number>(99).fill(0), 7], "95")).toBe(7); // a range of nothing would colour nothing
    expect(extentOf([NaN], "max")).toBe(0);
  });
  it("loses no wish that was made while an answer was on its way", () => {
    const summary = { shape: [4, 9, 5, 7] } as Inspected["summary"];
    let look = { ...START_LOOK, index: [1, 5, 0, 0] }; // axis 0 was slid to 1 after this answer was asked for
    const rows = axisRows({ summary, image: null, heat: heat({ axes: [-1, 2, 3] }) } as Inspected, () => look, (to) => void (look = to))!;
    const slide = rows.querySelectorAll("input")[1]!;
    expect([...rows.querySelectorAll("input")].map(({ value }) => value)).toEqual(["1", "5"]);
    slide.value = "2";
    slide.dispatchEvent(new Event("input"));
    expect(look.index).toEqual([1, 2, 0, 0]);
  });
  it("lets two axes choose places", () => {
    expect(withRole(START_LOOK, [-1, 0, 1], 0, "cols")).toMatchObject({ facet: -1, rows: 1, cols: 0 });
    expect(withRole(START_LOOK, [0, 1, 2], 0, "index")).toMatchObject({ facet: -1, rows: 1, cols: 2 });
    expect(withRole(START_LOOK, [-1, 1, 2], 0, "rows")).toMatchObject({ facet: -1, rows: 0, cols: 2 });
    expect(withRole(START_LOOK, [-1, 1, 2], 0, "index")).toBe(START_LOOK);
  });
});

describe("pictures of other kinds", () => {
  it("makes grey, coloured and transparent pixels", () => {
    expect([...rgba([9], 1, 0, 1)]).toEqual([9, 9, 9, 255]);
    expect([...rgba([0, 0, 0, 1, 2, 3], 3, 3, 1)]).toEqual([1, 2, 3, 255]);
    expect([...rgba([1, 2, 3, 4], 4, 0, 1)]).toEqual([1, 2, 3, 4]);
  });
  it("shows what cannot be seen in a token", () => {
    expect([" the", "a b", "\n", "x\t"].map(visible)).toEqual(["␣the", "a b", "↵", "x⇥"]);
  });
  it("puts histograms of different ranges on one axis and loses no element", () => {
    const data = { low: [0, -4], high: [4, 4], counts: [1, 1, 1, 1, 2, 0, 0, 2] } as unknown as SeriesData;
    const { low, high, shares } = common(data, 8);
    expect([low, high]).toEqual([-4, 4]);
    expect([...shares.slice(0, 8)]).toEqual([0, 0, 0, 0, 0.25, 0.25, 0.25, 0.25]);
    expect([...shares.slice(8)]).toEqual([0.25, 0.25, 0, 0, 0, 0, 0.25, 0.25]);
    const point = { low: [-0.5, 2.5], high: [0.5, 3.5], counts: [0, 4, 0, 4] } as unknown as SeriesData;
    for (const column of [0, 1]) expect([...common(point, 8).shares.slice(8 * column, 8 * column + 8)].reduce((a, b) => a + b)).toBeCloseTo(1);
  });
  it("measures gradients in decades", () => {
    expect([decades(null), decades(0), decades(1e-20), decades(1e-3), decades(1e9)]).toEqual([0, 0, 0, 0.5, 1]);
  });
});

eachOnAFreshPage();

async function open(builder: Builder = mlp()) {
  const made = await openView(builder);
  return { ...made, select: (node: number) => made.click(made.node(node)) };
}

/** A recording with one tensor of four axes and one of two. */
function four(): Builder {
  const builder = new Builder();
  const x = builder.node("input", "", [2, 3, 4, 5], [], { name: "x" });
  const y = builder.node("op", "relu", [2, 3, 4, 5], [x], { name: "y" });
  const w = builder.node("parameter", "", [5, 6], [], { name: "w" });
  builder.root = builder.node("op", "matmul", [2, 3, 4, 6], [y, w], { name: "z" });
  return builder;
}

describe("the tensor tabs", () => {
  it("let every axis be rows, columns, side by side or a slider", async () => {
    const { kernel, one, select, choose, root, press } = await open(four());
    await select(1);
    expect(kernel.requests.at(-1)).toMatchObject({ type: "inspect", node: 1, facet: -2, rows: -2, cols: -2, index: [] });
    expect(["0", "1", "2", "3"].map((axis) => (one(`wb-axis-${axis}`) as HTMLSelectElement).value)).toEqual(["index", "facet", "rows", "cols"]);
    await choose("wb-axis-0", "facet");
    expect(kernel.requests.at(-1)).toMatchObject({ facet: 0, rows: 2, cols: 3 });
    const slider = root.querySelector<HTMLInputElement>('input[aria-label="Index along axis 1"]')!;
    slider.value = "2";
    slider.dispatchEvent(new Event("input", { bubbles: true }));
    await wait();
    expect(kernel.requests.at(-1)).toMatchObject({ facet: 0, index: [0, 2, 0, 0] });
    expect(slider.isConnected).toBe(true); // a drag goes on
    const readout = () => root.querySelector(".inspector:not([hidden]) .readout")!.textContent;
    for (const key of ["ArrowRight", "ArrowRight", "ArrowDown"]) await press(key, {}, one("wb-heat"));
    expect(readout()).toContain("[0, 2, 1, 1]");
    const canvas = one("wb-heat");
    slider.value = "1";
    slider.dispatchEvent(new Event("input", { bubbles: true }));
    await wait();
    expect(one("wb-heat")).not.toBe(canvas);
    expect(readout()).toContain("[0, 1, 1, 1]"); // another slice, the same place in it
    await select(2);
    expect(readout()).not.toContain("[");
    expect(kernel.requests.at(-1)).toMatchObject({ node: 2, facet: -2, index: [] }); // another tensor is looked at afresh
  });

  it("read out and tell the element under the keys' cursor, with the expression to copy", async () => {
    const { kernel, root, one, select, press, click } = await open(four());
    const copied: string[] = [];
    vi.stubGlobal("navigator", { ...navigator, clipboard: { writeText: (text: string) => (copied.push(text), Promise.resolve()) } });
    await select(2);
    const canvas = one("wb-heat");
    for (const key of ["ArrowRight", "ArrowRight", "ArrowDown"]) await press(key, {}, canvas);
    expect(root.querySelector(".inspector:not([hidden]) .readout")!.textContent).toContain("[1, 1]");
    await press("Enter", {}, canvas);
    expect(kernel.requests.at(-1)).toMatchObject({ type: "ask_element", node: 2, what: "value", index: [1, 1] });
    expect(one("wb-element").textContent).toBe("w[1, 1] = 0.12345679");
    await click(one("wb-element").nextElementSibling!);
    expect(copied).toEqual(["w[1, 1]"]);
    expect(one("wb-status").textContent).toBe("Copied w[1, 1]");
    vi.unstubAllGlobals();
  });

  it("show a matrix as an image, the layout in memory, and time when it is asked for", async () => {
    const { kernel, one, seen, select, choose, click } = await open(four());
    await select(2);
    await choose("wb-picture", "H, W");
    expect(kernel.requests.at(-1)).toMatchObject({ type: "inspect", image: "H, W" });
    expect([seen("wb-image").length, seen("wb-heat").length]).toEqual([1, 0]);
    expect(one("wb-image").textContent).toContain("0 is black, 1 is white.");
    const memory = one("wb-memory-layout");
    expect(memory.querySelectorAll(".memory-grid .mine")).toHaveLength(6);
    expect(memory.textContent).toContain("overlapping elements");
    const asked = () => kernel.requests.filter(({ type }) => type === "ask_series").length;
    expect(asked()).toBe(0); // what nobody has opened costs nothing
    const time = one("wb-over-time") as HTMLDetailsElement;
    time.open = true; // tells of its toggle by itself
    await wait();
    expect(asked()).toBe(1);
    expect(one("wb-series").textContent).toContain("NaN or Inf from iteration 3 on (3 elements there)");
    await click(memory.querySelector(".link")!);
    expect(kernel.requests.some((request) => request.type === "inspect" && request.node === 0)).toBe(true);
  });

  it("answer in a card of one tensor too", async () => {
    const builder = four();
    builder.view = "tensor";
    builder.root = 2;
    const { one, press, seen } = await open(builder);
    await press("ArrowRight", {}, one("wb-heat"));
    await press("Enter", {}, one("wb-heat"));
    expect(one("wb-element").textContent).toBe("w[0, 0] = 0.12345679");
    (one("wb-over-time") as HTMLDetailsElement).open = true;
    await wait();
    expect(one("wb-series").textContent).toContain("5 turns of a loop.");
    one("wb-pin").click();
    await wait();
    expect(seen("wb-tab-compare")).toHaveLength(1);
    expect(seen("wb-tab-model")).toHaveLength(0);
  });

  it("have no tokens, pins or time of nothing", async () => {
    const { seen, press, one } = await open(four());
    await press("p");
    expect(one("wb-status").textContent).toBe("Select a node first, then pin its value or its gradient.");
    expect([seen("wb-tokens"), seen("wb-over-time"), seen("wb-tab-compare")].map((found) => found.length)).toEqual([0, 0, 0]);
  });
});

describe("compare", () => {
  it("shows pins side by side and their differences, and lets go of them", async () => {
    const { kernel, one, seen, select, press, click } = await open(four());
    expect(seen("wb-tab-compare")).toHaveLength(0);
    await select(2);
    await press("p");
    expect(kernel.requests.at(-1)).toMatchObject({ type: "ask_compare", do: "pin", node: 2, what: "value" });
    await select(3);
    await click(one("wb-pin"));
    await click(one("wb-tab-compare"));
    expect(seen("wb-pinned")).toHaveLength(2);
    expect(seen("wb-difference").map((element) => element.textContent)).toEqual(["1 of 8 elements differs, first at [0, 1]."]);
    await click([...seen("wb-pinned")[1]!.querySelectorAll("button")].find((button) => button.textContent!.startsWith("compare the others"))!);
    expect(kernel.requests.at(-1)).toMatchObject({ do: "base", pin: 2 });
    expect(seen("wb-pinned")[1]!.classList.contains("base")).toBe(true);
    await click(seen("wb-pinned")[0]!.querySelector('[title="Unpin"]')!);
    expect(seen("wb-pinned")).toHaveLength(1);
  });
});

describe("the model", () => {
  it("lists parameters with flags as glyph and word, and takes a gradient apart by samples", async () => {
    const { kernel, root, one, seen, click } = await open();
    await click(one("wb-tab-model"));
    expect(kernel.requests.at(-1)).toMatchObject({ type: "ask_model" });
    const parameters = mlp().nodes.kind.filter((kind) => kind === "parameter").length;
    const rows = [...root.querySelectorAll(".parameters tbody tr")];
    expect(rows).toHaveLength(parameters);
    expect(rows[1]!.querySelector(".flagged")!.textContent).toBe("↓ vanishing");
    expect(one("wb-flow").querySelectorAll(".bar")).toHaveLength(parameters);
    expect(one("wb-model").textContent).toContain("2 of 8"); // dead units
    expect(seen("wb-samples")).toHaveLength(0);
    await click(rows[0]!.querySelector(".link")!);
    await click(one("wb-samples-ask"));
    expect(kernel.requests.at(-1)!.type).toBe("ask_sample_gradients");
    const told = one("wb-samples");
    expect(told.querySelectorAll("rect")).toHaveLength(4);
    expect(told.querySelectorAll("rect.against")).toHaveLength(1);
    expect(told.querySelector("tbody tr")!.textContent).toBe("120.9"); // sample 1, norm 2, cosine 0.9
  });
  it("has no tab where there is no parameter", async () => {
    const builder = new Builder();
    builder.root = builder.node("op", "exp", [2], [builder.node("input", "", [2])]);
    const { seen } = await open(builder);
    expect(seen("wb-tab-model")).toHaveLength(0);
  });
});
