// First half of the layout of one group: break cycles, put boxes on layers, order each layer. Linear but for two sweeps.

export interface Link {
  from: number; // box index; ENTRY for the group's own entry
  to: number; // box index; EXIT for the group's own exit
  net: number; // which result flows: links of one net share a lane
}

export const ENTRY = -1;
export const EXIT = -2;

export interface Ordered {
  layer: Int32Array;
  layers: number[][]; // box indices, in order across
  back: boolean[]; // for each link: it closes a cycle
}

/** Puts `count` boxes, numbered in order of creation, on layers. */
export function orderBoxes(count: number, links: readonly Link[]): Ordered {
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
  const depth = count ? layer.reduce((a, b) => Math.max(a, b)) + 1 : 0;
  const layers: number[][] = Array.from({ length: depth }, () => []);
  for (let box = 0; box < count; box++) layers[layer[box]!]!.push(box);
  reduceCrossings(layers, layer, parents, children);
  return { layer, layers: layers.filter((row) => row.length > 0), back };
}

/** Marks the links that close a cycle, by an iterative depth-first search in order of creation. */
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

/** Layer = 1 + the deepest parent's; a box without parents sits right before its first consumer, unless something enters it. */
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
  for (let box = 0; box < count; box++) {
    if (parents[box]!.length || !children[box]!.length || entered.has(box)) continue;
    layer[box] = Math.max(0, Math.min(...children[box]!.map((child) => layer[child]!)) - 1);
  }
  return layer;
}

/** At most two barycentre sweeps, kept only where crossings drop. */
function reduceCrossings(layers: number[][], layer: Int32Array, parents: number[][], children: number[][]): void {
  const place = new Float64Array(layer.length);
  const settle = () => layers.forEach((row) => row.forEach((box, at) => (place[box] = (at + 0.5) / row.length)));
  settle();
  let best = crossings(layers, layer, children, place);
  for (let sweep = 0; sweep < 2 && best > 0; sweep++) {
    const saved = layers.map((row) => [...row]);
    const neighbours = sweep === 0 ? parents : children;
    const order = sweep === 0 ? layers : [...layers].reverse();
    for (const row of order) {
      if (row.length < 2) continue;
      const weight = new Map(row.map((box) => [box, mean(neighbours[box]!.map((n) => place[n]!)) ?? place[box]!]));
      row.sort((a, b) => weight.get(a)! - weight.get(b)! || a - b);
      row.forEach((box, at) => (place[box] = (at + 0.5) / row.length));
    }
    const now = crossings(layers, layer, children, place);
    if (now < best) best = now;
    else {
      saved.forEach((row, at) => (layers[at] = row));
      settle();
    }
  }
}

function mean(values: number[]): number | null {
  return values.length ? values.reduce((a, b) => a + b, 0) / values.length : null;
}

/** Crossings between neighbouring layers, counted by inversions in a Fenwick tree. */
export function crossings(layers: number[][], layer: Int32Array, children: number[][], place: Float64Array): number {
  let total = 0;
  for (let at = 0; at + 1 < layers.length; at++) {
    const rank = new Map([...layers[at + 1]!].sort((a, b) => place[a]! - place[b]!).map((box, index) => [box, index]));
    const ends: number[] = [];
    for (const box of [...layers[at]!].sort((a, b) => place[a]! - place[b]!)) {
      const below = children[box]!.filter((child) => layer[child] === at + 1).map((child) => rank.get(child)!);
      ends.push(...below.sort((a, b) => a - b));
    }
    const tree = new Int32Array(rank.size + 1);
    ends.forEach((end, seen) => {
      let notAfter = 0;
      for (let i = end + 1; i > 0; i -= i & -i) notAfter += tree[i]!;
      total += seen - notAfter;
      for (let i = end + 1; i <= rank.size; i += i & -i) tree[i]!++;
    });
  }
  return total;
}
