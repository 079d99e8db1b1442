// The free space between two layers: smooth curves where few wires cross, else one straight track across per result, ordered for few
// crossings.

import { inversions } from "./order";

/** One result within a channel: it comes from above at `from` and continues below at each of `to`. */
export interface Bend {
  key: string;
  from: number;
  to: number[];
}

export interface Channel {
  tracks: ReadonlyMap<string, number>; // by the bend's key; 0 is nearest to the source. Empty: curves
  count: number;
}

export const TRACK = 9; // distance between tracks
const FEW = 6; // crossings of curves that are still easy to follow
const LONG = 420; // a curve that spans this much lies nearly flat,
const LONGS = 3; // and this many of them look like one

export function channelOf(bends: readonly Bend[]): Channel {
  const lines = bends.flatMap(({ from, to }) => to.map((end) => [from, end] as const));
  const crossed = inversions(lines);
  const long = lines.filter(([from, to]) => Math.abs(to - from) > LONG).length;
  if (crossed <= FEW && long < LONGS) return { tracks: new Map(), count: 0 };
  const reaches = bends.filter(({ from, to }) => to.some((end) => Math.abs(end - from) > 0.5)).map(reachOf);
  const order = ordered(reaches);
  // Results that do not overlap share a track: each takes the first one after all those it overlaps with.
  const tracks = new Map<string, number>();
  const done: Reach[] = [];
  let count = 0;
  for (const reach of order) {
    const meets = done.filter((other) => other.low < reach.high + 12 && reach.low < other.high + 12);
    const track = meets.reduce((most, other) => Math.max(most, tracks.get(other.key)! + 1), 0);
    tracks.set(reach.key, track);
    count = Math.max(count, track + 1);
    done.push(reach);
  }
  return { tracks, count };
}

interface Reach extends Bend {
  low: number;
  high: number;
}

function reachOf(bend: Bend): Reach {
  return { ...bend, low: Math.min(bend.from, ...bend.to), high: Math.max(bend.from, ...bend.to) };
}

/** The number of lines that cross when `a` runs on a track before `b`. */
function cost(a: Reach, b: Reach): number {
  let count = b.from > a.low && b.from < a.high ? 1 : 0;
  for (const end of a.to) if (end > b.low && end < b.high) count++;
  return count;
}

/** An order of tracks with few crossings: a good start, then neighbors are swapped while that helps. */
function ordered(reaches: readonly Reach[]): Reach[] {
  // Results that go right start best from the right, those that go left from the left.
  const middle = ({ to }: Reach) => to.reduce((sum, end) => sum + end, 0) / to.length;
  const right = reaches.filter((one) => middle(one) >= one.from).sort((a, b) => b.from - a.from);
  const left = reaches.filter((one) => middle(one) < one.from).sort((a, b) => a.from - b.from);
  const order = [...right, ...left];
  if (order.length > 400) return order;
  for (let pass = 0, better = true; better && pass < order.length; pass++) {
    better = false;
    for (let i = 0; i + 1 < order.length; i++) {
      const [a, b] = [order[i]!, order[i + 1]!];
      if (cost(b, a) >= cost(a, b)) continue;
      [order[i], order[i + 1]] = [b, a];
      better = true;
    }
  }
  return order;
}
