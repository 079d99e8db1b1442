// Edge routes within one group: curves in the free channels between layers, and straight lanes past the boxes for long links.

import { channelOf, TRACK, type Bend, type Channel } from "./channel";
import { byLane, ENTRY, EXIT, laneKey, type Link } from "./order";
import { entryOffset, exitOffset, nearestFree, type Placed, type Ports, type Size } from "./place";

/** A path as lines and cubic curves; numbers are pairs of main and cross coordinates. */
export type Segment = ["L", number, number] | ["C", number, number, number, number, number, number];

export interface Route {
  start: [number, number];
  segments: Segment[];
}

/** The part shared by several links of one net: from the box to where the last of them leaves the lane. */
export interface Trunk extends Route {
  links: number[];
}

export interface Routed {
  routes: Route[]; // one per link; starts at the trunk, if it has one
  trunks: Trunk[];
  entry: ReadonlyMap<number, number>; // net -> cross coordinate of the group's port
  exit: ReadonlyMap<number, number>;
  start: number; // main coordinates of the group's borders
  end: number;
  low: number; // least and largest cross coordinate in use
  high: number;
}

interface Lane {
  first: number; // layers passed
  last: number;
  cross: number[]; // in each of them
  links: number[];
}

const CLEAR = 12; // between a lane and a box, and between lanes
const PORT_SPACING = 14;

/** Input of the routing of a group. The layers of a new layout are stacked here, as far apart as their wires need. */
export interface RouteInput {
  sizes: readonly Size[];
  ports: readonly (Ports | null)[];
  links: readonly Link[];
  back: readonly boolean[];
  placed: Placed;
  gap: number; // minimum distance between two layers
  lead: number; // main distance between the border and the first layer
  floor: number; // lanes stay at or above this cross coordinate
  grown: boolean; // boxes keep their places
}

