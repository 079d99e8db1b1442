// The boxes in each open group and the links between them. Edges of hidden nodes become edges of the closed group that hides them.

import { ENTRY, EXIT, type Link } from "./order";
import type { Recording } from "../store";
import { boxOf, TOP } from "./tree";

export interface Room {
  members: string[];
  index: Map<string, number>;
  links: Link[];
  ends: { source: number; consumers: number[] }[]; // per link
  nets: number[]; // local net -> what distinguishes its wires
  netOf: Map<number, number>;
  byEnds: Map<string, number>;
  between: Map<string, number>; // number of wires between two closed groups, or any two boxes of a plain tree
  lastOf: Map<string, string>; // and the last of these wires
}

const MANY_WIRES = 12;
const MOST_LIVE = 800; // wires of one group while the code runs, which updates often; the others are added when it ends

/** The boxes in each open group and the links between them. */
export function quotient(recording: Recording, open: ReadonlySet<number>): Map<number, Room> {
  const { tree, edges } = recording;
  const rooms = new Map<number, Room>();
  const chain = new Map<string, number[]>(); // box -> open groups around it, innermost first
  const visit = (group: number, around: number[]) => {
    const members = (tree.children.get(group) ?? []).map((member) => (member.group ? "g" : "n") + member.id);
    const index = new Map(members.map((key, at) => [key, at]));
    rooms.set(group, { members, index, links: [], ends: [], nets: [], netOf: new Map(), byEnds: new Map(), between: new Map(), lastOf: new Map() });
    const path = [group, ...around];
    for (const member of tree.children.get(group) ?? []) {
      chain.set((member.group ? "g" : "n") + member.id, path);
      if (member.group && open.has(member.id)) visit(member.id, path);
    }
  };
  visit(TOP, []);

  // Most edges of a large recording lie within closed groups, so this must be fast: ids are looked up only where all groups around are
  // open.
  const { ids, up } = tree.places;
  const closed = new Float64Array(ids.length).fill(TOP); // for each place the outermost closed group, TOP if all are open
  for (let at = 1; at < ids.length; at++) {
    const around = closed[up[at]!]!;
    if (around !== TOP) {
      closed[at] = around;
      continue;
    }
    const [id, stack] = [ids[at]!, tree.parent(ids[at]!)];
    if (stack !== ids[up[at]!] && !open.has(stack)) closed[at] = stack;
    else if (!open.has(id)) closed[at] = id;
  }
  const isClosed = ({ members }: Room, at: number) => members[at]!.startsWith("g") && !open.has(Number(members[at]!.slice(1)));
  let origin = 0; // what distinguishes wires: the result that flows, or in an architecture the box it comes from
  const link = (group: number, from: number, to: number, source: number, consumer: number, slot: number) => {
    const room = rooms.get(group)!;
    const net = room.netOf.get(origin) ?? room.nets.length;
    let ends = `${from} ${to} ${net} ${tree.plain ? 0 : slot}`;
    // Between two closed groups MANY_WIRES wires say as much as thousands; in an architecture one wire is enough between any two boxes.
    if (from >= 0 && to >= 0 && !room.byEnds.has(ends) && (tree.plain || (isClosed(room, from) && isClosed(room, to)))) {
      const pair = `${from} ${to}`;
      const drawn = room.between.get(pair) ?? 0;
      if (drawn >= (tree.plain ? 1 : MANY_WIRES)) ends = room.lastOf.get(pair)!;
      else room.lastOf.set(pair, ends);
      room.between.set(pair, drawn + 1);
    }
    const known = room.byEnds.get(ends);
    if (known !== undefined) {
      const { consumers } = room.ends[known]!;
      if (consumers.at(-1) !== consumer) consumers.push(consumer);
      return;
    }
    if (recording.live && room.links.length >= MOST_LIVE) return;
    if (net === room.nets.length) {
      room.netOf.set(origin, net);
      room.nets.push(origin);
    }
    room.byEnds.set(ends, room.links.length);
    room.links.push({ from, to, net });
    room.ends.push({ source, consumers: [consumer] });
  };

  for (let row = 0; row < edges.source.length; row++) {
    const [source, target] = [edges.source[row]!, edges.target[row]!];
    if (source < 0 || target < 0 || source >= tree.size || target >= tree.size || tree.host[source]! >= 0) continue;
    const [from, to] = [tree.plain ? boxOf(tree, source) : source, tree.plain ? boxOf(tree, target) : target];
    const [inA, inB] = [closed[tree.place[from]!]!, closed[tree.place[to]!]!];
    if (inA === inB && inA !== TOP) continue;
    const [a, b] = [inA === TOP ? `n${from}` : `g${inA}`, inB === TOP ? `n${to}` : `g${inB}`];
    if (a === b) continue;
    origin = !tree.plain ? source : inA === TOP ? from : -2 - inA;
    const [outA, outB] = [chain.get(a)!, chain.get(b)!];
    let shared = 1;
    while (shared < outA.length && shared < outB.length && outA[outA.length - 1 - shared] === outB[outB.length - 1 - shared]) shared++;
    const [topA, topB] = [outA.length - shared, outB.length - shared];
    let tail = a;
    for (let at = 0; at < topA; at++) {
      link(outA[at]!, rooms.get(outA[at]!)!.index.get(tail)!, EXIT, source, target, 0);
      tail = `g${outA[at]!}`;
    }
    let head = b;
    for (let at = 0; at < topB; at++) {
      const slot = at === 0 && b.startsWith("n") ? edges.slot[row]! : 0;
      link(outB[at]!, ENTRY, rooms.get(outB[at]!)!.index.get(head)!, source, target, slot);
      head = `g${outB[at]!}`;
    }
    const { index } = rooms.get(outA[topA]!)!;
    const slot = topB === 0 && b.startsWith("n") ? edges.slot[row]! : 0;
    link(outA[topA]!, index.get(tail)!, index.get(head)!, source, target, slot);
  }
  return rooms;
}
