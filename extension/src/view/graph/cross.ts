// Coordinates across the flow, with straight lanes and boxes aligned with their neighbors: Brandes and Köpf 2001, with ports, then
// medians.

import type { Span } from "./order";

/** The problem to solve; positions are those of centers. */
export interface Field {
  rows: readonly (readonly number[])[];
  spans: readonly Span[];
  shift: readonly number[]; // for each span: the preferred offset of the second end from the first
  weight: readonly number[]; // and its weight
  apart(left: number, right: number): number; // least distance between two neighbors in a row
  isLane(vertex: number): boolean;
  count: number;
}

interface Near {
  other: number;
  shift: number; // the preferred offset of this vertex from the other
  weight: number;
}

export function coordinates(field: Field): Float64Array {
  const above: Near[][] = Array.from({ length: field.count }, () => []);
  const below: Near[][] = Array.from({ length: field.count }, () => []);
  field.spans.forEach(({ from, to }, at) => {
    const [shift, weight] = [field.shift[at]!, field.weight[at]!];
    above[to]!.push({ other: from, shift, weight });
    below[from]!.push({ other: to, shift: -shift, weight });
  });
  const crossing = conflicts(field, above);
  const four = [true, false].flatMap((down) => [true, false].map((left) => aligned(field, down ? above : below, crossing, down, left)));
  const extent = (x: Float64Array): [number, number] => [x.reduce((a, b) => Math.min(a, b), Infinity), x.reduce((a, b) => Math.max(a, b), -Infinity)];
  const extents = four.map(extent);
  const narrow = extents.reduce((a, b) => (b[1] - b[0] < a[1] - a[0] ? b : a));
  four.forEach((x, at) => {
    const by = at % 2 === 0 ? narrow[0] - extents[at]![0] : narrow[1] - extents[at]![1];
    for (let v = 0; v < x.length; v++) x[v]! += by;
  });
  const middle = new Float64Array(field.count);
  for (let v = 0; v < field.count; v++) {
    const own = four.map((x) => x[v]!).sort((a, b) => a - b);
    middle[v] = (own[1]! + own[2]!) / 2;
  }
  const bent = (x: Float64Array) =>
    field.spans.reduce((sum, { from, to }, at) => sum + field.weight[at]! * Math.abs(x[to]! - x[from]! - field.shift[at]!), 0);
  let best: Float64Array = middle;
  let least = bent(middle);
  for (const x of four) {
    const now = bent(x);
    if (now < least * 0.98) [best, least] = [x, now];
  }
  const sweeps = field.count <= 1000 ? 6 : 2;
  for (let sweep = 0; sweep < sweeps; sweep++) {
    const rows = sweep % 2 ? [...field.rows].reverse() : field.rows;
    for (const row of rows) settle(row, best, field, above, below);
  }
  return best;
}

/** Pairs of crossing spans of which one runs between two lanes: that one stays straight, so the other is not aligned. */
function conflicts({ rows, isLane }: Field, above: readonly Near[][]): Set<string> {
  const found = new Set<string>();
  for (let n = 1; n < rows.length; n++) {
    const [upper, lower] = [rows[n - 1]!, rows[n]!];
    const place = new Map(upper.map((vertex, at) => [vertex, at]));
    let low = 0;
    let from = 0;
    lower.forEach((vertex, at) => {
      const inner = isLane(vertex) ? above[vertex]!.find((near) => isLane(near.other)) : undefined;
      if (!inner && at < lower.length - 1) return;
      const high = inner ? place.get(inner.other)! : upper.length - 1;
      for (; from <= at; from++) {
        const v = lower[from]!;
        for (const near of above[v]!) {
          const p = place.get(near.other);
          if (p !== undefined && (p < low || p > high) && !(isLane(v) && isLane(near.other))) found.add(`${near.other} ${v}`);
        }
      }
      low = high;
    });
  }
  return found;
}

