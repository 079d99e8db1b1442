// The legend: a sample of each outline, badge, bar and line with its meaning, drawn with the graph's CSS classes.

import { h, s } from "./dom";
import { outline } from "./graph/draw";

const [W, H] = [44, 22];

function sample(...parts: SVGElement[]): SVGElement {
  return s("svg", { viewBox: `-3 -6 ${W + 8} ${H + 12}`, width: W + 8, height: H + 12, "aria-hidden": "true" }, ...parts);
}

function box(kind: string, marks = "", ...more: SVGElement[]): SVGElement {
  const drawn = kind === "op" ? "op" : `source ${kind}`;
  return sample(s("g", { class: `wb-box ${drawn} ${marks}` }, outline(kind, W, H), ...more));
}

function group(kind: "open" | "closed"): SVGElement {
  const stack = kind === "closed" ? [6, 3].map((by) => s("rect", { class: "stack", x: by, y: by, width: W - 6, height: H - 6, rx: 6 })) : [];
  return sample(s("g", { class: `wb-box ${kind}` }, ...stack, s("rect", { class: "card frame", width: W - 6, height: H - 6, rx: 6 })));
}

function wire(classes: string, width: number | null = null): SVGElement {
  const [middle, backward] = [H / 2, classes.includes("lit")];
  const head = backward ? s("path", { class: "tail", d: `M11 ${middle - 6}L0 ${middle}L11 ${middle + 6}Z` }) : s("path", { class: "head", d: `M${W - 7} ${middle - 4}L${W} ${middle}L${W - 7} ${middle + 4}Z` });
  return sample(s("g", { class: `wb-wire ${classes}` }, s("path", { class: "line", d: `M0 ${middle}H${W}`, ...(width ? { "stroke-width": width } : {}) }), head));
}

const bar = (...shares: [string, number, number][]) =>
  s("g", { class: "healthbar" }, ...shares.map(([name, x, width]) => s("rect", { class: name, x, y: H - 4, width, height: 3 })));
const badge = (text: string, warm = true) => s("text", { class: warm ? "badge warm" : "detail", x: W / 2, y: 15, "text-anchor": "middle" }, text);
const round = (classes: string, text: string) =>
  sample(s("g", { class: classes, transform: `translate(${W / 2} ${H / 2})` }, s("circle", { r: 8.5 }), s("text", { "text-anchor": "middle", y: 4.5 }, text)));

/** Samples with their meanings. */
const ROWS: readonly [() => SVGElement, string][] = [
  [() => box("op"), "an op, with its result's shape"],
  [() => box("parameter"), "a parameter"],
  [() => box("leaf"), "another leaf that requires a gradient"],
  [() => box("input"), "an input, which needs no gradient"],
  [() => box("constant"), "a constant"],
  [() => group("closed"), "a closed group; + or a double click opens it"],
  [() => group("open"), "an open group"],
  [() => box("op", "", badge("−6", false)), "a value, where the result is one number"],
  [() => box("op", "", badge("∇ 0.2")), "the gradient that has arrived: its value for a number, else its norm"],
  [() => box("op", "reached"), "backward pass: its gradient has begun to arrive"],
  [() => box("op", "done"), "backward pass: done, its gradient is handed on"],
  [() => box("op", "current"), "backward pass: the step that is shown"],
  [() => box("op", "selected"), "selected"],
  [() => box("op", "hit"), "found by the search"],
  [() => box("op", "failed"), "the op that failed"],
  [() => box("op", "", bar(["minus", 2, 18], ["zero", 20, 6], ["plus", 26, 16])), "shares of negative, zero and positive elements"],
  [() => box("op", "", bar(["nan", 2, 12], ["plus", 14, 28])), "some elements are NaN or Inf"],
  [() => box("op", "", s("g", { class: "keeps", transform: `translate(${W - 16} ${H - 5})` }, s("path", { d: "M0 0H9V12L4.5 8.5L0 12Z" }))), "the tape keeps something of it for backward"],
  [() => round("note", "i"), "a note: a view, an in-place write; hover to read it"],
  [() => round("flag", "●"), "a breakpoint, or another mark; hover to read it"],
  [() => round("flag error", "X"), "a finding of the Checks tab"],
  [() => wire(""), "a result flows here"],
  [() => wire("lit", 4), "a gradient has flowed back here; the wider, the larger"],
  [() => wire("back"), "it leads back: a cycle that only the grouping makes"],
  [() => wire("view"), "a view: the same memory"],
];

export function legend(): HTMLElement {
  return h("ul", { class: "signs", "data-testid": "wb-legend" }, ...ROWS.map(([draw, words]) => h("li", {}, draw(), h("span", {}, words))));
}
