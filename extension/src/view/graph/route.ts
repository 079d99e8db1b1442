// Edge routes within one group: curves only in the free channels between layers, long links on straight side lanes past the boxes.

import { ENTRY, EXIT, type Link } from "./order";
import { exitOffset, GAP_MAIN, nearestFree, type Placed, type Ports, type Size } from "./place";

/** A path as lines and cubic curves; numbers are pairs of main and cross coordinates. */
export type Segment = ["L", number, number] | ["C", number, number, number, number, number, number];

export interface Route {
  start: [number, number];
  segments: Segment[];
}

/** The common part of several links of one net: from the box to where the last of them leaves the lane. */
export interface Trunk extends Route {
  links: number[];
}

export interface Routed {
  routes: Route[]; // one per link; from the trunk on, where it has one
  trunks: Trunk[];
  entry: Map<number, number>; // net -> cross of the group's port
  exit: Map<number, number>;
  start: number; // main coordinates of the group's borders
  end: number;
  low: number; // the least and the largest cross coordinate in use
  high: number;
}

interface Lane {
  first: number; // layers passed
  last: number;
  cross: number;
  links: number[];
}

const CLEAR = 12; // between a lane and a box, and between lanes
const PORT_SPACING = 14;

export interface RouteInput {
  sizes: readonly Size[];
  ports: readonly (Ports | null)[];
  links: readonly Link[];
  back: readonly boolean[];
  placed: Placed;
  lead: number; // main room between the border and the first layer
  floor: number; // lanes stay at or above this cross coordinate
}

