// A kernel that runs in the page: answers the view's requests from a made-up recording, with made-up but consistent numbers.

import type { Transport } from "../../src/view/channel";
import {
  VERSION,
  type Contribution,
  type NodeFace,
  type Formula,
  type Inspect,
  type Inspected,
  type Bytes,
  type Memory,
  type Moment,
  type Predictions,
  type Rules,
  type Step,
  type Stepped,
  type Summary,
  type ToKernel,
  type Why,
} from "../../src/view/protocol";
import type { Builder } from "./recordings";
import { isWhatIf, WhatIfs } from "./whatif";
import { bytesOf, element, heatOf, modelHealth, NOTHING, Pins, sampleGradients, series } from "./tensors";

export function random(seed: number): () => number {
  let state = seed >>> 0 || 1;
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 32;
  };
}

export function summarise(shape: number[], values: number[]): Summary {
  const finite = values.filter(Number.isFinite);
  const count = (test: (value: number) => boolean) => values.filter(test).length;
  const n = finite.length;
  const mean = n ? finite.reduce((a, b) => a + b, 0) / n : null;
  const norm = n === values.length && n ? Math.sqrt(finite.reduce((a, b) => a + b * b, 0)) : null;
  const std = n ? Math.sqrt(finite.reduce((a, b) => a + (b - mean!) ** 2, 0) / n) : null;
  const size = shape.reduce((a, b) => a * b, 1);
  return {
    ...{
      shape,
      dtype: "float32",
      size,
      nan: count(Number.isNaN),
      pos_inf: count((v) => v === Infinity),
      neg_inf: count((v) => v === -Infinity),
    },
    ...{
      negative: count((v) => Number.isFinite(v) && v < 0),
      zero: count((v) => v === 0),
      positive: count((v) => Number.isFinite(v) && v > 0),
    },
    ...{ min: n ? Math.min(...finite) : null, max: n ? Math.max(...finite) : null, mean, std, norm },
    values: values.length <= 6 ? values.map((v) => (Number.isFinite(v) ? v : Number.isNaN(v) ? "nan" : v > 0 ? "inf" : "-inf")) : null,
    text: `float32 of shape ${shape.join(" by ") || "()"}, ${size} elements, norm ${norm?.toPrecision(4) ?? "none"}`,
  };
}

const mi = (text: string): Formula => ["mi", text];
const mo = (text: string): Formula => ["mo", text];

function rules(op: string, input: string): Rules {
  const bar: Formula = ["mover", mi(input), mo("¯")];
  const partial: Formula = ["mfrac", ["mrow", mo("∂"), mi(op)], ["mrow", mo("∂"), mi(input)]];
  const shape: Formula = ["msub", mi("g"), ["mtext", "64×32"]];
  return {
    symbols: ["math", ["mrow", bar, mo("="), mi("g"), mo("·"), partial]],
    shapes: [
      "math",
      ["mrow", ["msub", bar, ["mtext", "64×32"]], mo("="), shape, mo("·"), ["msup", ["msub", mi("W"), ["mtext", "32×10"]], mi("T")]],
    ],
    numbers: op === "mul" ? ["math", ["mrow", ["mn", "0.25"], mo("="), ["mn", "0.5"], mo("·"), ["mn", "0.5"]]] : null,
  };
}

export class FakeKernel implements Transport {
  private receive: ((message: unknown, buffers: DataView[]) => void) | null = null;
  private readonly pins = new Pins();
  private index = 0;
  private sent = 0;
  readonly plan: number[];
  private stopped = "";
  brief = false; // send a step's own message only, as of a pass with thousands of them
  readonly broken = new Set<number>(); // nodes with a breakpoint
  readonly conditions: string[] = [];
  processes = 1;
  mode: "live" | "paused" = "live";
  passes = ["loss"];
  delay = 5;
  silent = false;
  gpus: Bytes["gpus"] = [];
  devices: Memory["devices"] = [];
  refuse = ""; // the sentence of a problem instead of the next step
  readonly requests: ToKernel[] = [];
  readonly whatIfs = new WhatIfs(this);

  constructor(
    readonly builder: Builder,
    readonly recording = "r1",
    steps = true,
  ) {
    this.plan = steps ? backwardPlan(builder) : [];
  }

  listen(receive: (message: unknown, buffers: readonly (DataView | ArrayBuffer)[]) => void): () => void {
    this.receive = receive;
    return () => (this.receive = null);
  }

  push(message: object, buffers: DataView[] = []): void {
    this.receive?.(message, buffers);
  }