export function routeLinks(input: RouteInput): Routed {
  const { sizes, ports, links, back, placed, gap, lead, floor } = input;
  const { layers, layer, main, cross } = placed;
  const count = layers.length;
  const anyBack = back.some(Boolean);
  const enters = links.some((link) => link.from === ENTRY);
  const leaves = links.some((link) => link.to === EXIT);
  const turn = gap * 0.6; // room that a return lane needs to turn around
  const levelFrom = (link: Link) => (link.from === ENTRY ? -1 : layer[link.from]!);
  const levelTo = (link: Link) => (link.to === EXIT ? count : layer[link.to]!);

  const leaving = exits(sizes, ports, links, cross);
  const centre = (box: number) => cross[box]! + sizes[box]!.cross / 2;
  const target = (link: Link) => cross[link.to]! + entryOffset(sizes, ports, link.to, link.net);

  // Lanes: one for each result that passes a layer, as near as possible to its target.
  const lanes: Lane[] = [];
  const laneOf: (Lane | null)[] = links.map(() => null);
  for (const [key, rows] of byLane(links, back)) {
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
    const from = head.from === ENTRY ? undefined : leaving.get(`${head.from} ${head.net}`);
    const wish = wishes[wishes.length >> 1] ?? from ?? floor;
    const lean = from === undefined || isBack ? 0 : (from - wish) / 4;
    const own = placed.lanes.get(key)?.cross;
    const straight = () => new Array<number>(lastLayer - first + 1).fill(corridor(input, lanes, first, lastLayer, wish, lean));
    const lane = { first, last: lastLayer, cross: own ?? straight(), links: far };
    lanes.push(lane);
    for (const row of far) laneOf[row] = lane;
  }

  const arriving = entries(
    input,
    (row) => laneOf[row]?.cross.at(back[row] ? 0 : levelTo(links[row]!) - 1 - laneOf[row]!.first) ?? (links[row]!.from >= 0 ? centre(links[row]!.from) : target(links[row]!)),
  );
  const entry = spread(
    portWishes(
      links,
      (link) => link.from === ENTRY,
      (row) => laneOf[row]?.cross[0] ?? arriving[row]!,
    ),
    placed.entry,
  );
  const exit = spread(
    portWishes(
      links,
      (link) => link.to === EXIT,
      (row) => laneOf[row]?.cross.at(-1) ?? leaving.get(`${links[row]!.from} ${links[row]!.net}`) ?? 0,
    ),
    placed.exit,
  );

  const inLane = (lane: Lane, at: number) => lane.cross[at - lane.first]!;
  const out = (link: Link) => (link.from === ENTRY ? entry.get(link.net)! : leaving.get(`${link.from} ${link.net}`)!);
  const into = (row: number) => (links[row]!.to === EXIT ? exit.get(links[row]!.net)! : arriving[row]!);
  // Channel c lies before layer c. Bends are keyed by result and start, and list the ends.
  const bends: Map<string, Bend>[] = Array.from({ length: count + 1 }, () => new Map());
  const bend = (channel: number, net: string, from: number, to: number) => {
    const key = `${net} ${from}`;
    const known = bends[channel]!.get(key);
    if (!known) bends[channel]!.set(key, { key, from, to: [to] });
    else if (!known.to.includes(to)) known.to.push(to);
  };
  links.forEach((link, row) => {
    if (back[row]) return;
    const [key, lane, sink] = [laneKey(link, row, false), laneOf[row], levelTo(link)];
    let at = out(link);
    if (lane) {
      for (let level = lane.first; level < sink; level++) {
        bend(level, key, at, inLane(lane, level));
        at = inLane(lane, level);
      }
    }
    bend(sink, key, at, into(row));
  });
  const channels = bends.map((own): Channel => (input.grown ? CURVES : channelOf([...own.values()])));
  const room = channels.map((channel, at) => roomOf([...bends[at]!.values()], channel, gap));
  if (!input.grown) {
    let next = 0;
    layers.forEach((band, at) => {
      band.start = next;
      for (const box of band.boxes) main[box] = next + (band.size - sizes[box]!.main) / 2;
      next += band.size + (room[at + 1] ?? 0);
    });
  }
  const last = layers[count - 1]!;
  const start = layers[0]!.start - Math.max(lead, anyBack ? turn : 0, enters ? Math.max(gap * 0.75, channels[0]!.count ? room[0]! : 0) : 0);
  const end = last.start + last.size + Math.max(16, anyBack ? turn : 0, leaves ? Math.max(gap * 0.75, channels[count]!.count ? room[count]! : 0) : 0);
  const bandStart = (at: number) => (at >= count ? end : layers[at]!.start);
  const bandEnd = (at: number) => (at < 0 ? start : layers[at]!.start + layers[at]!.size);

  let [low, high] = [Infinity, -Infinity];
  const reach = (value: number, margin = 0) => {
    low = Math.min(low, value - margin);
    high = Math.max(high, value + margin);
  };
  sizes.forEach((size, box) => (reach(cross[box]!), reach(cross[box]! + size.cross)));
  for (const lane of lanes) for (const at of lane.cross) reach(at, 4);
  for (const port of [...entry.values(), ...exit.values()]) reach(port, 4);

  /** Passes through channel `at` to another cross coordinate: on the result's track, or in a curve. */
  const pass = (pen: Pen, at: number, net: string, to: number) => {
    const track = channels[at]!.tracks.get(`${net} ${pen.cross}`);
    if (track === undefined) return pen.curve(bandStart(at), to);
    const spare = bandStart(at) - bandEnd(at - 1) - (channels[at]!.count - 1) * TRACK;
    pen.across(bandEnd(at - 1) + spare / 2 + track * TRACK, to);
    pen.line(bandStart(at));
  };
  const leave = (link: Link): Pen => {
    const pen = new Pen(link.from === ENTRY ? start : main[link.from]! + sizes[link.from]!.main, out(link));
    pen.line(bandEnd(levelFrom(link)));
    return pen;
  };
  const follow = (pen: Pen, lane: Lane, net: string, until: number) => {
    for (let at = lane.first; at <= until; at++) {
      pass(pen, at, net, inLane(lane, at));
      pen.line(bandEnd(at));
    }
  };
  const routes = links.map((link, row): Route => {
    const [sink, lane, net] = [levelTo(link), laneOf[row], laneKey(link, row, back[row]!)];
    const branches = lane && lane.links.length > 1;
    const pen = branches ? new Pen(bandEnd(sink - 1), inLane(lane, sink - 1)) : leave(link);
    if (back[row] && lane) {
      for (let at = lane.last; at >= lane.first; at--) {
        if (at === lane.last) pen.turn(inLane(lane, at), turn);
        else pen.curve(bandEnd(at), inLane(lane, at));
        pen.line(bandStart(at));
      }
      pen.turn(into(row), -turn);
    } else {
      if (lane && !branches) follow(pen, lane, net, sink - 1);
      pass(pen, sink, net, into(row));
    }
    pen.line(link.to === EXIT ? end : main[link.to]!);
    return pen.route;
  });
  const trunks = lanes
    .filter((lane) => lane.links.length > 1)
    .map((lane): Trunk => {
      const row = lane.links[0]!;
      const pen = leave(links[row]!);
      follow(pen, lane, laneKey(links[row]!, row, false), lane.last);
      return { ...pen.route, links: lane.links };
    });
  return { routes, trunks, entry, exit, start, end, low, high };
}

