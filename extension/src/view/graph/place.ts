// Second half of the layout of one group: coordinates. "Main" runs along the data flow, "cross" across it.

import { coordinates } from "./cross";
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
  lanes: ReadonlyMap<string, LaneAt>; // by `laneKey`
  entry: ReadonlyMap<number, number>; // net -> position on the group's border
  exit: ReadonlyMap<number, number>;
}

/** The path of a lane: a cross coordinate for each layer from `first` on. */
export interface LaneAt {
  first: number;
  cross: number[];
}

export interface Band {
  start: number;
  size: number;
  boxes: number[];
}

const GAP_CROSS = 28;
export const GAP_MAIN = 32;

export const BESIDE = 16; // between a lane and a box
const LANES = 12; // between two lanes
const PORTS = 16; // between two of the group's ports

/** Places everything across the flow. Layers are stacked along the flow later, when the room for the wires between them is known. */
export function placeBoxes(sizes: readonly Size[], ports: readonly (Ports | null)[], ordered: Ordered): Placed {
  const { layer, layers, rows, spans, lanes } = ordered;
  const boxes = sizes.length;
  const inRow = new Set([...rows[0]!, ...rows.at(-1)!]);
  const half = (vertex: number) => (vertex < boxes ? sizes[vertex]!.cross / 2 : 0);
  const gap = (a: number, b: number) => (inRow.has(a) ? PORTS : a < boxes ? (b < boxes ? GAP_CROSS : BESIDE) : b < boxes ? BESIDE : LANES);
  // Two open groups are aligned by their centers rather than their ports, since a row of iterations would otherwise drift to one side.
  const whole = (vertex: number, other: number) => vertex < boxes && ports[vertex] && other < boxes && ports[other];
  const leaves = (vertex: number, net: number) => (vertex < boxes ? exitOffset(sizes, ports, vertex, net) - half(vertex) : 0);
  const enters = (vertex: number, net: number) => (vertex < boxes ? entryOffset(sizes, ports, vertex, net) - half(vertex) : 0);
  const x = coordinates({
    rows,
    spans,
    shift: spans.map(({ from, to, net }) => (whole(from, to) ? 0 : leaves(from, net) - enters(to, net))),
    weight: spans.map(({ from, to }) => (from >= boxes && to >= boxes ? 8 : from >= boxes || to >= boxes ? 2 : 1)),
    apart: (a, b) => half(a) + half(b) + gap(a, b),
    isLane: (vertex) => vertex >= boxes && !inRow.has(vertex),
    count: boxes + lanes.size + [...lanes.values()].reduce((sum, lane) => sum + lane.vertices.length - 1, 0) + inRow.size,
  });
  const cross = Float64Array.from(sizes, (size, box) => Math.round(x[box]! - size.cross / 2));
  const bands = layers.map((row): Band => ({ start: 0, size: row.reduce((most, box) => Math.max(most, sizes[box]!.main), 0), boxes: row }));
  const found = new Map<string, LaneAt>();
  for (const [key, lane] of lanes) found.set(key, { first: lane.first, cross: lane.vertices.map((vertex) => x[vertex]!) });
  const at = (vertices: ReadonlyMap<number, number>) => new Map([...vertices].map(([net, vertex]) => [net, x[vertex]!]));
  return { main: new Float64Array(boxes), cross, layer, layers: bands, lanes: found, entry: at(ordered.entry), exit: at(ordered.exit) };
}

export function exitOffset(sizes: readonly Size[], ports: readonly (Ports | null)[], box: number, net: number): number {
  return ports[box]?.exit.get(net) ?? sizes[box]!.cross / 2;
}

export function entryOffset(sizes: readonly Size[], ports: readonly (Ports | null)[], box: number, net: number): number {
  return ports[box]?.entry.get(net) ?? sizes[box]!.cross / 2;
}

/** Places new boxes around those of an earlier layout, which do not move; `was` is a box's earlier index, or -1. */
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
  const final = layers.at(-1); // open groups in it may have grown
  for (const box of final?.boxes ?? []) final!.size = Math.max(final!.size, main[box]! + sizes[box]!.main - final!.start);
  const into: Link[][] = sizes.map(() => []);
  const out: Link[][] = sizes.map(() => []);
  for (const link of links) {
    if (link.to >= 0) into[link.to]!.push(link);
    if (link.from >= 0) out[link.from]!.push(link);
  }
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
  return { main, cross, layer, layers, lanes: new Map(), entry: new Map(), exit: new Map() };
}

/** The number nearest to `wish`, at least `floor`, outside the open intervals; `lean` makes one direction seem nearer. */
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