  send(raw: unknown): void {
    const request = raw as ToKernel;
    const all = request.type === "step" && request.then ? [request, ...request.then] : [request];
    this.requests.push(...all);
    if (!this.silent) setTimeout(() => all.forEach((one) => this.answer(one)), this.delay);
  }

  /** Where the pass stands. */
  get at(): number {
    return this.index;
  }

  private face(node: number): NodeFace {
    const { nodes, edges } = this.builder;
    const values = this.values(node, 1);
    const scalar = nodes.shape[node]!.length === 0;
    const count = (test: (x: number) => boolean) => values.filter(test).length;
    const health = scalar ? [] : [0, 0, count((x) => x < 0), count((x) => x === 0), count((x) => x > 0)];
    const keeps = nodes.op[node] === "mul" || nodes.op[node] === "matmul";
    const slots = keeps ? edges.slot.filter((_, row) => edges.target[row] === node) : [];
    const kept = { saves: slots.map((slot) => `input ${slot}`), kept_inputs: slots, kept_result: nodes.op[node] === "tanh" };
    return { node, value: scalar ? values[0]! : null, health, ...kept, base: -1, version: 0 };
  }

  private ranks(re: number | null, rank: number): object {
    const sentences = ["Each rank has its own data: x."];
    return { type: "ranks", v: VERSION, re, recording: this.recording, rank, size: this.processes, sentences };
  }

  private answer(request: ToKernel): void {
    if (request.type === "ask_rank") {
      for (const graph of this.builder.graphs(this.recording)) this.push(graph);
      this.push(this.ranks(request.id, request.rank));
    } else if (request.type === "ready") {
      for (const graph of this.builder.graphs(this.recording)) this.push(graph);
      if (this.processes > 1) this.push(this.ranks(null, 0));
      if (!this.plan.length) return;
      const start = { recording: this.recording, index: this.index, failed: false, sentence: "The pass has not started." };
      const passes = { number: 0, passes: this.passes, stopped: "", runs: false };
      this.push({ type: "stepper", v: VERSION, mode: this.mode, plan: this.plan, ...start, ...passes });
      this.sent = 0;
      this.push(this.stepped(null));
    } else if (request.type === "step" && this.refuse) {
      this.push({ type: "problem", v: VERSION, re: request.id, sentence: this.refuse, node: -1 });
    } else if (request.type === "step") {
      const last = this.plan.length;
      const at = request.do === "node" ? this.plan.indexOf(request.to) + 1 : request.to;
      const by = request.by === "op" ? 1 : 3; // every third step is the end of a coarser one
      const [forth, back] = [Math.floor(this.index / by + 1) * by, Math.ceil(this.index / by - 1) * by];
      const breaks = this.plan.map((node, row) => (this.broken.has(node) ? row + 1 : -1)).filter((place) => place > 0);
      const run = breaks.find((place) => place > this.index) ?? last;
      const before = breaks.filter((place) => place < this.index).pop() ?? 0;
      const fine = { into: this.index + 1, out: forth, run, back: before, stop: this.index, pass: this.index, begin: 0 };
      const to = { next: forth, previous: back, first: 0, last, index: at, node: at, ...fine }[request.do];
      this.index = Math.max(0, Math.min(last, to));
      this.stopped = /^(run|back)$/.test(request.do) && breaks.includes(this.index) ? "Stopped at a breakpoint: loss." : "";
      this.push(this.stepped(request.id));
    } else if (request.type === "ask_norms") {
      const { message, buffers } = this.norms(request.first, request.last);
      this.push({ ...message, re: request.id }, buffers);
    } else if (request.type === "break") {
      if (request.when.startsWith("oops")) {
        const sentence = "The condition “oops” cannot be read.";
        return this.push({ type: "problem", v: VERSION, re: request.id, sentence, node: -1 });
      }
      if (request.do === "toggle" && !this.broken.delete(request.number)) this.broken.add(request.number);
      if (request.do === "add") this.conditions.push(request.when);
      const flags = [...this.broken].map((node) => ({ node, glyph: "●", words: "Breakpoint: it", tone: "error" }));
      this.push({ type: "flags", v: VERSION, re: null, recording: this.recording, origin: "breakpoint", flags });
      const nodes = [...this.broken].map((number) => ({ number, where: "node", what: `#${number}`, when: "", on: true, places: 1 }));
      const others = this.conditions.map((when, at) => ({ number: 1000 + at, where: "any", what: "", when, on: true, places: -1 }));
      this.push({ type: "breakpoints", v: VERSION, re: request.id, recording: this.recording, breakpoints: [...nodes, ...others] });
    } else if (isWhatIf(request)) {
      const { message, buffers } = this.whatIfs.answer(request);
      this.push(message, buffers);
    } else if (request.type === "inspect") {
      const { message, buffers } = this.inspected(request);
      this.push({ ...message, re: request.id }, buffers);
    } else if (request.type === "ask_faces") {
      const faces = request.nodes.map((node) => this.face(node));
      this.push({ type: "faces", v: VERSION, re: request.id, recording: this.recording, faces });
    } else if (request.type === "ask_element") {
      this.push(element(this.recording, this.builder, request.id, request.node, request.what, request.index));
    } else if (request.type === "ask_compare") {
      const summary = (node: number) => summarise(this.builder.nodes.shape[node]!, this.values(node, 1));
      this.push(this.pins.answer(this.recording, this.builder, request, summary));
    } else if (request.type === "ask_model") {
      this.push(modelHealth(this.recording, request.id, this.builder));
    } else if (request.type === "ask_sample_gradients") {
      this.push(sampleGradients(this.recording, request.id, request.node, this.builder.nodes.name[request.node]!));
    } else if (request.type === "ask_series") {
      const { message, buffers } = series(this.recording, request.id, request.node, request.what);
      this.push(message, buffers);
    } else if (request.type === "ask_window") {
      const { line, buffers } = this.line(request.first, request.last);
      this.push({ type: "window", v: VERSION, re: request.id, recording: this.recording, line }, buffers);
    } else if (request.type === "ask_moment") {
      this.push({ ...this.moment(request.event), re: request.id });
    } else if (request.type === "ask_why") {
      this.push({ ...this.why(request.block), re: request.id });
    } else if (request.type === "ask_predictions") {
      this.push({ ...this.predictions(), re: request.id });
    } else if (request.type === "ask_bytes") {
      const bytes = { newest: this.recording, live: 1, peak: 2, running: false, resident: 123e6, gpus: this.gpus, waits: "" };
      this.push({ type: "bytes", v: VERSION, re: request.id, ...bytes });
    } else if (request.type === "ask_memory") {
      const { message, buffers } = this.memory();
      this.push({ ...message, re: request.id }, buffers);
    }
  }

