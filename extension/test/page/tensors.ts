// What the kernel in the page says of one tensor and of a model: made-up numbers, in messages of the right form.

import {
  VERSION,
  type AskCompare,
  type Compared,
  type Heat,
  type Inspect,
  type Inspected,
  type ModelHealth,
  type Pinned,
  type SampleGradients,
  type Summary,
  type TensorElement,
  type TensorSeries,
} from "../../src/view/protocol";
import type { Builder } from "./recordings";

export const bytesOf = (array: Float32Array | Float64Array | Int32Array | Uint8Array) => new DataView(array.buffer as ArrayBuffer);

/** A message about a tensor of which there is nothing to say. */
export const NOTHING: Omit<Inspected, "recording" | "node" | "what"> = {
  ...{ type: "inspected", v: VERSION, re: null, name: "", accessor: "", facts: [], summary: null, histogram: null, heat: null, image: null },
  ...{ layouts: [], tokens: null, labels: [], note: "", storage: null, earlier: "", forward: null, missing: "" },
};

/** The picture of a tensor of this shape: the last two axes, and the one before them side by side when it is short. */
export function heatOf(shape: readonly number[], values: readonly number[], request: Pick<Inspect, "facet" | "rows" | "cols" | "index" | "pool">): { heat: Heat; buffers: DataView[] } {
  const n = shape.length;
  const cols = request.cols === -2 ? n - 1 : request.cols;
  const rows = request.rows === -2 ? (n > 1 ? n - 2 : -1) : request.rows;
  const facet = request.facet === -2 ? (n > 2 && shape[n - 3]! <= 16 ? n - 3 : -1) : request.facet;
  const size = (axis: number) => (axis < 0 ? 1 : shape[axis]!);
  const block = [Math.ceil(size(rows) / 128), Math.ceil(size(cols) / 128)];
  const place = [Math.min(36, size(facet)), Math.ceil(size(rows) / block[0]!), Math.ceil(size(cols) / block[1]!)];
  const shown = new Float32Array(place[0]! * place[1]! * place[2]!).map((_, at) => values[at % values.length]!);
  const pooled = block[0]! > 1 || block[1]! > 1;
  const marks = new Uint8Array(shown.length).map((_, at) => (Number.isNaN(shown[at]) ? 1 : shown[at] === Infinity ? 2 : shown[at] === -Infinity ? 4 : 0));
  const heat: Heat = {
    ...{ axes: [facet, rows, cols], index: shape.map((_, axis) => request.index[axis] ?? 0), facets: size(facet), first: 0 },
    ...{ rows: size(rows), cols: size(cols), block, pool: request.pool },
    values: { index: 0, dtype: "float32", shape: place },
    marks: pooled ? { index: 1, dtype: "uint8", shape: place } : null,
  };
  return { heat, buffers: pooled ? [bytesOf(shown), bytesOf(marks)] : [bytesOf(shown)] };
}

export function element(recording: string, builder: Builder, re: number, node: number, what: "value" | "grad", index: number[]): TensorElement {
  const name = builder.nodes.name[node];
  return { type: "element", v: VERSION, re, recording, node, what, index, text: "0.12345679", path: name ? `${name}[${index.join(", ")}]` : "" };
}

/** Keeps pins as the kernel does: those of node 3 differ from all others in one element. */
export class Pins {
  private pins: Pinned[] = [];
  private base = -1;
  private next = 1;

  answer(recording: string, builder: Builder, request: AskCompare, summary: (node: number) => Summary): Compared {
    if (request.do === "pin" || request.do === "pin earlier") {
      const told = { name: builder.nodes.name[request.node] || `#${request.node}`, source: builder.title, summary: summary(request.node), histogram: null };
      this.pins.push({ pin: this.next++, node: request.node, what: request.what, ...told, difference: null, apart: "", twin: -1 });
      if (this.base < 0) this.base = this.pins[0]!.pin;
    } else if (request.do === "unpin") {
      this.pins = this.pins.filter(({ pin }) => pin !== request.pin);
      if (this.base === request.pin) this.base = this.pins[0]?.pin ?? -1;
    } else if (request.do === "base") this.base = request.pin;
    else if (request.do === "clear") [this.pins, this.base] = [[], -1];
    const pins = this.pins.map((pin) => ({ ...pin, difference: pin.pin === this.base ? null : different(pin.node === 3) }));
    return { type: "compared", v: VERSION, re: request.id, recording, pins, base: this.base };
  }
}

