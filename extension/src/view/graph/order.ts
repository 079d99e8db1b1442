// First half of the layout of one group: breaks cycles, assigns layers, gives lanes to links that skip layers, and orders each layer.

export interface Link {
  from: number; // box index; ENTRY for the group's own entry
  to: number; // box index; EXIT for the group's own exit
  net: number; // which result flows: links of one net share a lane
}

export const ENTRY = -1;
export const EXIT = -2;

/** A piece of a link between two neighboring rows. */
export interface Span {
  from: number; // vertices
  to: number;
  net: number;
}

export interface Lane {
  first: number; // the first layer it passes
  vertices: number[]; // one for each layer
}

/** Vertices are the boxes, followed by everything else that takes room in a row: lanes, and the group's ports. */
export interface Ordered {
  layer: Int32Array; // of each box
  layers: number[][]; // boxes, in order across
  rows: number[][]; // vertices: row 0 holds the ports of entry, row l + 1 layer l, the last row the ports of exit
  spans: Span[];
  lanes: Map<string, Lane>;
  entry: Map<number, number>; // net -> vertex
  exit: Map<number, number>;
  back: boolean[]; // for each link: whether it closes a cycle
}

/** Where along a box, from 0 to 1, a net leaves or enters it. */
export type Share = (box: number, net: number, leaves: boolean) => number;

/** The key of the lane that a link uses; links with the same key share it. */
export function laneKey(link: Link, row: number, back: boolean): string {
  return back ? `b${row}` : `${link.from} ${link.net}`;
}

/** The rows of `links` that share a lane, by the lane's key. */
export function byLane(links: readonly Link[], back: readonly boolean[]): Map<string, number[]> {
  const found = new Map<string, number[]>();
  links.forEach((link, row) => {
    const key = laneKey(link, row, back[row]!);
    const rows = found.get(key);
    if (rows) rows.push(row);
    else found.set(key, [row]);
  });
  return found;
}

/** Assigns layers to `count` boxes, numbered in order of creation. Without `share`, nets meet boxes at their middle. */
export function orderBoxes(count: number, links: readonly Link[], share?: Share): Ordered {
  const back = cycles(count, links);
  const parents: number[][] = Array.from({ length: count }, () => []);
  const children: number[][] = Array.from({ length: count }, () => []);
  links.forEach((link, row) => {
    if (link.from < 0 || link.to < 0 || back[row] || link.from === link.to) return;
    parents[link.to]!.push(link.from);
    children[link.from]!.push(link.to);
  });
  const entered = new Set(links.filter((link) => link.from === ENTRY).map((link) => link.to));
  const layer = assignLayers(parents, children, entered);
  const mesh = meshOf(layer, links, back);
  const rows = untangled(mesh.rows, mesh.spans, count, share ?? (() => 0.5));
  if (!share && leansLeft(rows)) for (const row of rows) row.reverse();
  const layers = rows.slice(1, -1).map((row) => row.filter((vertex) => vertex < count));
  return { ...mesh, layer, rows, layers, back };
}

/** Marks the links that close a cycle, by iterative depth-first search in order of creation. */
function cycles(count: number, links: readonly Link[]): boolean[] {
  const back: boolean[] = new Array<boolean>(links.length).fill(false);
  const out: number[][] = Array.from({ length: count }, () => []);
  links.forEach((link, row) => {
    if (link.from >= 0 && link.to >= 0) out[link.from]!.push(row);
  });
  const state = new Uint8Array(count); // 0 new, 1 on the path, 2 done
  for (let start = 0; start < count; start++) {
    if (state[start]) continue;
    const path = [start];
    const next = [0];
    state[start] = 1;
    while (path.length) {
      const top = path.length - 1;
      const row = out[path[top]!]![next[top]!++];
      if (row === undefined) {
        state[path.pop()!] = 2;
        next.pop();
        continue;
      }
      const to = links[row]!.to;
      if (state[to] === 1) back[row] = true;
      else if (state[to] === 0) {
        state[to] = 1;
        path.push(to);
        next.push(0);
      }
    }
  }
  return back;
}

/**
 * Layer = 1 + the deepest parent's. A box fed only by sources that feed nothing else is placed right before its first consumer. No layer is
 * empty.
 */