  /** The norms of steps, from the steps themselves. */
  private norms(first: number, last: number): { message: object; buffers: DataView[] } {
    const steps = Array.from({ length: last - first + 1 }, (_, at) => this.step(first + at));
    const each = steps.flatMap((step) => step.contributions.map((contribution) => ({ index: step.index, ...contribution })));
    const columns = [
      new Uint8Array(steps.map(() => 1)),
      new Float32Array(steps.map(({ upstream }) => upstream.norm!)),
      new Int32Array(each.map(({ index }) => index)),
      new Int32Array(each.map(({ target }) => target)),
      new Uint8Array(each.length),
      new Float32Array(each.map(({ gradient }) => gradient.norm!)),
      new Float32Array(each.map(({ total }) => total.norm!)),
    ];
    const names = ["came", "upstream", "step", "target", "scalar", "gradient", "total"];
    const described = columns.map((column, index) => [
      names[index],
      { index, dtype: column.constructor.name.replace("Array", "").toLowerCase(), shape: [column.length] },
    ]);
    const message = { type: "norms", v: VERSION, recording: this.recording, number: 0, first, ...Object.fromEntries(described) };
    return { message, buffers: columns.map((column) => new DataView(column.buffer)) };
  }

  private stepped(re: number | null): Stepped {
    const steps: Step[] = [];
    if (this.brief) this.sent = Math.max(0, this.index - 1);
    while (this.sent < this.index) steps.push(this.step(++this.sent));
    const sentence = this.index ? this.step(this.index).sentence : "The start of the pass: no gradient has flowed yet.";
    const total = this.plan.length;
    return {
      type: "stepped",
      v: VERSION,
      re,
      recording: this.recording,
      index: this.index,
      total,
      steps,
      done: this.index === total,
      failed: false,
      sentence,
      stopped: this.stopped,
      runs: false,
    };
  }

  values(node: number, salt: number): number[] {
    const next = random(node * 97 + salt);
    const size = Math.min(
      8192,
      this.builder.nodes.shape[node]!.reduce((a, b) => a * b, 1),
    );
    const scale = 10 ** -(node % 5);
    return Array.from({ length: size }, () => scale * (next() + next() + next() - 1.5));
  }

