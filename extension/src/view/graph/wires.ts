// Turns a route into a wire of the scene: its path, arrow heads, label position and bounds.

import type { Route } from "./route";

export interface Wire {
  key: string;
  source: number; // node whose result flows
  consumers: number[]; // nodes that take it, at the end of this wire
  readonly path: string;
  readonly arrow: string; // "" if it continues in another wire
  readonly tail: string; // head of the gradient's arrow, at the box that made the result; "" if in another wire
  back: boolean;
  label: [number, number] | null; // position of a label: where the wire leaves the box that made the result
  room: number; // for the label, before the next box
  bounds: [number, number, number, number];
}

type Point = (main: number, cross: number) => [number, number];

export function wireOf(
  key: string,
  route: Route,
  at: Point,
  source: number,
  consumers: number[],
  ends: boolean,
  back: boolean,
  made: boolean,
  down: boolean,
): Wire {
  const bounds: [number, number, number, number] = [Infinity, Infinity, -Infinity, -Infinity];
  const reach = (main: number, cross: number) => {
    const [x, y] = at(main, cross);
    if (x < bounds[0]) bounds[0] = x;
    if (y < bounds[1]) bounds[1] = y;
    if (x > bounds[2]) bounds[2] = x;
    if (y > bounds[3]) bounds[3] = y;
  };
  reach(...route.start);
  let tip = route.start;
  for (const segment of route.segments) {
    for (let n = 1; n < segment.length; n += 2) reach(segment[n] as number, segment[n + 1] as number);
    tip = segment.slice(-2) as [number, number];
  }
  const [lx, ly] = at(...route.start);
  const label: [number, number] | null = made ? (down ? [round(lx + 6), round(ly + 13)] : [round(lx + 4), round(ly - 5)]) : null;
  const room = down ? Infinity : (route.segments[0]?.at(-2) as number) - route.start[0] - 4;
  // Built on first access: most of thousands of wires are never near the window, and building these strings is the main cost.
  let path: string | undefined;
  return {
    ...{ key, source, consumers, back, label, room, bounds },
    get path() {
      return (path ??= pathText(route, at));
    },
    get arrow() {
      return ends ? headText(at(...tip), down, 7) : "";
    },
    get tail() {
      return made ? headText(at(...route.start), down, -11) : "";
    },
  };
}

/** An arrow head with its tip at a point, in the direction of the data; a negative length reverses it. */
function headText(tip: readonly [number, number], down: boolean, length: number): string {
  const [x, y] = tip.map(round) as [number, number];
  const half = Math.abs(length) / 2 + 0.5;
  return down ? `M${x - half} ${y - length}L${x} ${y}L${x + half} ${y - length}Z` : `M${x - length} ${y - half}L${x} ${y}L${x - length} ${y + half}Z`;
}

function pathText({ start, segments }: Route, at: Point): string {
  const show = (main: number, cross: number) => at(main, cross).map(round).join(" ");
  const texts = segments.map((segment) =>
    segment[0] === "L"
      ? `L${show(segment[1], segment[2])}`
      : `C${show(segment[1], segment[2])} ${show(segment[3], segment[4])} ${show(segment[5], segment[6])}`,
  );
  return `M${show(...start)}${texts.join("")}`;
}

function round(value: number): number {
  return Math.round(value * 10) / 10;
}
