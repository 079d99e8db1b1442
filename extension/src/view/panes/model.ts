// The model tab: gradients of all parameters in depth order and their problems, health of activations, and gradients by sample.

import type { Request } from "../controller";
import { h, put, s, type Child } from "../dom";
import type { ActivationRow, ModelHealth, ParameterRow, SampleGradients } from "../protocol";
import { answered, changed, type State } from "../store";
import { numberText, plural, shapeText } from "../words";
import { lazyTwin, table } from "./charts";
import { type Pane, type PaneContext, waiting } from "./pane";

const [LEAST, MOST] = [-12, 6]; // decades shown in the chart
const [VANISHING, EXPLODING] = [-7, 4]; // as in workbench/inspector/gradient_flow.py
const GLYPHS: Record<string, string> = {
  vanishing: "↓",
  exploding: "↑",
  NaN: "X",
  Inf: "∞",
  "all zero": "0",
  "no gradient": "∅",
  "not yet": "…",
  "dead units": "†",
  "all dead": "†",
  saturated: "⌐",
};

export class ModelPane implements Pane {
  readonly tab = "model";
  readonly title = "Model";
  readonly element = h("div", { class: "pane model", "data-testid": "wb-model" });

  constructor(private readonly context: PaneContext) {}

  offered({ recording }: State): boolean {
    return recording !== null && recording.view !== "tensor" && !recording.live && hasParameters(recording.nodes.kind);
  }

  asks(): Request {
    return { type: "ask_model" };
  }

  update(state: State, before: State | null): void {
    const answer = answered(state, "model_health");
    if (!changed(state, before, "recording", "answers", "selected", "room") && (answer || !changed(state, before, "status"))) return;
    put(this.element, ...(answer ? this.content(answer.message, state) : [waiting(state)]));
  }

  private content(message: ModelHealth, state: State): Child[] {
    const select = (node: number) => this.context.controller.show(node);
    const { parameters, activations, totals, title, note } = message;
    return [
      h("div", { class: "headline" }, h("h3", {}, title || "Parameters"), h("span", { class: "quiet" }, note)),
      h("dl", { class: "facts" }, ...totals.flatMap(({ label, text }) => [h("dt", {}, label), h("dd", {}, text)]), ...largest(parameters, select)),
      flow(parameters, state.selected, select, this.context.width()),
      parameterTable(parameters, state.selected, select),
      this.samples(parameters.find(({ node }) => node >= 0 && node === state.selected), state),
      activations.length ? h("h4", {}, "Activations") : null,
      activations.length ? activationTable(activations, state.selected, select) : null,
    ];
  }

  private samples(row: ParameterRow | undefined, state: State): HTMLElement {
    if (!row) return h("p", { class: "quiet" }, "Select a parameter to take its gradient apart by samples.");
    const answer = answered(state, "sample_gradients");
    const ask = () => void this.context.controller.ask({ type: "ask_sample_gradients", node: row.node });
    return h(
      "section",
      { class: "samples", "data-testid": "wb-samples" },
      h("div", { class: "row" }, h("h4", {}, `Gradient of ${row.name} by sample`), h("button", { class: "link", "data-testid": "wb-samples-ask", click: ask }, "take apart")),
      answer?.message.node === row.node ? drawSamples(answer.message) : null,
    );
  }
}

/** The parameter with the largest gradient, as a fact. */
function largest(rows: readonly ParameterRow[], select: (node: number) => void): Child[] {
  const most = rows.reduce<ParameterRow | null>((best, row) => ((row.grad_norm ?? -1) > (best?.grad_norm ?? 0) ? row : best), null);
  if (!most || most.node < 0) return [];
  const name = h("button", { class: "link", title: "Show it in the graph", "data-testid": "wb-largest", click: () => select(most.node) }, most.name);
  return [h("dt", {}, "largest gradient"), h("dd", {}, name, `, norm ${numberText(most.grad_norm)}`)];
}

let known: { kind: readonly string[]; found: boolean } = { kind: [], found: false };
function hasParameters(kind: readonly string[]): boolean {
  if (known.kind !== kind) known = { kind, found: kind.some((one) => one === "parameter" || one === "leaf") };
  return known.found;
}