export function routeLinks(input: RouteInput): Routed {
  const { sizes, ports, links, back, placed, lead, floor } = input;
  const { layers, layer, main, cross } = placed;
  const count = layers.length;
  const last = layers[count - 1]!;
  const anyBack = back.some(Boolean);
  const enters = links.some((link) => link.from === ENTRY);
  const leaves = links.some((link) => link.to === EXIT);
  const channel = GAP_MAIN * 0.75;
  const start = layers[0]!.start - Math.max(lead, enters || anyBack ? channel : 0);
  const end = last.start + last.size + (leaves || anyBack ? channel : 16);
  const levelFrom = (link: Link) => (link.from === ENTRY ? -1 : layer[link.from]!);
  const levelTo = (link: Link) => (link.to === EXIT ? count : layer[link.to]!);
  const bandStart = (at: number) => (at >= count ? end : layers[at]!.start);
  const bandEnd = (at: number) => (at < 0 ? start : layers[at]!.start + layers[at]!.size);

  const leaving = exits(sizes, ports, links, cross);
  const centre = (box: number) => cross[box]! + sizes[box]!.cross / 2;
  const target = (link: Link) => cross[link.to]! + (ports[link.to]?.entry.get(link.net) ?? sizes[link.to]!.cross / 2);

  // Lanes: one for each result that passes a layer, as near as possible to where it is going.
  const lanes: Lane[] = [];
  const laneOf: (Lane | null)[] = links.map(() => null);
  const nets = new Map<string, number[]>();
  links.forEach((link, row) => {
    const key = back[row] ? `b${row}` : `${link.from} ${link.net}`;
    const rows = nets.get(key);
    if (rows) rows.push(row);
    else nets.set(key, [row]);
  });
  for (const rows of nets.values()) {
    const head = links[rows[0]!]!;
    const isBack = back[rows[0]!]!;
    const far = isBack ? rows : rows.filter((row) => levelTo(links[row]!) > levelFrom(head) + 1);
    if (!far.length) continue;
    const first = isBack ? levelTo(head) : levelFrom(head) + 1;
    const lastLayer = isBack ? levelFrom(head) : Math.max(...far.map((row) => levelTo(links[row]!))) - 1;
    const wishes = far
      .filter((row) => links[row]!.to !== EXIT)
      .map((row) => target(links[row]!))
      .sort((a, b) => a - b);
    const own = head.from === ENTRY ? undefined : leaving.get(`${head.from} ${head.net}`);
    const wish = wishes[wishes.length >> 1] ?? own ?? floor;
    const lean = own === undefined || isBack ? 0 : (own - wish) / 4;
    const lane = { first, last: lastLayer, cross: corridor(input, lanes, first, lastLayer, wish, lean), links: far };
    lanes.push(lane);
    for (const row of far) laneOf[row] = lane;
  }

  const arriving = entries(
    input,
    (row) => laneOf[row]?.cross ?? (links[row]!.from >= 0 ? centre(links[row]!.from) : target(links[row]!)),
  );
  const entry = spread(
    portWishes(
      links,
      (link) => link.from === ENTRY,
      (row) => laneOf[row]?.cross ?? arriving[row]!,
    ),
  );
  const exit = spread(
    portWishes(
      links,
      (link) => link.to === EXIT,
      (row) => laneOf[row]?.cross ?? leaving.get(`${links[row]!.from} ${links[row]!.net}`) ?? 0,
    ),
  );

  let [low, high] = [Infinity, -Infinity];
  const reach = (value: number, margin = 0) => {
    low = Math.min(low, value - margin);
    high = Math.max(high, value + margin);
  };
  sizes.forEach((size, box) => (reach(cross[box]!), reach(cross[box]! + size.cross)));
  for (const lane of lanes) reach(lane.cross, 4);
  for (const port of [...entry.values(), ...exit.values()]) reach(port, 4);

  const leave = (link: Link): Pen => {
    const from = link.from === ENTRY ? entry.get(link.net)! : leaving.get(`${link.from} ${link.net}`)!;
    const pen = new Pen(link.from === ENTRY ? start : main[link.from]! + sizes[link.from]!.main, from);
    pen.line(bandEnd(levelFrom(link)));
    return pen;
  };
  const routes = links.map((link, row): Route => {
    const to = link.to === EXIT ? exit.get(link.net)! : arriving[row]!;
    const [sink, lane] = [levelTo(link), laneOf[row]];
    const branches = lane && lane.links.length > 1;
    const pen = branches ? new Pen(bandEnd(sink - 1), lane.cross) : leave(link);
    if (back[row] && lane) {
      pen.turn(lane.cross, channel * 0.8);
      pen.line(bandStart(sink));
      pen.turn(to, -channel * 0.8);
    } else {
      if (lane && !branches) {
        pen.curve(bandStart(lane.first), lane.cross);
        pen.line(bandEnd(sink - 1));
      }
      pen.curve(bandStart(sink), to);
    }
    pen.line(link.to === EXIT ? end : main[link.to]!);
    return pen.route;
  });
  const trunks = lanes
    .filter((lane) => lane.links.length > 1)
    .map((lane): Trunk => {
      const pen = leave(links[lane.links[0]!]!);
      pen.curve(bandStart(lane.first), lane.cross);
      pen.line(bandEnd(lane.last));
      return { ...pen.route, links: lane.links };
    });
  return { routes, trunks, entry, exit, start, end, low, high };
}

/** Draws one route: lines along the flow, curves across it within a channel, turns around at its end. */
class Pen {
  readonly route: Route;
  private at: [number, number];

  constructor(main: number, cross: number) {
    this.at = [main, cross];
    this.route = { start: [main, cross], segments: [] };
  }

  line(main: number): void {
    if (Math.abs(main - this.at[0]) > 0.01) this.route.segments.push(["L", main, this.at[1]]);
    this.at = [main, this.at[1]];
  }

  curve(main: number, cross: number): void {
    if (Math.abs(cross - this.at[1]) < 0.01) return this.line(main);
    const bend = (main - this.at[0]) * 0.5;
    this.route.segments.push(["C", this.at[0] + bend, this.at[1], main - bend, cross, main, cross]);
    this.at = [main, cross];
  }

  turn(cross: number, by: number): void {
    this.route.segments.push(["C", this.at[0] + by, this.at[1], this.at[0] + by, cross, this.at[0], cross]);
    this.at = [this.at[0], cross];
  }
}

