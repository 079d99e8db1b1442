// Second half of the layout of one group: coordinates. "Main" runs with the data flow, "cross" across it.

import type { Link, Ordered } from "./order";

export interface Size {
  main: number;
  cross: number;
}

/** Where a net leaves or enters a box, as an offset from the box's cross start; only open groups have fixed ports. */
export interface Ports {
  entry: ReadonlyMap<number, number>;
  exit: ReadonlyMap<number, number>;
}

export interface Placed {
  main: Float64Array; // start of each box
  cross: Float64Array;
  layer: Int32Array;
  layers: Band[];
}

export interface Band {
  start: number;
  size: number;
  boxes: number[];
}

export const GAP_CROSS = 28;
export const GAP_MAIN = 32;

export function placeBoxes(sizes: readonly Size[], ports: readonly (Ports | null)[], links: readonly Link[], ordered: Ordered): Placed {
  const { layers } = ordered;
  const layer = new Int32Array(sizes.length);
  layers.forEach((row, at) => row.forEach((box) => (layer[box] = at)));
  const cross = crossPositions(sizes, ports, links, layers, layer, ordered.back);
  const main = new Float64Array(sizes.length);
  const bands: Band[] = [];
  let start = 0;
  layers.forEach((row, at) => {
    const size = Math.max(...row.map((box) => sizes[box]!.main));
    for (const box of row) main[box] = start + (size - sizes[box]!.main) / 2;
    bands.push({ start, size, boxes: row });
    start += size + gapAfter(at, row, layers[at + 1], sizes, cross, links, layer);
  });
  return { main, cross, layer, layers: bands };
}

/** Layers whose links run far across get more room, so that the curves stay readable. */
function gapAfter(
  at: number,
  row: readonly number[],
  next: readonly number[] | undefined,
  sizes: readonly Size[],
  cross: Float64Array,
  links: readonly Link[],
  layer: Int32Array,
): number {
  if (!next || (row.length === 1 && next.length === 1)) return GAP_MAIN;
  let reach = 0;
  for (const box of next) {
    for (const link of linksOf(links, sizes.length).into[box]!) {
      if (link.from < 0 || layer[link.from] !== at) continue;
      const run = cross[box]! + sizes[box]!.cross / 2 - cross[link.from]! - sizes[link.from]!.cross / 2;
      reach = Math.max(reach, Math.abs(run));
    }
  }
  return GAP_MAIN + Math.round(Math.min(44, Math.max(0, reach - 120) * 0.12));
}

const indexed = new WeakMap<readonly Link[], { into: Link[][]; out: Link[][] }>();

export function linksOf(links: readonly Link[], count: number): { into: Link[][]; out: Link[][] } {
  let found = indexed.get(links);
  if (!found) {
    const into: Link[][] = Array.from({ length: count }, () => []);
    const out: Link[][] = Array.from({ length: count }, () => []);
    for (const link of links) {
      if (link.to >= 0) into[link.to]!.push(link);
      if (link.from >= 0) out[link.from]!.push(link);
    }
    indexed.set(links, (found = { into, out }));
  }
  return found;
}

export function exitOffset(sizes: readonly Size[], ports: readonly (Ports | null)[], box: number, net: number): number {
  return ports[box]?.exit.get(net) ?? sizes[box]!.cross / 2;
}

export function entryOffset(sizes: readonly Size[], ports: readonly (Ports | null)[], box: number, net: number): number {
  return ports[box]?.entry.get(net) ?? sizes[box]!.cross / 2;
}

/** Each box wants to be straight after its nearest parents, then before its nearest children, then after its parents again. */
function crossPositions(
  sizes: readonly Size[],
  ports: readonly (Ports | null)[],
  links: readonly Link[],
  layers: readonly number[][],
  layer: Int32Array,
  back: readonly boolean[],
): Float64Array {
  const cross = new Float64Array(sizes.length);
  const forward = links.filter((link, row) => !back[row] && link.from >= 0 && link.to >= 0 && layer[link.from]! < layer[link.to]!);
  const { into, out } = linksOf(forward, sizes.length);
  for (const row of layers) {
    let at = 0;
    for (const box of row) {
      cross[box] = at;
      at += sizes[box]!.cross + GAP_CROSS;
    }
  }
  const start = (box: number, own: readonly Link[], toParents: boolean): number | null => {
    const other = (link: Link) => (toParents ? link.from : link.to);
    const levels = own.map((link) => layer[other(link)]!);
    const nearest = toParents ? Math.max(...levels) : Math.min(...levels);
    const wishes = own
      .filter((link) => layer[other(link)] === nearest)
      .map((link) => {
        const leave = cross[link.from]! + exitOffset(sizes, ports, link.from, link.net);
        const enter = cross[link.to]! + entryOffset(sizes, ports, link.to, link.net);
        return cross[box]! + (toParents ? leave - enter : enter - leave);
      })
      .sort((a, b) => a - b);
    if (!wishes.length) return null;
    return (wishes[(wishes.length - 1) >> 1]! + wishes[wishes.length >> 1]!) / 2;
  };
  const sweep = (rows: readonly number[][], own: Link[][], toParents: boolean) => {
    for (const row of rows) {
      const wish = row.map((box) => start(box, own[box]!, toParents));
      compact(row, sizes, cross, wish);
    }
  };
  const upward = [...layers].reverse();
  sweep(layers, into, true);
  sweep(upward, out, false);
  sweep(layers, into, true);
  sweep(upward, out, false);
  return cross;
}

