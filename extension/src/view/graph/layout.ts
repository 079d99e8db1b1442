// Computes the scene, with the position of every box and wire, from a recording and its open groups. Groups are laid out from the inside
// out.

import { groupFace, HEADER, headerWidth, nodeFace, type Face } from "./face";
import { EXIT, orderBoxes, type Link, type Share } from "./order";
import { BESIDE, entryOffset, exitOffset, GAP_MAIN, placeBoxes, placeMore, type Placed, type Ports, type Size } from "./place";
import { quotient, type Room } from "./quotient";
import { routeLinks, type Route, type Trunk } from "./route";
import type { Direction, Recording } from "../store";
import { TOP } from "./tree";
import { wireOf, type Wire } from "./wires";

export interface Box {
  key: string; // "n12" or "g3"
  id: number;
  kind: "op" | "source" | "closed" | "open";
  face: Face;
  parent: number; // group
  depth: number;
  x: number;
  y: number;
  w: number;
  h: number;
}

export interface Scene {
  boxes: Box[]; // parents before children
  wires: Wire[];
  byKey: Map<string, Box>;
  bounds: [number, number, number, number]; // x, y, width, height
  direction: Direction;
  plain: boolean; // whether this is the plain tree
  kept: Kept;
}

/** State that a later layout of the growing recording needs so that nothing moves. */
export interface Kept {
  direction: Direction;
  groups: ReadonlyMap<number, Local>;
  blocked: ReadonlySet<number>; // groups without room to grow: drawn closed, at their earlier size, until the code ends
}

interface Local {
  members: string[];
  faces: Face[];
  sizes: Size[];
  placed: Placed;
  routes: Route[];
  trunks: Trunk[];
  back: boolean[];
  entry: Map<number, number>; // local net -> offset from the group's cross start
  exit: Map<number, number>;
  size: Size;
  shift: [number, number]; // from placed coordinates to the group's
}

const PADDING = 16;
const GAP_PLAIN = 20; // between the layers of an architecture, which is viewed from farther away
const memo = new Map<string, Local>();

/** Lays out a recording. With `kept`, from an earlier layout of the same recording, boxes that were there do not move. */
export function layout(recording: Recording, open: ReadonlySet<number>, direction: Direction, kept?: Kept): Scene {
  const blocked = new Set(kept?.direction === direction ? [...kept.blocked].filter((group) => open.has(group)) : []);
  for (;;) {
    const drawn = blocked.size ? new Set([...open].filter((group) => !blocked.has(group))) : open;
    const before = blocked.size;
    const scene = laidOut(recording, drawn, direction, kept, blocked);
    if (blocked.size === before) return scene;
  }
}

/** One attempt. Open groups that have grown beyond the room available are added to `blocked`. */
function laidOut(recording: Recording, open: ReadonlySet<number>, direction: Direction, kept: Kept | undefined, blocked: Set<number>): Scene {
  const rooms = quotient(recording, open);
  const locals = new Map<number, Local>();
  const faces = new Map<string, Face>();
  const earlier = kept?.direction === direction ? kept.groups : undefined;

  const solve = (group: number): Local => {
    const room = rooms.get(group)!;
    const sizes: Size[] = [];
    const ports: (Ports | null)[] = [];
    for (const key of room.members) {
      const id = Number(key.slice(1));
      const isGroup = key.startsWith("g");
      const face = isGroup ? groupFace(recording, id) : nodeFace(recording, id, direction);
      faces.set(key, face);
      if (isGroup && rooms.has(id)) {
        const inner = solve(id);
        const nets = rooms.get(id)!.nets;
        const here = (map: Map<number, number>) => new Map([...map].map(([net, at]) => [room.netOf.get(nets[net]!) ?? -1, at]));
        ports.push({ entry: here(inner.entry), exit: here(inner.exit) });
        sizes.push(inner.size);
      } else {
        ports.push(null);
        sizes.push(direction === "down" ? { main: face.h, cross: face.w } : { main: face.w, cross: face.h });
      }
    }
    const title = group === TOP ? 0 : headerWidth(groupFace(recording, group));
    const own = room.members.map((key) => faces.get(key)!);
    const before = earlier?.get(group);
    const grown = before && growth(before, room.members, sizes, own, (key) => key.startsWith("g") && rooms.has(Number(key.slice(1))), earlier!);
    grown?.blocked.forEach((id) => blocked.add(id));
    own.forEach((face, at) => faces.set(room.members[at]!, face));
    const gap = recording.tree.plain ? GAP_PLAIN : GAP_MAIN;
    const local = solveRoom(room, sizes, own, ports, direction, gap, title, grown && before, grown?.was);
    locals.set(group, local);
    return local;
  };
  if (rooms.get(TOP)!.members.length) solve(TOP);
  return assemble(recording, rooms, locals, faces, direction, blocked);
}