/** Whether a flag is a problem; a gradient that the pass has not reached yet is not. */
const wrong = (flag: string) => flag !== "" && flag !== "not yet";

function flagged(flag: string): HTMLElement | null {
  return flag ? h("div", { class: wrong(flag) ? "flagged" : "quiet" }, h("b", { "aria-hidden": "true" }, GLYPHS[flag] ?? "!"), ` ${flag}`) : null;
}

/** Height in the chart: 0 at 1e-12 and below, 1 at 1e6 and above. */
export function decades(value: number | null): number {
  if (!value || !(value > 0)) return 0;
  return Math.max(0, Math.min(1, (Math.log10(value) - LEAST) / (MOST - LEAST)));
}

/** Mean and largest |gradient| of every parameter in depth order, on a logarithmic axis, with the limits of vanishing and exploding. */
function flow(rows: readonly ParameterRow[], selected: number, select: (node: number) => void, width: number): HTMLElement {
  const [w, high] = [Math.max(200, width), 120];
  const step = w / Math.max(1, rows.length);
  const bar = Math.max(1.5, Math.min(18, step * 0.7));
  const y = (value: number | null) => high - decades(value) * high;
  const limit = (exponent: number) => s("line", { class: "limit", x1: 0, x2: w, y1: y(10 ** exponent), y2: y(10 ** exponent) });
  const chart = s(
    "svg",
    { viewBox: `0 -4 ${w} ${high + 6}`, role: "img", "aria-label": `Gradient flow: mean and largest gradient of ${rows.length} parameters in depth order, on a logarithmic axis` },
    ...rows.map((row, at) => {
      const x = at * step + (step - bar) / 2;
      const mean = y(row.grad_mean);
      const largest = y(row.grad_max);
      const words = `${row.name}: mean ${numberText(row.grad_mean)}, largest ${numberText(row.grad_max)}${row.flag ? `, ${row.flag}` : ""}`;
      const mark = s(
        "g",
        { class: row.node >= 0 && row.node === selected ? "bar selected" : wrong(row.flag) ? "bar flagged" : "bar" },
        s("title", {}, words),
        s("rect", { class: "hit", x: at * step, y: 0, width: step, height: high }),
        s("rect", { class: "largest", x, y: largest, width: bar, height: Math.max(0, mean - largest) }),
        s("rect", { class: "mean", x, y: mean, width: bar, height: Math.max(0, high - mean) }),
        row.flag ? s("text", { x: x + bar / 2, y: Math.max(8, largest - 3) }, GLYPHS[row.flag] ?? "!") : null,
      );
      if (row.node >= 0) mark.addEventListener("click", () => select(row.node));
      return mark;
    }),
    s("line", { class: "axis", x1: 0, x2: w, y1: high, y2: high }),
    limit(VANISHING),
    limit(EXPLODING),
  );
  return h(
    "figure",
    { class: "flow", "data-testid": "wb-flow" },
    chart,
    h("figcaption", {}, `|∇| in the order of use: dark to the mean, light to the largest; dashed: vanishing below 1e−7, exploding above 1e4`),
  );
}

function parameterTable(rows: readonly ParameterRow[], selected: number, select: (node: number) => void): HTMLElement {
  const made = table(
    ["parameter", "|∇| mean, max", "|Δ| / |w|"],
    rows.map((row) => [
      h(
        "div",
        { title: row.why || null },
        row.node >= 0 ? h("button", { class: "link", click: () => select(row.node) }, row.name) : row.name,
        h("span", { class: "quiet" }, ` ${shapeText(row.shape)}`),
        flagged(row.flag),
      ),
      row.grad_mean === null
        ? h("span", { class: "quiet", title: row.why || null }, "–")
        : h("div", { title: `norm ${numberText(row.grad_norm)}` }, numberText(row.grad_mean, 3), h("div", { class: "quiet" }, numberText(row.grad_max, 3))),
      h("div", { title: row.ratio_from }, numberText(row.ratio, 3), h("div", { class: "quiet" }, `of ${numberText(row.norm, 3)}`)),
    ]),
    [1, 2],
  );
  mark(made, rows, selected);
  made.classList.add("parameters");
  const reasons = [...new Set(rows.map((row) => (row.ratio === null ? "" : row.ratio_from)).filter(Boolean))];
  const missing = [...new Set(rows.map((row) => (row.ratio === null ? row.ratio_from : "")).filter(Boolean))];
  const words = reasons.length ? `|Δ| / |w|, update to weight: ${reasons.join("; ")}. About 1e−3 is healthy.` : missing.length ? `|Δ| / |w|, update to weight, is not known: ${missing[0]}` : "";
  return h("div", {}, made, words ? h("p", { class: "quiet" }, words) : null);
}