function assignLayers(parents: number[][], children: number[][], entered: ReadonlySet<number>): Int32Array {
  const count = parents.length;
  const layer = new Int32Array(count);
  const missing = parents.map((list) => list.length);
  const ready: number[] = [];
  missing.forEach((n, box) => n === 0 && ready.push(box));
  for (let at = 0; at < ready.length; at++) {
    const box = ready[at]!;
    for (const child of children[box]!) {
      layer[child] = Math.max(layer[child]!, layer[box]! + 1);
      if (--missing[child]! === 0) ready.push(child);
    }
  }
  const loose = new Uint8Array(count); // fed by sources that feed nothing else
  const only = (box: number, child: number) => children[box]!.every((one) => one === child);
  for (const box of ready) loose[box] = Number(!entered.has(box) && parents[box]!.every((parent) => loose[parent] && only(parent, box)));
  for (let at = ready.length - 1; at >= 0; at--) {
    const box = ready[at]!;
    if (!children[box]!.length || !loose[box]) continue;
    layer[box] = children[box]!.reduce((least, child) => Math.min(least, layer[child]!), Infinity) - 1;
  }
  const used = [...new Set(layer)].sort((a, b) => a - b);
  const dense = new Map(used.map((old, now) => [old, now]));
  return layer.map((old) => dense.get(old)!);
}

/** The rows in order of creation, with lanes for the links that pass them. */
function meshOf(layer: Int32Array, links: readonly Link[], back: readonly boolean[]): Pick<Ordered, "rows" | "spans" | "lanes" | "entry" | "exit"> {
  const depth = layer.reduce((most, at) => Math.max(most, at + 1), 0);
  const rows: number[][] = Array.from({ length: depth + 2 }, () => []);
  layer.forEach((at, box) => rows[at + 1]!.push(box));
  let vertices = layer.length;
  const vertex = (row: number) => (rows[row]!.push(vertices), vertices++);
  const spans: Span[] = [];
  const lanes = new Map<string, Lane>();
  const [entry, exit] = [new Map<number, number>(), new Map<number, number>()];
  const port = (ports: Map<number, number>, net: number, row: number) => {
    if (!ports.has(net)) ports.set(net, vertex(row));
    return ports.get(net)!;
  };
  const rowOf = (link: Link) => (link.to === EXIT ? depth + 1 : layer[link.to]! + 1);
  for (const [key, rowsOf] of byLane(links, back)) {
    const own = rowsOf.map((row) => links[row]!);
    const { from, net } = own[0]!;
    const isBack = key.startsWith("b");
    const start = from === ENTRY ? port(entry, net, 0) : from;
    const first = isBack ? rowOf(own[0]!) : from === ENTRY ? 1 : layer[from]! + 2;
    const last = isBack ? layer[from]! + 1 : own.reduce((most, link) => Math.max(most, rowOf(link) - 1), 0);
    const lane: number[] = [];
    for (let row = first; row <= last; row++) {
      const next = vertex(row);
      const before = row === first ? start : lane.at(-1)!;
      if (row > first || !isBack) spans.push({ from: before, to: next, net });
      lane.push(next);
    }
    if (lane.length) lanes.set(key, { first: first - 1, vertices: lane });
    if (isBack) continue;
    for (const link of own) {
      const to = link.to === EXIT ? port(exit, net, depth + 1) : link.to;
      spans.push({ from: lane[rowOf(link) - 1 - first] ?? start, to, net });
    }
  }
  return { rows, spans, lanes, entry, exit };
}

// -- crossings -----------------------------------------------------------------------------------------------------------------

/** Whether earlier boxes are right of later ones more often than left: the mirror image has the same crossings and reads better. */
function leansLeft(rows: readonly number[][]): boolean {
  let lean = 0;
  for (const row of rows) for (let at = 1; at < row.length; at++) lean += row[at]! > row[at - 1]! ? 1 : -1;
  return lean < 0;
}

interface End {
  other: number; // vertex in the neighboring row
  share: number; // position on the other vertex
  own: number; // position on this one
}

/** Orders each row: repeated sweeps by the neighbours' medians, then pairwise swaps; keeps the order with the fewest crossings seen. */
function untangled(start: readonly number[][], spans: readonly Span[], boxes: number, share: Share): number[][] {
  const count = start.reduce((sum, row) => sum + row.length, 0);
  const above: End[][] = Array.from({ length: count }, () => []);
  const below: End[][] = Array.from({ length: count }, () => []);
  for (const { from, to, net } of spans) {
    const [leave, arrive] = [from < boxes ? share(from, net, true) : 0.5, to < boxes ? share(to, net, false) : 0.5];
    below[from]!.push({ other: to, share: arrive, own: leave });
    above[to]!.push({ other: from, share: leave, own: arrive });
  }
  const place = new Float64Array(count);
  const settle = (row: readonly number[]) => row.forEach((vertex, at) => (place[vertex] = at));
  const at = (end: End) => place[end.other]! + end.share;
  const sweeps = count <= 400 ? 24 : count <= 2500 ? 12 : count <= 10_000 ? 4 : 2;
  let best: number[][] = start.map((row) => [...row]);
  let least = Infinity;
  const look = (rows: readonly number[][]): boolean => {
    const now = crossingsOf(rows, below, place);
    if (now >= least) return false;
    least = now;
    best = rows.map((row) => [...row]);
    return true;
  };
  for (const first of [0, 1]) {
    const rows = start.map((row) => [...row]);
    rows.forEach(settle);
    if (first === 0) look(rows);
    let idle = 0;
    for (let sweep = 0; sweep < sweeps && least > 0 && idle < 5; sweep++) {
      const down = (sweep + first) % 2 === 0;
      const near = down ? above : below;
      for (let n = 1; n < rows.length; n++) {
        const row = rows[down ? n : rows.length - 1 - n]!;
        if (row.length < 2) continue;
        byMedian(row, (vertex) => median(near[vertex]!.map(at)), sweep % 4 > 1);
        settle(row);
      }
      if (count <= 10_000) swapPairs(rows, above, below, place);
      idle = look(rows) ? 0 : idle + 1;
    }
  }
  return best;
}