function different(really: boolean): Pinned["difference"] {
  const none = { equal: true, changed: 0, first: [], pair: [], max_abs: 0, mean_abs: 0, relative: 0, cosine: 1 };
  const some = { equal: false, changed: 1, first: [0, 1], pair: ["1.0", "1.5"], max_abs: 0.5, mean_abs: 0.1, relative: 0.01, cosine: 0.99 };
  return { ...(really ? some : none), histogram: null, heat: null, words: really ? "1 of 8 elements differs, first at [0, 1]." : "Equal in every element." };
}

export function modelHealth(recording: string, re: number, { nodes }: Builder): ModelHealth {
  const flags = ["", "vanishing", "exploding", "NaN", "no gradient"];
  const parameters = nodes.kind.flatMap((kind, node) => (kind === "parameter" ? [node] : [])).map((node, at) => ({
    ...{ node, name: nodes.name[node]!, shape: nodes.shape[node]!, norm: 1.5, grad_norm: 0.1, grad_mean: [0.01, 1e-9, 2e4, 0.1, null][at % 5]! },
    ...{ grad_max: [0.1, 1e-8, 5e4, 0.2, null][at % 5]!, flag: flags[at % 5]!, why: at % 5 === 4 ? "Backward has not run yet." : "" },
    ...{ ratio: at % 5 === 4 ? null : 1e-3, ratio_from: "the next SGD step with this gradient" },
  }));
  const op = nodes.op.findIndex((name) => /relu|tanh/.test(name));
  const activation = { node: op, module: "act", op: "relu", calls: 1, samples: 64, units: 8, dead: 2, zero: 0.4, saturated: 0, limits: "", flag: "dead units" };
  const totals = [{ label: "parameters", text: "1,234 in 4 tensors" }];
  return { type: "model_health", v: VERSION, re, recording, title: "MLP", totals, parameters, activations: op < 0 ? [] : [activation], note: "Gradients are those in .grad now." };
}

export function sampleGradients(recording: string, re: number, node: number, name: string): SampleGradients {
  const norms = [0.5, 2, 1, 0.25];
  return { type: "sample_gradients", v: VERSION, re, recording, node, name, norms, total: 3, cosine: [0.1, 0.9, -0.5, null], largest: [1, 2, 0, 3], how: "By outer products.", missing: "" };
}

export function series(recording: string, re: number, node: number, what: "value" | "grad"): { message: TensorSeries; buffers: DataView[] } {
  const n = 5;
  const buffers: DataView[] = [];
  const add = (values: number[], dtype: "float64" | "int32", shape = [values.length]) => {
    buffers.push(bytesOf(dtype === "float64" ? Float64Array.from(values) : Int32Array.from(values)));
    return { index: buffers.length - 1, dtype, shape };
  };
  const ramp = (scale: number) => Array.from({ length: n }, (_, at) => scale * (at + 1));
  const one = {
    ...{ what, at: add([0, 1, 2, 3, 4], "int32"), mean: add(ramp(0), "float64"), std: add(ramp(0.1), "float64"), min: add(ramp(-1), "float64") },
    ...{ max: add(ramp(1), "float64"), norm: add(ramp(2), "float64"), bad: add([0, 0, 0, 3, 0], "int32"), low: add(ramp(-1), "float64") },
    ...{ high: add(ramp(1), "float64"), counts: add(Array.from({ length: n * 64 }, (_, at) => at % 7), "int32", [n, 64]), ratio: null },
  };
  const message: TensorSeries = { type: "tensor_series", v: VERSION, re, recording, node, what, name: "h", unit: "iteration", series: [one], note: "5 turns of a loop.", missing: "" };
  return { message, buffers };
}