function solveRoom(
  room: Room,
  sizes: Size[],
  faces: Face[],
  ports: (Ports | null)[],
  direction: Direction,
  gap: number,
  title: number,
  earlier?: Local,
  was?: number[],
): Local {
  const { links, members } = room;
  const grown = earlier && was;
  const ported = ports.map((p) => (p ? `${[...p.entry].join()};${[...p.exit].join()}` : "")).join("|");
  const key = [
    direction,
    gap,
    title,
    sizes.map((size) => `${size.main},${size.cross}`).join(" "),
    ported,
    links.map((l) => `${l.from},${l.to},${l.net}`).join(" "),
  ].join("/");
  const known = grown ? undefined : memo.get(key);
  if (known) return { ...known, members, faces };

  const down = direction === "down";
  const root = title === 0;
  const above = root || down ? PADDING : HEADER + 8;
  const floor = grown ? above - earlier.shift[1] : -Infinity;
  const share: Share = (box, net, leaves) => (leaves ? exitOffset : entryOffset)(sizes, ports, box, net) / sizes[box]!.cross;
  const placed = grown
    ? placeMore(earlier.placed, was, sizes, ports, links, floor)
    : placeBoxes(sizes, ports, orderBoxes(members.length, links, ports.some(Boolean) ? share : undefined));
  const back = links.map((l) => l.from >= 0 && l.to >= 0 && placed.layer[l.from]! >= placed.layer[l.to]!);
  const lead = root ? PADDING : down ? HEADER + 14 : 28;
  const routed = routeLinks({ sizes, ports, links, back, placed, gap, lead, floor, grown: !!grown });
  const shift: [number, number] = grown ? earlier.shift : [-routed.start, above - routed.low];
  const offset = (map: ReadonlyMap<number, number>) => new Map([...map].map(([net, at]) => [net, at + shift[1]]));
  const size = { main: routed.end + shift[0], cross: routed.high + shift[1] + PADDING };
  if (down) size.cross = Math.max(size.cross, title);
  else if (size.main < title) stretch(routed.routes, links, routed.end, (size.main = title) - shift[0]);
  const local = {
    members,
    faces,
    sizes,
    placed,
    routes: routed.routes,
    trunks: routed.trunks,
    back,
    entry: offset(routed.entry),
    exit: offset(routed.exit),
    size,
    shift,
  };
  if (memo.size > 400) memo.clear();
  if (!grown) memo.set(key, local);
  return local;
}

/** Extends the links to a group's exit up to its border. */
function stretch(routes: Route[], links: readonly Link[], from: number, to: number): void {
  links.forEach((link, row) => {
    if (link.to === EXIT) routes[row]!.segments.push(["L", to, endOf(routes[row]!, from)]);
  });
}

function endOf(route: Route, fallback: number): number {
  const last = route.segments.at(-1);
  return last ? (last[last.length - 1] as number) : (route.start[1] ?? fallback);
}

/**
 * Each box's index in the earlier layout, or -1. Existing boxes keep their size, except open groups, which may grow as far as there is
 * room; those without room are `blocked`. Undefined if a group was opened by hand: the room is then laid out from scratch.
 */