/** One of the four extreme alignments: blocks of aligned vertices, packed to one side. */
function aligned(field: Field, near: readonly Near[][], crossing: ReadonlySet<string>, down: boolean, left: boolean): Float64Array {
  const rows = (down ? [...field.rows] : [...field.rows].reverse()).map((row) => (left ? row : [...row].reverse()));
  const sign = left ? 1 : -1;
  const root = Int32Array.from({ length: field.count }, (_, v) => v);
  const next = Int32Array.from(root); // the next vertex in its block
  const offset = new Float64Array(field.count); // from the block's root
  for (let n = 1; n < rows.length; n++) {
    const place = new Map(rows[n - 1]!.map((vertex, at) => [vertex, at]));
    let reached = -1;
    for (const v of rows[n]!) {
      const own = near[v]!.filter(({ other }) => place.has(other)).sort((a, b) => place.get(a.other)! - place.get(b.other)!);
      if (!own.length) continue;
      const middle = (own.length - 1) / 2;
      for (const { other, shift } of own.slice(Math.floor(middle), Math.ceil(middle) + 1)) {
        const at = place.get(other)!;
        if (root[v] !== v || next[other] !== other || at <= reached || crossing.has(down ? `${other} ${v}` : `${v} ${other}`)) continue;
        next[other] = v;
        root[v] = root[other]!;
        offset[v] = offset[other]! + sign * shift;
        reached = at;
      }
    }
  }
  // Places the blocks in order, each as close to its neighbor as allowed; then moves loose blocks towards their neighbors.
  const after = new Map<number, [number, number][]>();
  const waits = new Int32Array(field.count);
  for (const row of rows) {
    for (let i = 1; i < row.length; i++) {
      const [u, v] = [row[i - 1]!, row[i]!];
      const [a, b] = [root[u]!, root[v]!];
      const gap = (left ? field.apart(u, v) : field.apart(v, u)) + offset[u]! - offset[v]!;
      const list = after.get(a);
      if (list) list.push([b, gap]);
      else after.set(a, [[b, gap]]);
      waits[b]!++;
    }
  }
  const order: number[] = [];
  for (let v = 0; v < field.count; v++) if (root[v] === v && !waits[v]) order.push(v);
  const x = new Float64Array(field.count);
  for (let at = 0; at < order.length; at++) {
    const block = order[at]!;
    for (const [b, gap] of after.get(block) ?? []) {
      x[b] = Math.max(x[b]!, x[block]! + gap);
      if (!--waits[b]!) order.push(b);
    }
  }
  for (let at = order.length - 1; at >= 0; at--) {
    const block = order[at]!;
    const room = (after.get(block) ?? []).reduce((least, [b, gap]) => Math.min(least, x[b]! - gap), Infinity);
    if (room < Infinity) x[block] = Math.max(x[block]!, room);
  }
  return Float64Array.from({ length: field.count }, (_, v) => sign * (x[root[v]!]! + offset[v]!));
}

interface Block {
  wishes: [number, number][]; // value and weight, sorted
  at: number;
  vertices: number;
}

/** Moves the vertices of one row to the weighted medians of their neighbours' preferences; order and least distances are kept. */
function settle(row: readonly number[], x: Float64Array, field: Field, above: readonly Near[][], below: readonly Near[][]): void {
  const blocks: Block[] = [];
  const offsets: number[] = [];
  row.forEach((v, i) => {
    offsets.push(i ? offsets[i - 1]! + field.apart(row[i - 1]!, v) : 0);
    const wishes: [number, number][] = [...above[v]!, ...below[v]!].map((near) => [x[near.other]! + near.shift - offsets[i]!, near.weight]);
    wishes.push([x[v]! - offsets[i]!, 0.01]);
    wishes.sort((a, b) => a[0] - b[0]);
    let block: Block = { wishes, at: weightedMedian(wishes, x[v]! - offsets[i]!), vertices: 1 };
    for (let last = blocks.at(-1); last && last.at > block.at; last = blocks.at(-1)) {
      const joined = [...last.wishes, ...block.wishes].sort((a, b) => a[0] - b[0]);
      block = { wishes: joined, at: weightedMedian(joined, (last.at + block.at) / 2), vertices: block.vertices + last.vertices };
      blocks.pop();
    }
    blocks.push(block);
  });
  let i = 0;
  for (const block of blocks) for (let n = 0; n < block.vertices; n++, i++) x[row[i]!] = block.at + offsets[i]!;
}

/** The weighted median; if a whole interval qualifies, the value in it nearest to `prefer`. */
function weightedMedian(wishes: readonly [number, number][], prefer: number): number {
  const half = wishes.reduce((sum, wish) => sum + wish[1], 0) / 2;
  let sum = 0;
  for (let i = 0; i < wishes.length; i++) {
    sum += wishes[i]![1];
    if (Math.abs(sum - half) < 1e-9 && i + 1 < wishes.length) return Math.min(Math.max(prefer, wishes[i]![0]), wishes[i + 1]![0]);
    if (sum > half) return wishes[i]![0];
  }
  return prefer;
}