function mark(made: HTMLTableElement, rows: readonly { node: number }[], selected: number): void {
  [...made.tBodies[0]!.rows].forEach((element, at) => element.classList.toggle("selected", rows[at]!.node >= 0 && rows[at]!.node === selected));
}

function activationTable(rows: readonly ActivationRow[], selected: number, select: (node: number) => void): HTMLElement {
  const made = table(
    ["activation", "dead units", "zero", "saturated"],
    rows.map((row) => [
      h(
        "div",
        {},
        h("button", { class: "link", click: () => select(row.node) }, row.module ? `${row.module} (${row.op})` : row.op),
        row.calls > 1 ? h("span", { class: "quiet" }, ` ×${row.calls}`) : null,
        flagged(row.flag),
      ),
      row.limits && !/relu/.test(row.op) ? "–" : h("span", { title: `0 for all of ${plural(row.samples, "sample")}` }, `${row.dead} of ${row.units}`),
      percent(row.zero),
      row.limits ? h("span", { title: row.limits }, percent(row.saturated)) : "–",
    ]),
    [1, 2, 3],
  );
  mark(made, rows, selected);
  const limits = [...new Set(rows.filter((row) => row.limits).map((row) => `${row.op}: ${row.limits}`))];
  return h(
    "div",
    {},
    made,
    h("p", { class: "quiet" }, `A unit is dead when it is zero for every sample. A layer is flagged where a quarter of its units are, in 32 samples or more.${limits.length ? ` Saturated is ${limits.join("; ")}.` : ""}`),
  );
}

function percent(share: number): string {
  return `${(100 * share).toFixed(share > 0 && share < 0.1 ? 1 : 0)} %`;
}

function drawSamples({ norms, total, cosine, largest, how, missing }: SampleGradients): HTMLElement {
  if (missing) return h("p", { class: "missing" }, missing);
  const most = norms.reduce((a, b) => (Number.isFinite(b) ? Math.max(a, b) : a), 0) || 1;
  const [w, high] = [320, 64];
  const step = w / Math.max(1, norms.length);
  const row = (sample: number) => [String(sample), numberText(norms[sample]), numberText(cosine[sample])];
  const columns = ["sample", "|gradient|", "cosine with the sum"];
  return h(
    "div",
    {},
    s(
      "svg",
      { class: "bars", viewBox: `0 0 ${w} ${high + 1}`, preserveAspectRatio: "none", role: "img", "aria-label": `Norms of the gradients of ${norms.length} samples, the largest ${numberText(most)}` },
      ...norms.map((norm, at) => {
        const tall = Number.isFinite(norm) ? (norm / most) * high : high;
        const against = (cosine[at] ?? 0) < 0;
        const words = `sample ${at}: ${numberText(norm)}${against ? ", against the sum" : ""}`;
        return s("rect", { class: against ? "against" : null, x: at * step, y: high - tall, width: Math.max(0.5, step * 0.85), height: tall }, s("title", {}, words));
      }),
      s("line", { class: "axis", x1: 0, x2: w, y1: high + 0.5, y2: high + 0.5 }),
    ),
    h("p", { class: "quiet" }, `Norm of the sum ${numberText(total)}. Orange: against the sum (cosine below 0). ${how}`),
    h("h5", {}, "largest"),
    table(columns, largest.map(row), [0, 1, 2]),
    lazyTwin(() => table(columns, norms.map((_, at) => row(at)), [0, 1, 2])),
  );
}