function growth(
  earlier: Local,
  members: readonly string[],
  sizes: Size[],
  faces: Face[],
  isOpen: (key: string) => boolean,
  groups: ReadonlyMap<number, Local>,
): { was: number[]; blocked: number[] } | undefined {
  const index = new Map(earlier.members.map((key, at) => [key, at]));
  const was = members.map((key) => index.get(key) ?? -1);
  const blocked: number[] = [];
  for (const [now, old] of was.entries()) {
    if (old < 0) continue;
    const [size, before, key] = [sizes[now]!, earlier.sizes[old]!, members[now]!];
    if (size.main <= before.main && size.cross <= before.cross) {
      sizes[now] = before;
    } else if (!isOpen(key)) {
      sizes[now] = before;
      faces[now] = key.startsWith("g") ? { ...faces[now]!, w: earlier.faces[old]!.w, h: earlier.faces[old]!.h } : earlier.faces[old]!;
    } else if (!groups.has(Number(key.slice(1)))) {
      return undefined;
    } else {
      const wanted = { main: Math.max(size.main, before.main), cross: Math.max(size.cross, before.cross) };
      if (hasRoom(earlier, old, wanted)) sizes[now] = wanted;
      else blocked.push(Number(key.slice(1)));
    }
  }
  return { was, blocked };
}

/** Whether a box could have this size at its place without overlapping what is beside or after it. */
function hasRoom({ placed, sizes }: Local, box: number, wanted: Size): boolean {
  const { layers, layer, main, cross } = placed;
  const band = layers[layer[box]!]!;
  if (band !== layers.at(-1) && main[box]! + wanted.main > band.start + band.size) return false;
  const end = cross[box]! + wanted.cross + BESIDE;
  return band.boxes.every((other) => other === box || cross[other]! + sizes[other]!.cross <= cross[box]! || cross[other]! >= end);
}

function assemble(
  recording: Recording,
  rooms: Map<number, Room>,
  locals: Map<number, Local>,
  faces: Map<string, Face>,
  direction: Direction,
  blocked: ReadonlySet<number>,
): Scene {
  const boxes: Box[] = [];
  const wires: Wire[] = [];
  const down = direction === "down";
  const point = (main: number, cross: number): [number, number] => (down ? [cross, main] : [main, cross]);
  const visit = (group: number, x0: number, y0: number, depth: number) => {
    const local = locals.get(group);
    if (!local) return;
    const room = rooms.get(group)!;
    const at = (main: number, cross: number): [number, number] => {
      const [x, y] = point(main + local.shift[0], cross + local.shift[1]);
      return [x + x0, y + y0];
    };
    const trunked = new Set(local.trunks.flatMap((trunk) => trunk.links));
    room.links.forEach((link, row) => {
      const { source, consumers } = room.ends[row]!;
      const ends = link.to >= 0 && !locals.has(groupId(room.members[link.to]!));
      const made = link.from >= 0 && !locals.has(groupId(room.members[link.from]!)) && !trunked.has(row);
      const key = `${group}:${source}>${link.to}.${row}`;
      wires.push(wireOf(key, local.routes[row]!, at, source, consumers, ends, local.back[row]!, made, down));
    });
    local.trunks.forEach((trunk, number) => {
      const { source } = room.ends[trunk.links[0]!]!;
      const consumers = [...new Set(trunk.links.flatMap((row) => room.ends[row]!.consumers))];
      const { from } = room.links[trunk.links[0]!]!;
      const made = from >= 0 && !locals.has(groupId(room.members[from]!));
      wires.push(wireOf(`${group}:${source}|${number}`, trunk, at, source, consumers, false, false, made, down));
    });
    local.members.forEach((key, index) => {
      const [x, y] = at(local.placed.main[index]!, local.placed.cross[index]!);
      const [w, h] = point(local.sizes[index]!.main, local.sizes[index]!.cross);
      const id = Number(key.slice(1));
      const inside = groupId(key);
      const kind = inside >= 0 ? (locals.has(inside) ? "open" : "closed") : recording.nodes.kind[id] === "op" ? "op" : "source";
      boxes.push({ key, id, kind, face: faces.get(key)!, parent: group, depth, x, y, w, h });
      if (kind === "open") visit(id, x, y, depth + 1);
    });
  };
  visit(TOP, 0, 0, 0);
  const size = locals.get(TOP)?.size ?? { main: 0, cross: 0 };
  const [width, height] = point(size.main, size.cross);
  const byKey = new Map(boxes.map((box) => [box.key, box]));
  return { boxes, wires, byKey, bounds: [0, 0, width, height], direction, plain: recording.tree.plain, kept: { direction, groups: locals, blocked } };
}

function groupId(key: string): number {
  return key.startsWith("g") ? Number(key.slice(1)) : -2;
}