/** The free cross coordinate nearest to `wish` past layers `first` to `last`; around a box on the side that `lean` points to. */
function corridor(input: RouteInput, lanes: readonly Lane[], first: number, last: number, wish: number, lean: number): number {
  const { sizes, placed, floor } = input;
  const taken = new Map<number, number>();
  for (let at = first; at <= last; at++) {
    for (const box of placed.layers[at]?.boxes ?? []) {
      const low = placed.cross[box]! - CLEAR;
      taken.set(low, Math.max(taken.get(low) ?? -Infinity, placed.cross[box]! + sizes[box]!.cross + CLEAR));
    }
  }
  for (const lane of lanes) {
    if (lane.last < first || lane.first > last) continue;
    const low = lane.cross - CLEAR;
    taken.set(low, Math.max(taken.get(low) ?? -Infinity, lane.cross + CLEAR));
  }
  return nearestFree(wish, [...taken], floor, lean);
}

/** Where each result leaves its box: in the middle, or side by side where a closed group has several results. */
function exits(
  sizes: readonly Size[],
  ports: readonly (Ports | null)[],
  links: readonly Link[],
  cross: Float64Array,
): Map<string, number> {
  const nets = new Map<number, Map<number, number[]>>();
  for (const link of links) {
    if (link.from < 0) continue;
    const own = nets.get(link.from) ?? new Map<number, number[]>();
    nets.set(link.from, own);
    const goal = link.to >= 0 ? cross[link.to]! + sizes[link.to]!.cross / 2 : Infinity;
    own.set(link.net, [...(own.get(link.net) ?? []), goal]);
  }
  const found = new Map<string, number>();
  for (const [box, own] of nets) {
    const ordered = [...own].sort((a, b) => Math.min(...a[1]) - Math.min(...b[1]) || a[0] - b[0]);
    const step = Math.min(24, sizes[box]!.cross / (ordered.length + 1));
    ordered.forEach(([net], at) => {
      const spreadOffset = sizes[box]!.cross / 2 + (at - (ordered.length - 1) / 2) * step;
      found.set(`${box} ${net}`, cross[box]! + (ports[box] ? exitOffset(sizes, ports, box, net) : spreadOffset));
    });
  }
  return found;
}

/** Where each link enters its box: side by side, in the order in which the links approach. */
function entries(input: RouteInput, approach: (row: number) => number): number[] {
  const { sizes, ports, links, placed } = input;
  const rows = new Map<number, number[]>();
  links.forEach((link, row) => {
    if (link.to < 0) return;
    const own = rows.get(link.to);
    if (own) own.push(row);
    else rows.set(link.to, [row]);
  });
  const found: number[] = new Array<number>(links.length).fill(0);
  for (const [box, own] of rows) {
    const step = Math.min(24, sizes[box]!.cross / (own.length + 1));
    const ordered = own.sort((a, b) => approach(a) - approach(b) || a - b);
    ordered.forEach((row, at) => {
      const fixed = ports[box]?.entry.get(links[row]!.net);
      found[row] = placed.cross[box]! + (fixed ?? sizes[box]!.cross / 2 + (at - (ordered.length - 1) / 2) * step);
    });
  }
  return found;
}

function portWishes(links: readonly Link[], mine: (link: Link) => boolean, wish: (row: number) => number): [number, number][] {
  const wishes = new Map<number, number[]>();
  links.forEach((link, row) => {
    if (mine(link)) wishes.set(link.net, [...(wishes.get(link.net) ?? []), wish(row)]);
  });
  return [...wishes].map(([net, all]) => [net, all.sort((a, b) => a - b)[all.length >> 1]!]);
}

/** Keeps ports apart, each as near as possible to its wish. */
function spread(wishes: [number, number][]): Map<number, number> {
  const ordered = wishes.sort((a, b) => a[1] - b[1] || a[0] - b[0]);
  const at = ordered.map(([, wish]) => wish);
  for (let i = 1; i < at.length; i++) at[i] = Math.max(at[i]!, at[i - 1]! + PORT_SPACING);
  return new Map(ordered.map(([net], i) => [net, at[i]!]));
}