  step(index: number): Step {
    const { nodes, edges } = this.builder;
    const node = this.plan[index - 1]!;
    const op = nodes.kind[node] === "op" ? nodes.op[node]! : "accumulate";
    const contributions: Contribution[] = [];
    edges.target.forEach((target, row) => {
      const source = edges.source[row]!;
      if (target !== node || !nodes.grad[source]) return;
      const gradient = summarise(nodes.shape[source]!, this.values(source, 7 + node));
      const total = summarise(nodes.shape[source]!, this.values(source, 7 + node));
      const addends =
        1 + this.plan.slice(0, index - 1).filter((n) => edges.source.some((s, r) => s === source && edges.target[r] === n)).length;
      const input = edges.slot[row] ? "other" : "input";
      contributions.push({
        target: source,
        input,
        gradient,
        total,
        addends,
        unbroadcast: nodes.name[source]!.includes("bias") ? [0] : [],
        rule: rules(op, input),
      });
    });
    const upstream = summarise(nodes.shape[node]!, this.values(node, 7));
    const sentence = `Step ${index} of ${this.plan.length}, ${op} ${nodes.name[node]} at In [3] line 2: the gradient of norm ${upstream.norm?.toPrecision(3)} goes to ${contributions.length} inputs.`;
    return { index, node, op, forward: rules(op, "x"), upstream, contributions, site: nodes.site[node]!, sentence, before: null, after: null };
  }

  private inspected({ node, what, index, exact, ...look }: Inspect): { message: Inspected; buffers: DataView[] } {
    const { nodes } = this.builder;
    const name = nodes.name[node]!;
    const base = { ...NOTHING, recording: this.recording, node, what, name, accessor: name };
    if (what === "grad" && !nodes.grad[node]) {
      const missing = "There is no gradient: this tensor does not require one (requires_grad is False).";
      return { message: { ...base, missing }, buffers: [] };
    }
    const shape = nodes.shape[node]!;
    const values = this.values(node, (what === "grad" ? 7 : 1) + index.reduce((a, b) => a * 31 + b, 0));
    if (values.length > 100) [values[3], values[50], values[60]] = [NaN, Infinity, -Infinity];
    const summary = summarise(shape, values);
    const [low, high] = [summary.min ?? 0, summary.max ?? 1];
    const counts = new Array<number>(40).fill(0);
    for (const v of values) if (Number.isFinite(v)) counts[Math.min(39, Math.floor(((v - low) / (high - low || 1)) * 40))]!++;
    const { heat, buffers } = heatOf(shape, values, { ...look, index });
    const facts = [
      ["device", "cpu"],
      ["dtype", "float32"],
      ["strides", "(256, 4)"],
      ["bytes", `${nodes.bytes[node]}`],
      ["version", "0"],
      ["leaf", nodes.kind[node] === "op" ? "no" : "yes"],
      ["saved", "by matmul for d_other"],
    ];
    const order = [0, 2, 4, -1, 1, 3, 5, -1];
    const sharers = [{ node: 0, name: "x", shape: [2, 4], how: "overlapping elements" }];
    const message: Inspected = {
      ...base,
      facts: facts.map(([label, text]) => ({ label: label!, text: text! })),
      summary,
      histogram: { low, high, counts, sampled: !exact },
      heat: look.image ? null : heat,
      image: look.image
        ? { layout: look.image, layouts: [look.image], count: 1, first: 0, height: 2, width: 2, rule: "0 is black, 1 is white.", pixels: { index: 0, dtype: "uint8", shape: [1, 2, 2, 1] } }
        : null,
      layouts: shape.length === 2 ? ["H, W"] : [],
      storage: { elements: 8, offset: 0, strides: [1, 4], order, shares: [], words: "It is not contiguous.", sharers },
      forward: nodes.kind[node] === "op" ? rules(nodes.op[node]!, "x") : null,
    };
    return { message, buffers: look.image ? [bytesOf(Uint8Array.from([0, 85, 170, 255]))] : buffers };
  }

  private memory(): { message: Memory; buffers: DataView[] } {
    const { nodes } = this.builder;
    const { line, buffers, live, peak } = this.line(0, nodes.op.length);
    const holdings = this.holdings();
    const share = (label: string, node: number, site: number) => ({ label, node, site, blocks: 3, made: 9e4, peak: 4e4, saved: 2e4 });
    const message: Memory = {
      ...{ type: "memory", v: VERSION, re: null, recording: this.recording, live, peak, peak_node: line.peak_event, alone: 4096, missing: "" },
      totals: CATEGORIES.map((category, at) => ({ category, now: at * 1000, peak: at * 3000 })),
      devices: this.devices,
      ...{ line, holdings, held: holdings.length + 5 },
      ops: [share("mul", 2, -1), share("linear, backward", 3, -1)],
      lines: [share("In [1], line 2", 2, 0)],
      modules: [share("layers.0", 2, -1)],
      savers: [{ node: 2, bytes: 4096, what: "h for d_other", held: true }],
      saving: 1,
    };
    return { message, buffers };
  }