/** Moves a layer's boxes to where they wish, least squares, without overlap and in order: pool adjacent violators. */
function compact(row: readonly number[], sizes: readonly Size[], cross: Float64Array, wish: readonly (number | null)[]): void {
  const blocks: { sum: number; weight: number; boxes: number }[] = [];
  let offset = 0;
  const offsets: number[] = [];
  row.forEach((box, at) => {
    offsets.push(offset);
    const wanted = wish[at] ?? null;
    const weight = wanted === null ? 0.01 : 1;
    let block = { sum: ((wanted ?? cross[box]!) - offset) * weight, weight, boxes: 1 };
    offset += sizes[box]!.cross + GAP_CROSS;
    for (let last = blocks.at(-1); last && last.sum / last.weight > block.sum / block.weight; last = blocks.at(-1)) {
      block = { sum: block.sum + last.sum, weight: block.weight + last.weight, boxes: block.boxes + last.boxes };
      blocks.pop();
    }
    blocks.push(block);
  });
  let at = 0;
  for (const block of blocks) {
    for (let n = 0; n < block.boxes; n++, at++) cross[row[at]!] = Math.round(block.sum / block.weight + offsets[at]!);
  }
}

/** Places new boxes around those of an earlier layout, which stay exactly where they are; `was` is a box's earlier index, or -1. */
export function placeMore(
  kept: Placed,
  was: readonly number[],
  sizes: readonly Size[],
  ports: readonly (Ports | null)[],
  links: readonly Link[],
  floor: number,
): Placed {
  const main = Float64Array.from(was, (old) => (old < 0 ? 0 : kept.main[old]!));
  const cross = Float64Array.from(was, (old) => (old < 0 ? 0 : kept.cross[old]!));
  const layer = Int32Array.from(was, (old) => (old < 0 ? 0 : kept.layer[old]!));
  const layers: Band[] = kept.layers.map(({ start, size }) => ({ start, size, boxes: [] }));
  const there = was.map((old) => old >= 0);
  there.forEach((known, box) => known && layers[layer[box]!]!.boxes.push(box));
  const { into, out } = linksOf(links, sizes.length);
  for (let box = 0; box < sizes.length; box++) {
    if (there[box]) continue;
    const above = into[box]!.filter((link) => link.from >= 0 && there[link.from]);
    const below = out[box]!.filter((link) => link.to >= 0 && there[link.to]).map((link) => layer[link.to]!);
    let at = above.length
      ? 1 + Math.max(...above.map((link) => layer[link.from]!))
      : below.length
        ? Math.max(0, Math.min(...below) - 1)
        : 0;
    while (at < layers.length && layers[at]!.size < sizes[box]!.main) at++;
    if (at >= layers.length) {
      at = layers.length;
      const last = layers.at(-1);
      layers.push({ start: last ? last.start + last.size + GAP_MAIN : 0, size: sizes[box]!.main, boxes: [] });
    }
    const wishes = above
      .map((link) => cross[link.from]! + exitOffset(sizes, ports, link.from, link.net) - entryOffset(sizes, ports, box, link.net))
      .sort((a, b) => a - b);
    const wish = wishes.length ? wishes[wishes.length >> 1]! : floor;
    layer[box] = at;
    main[box] = layers[at]!.start + (layers[at]!.size - sizes[box]!.main) / 2;
    const taken = layers[at]!.boxes.map((b): [number, number] => [
      cross[b]! - GAP_CROSS - sizes[box]!.cross,
      cross[b]! + sizes[b]!.cross + GAP_CROSS,
    ]);
    cross[box] = nearestFree(Math.max(floor, wish), taken, floor);
    layers[at]!.boxes.push(box);
    there[box] = true;
  }
  return { main, cross, layer, layers };
}

/** The number nearest to `wish`, at least `floor`, in none of the open intervals; `lean` makes one way aside look nearer. */
export function nearestFree(wish: number, taken: readonly (readonly [number, number])[], floor = -Infinity, lean = 0): number {
  const merged: [number, number][] = [];
  for (const [low, high] of [...taken].sort((a, b) => a[0] - b[0])) {
    const last = merged.at(-1);
    if (last && low < last[1]) last[1] = Math.max(last[1], high);
    else merged.push([low, high]);
  }
  const hit = merged.find(([low, high]) => low < wish && wish < high);
  if (!hit) return wish;
  return hit[0] >= floor && wish + lean - hit[0] <= hit[1] - wish - lean ? hit[0] : hit[1];
}