const CURVES: Channel = { tracks: new Map(), count: 0 };

/** The distance between two layers: larger for tracks and for curves that run far across, so that they stay readable. */
function roomOf(bends: readonly Bend[], { count }: Channel, gap: number): number {
  if (count) return gap + count * TRACK;
  let reach = 0;
  for (const { from, to } of bends) for (const end of to) reach = Math.max(reach, Math.abs(end - from));
  return gap + Math.round(Math.min(44, Math.max(0, reach - 120) * 0.12));
}

/** Draws one route: lines along the flow, curves and tracks across it within a channel, and turns at its end. */
class Pen {
  readonly route: Route;
  private at: [number, number];

  constructor(main: number, cross: number) {
    this.at = [main, cross];
    this.route = { start: [main, cross], segments: [] };
  }

  get cross(): number {
    return this.at[1];
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

  /** Follows a track at `main` to `cross`, around two corners. */
  across(main: number, cross: number): void {
    const by = cross - this.at[1];
    const corner = Math.min(7, Math.abs(by) / 2, Math.max(1, main - this.at[0]));
    if (Math.abs(by) < 0.01) return;
    const aside = Math.sign(by) * corner;
    this.line(main - corner);
    const before = this.at[1];
    this.route.segments.push(["C", main, before, main, before, main, before + aside], ["L", main, cross - aside]);
    this.route.segments.push(["C", main, cross, main, cross, main + corner, cross]);
    this.at = [main + corner, cross];
  }

  turn(cross: number, by: number): void {
    this.route.segments.push(["C", this.at[0] + by, this.at[1], this.at[0] + by, cross, this.at[0], cross]);
    this.at = [this.at[0], cross];
  }
}

/** The free cross coordinate nearest to `wish` past layers `first` to `last`; `lean` decides the side on which it passes a box. */
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
    for (const at of lane.cross) {
      const low = at - CLEAR;
      taken.set(low, Math.max(taken.get(low) ?? -Infinity, at + CLEAR));
    }
  }
  return nearestFree(wish, [...taken], floor, lean);
}

/** Where each result leaves its box: in the middle, or side by side if a closed group has several results. */
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

/** Keeps ports apart, each as near as possible to its preferred position; ports that are all placed already are unchanged. */
function spread(wishes: [number, number][], placed: ReadonlyMap<number, number>): ReadonlyMap<number, number> {
  if (wishes.every(([net]) => placed.has(net))) return placed;
  const ordered = wishes.sort((a, b) => a[1] - b[1] || a[0] - b[0]);
  const at = ordered.map(([, wish]) => wish);
  for (let i = 1; i < at.length; i++) at[i] = Math.max(at[i]!, at[i - 1]! + PORT_SPACING);
  return new Map(ordered.map(([net], i) => [net, at[i]!]));
}