  private holdings(): Memory["holdings"] {
    const { nodes } = this.builder;
    return nodes.bytes
      .map((bytes, node) => ({ node, bytes }))
      .sort((a, b) => b.bytes - a.bytes)
      .slice(0, 200)
      .map(({ node, bytes }, at) => ({
        ...{ node, bytes, block: 3 * node, name: nodes.name[node] || nodes.op[node]!, shape: nodes.shape[node]!, dtype: "float32" },
        category: nodes.kind[node] === "parameter" ? ("parameter" as const) : ("saved" as const),
        why: nodes.kind[node] === "parameter" ? "a parameter of the model" : "saved by mul #12 for d_other; held by the variable h",
        ...{ site: nodes.site[node]!, freed: at % 2 ? 12 : -1, freed_text: at % 2 ? "in the backward step of mul #12" : "", freed_site: -1 },
      }));
  }

  /** One event for each node: it comes; and of every third, the one before goes. */
  private line(first: number, last: number): { line: Memory["line"]; buffers: DataView[]; live: number; peak: number } {
    const { nodes } = this.builder;
    const count = nodes.op.length;
    const [events, bands, seconds] = [new Float64Array(last - first), new Float64Array((last - first) * 7), new Float64Array(last - first)];
    let [live, peak, peakEvent] = [0, 0, 0];
    nodes.bytes.forEach((bytes, node) => {
      live += node % 3 === 2 ? -nodes.bytes[node - 1]! * 0.6 : bytes;
      if (live > peak) [peak, peakEvent] = [live, node];
      if (node < first || node >= last) return;
      events[node - first] = node;
      seconds[node - first] = node * 1e-4;
      bands[(node - first) * 7] = live * 0.25;
      bands[(node - first) * 7 + 3] = live * 0.75;
    });
    const buffer = (index: number, shape: number[]) => ({ index, dtype: "float64" as const, shape });
    const line: Memory["line"] = {
      ...{ first, last, count, peak_event: peakEvent },
      ...{ events: buffer(0, [last - first]), bands: buffer(1, [last - first, 7]), seconds: buffer(2, [last - first]) },
      phases: [
        { label: "forward", first: 0, last: count >> 1 },
        { label: "backward", first: count >> 1, last: count },
      ],
      cells: [],
    };
    return { line, buffers: [events, bands, seconds].map((array) => new DataView(array.buffer)), live, peak };
  }

  private moment(event: number): Moment {
    const holdings = this.holdings();
    return {
      ...{ type: "moment", v: VERSION, re: null, recording: this.recording, event, count: this.builder.nodes.op.length },
      ...{ text: "mul #12 made h", node: 2, site: 0, live: 5e5, holdings, held: holdings.length + 1, rest: 12 },
    };
  }

  private why(block: number): Why {
    return {
      ...{ type: "why", v: VERSION, re: null, recording: this.recording, block, node: 2, name: "h", bytes: 4096 },
      chains: [
        { links: ["the variable losses[3]", "its graph", "saved by mul #12 for d_other"], fix: "losses[3] = losses[3].item()", advice: "keeps the number" },
        { links: ["Out[5]"], fix: "%reset -f out", advice: "forgets all outputs" },
      ],
      sentence: "Looked at 12,345 objects in 40 ms.",
    };
  }

  private predictions(): Predictions {
    return {
      ...{ type: "predictions", v: VERSION, re: null, recording: this.recording, peak: 8e5 },
      found: [
        { what: "checkpoint", label: "checkpoint layers.0", node: 2, peak: 4e5, ops: 12, seconds: 0.002, note: "Only its input is kept." },
        { what: "half", label: "half", node: -1, peak: 5e5, ops: 0, seconds: 0, note: "Every float32 array would be float16." },
      ],
    };
  }
}

const CATEGORIES = ["parameter", "gradient", "activation", "saved", "optimizer", "input", "temporary"] as const;

/** Nodes that the root depends on and that require a gradient, last first. */
function backwardPlan({ nodes, edges, root }: Builder): number[] {
  const reached = new Set([root]);
  for (let row = edges.target.length - 1; row >= 0; row--) {
    if (reached.has(edges.target[row]!) && nodes.grad[edges.source[row]!]) reached.add(edges.source[row]!);
  }
  return [...reached].sort((a, b) => b - a);
}