/** Sorts a row by medians; vertices without one keep their place. `late` puts the later of two equals first. */
function byMedian(row: number[], of: (vertex: number) => number | null, late: boolean): void {
  const wishes = new Map(row.map((vertex) => [vertex, of(vertex)]));
  const moving = row.filter((vertex) => wishes.get(vertex) !== null);
  const ranks = new Map(row.map((vertex, at) => [vertex, at]));
  moving.sort((a, b) => wishes.get(a)! - wishes.get(b)! || (late ? ranks.get(b)! - ranks.get(a)! : ranks.get(a)! - ranks.get(b)!));
  let next = 0;
  row.forEach((vertex, at) => {
    if (wishes.get(vertex) !== null) row[at] = moving[next++]!;
  });
}

/** The median; for an even count, between the two middle values, nearer to the denser side (Gansner et al. 1993, figure 3-2). */
function median(values: number[]): number | null {
  if (!values.length) return null;
  values.sort((a, b) => a - b);
  const m = values.length >> 1;
  if (values.length % 2) return values[m]!;
  if (values.length === 2) return (values[0]! + values[1]!) / 2;
  const [left, right] = [values[m - 1]! - values[0]!, values.at(-1)! - values[m]!];
  return left + right ? (values[m - 1]! * right + values[m]! * left) / (left + right) : (values[m - 1]! + values[m]!) / 2;
}

/** Swaps neighbors in a row while that reduces crossings. */
function swapPairs(rows: readonly number[][], above: readonly End[][], below: readonly End[][], place: Float64Array): void {
  const saved = (near: readonly End[][], v: number, w: number): number => {
    let gain = 0;
    for (const a of near[v]!) {
      const x = place[a.other]! + a.share;
      for (const b of near[w]!) {
        const y = place[b.other]! + b.share;
        gain += x > y ? 1 : x < y ? -1 : 0;
      }
    }
    return gain;
  };
  for (let pass = 0, better = true; better && pass < 6; pass++) {
    better = false;
    for (const row of rows) {
      for (let i = 0; i + 1 < row.length; i++) {
        const [v, w] = [row[i]!, row[i + 1]!];
        if (saved(above, v, w) + saved(below, v, w) <= 0) continue;
        [row[i], row[i + 1]] = [w, v];
        [place[v], place[w]] = [i + 1, i];
        better = true;
      }
    }
  }
}

/** Crossings between neighboring rows, counted by inversions in a Fenwick tree. */
function crossingsOf(rows: readonly number[][], below: readonly End[][], place: Float64Array): number {
  let total = 0;
  for (const row of rows) {
    const ends: [number, number][] = [];
    for (const vertex of row) for (const end of below[vertex]!) ends.push([place[vertex]! + end.own, place[end.other]! + end.share]);
    total += inversions(ends);
  }
  return total;
}

/** The number of pairs of lines that cross, each line given by its positions on the two sides. */
export function inversions(lines: readonly (readonly [number, number])[]): number {
  if (lines.length < 2) return 0;
  const sorted = [...lines].sort((a, b) => a[0] - b[0] || a[1] - b[1]);
  const goals = [...new Set(lines.map((line) => line[1]))].sort((a, b) => a - b);
  const rank = new Map(goals.map((goal, at) => [goal, at + 1]));
  const tree = new Int32Array(goals.length + 1);
  let total = 0;
  let seen = 0;
  for (let at = 0; at < sorted.length; ) {
    let end = at;
    while (end < sorted.length && sorted[end]![0] === sorted[at]![0]) end++;
    for (let i = at; i < end; i++) {
      let notAfter = 0;
      for (let r = rank.get(sorted[i]![1])!; r > 0; r -= r & -r) notAfter += tree[r]!;
      total += seen - notAfter;
    }
    for (; at < end; at++, seen++) for (let r = rank.get(sorted[at]![1])!; r < tree.length; r += r & -r) tree[r]!++;
  }
  return total;
}
