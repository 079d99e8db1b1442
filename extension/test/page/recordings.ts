// Recordings for the tests and the development page: what a kernel would send for an MLP, an unrolled LSTM, a transformer.

import { VERSION, type Edges, type Graph, type Group, type Nodes, type Site } from "../../src/view/protocol";

export class Builder {
  nodes: Nodes = { op: [], kind: [], name: [], group: [], shape: [], dtype: [], device: [], bytes: [], saved: [], grad: [], site: [], note: [] };
  edges: Edges = { source: [], target: [], slot: [] };
  sites: Site[] = [];
  groups: Group[] = [];
  root = -1;
  view: Graph["view"] = "graph";

  constructor(public title = "In [3]") {}

  group(kind: Group["kind"], name: string, label: string, parent = -1, count = 1): number {
    this.groups.push({ id: this.groups.length, parent, kind, name, label, count });
    return this.groups.length - 1;
  }

  site(line: number, text: string): number {
    this.sites.push({ cell: "In [3]", cell_id: "c3", file: "", line, text });
    return this.sites.length - 1;
  }

  node(
    kind: Nodes["kind"][number],
    op: string,
    shape: number[],
    inputs: number[] = [],
    more: { name?: string; group?: number; note?: string; site?: number; dtype?: string; device?: string } = {},
  ): number {
    const id = this.nodes.op.length;
    const size = shape.reduce((a, b) => a * b, 1);
    const { nodes, edges } = this;
    nodes.op.push(op);
    nodes.kind.push(kind);
    nodes.name.push(more.name ?? "");
    nodes.group.push(more.group ?? -1);
    nodes.shape.push(shape);
    nodes.dtype.push(more.dtype ?? "float32");
    nodes.device.push(more.device ?? "");
    nodes.bytes.push(4 * size);
    nodes.saved.push(kind === "op" ? 4 * size : 0);
    nodes.grad.push(kind === "parameter" || kind === "leaf" || inputs.some((input) => nodes.grad[input]!));
    nodes.site.push(more.site ?? -1);
    nodes.note.push(more.note ?? "");
    inputs.forEach((source, slot) => {
      edges.source.push(source);
      edges.target.push(id);
      edges.slot.push(slot);
    });
    return id;
  }

  /** The messages in chunks of so many nodes, the way a live recording arrives. */
  graphs(recording: string, chunk = Infinity, live = false): Graph[] {
    const { nodes, edges, sites, groups, title, root } = this;
    const count = nodes.op.length;
    const made: Graph[] = [];
    let firstEdge = 0;
    for (let start = 0; start === 0 || start < count; start += chunk) {
      const end = Math.min(count, start + chunk);
      let lastEdge = firstEdge;
      while (lastEdge < edges.target.length && edges.target[lastEdge]! < end) lastEdge++;
      const cut = <T extends object>(columns: T, from: number, to: number) =>
        Object.fromEntries(Object.entries(columns).map(([name, column]) => [name, (column as unknown[]).slice(from, to)])) as T;
      const last = end >= count;
      made.push({
        ...{ type: "graph", v: VERSION, recording, title, start, first_edge: firstEdge, first_site: start ? sites.length : 0 },
        first_group: start ? groups.length : 0,
        ...{ nodes: cut(nodes, start, end), edges: cut(edges, firstEdge, lastEdge), sites: start ? [] : sites, groups: start ? [] : groups },
        ...{ live: live || !last, dropped: 0, left_out: "", root: last ? root : -1, view: this.view },
      });
      firstEdge = lastEdge;
    }
    return made;
  }
}

