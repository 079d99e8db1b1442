// Cards of the memory pane: why an array is alive, what a change would do to the peak, and the machine's memory.

import { h, type Child } from "../../dom";
import type { Bytes, Gpu, Prediction, Predictions, Why } from "../../protocol";
import { bytesText, plural } from "../../words";
import { secondsText } from "./chart";

export function whyCard({ name, bytes, chains, sentence }: Why, close: () => void): HTMLElement {
  const count = chains.length;
  const head = count
    ? `${name}, ${bytesText(bytes)}, is kept alive by ${plural(count, "chain")}${count > 1 ? "; it goes when all are cut" : ""}:`
    : `${name}, ${bytesText(bytes)}: nothing of yours that keeps it alive was found.`;
  return h(
    "section",
    { class: "why", role: "region", "aria-label": "Why it is alive", "data-testid": "wb-why-card" },
    h("div", { class: "row" }, h("b", {}, head), h("button", { class: "dismiss", "aria-label": "Close", click: close }, "×")),
    h(
      "ol",
      {},
      ...chains.map(({ links, fix, advice }) =>
        h(
          "li",
          {},
          h("div", { class: "links" }, ...links.flatMap((link, at) => [at ? h("span", { class: "arrow", "aria-label": "leads to" }, "→") : null, h("span", {}, link)])),
          fix ? h("code", { class: "fix" }, fix) : null,
          advice ? h("div", { class: "quiet" }, advice) : null,
        ),
      ),
    ),
    h("p", { class: "quiet" }, sentence),
  );
}

const TITLES: Record<Prediction["what"], string> = { no_grad: "no_grad", checkpoint: "checkpoint", half: "half", batch: "batch" };

/** Chips with the peak that each change would give, and details of the chosen one. */
export function predictions({ found, peak }: Predictions, chosen: number, choose: (at: number) => void, select: (node: number) => void): Child[] {
  if (!found.length) return [h("p", { class: "quiet" }, "There is nothing here that one of these changes would make smaller.")];
  const one = found[chosen];
  return [
    h("p", { class: "quiet" }, `What would the peak of ${bytesText(peak)} be? Predicted from the events of this recording.`),
    h(
      "div",
      { class: "options" },
      ...found.map((option, at) =>
        h(
          "button",
          {
            class: "option",
            "aria-pressed": String(at === chosen),
            "data-testid": `wb-what-if-${TITLES[option.what]}`,
            click: () => choose(at),
          },
          h("span", {}, option.label),
          h("b", {}, change(option.peak, peak)),
        ),
      ),
    ),
    one
      ? h(
          "div",
          { class: "prediction", role: "status", "data-testid": "wb-prediction" },
          compare("now", peak, peak),
          compare(one.label, one.peak, peak),
          one.ops ? h("p", {}, `${plural(one.ops, "op")} would run a second time${one.seconds ? `, ${secondsText(one.seconds)} more` : ""}.`) : null,
          h("p", { class: "quiet" }, one.note),
          one.node >= 0 ? h("button", { class: "link", click: () => select(one.node) }, "Show it in the graph") : null,
        )
      : null,
  ];
}

function change(to: number, from: number): string {
  const percent = from > 0 ? Math.round((100 * (to - from)) / from) : 0;
  return `${percent > 0 ? "+" : percent < 0 ? "−" : "±"}${Math.abs(percent)} %`;
}

function compare(label: string, bytes: number, most: number): HTMLElement {
  return h(
    "div",
    { class: "compare" },
    h("span", {}, label),
    h("span", { class: "track" }, h("span", { class: "bar", style: `width:${((100 * bytes) / Math.max(most, bytes, 1)).toFixed(1)}%` })),
    h("b", {}, bytesText(bytes)),
  );
}

/** The machine's memory: the pools, the memory and the utilization of each GPU, and the process. */
export function machine({ gpus, resident }: Bytes): Child[] {
  const process = resident ? [h("span", {}, "the whole process ", h("b", {}, bytesText(resident)))] : [];
  const missing = gpus.find((gpu) => gpu.missing)?.missing;
  return [...gpus.flatMap((gpu) => oneGpu(gpu, gpus.length > 1)), missing ? h("span", { class: "quiet" }, missing) : null, ...process];
}

function oneGpu(gpu: Gpu, numbered: boolean): Child[] {
  const free = gpu.held - gpu.used;
  const pieces = free > 0 ? ` (${bytesText(free)}, ${Math.round((100 * free) / gpu.held)} %, free in pieces)` : "";
  return [
    h("span", {}, `${gpu.name}${numbered ? ` cuda:${gpu.index}` : ""} `, h("b", {}, gpu.utilisation === null ? "" : `${gpu.utilisation} % busy`)),
    h("span", {}, "pool uses ", h("b", {}, bytesText(gpu.used)), " of ", h("b", {}, bytesText(gpu.held)), ` held${pieces}, at most `, h("b", {}, bytesText(gpu.peak))),
    h("span", {}, "device ", h("b", {}, bytesText(gpu.taken)), ` of ${bytesText(gpu.total)}, ${bytesText(gpu.total - gpu.taken)} free`),
  ];
}