/** Two linear layers, a loss of few ops: a classroom graph. */
export function mlp(): Builder {
  const b = new Builder("loss");
  const model = b.group("module", "model", "MLP");
  const l1 = b.group("module", "layers.0", "Linear", model);
  const l2 = b.group("module", "layers.2", "Linear", model);
  const s1 = b.site(2, "logits = model(x)");
  const s2 = b.site(3, "loss = F.cross_entropy(logits, y)");
  const x = b.node("input", "", [64, 64], [], { name: "x" });
  const y = b.node("input", "", [64], [], { name: "y", dtype: "int64" });
  const w1 = b.node("parameter", "", [32, 64], [], { name: "layers.0.weight" });
  const b1 = b.node("parameter", "", [32], [], { name: "layers.0.bias" });
  const t1 = b.node("op", "transpose", [64, 32], [w1], { group: l1, site: s1, note: "view of #2" });
  const m1 = b.node("op", "matmul", [64, 32], [x, t1], { group: l1, site: s1 });
  const a1 = b.node("op", "add", [64, 32], [m1, b1], { group: l1, site: s1 });
  const r = b.node("op", "relu", [64, 32], [a1], { group: model, site: s1, name: "hidden" });
  const w2 = b.node("parameter", "", [10, 32], [], { name: "layers.2.weight" });
  const b2 = b.node("parameter", "", [10], [], { name: "layers.2.bias" });
  const t2 = b.node("op", "transpose", [32, 10], [w2], { group: l2, site: s1, note: "view of #8" });
  const m2 = b.node("op", "matmul", [64, 10], [r, t2], { group: l2, site: s1 });
  const logits = b.node("op", "add", [64, 10], [m2, b2], { group: l2, name: "logits", site: s1 });
  const ls = b.node("op", "log_softmax", [64, 10], [logits], { site: s2 });
  const g = b.node("op", "gather", [64], [ls, y], { site: s2 });
  const mean = b.node("op", "mean", [], [g], { site: s2 });
  const penalty = b.node("op", "mul", [64, 32], [r, r], { site: s2, name: "r2" });
  const reg = b.node("op", "sum", [], [penalty], { site: s2 });
  const c = b.node("constant", "", [], [], { name: "0.01" });
  const scaled = b.node("op", "mul", [], [reg, c], { site: s2 });
  b.root = b.node("op", "add", [], [mean, scaled], { name: "loss", site: s2 });
  return b;
}

/** A hand-written LSTM cell over so many steps: 16 ops each, in one loop. */
export function lstm(steps = 500): Builder {
  const b = new Builder("total");
  const loop = b.group("loop", "t", `for t, ${steps} iterations`, -1, steps);
  const w = b.node("parameter", "", [24, 64], [], { name: "W" });
  const u = b.node("parameter", "", [16, 64], [], { name: "U" });
  let h = b.node("constant", "", [8, 16], [], { name: "h0" });
  let c = b.node("constant", "", [8, 16], [], { name: "c0" });
  let total = b.node("constant", "", [], [], { name: "0.0" });
  for (let t = 0; t < steps; t++) {
    const group = b.group("iteration", String(t + 1), `turn ${t + 1}`, loop);
    const op = (name: string, shape: number[], inputs: number[], label = "") => b.node("op", name, shape, inputs, { group, name: label });
    const x = b.node("constant", "", [8, 24], [], { name: `x[${t}]`, group });
    const gates = op("add", [8, 64], [op("matmul", [8, 64], [x, w]), op("matmul", [8, 64], [h, u])], "gates");
    const [i, f, g, o] = ["i", "f", "g", "o"].map((name) => op("getitem", [8, 16], [gates], name)) as [number, number, number, number];
    const [si, sf, tg, so] = [
      op("sigmoid", [8, 16], [i]),
      op("sigmoid", [8, 16], [f]),
      op("tanh", [8, 16], [g]),
      op("sigmoid", [8, 16], [o]),
    ];
    c = op("add", [8, 16], [op("mul", [8, 16], [sf, c]), op("mul", [8, 16], [si, tg])], "c");
    h = op("mul", [8, 16], [so, op("tanh", [8, 16], [c])], "h");
    total = op("add", [], [total, h], "total");
  }
  b.root = total;
  return b;
}

/** A small GPT: embedding, so many blocks with two residuals each, a head. */
export function transformer(blocks = 12): Builder {
  const b = new Builder("loss");
  const [T, C] = [64, 128];
  const tokens = b.node("input", "", [4, T], [], { name: "tokens", dtype: "int64" });
  const wte = b.node("parameter", "", [65, C], [], { name: "wte.weight" });
  const wpe = b.node("parameter", "", [T, C], [], { name: "wpe.weight" });
  const gpt = b.group("module", "gpt", "GPT");
  const emb = b.group("module", "wte", "Embedding", gpt);
  let x = b.node("op", "embedding", [4, T, C], [wte, tokens], { group: emb });
  x = b.node("op", "add", [4, T, C], [x, wpe], { group: gpt, name: "x" });
  const fold = b.group("fold", "h", `Block ×${blocks}`, gpt, blocks);
  for (let n = 0; n < blocks; n++) {
    const block = b.group("module", `h.${n}`, "Block", fold);
    const norm = (name: string, input: number) => {
      const group = b.group("module", `h.${n}.${name}`, "LayerNorm", block);
      const w = b.node("parameter", "", [C], [], { name: `h.${n}.${name}.weight` });
      const bias = b.node("parameter", "", [C], [], { name: `h.${n}.${name}.bias` });
      return b.node("op", "layer_norm", [4, T, C], [input, w, bias], { group });
    };
    const linear = (name: string, input: number, inner: number, group: number) => {
      const own = b.group("module", `h.${n}.${name}`, "Linear", group);
      const w = b.node("parameter", "", [inner, C], [], { name: `h.${n}.${name}.weight` });
      const bias = b.node("parameter", "", [inner], [], { name: `h.${n}.${name}.bias` });
      return b.node("op", "linear", [4, T, inner], [input, w, bias], { group: own });
    };
    const attn = b.group("module", `h.${n}.attn`, "Attention", block);
    const n1 = norm("ln_1", x);
    const [q, k, v] = ["q", "k", "v"].map((name) => linear(`attn.${name}`, n1, C, attn)) as [number, number, number];
    const kt = b.node("op", "transpose", [4, C, T], [k], { group: attn, note: "view of #9" });
    const scores = b.node("op", "matmul", [4, T, T], [q, kt], { group: attn, name: "scores" });
    const scale = b.node("constant", "", [], [], { name: "8.0" });
    const scaled = b.node("op", "div", [4, T, T], [scores, scale], { group: attn });
    const soft = b.node("op", "softmax", [4, T, T], [scaled], { group: attn, name: "weights" });
    const mixed = b.node("op", "matmul", [4, T, C], [soft, v], { group: attn });
    const out = linear("attn.proj", mixed, C, attn);
    x = b.node("op", "add", [4, T, C], [x, out], { group: block, name: "x" });
    const mlpGroup = b.group("module", `h.${n}.mlp`, "MLP", block);
    const hidden = linear("mlp.up", norm("ln_2", x), 4 * C, mlpGroup);
    const gelu = b.node("op", "gelu", [4, T, 4 * C], [hidden], { group: mlpGroup });
    x = b.node("op", "add", [4, T, C], [x, linear("mlp.down", gelu, C, mlpGroup)], { group: block, name: "x" });
  }
  const head = b.group("module", "head", "Linear", gpt);
  const t = b.node("op", "transpose", [C, 65], [wte], { group: head });
  const logits = b.node("op", "matmul", [4, T, 65], [x, t], { group: head, name: "logits" });
  b.root = b.node("op", "cross_entropy", [], [logits, b.node("input", "", [4, T], [], { name: "targets", dtype: "int64" })], {
    name: "loss",
  });
  return b;
}

/** (a * b + c) squared, and an op that failed: what `%%watch` shows after a mistake. */
export function mistake(): Builder {
  const b = new Builder("In [4]");
  const s = b.site(3, "out = h @ w2");
  const a = b.node("leaf", "", [2], [], { name: "a" });
  const c = b.node("leaf", "", [2], [], { name: "<script>alert(1)</script>" });
  const p = b.node("op", "mul", [2], [a, c], { name: "p", site: s });
  const h = b.node("op", "tanh", [2], [p], { name: "h", site: s });
  const w = b.node("parameter", "", [3, 4], [], { name: "w2" });
  b.root = b.node("op", "matmul", [], [h, w], { site: s, dtype: "", note: "matmul: the inner sizes must agree; a is (2,), b is (3, 4)" });
  return b;
}
