// The recording as a tree of groups: their contents, what a closed group hides, and which tensors are drawn as pills on their consumer.

import { endsOf, grouped, Lazy, Places, TOP, type Slices } from "./columns";
import { byLine, FIRST_BUNDLE, FIRST_LINE, isLine } from "./lines";
import type { Edges, Group, Nodes, Site } from "../protocol";
import type { Totals } from "../words";

export { TOP };
const LONG = 1000; // a group with more ops is split into runs
const RUN = 500;
export const HARD_CAP = 2000; // maximum number of boxes drawn
const FEW = 60; // maximum number of boxes drawn while the code runs, if none is opened by hand
const FIRST_RUN = 1e9; // first id of runs: far above those of the recording's groups
const MANY_SOURCES = 32; // more source tensors than this are gathered in a bundle
// First id of the placeholders of hidden parts, which encode the holder's id. The ids of groups that contain nodes are smaller and fit in
// 32 bits.
export const FIRST_STACK = 2e9;
export const ALL = -1; // chosen: none is hidden

export interface Tree {
  size: number; // nodes
  groups: ReadonlyMap<number, Group>;
  parent(group: number): number;
  /** The recording's groups as places in arrays, and each node's home as a place. */
  places: Places;
  place: Int32Array;
  /** The group a node is drawn in; tensors not made by an op move to the lowest common group of their consumers. */
  home: Int32Array;
  /** The op that carries this node as a pill, or -1; of several, the one on the shown pass, else the first. */
  host: Int32Array;
  /** For each tensor drawn at several ops, these ops, each of which carries it as a pill. */
  uses: ReadonlyMap<number, readonly number[]>;
  /** For each group, the number of such tensors whose lowest common group it is. */
  shared: ReadonlyMap<number, number>;
  /** For each op the groups, outermost first, that contain nothing else; they are not drawn. */
  wraps: ReadonlyMap<number, readonly number[]>;
  /** Input and consumer node ids, without duplicates, in order of the edges. */
  inputs: Slices;
  consumers: Slices;
  pills: ReadonlyMap<number, number[]>;
  /** In the plain tree: the op or tensor whose box includes this reshape, slice or cast, or -1. */
  carrier: Int32Array;
  folded: number; // number of ops that have a carrier
  /** Whether this is the plain tree: without pills, and with ops that only move or cast elements drawn as part of their input. */
  plain: boolean;
  /** Boxes of a group in order of creation: node ids and group ids. */
  children: ReadonlyMap<number, Member[]>;
  totals: ReadonlyMap<number, Totals>;
  /** Loops and folds with enough similar parts to hide all but one. */
  stacks: ReadonlyMap<number, Stack>;
}

/** A loop or fold that shows one part and hides those before and after it. */
export interface Stack {
  items: readonly number[]; // groups, in order
  rank: ReadonlyMap<number, number>; // index of each group among the items
  at: number; // the chosen item; ALL: none is hidden
  hidden: readonly Hidden[];
}

export interface Hidden {
  id: number; // of the placeholder group
  from: number; // first and last item
  to: number;
}

export interface Member {
  group: boolean;
  id: number;
  first: number; // smallest node id inside: creation order
}

/** Whether a group is a run: a part of a group with very many direct ops. */
export function isRun(group: number): boolean {
  return group >= FIRST_RUN && group < FIRST_LINE;
}

/** Whether a group's label says more than its contents: a bundle of source tensors, or a placeholder for hidden parts of a loop. */
export function isSummary(group: number): boolean {
  return group >= FIRST_BUNDLE;
}

const REPEATS = new Set(["loop", "fold"]);
const CALLS = new Set(["module", "function"]);
const COMES_IN = new Set(["module", "function", "fold"]);

// Ops that move elements or change their type, but compute nothing.
const PLUMBING = new Set(
  "reshape view view_as flatten unflatten squeeze unsqueeze transpose t permute movedim swapaxes expand expand_as broadcast_to getitem select slice narrow split split_with_sizes chunk unbind clone contiguous to to_dtype to_device type detach alias".split(" "),
);

const COUNTS = /^(u?int|bool)/; // dtypes

/** Builds the tree. While the code runs (`live`) groups may still grow, so each stays a box. A `plain` tree shows the architecture. */
export function buildTree(nodes: Nodes, edges: Edges, groupList: readonly Group[], sites: readonly Site[], live = false, plain = false): Tree {
  const size = nodes.op.length;
  const places = new Places(groupList);
  const { groups, ids, up, depth, kinds } = places;
  const inputs = endsOf(size, edges.target, edges.source);
  const consumers = endsOf(size, edges.source, edges.target);
  const place = new Int32Array(size);
  for (let node = 0; node < size; node++) {
    // neighbors are usually in the same group
    place[node] = node && nodes.group[node] === nodes.group[node - 1] ? place[node - 1]! : places.of(nodes.group[node]!);
  }
  const wraps = live ? new Map<number, number[]>() : unwrapSingles(nodes, place, places, consumers);
  if (plain) byLine(nodes, sites, place, places, (node) => !PLUMBING.has(nodes.op[node]!));
  splitLong(nodes, place, places);
  const common = (a: number, b: number): number => {
    let [x, y] = [a, b];
    while (x !== y) {
      if (depth[x]! >= depth[y]!) x = up[x]!;
      else y = up[y]!;
    }
    return x;
  };
  // Data enters a module, function or line from outside, even if first seen inside.
  const outside = (from: number): number => {
    let at = from;
    while (COMES_IN.has(kinds[at]!) || isLine(ids[at]!)) at = up[at]!;
    return at;
  };
  const host = new Int32Array(size).fill(-1);
  const pills = new Map<number, number[]>();
  const uses = new Map<number, readonly number[]>();
  const shared = new Map<number, number>();
  const of = place.slice(); // of consumers, which do not move
  for (let node = 0; node < size; node++) {
    const kind = nodes.kind[node]!;
    if (kind === "op" || !consumers.count(node)) continue;
    const used = consumers.slice(node);
    const first = of[used[0]!]!;
    let [lowest, apart] = [first, false];
    for (let n = 1; n < used.length; n++) {
      const other = of[used[n]!]!;
      if (other !== first) [lowest, apart] = [common(lowest, other), true];
    }
    // An unnamed input was made where it is used, such as a mask or buffer. While the code runs, names may still arrive.
    const given = kind === "input" && (live || nodes.name[node] !== "");
    place[node] = given ? outside(common(lowest, of[node]!)) : lowest;
    if (kind === "input" || !used.every((user) => nodes.kind[user] === "op")) continue;
    // A tensor used in several groups or iterations is drawn at each use, since its wires would dominate the picture of a training loop.
    if (used.length > 1) {
      if (!apart && !REPEATS.has(kinds[lowest]!)) continue;
      shared.set(ids[lowest]!, (shared.get(ids[lowest]!) ?? 0) + 1);
      uses.set(node, [...used]);
    }
    host[node] = used[0]!;
    for (const user of used) {
      const list = pills.get(user);
      if (list) list.push(node);
      else pills.set(user, [node]);
    }
  }
  if (!live) bundle(nodes, place, host, consumers, places);

  let { totals, first } = totalled(nodes, place, places);
  const carrier = new Int32Array(size).fill(-1);
  let folded = 0;
  if (plain) {
    carry(nodes, { inputs, consumers, host, wraps, groups }, carrier);
    for (let node = 0; node < size; node++) {
      const hostMoves = host[node]! >= 0 && carrier[host[node]!]! >= 0;
      if (carrier[node]! < 0 && !hostMoves) continue;
      place[node] = place[boxOf({ host, carrier }, node)]!;
      if (nodes.kind[node] === "op") folded++;
    }
    first = totalled(nodes, place, places).first;
    pills.clear();
  }
  const boxed = place.map((at, node) => (host[node]! < 0 && carrier[node]! < 0 ? at : -1));
  const children = childrenOf(boxed, places, first);
  const home = place.map((at) => ids[at]!);
  const parent = (group: number) => places.parent(group);
  const drawn = { host, uses, shared, wraps, pills, carrier, folded, plain, children, totals, stacks: new Map() };
  return { size, groups, parent, places, place, home, inputs, consumers, ...drawn };
}

/**
 * Draws ops that only move or cast as part of their input's box; if the input is itself drawn at its consumer, as part of their only
 * consumer.
 */
function carry(nodes: Nodes, tree: Pick<Tree, "inputs" | "consumers" | "host" | "wraps" | "groups">, carrier: Int32Array): void {
  const rides = new Uint8Array(nodes.op.length); // drawn with its consumer, not with its input
  const given = nodes.kind.some((kind, node) => (kind === "input" || kind === "leaf") && nodes.name[node] !== "");
  for (let node = 0; node < nodes.op.length; node++) {
    const consumers = tree.consumers.of(node);
    const only = consumers.length === 1 && nodes.kind[consumers[0]!] === "op" ? consumers[0]! : -1;
    // Positions created on the fly and the like, but not the data.
    if (given && only >= 0 && nodes.kind[node] === "input" && nodes.name[node] === "" && COUNTS.test(nodes.dtype[node]!)) {
      [carrier[node], rides[node]] = [only, 1];
    }
    if (nodes.kind[node] !== "op" || !PLUMBING.has(nodes.op[node]!)) continue;
    // A user-defined layer, such as Flatten, is kept.
    if (tree.wraps.get(node)?.some((id) => tree.groups.get(id)!.kind === "module")) continue;
    const inputs = tree.inputs.of(node);
    if (inputs.length !== 1) continue;
    const source = inputs[0]!;
    if (tree.host[source]! < 0 && !rides[source]) carrier[node] = carrier[source]! < 0 ? source : carrier[source]!;
    else if (only >= 0) [carrier[node], rides[node]] = [only, 1];
  }
}

/** The node whose box shows a node: itself, or its carrier or host. */
export function boxOf({ host, carrier }: Pick<Tree, "host" | "carrier">, node: number): number {
  let at = node;
  while (host[at]! >= 0 || carrier[at]! >= 0) at = host[at]! >= 0 ? host[at]! : carrier[at]!;
  return at;
}

/** The node a node is drawn as: itself, if it has a box or pill, else the one whose box carries it. */
export function drawnAs(tree: Tree, node: number): number {
  return tree.plain ? boxOf(tree, node) : node;
}

/** The totals of each group, and the smallest node in it; -1 if it is empty. */
function totalled(nodes: Nodes, place: Int32Array, places: Places): { totals: ReadonlyMap<number, Totals>; first: Int32Array } {
  const { ids, up } = places;
  const sums = { ops: new Float64Array(ids.length), parameters: new Float64Array(ids.length), bytes: new Float64Array(ids.length), nodes: new Float64Array(ids.length) };
  const first = new Int32Array(ids.length).fill(-1);
  for (let node = place.length - 1; node >= 0; node--) {
    const at = place[node]!;
    if (nodes.kind[node] === "op") sums.ops[at]!++;
    else if (nodes.kind[node] === "parameter") sums.parameters[at]! += nodes.shape[node]!.reduce((a, b) => a * b, 1);
    sums.bytes[at]! += nodes.bytes[node]!;
    sums.nodes[at]!++;
    first[at] = node;
  }
  for (let at = ids.length - 1; at > 0; at--) {
    const around = up[at]!;
    for (const key of SUMS) sums[key][around]! += sums[key][at]!;
    if (first[at]! >= 0 && (first[around]! < 0 || first[at]! < first[around]!)) first[around] = first[at]!;
  }
  const totals = new Lazy<Totals>(
    () => ids.filter((_, at) => first[at]! >= 0),
    (id) => {
      const at = places.of(id);
      return ids[at] !== id || first[at]! < 0 ? undefined : { ops: sums.ops[at]!, parameters: sums.parameters[at]!, bytes: sums.bytes[at]!, nodes: sums.nodes[at]! };
    },
  );
  return { totals, first };
}

/** The boxes in each group, sorted on first access. */
function childrenOf(place: Int32Array, places: Places, first: Int32Array): ReadonlyMap<number, Member[]> {
  const { ids, up } = places;
  const inside = grouped(ids.length, place);
  const within = grouped(ids.length, up.map((around, at) => (at > 0 && first[at]! >= 0 ? around : -1)));
  return new Lazy<Member[]>(
    () => ids.filter((id, at) => id === TOP || first[at]! >= 0),
    (id) => {
      const at = places.of(id);
      if (id !== ids[at] || (at && first[at]! < 0)) return undefined;
      const members: Member[] = Array.from(inside.slice(at), (node) => ({ group: false, id: node, first: node }));
      for (const group of within.slice(at)) members.push({ group: true, id: ids[group]!, first: first[group]! });
      return members.sort((a, b) => a.first - b.first || Number(b.group) - Number(a.group));
    },
  );
}

const NOUNS = {
  parameter: ["parameter", "parameters"],
  leaf: ["leaf", "leaves"],
  input: ["input", "inputs"],
  constant: ["constant", "constants"],
} as const;
export const SUMS = ["ops", "parameters", "bytes", "nodes"] as const;

/** Bundles many source tensors in one group, such as hundreds of shared weights, into a new group. */
function bundle(nodes: Nodes, place: Int32Array, host: Int32Array, consumers: Slices, places: Places): void {
  const inside = new Map<number, number[]>();
  for (let node = 0; node < place.length; node++) {
    if (nodes.kind[node] === "op" || host[node]! >= 0 || !consumers.count(node)) continue;
    const list = inside.get(place[node]!);
    if (list) list.push(node);
    else inside.set(place[node]!, [node]);
  }
  let id = FIRST_BUNDLE;
  for (const [at, sources] of inside) {
    if (sources.length <= MANY_SOURCES) continue;
    const label = Object.entries(NOUNS)
      .map(([kind, noun]) => [sources.filter((node) => nodes.kind[node] === kind).length, noun] as const)
      .filter(([count]) => count)
      .map(([count, noun]) => `${count} ${count === 1 ? noun[0] : noun[1]}`)
      .join(", ");
    const own = places.add({ id: id++, parent: places.ids[at]!, kind: "scope", name: "", label, count: sources.length });
    for (const node of sources) place[node] = own;
  }
}

/** Removes modules and functions around a single op, since such a frame says no more than the op; the op takes their place. */
function unwrapSingles(nodes: Nodes, place: Int32Array, { ids, up, kinds }: Places, consumers: Slices): Map<number, number[]> {
  const held = new Int32Array(ids.length);
  for (let node = 0; node < place.length; node++) if (nodes.kind[node] === "op" || !consumers.count(node)) held[place[node]!]!++;
  for (let at = ids.length - 1; at > 0; at--) held[up[at]!]! += held[at]!;
  const wraps = new Map<number, number[]>();
  for (let node = 0; node < place.length; node++) {
    if (nodes.kind[node] !== "op") continue;
    const path: number[] = [];
    let at = place[node]!;
    for (; held[at] === 1 && CALLS.has(kinds[at]!) && !REPEATS.has(kinds[up[at]!]!); at = up[at]!) path.unshift(ids[at]!);
    if (!path.length) continue;
    wraps.set(node, path);
    place[node] = at;
  }
  return wraps;
}

/** Splits a group with very many direct ops into runs, so that no level has more boxes than can be drawn. */
function splitLong(nodes: Nodes, place: Int32Array, places: Places): void {
  const count = new Int32Array(places.ids.length);
  for (let node = 0; node < place.length; node++) if (nodes.kind[node] === "op") count[place[node]!]!++;
  const seen = new Map<number, { ops: number; run: number }>();
  let id = FIRST_RUN;
  for (let node = 0; node < place.length; node++) {
    const [at, all] = [place[node]!, count[place[node]!]!];
    if (nodes.kind[node] !== "op" || all <= LONG) continue;
    const last = seen.get(at) ?? { ops: 0, run: 0 };
    seen.set(at, last);
    if (last.ops % RUN === 0) {
      const label = `ops ${last.ops + 1}–${Math.min(all, last.ops + RUN)} of ${all}`;
      last.run = places.add({ id: id++, parent: places.ids[at]!, kind: "scope", name: "", label, count: 1 });
    }
    last.ops++;
    place[node] = last.run;
  }
}

const reachedBefore = new WeakMap<readonly number[], ReadonlySet<number>>();

/** The nodes that a pass goes through; cached per plan, which steps do not change. */
export function reachedBy(plan: readonly number[]): ReadonlySet<number> {
  let reached = reachedBefore.get(plan);
  if (!reached) reachedBefore.set(plan, (reached = new Set(plan)));
  return reached;
}

/** The tree with, as host of each tensor used by several ops, the op that the pass goes through. */
export function hosted(tree: Tree, plan: readonly number[]): Tree {
  if (!tree.uses.size) return tree;
  const reached = reachedBy(plan);
  const host = tree.host.slice();
  let moved = false;
  for (const [node, users] of tree.uses) {
    const user = users.find((one) => reached.has(one)) ?? users[0]!;
    moved ||= host[node] !== user;
    host[node] = user;
  }
  return moved ? { ...tree, host } : tree;
}

/** The group in which a node appears; for a pill, that of the op that carries it. */
export function homeOf(tree: Tree, node: number): number {
  return tree.home[boxOf(tree, node)]!;
}

/** The outermost closed group around a group, including itself; null if all are open. */
export function closedAround(tree: Tree, open: ReadonlySet<number>, group: number): number | null {
  let found: number | null = null;
  for (let at = group; at !== TOP; at = tree.parent(at)) if (!open.has(at)) found = at;
  return found;
}

/** Counts the boxes drawn when these groups are open. */
export function countBoxes(tree: Tree, open: ReadonlySet<number>, group = TOP): number {
  let count = 0;
  const stack = [group];
  while (stack.length) {
    for (const member of tree.children.get(stack.pop()!) ?? []) {
      count++;
      if (member.group && open.has(member.id)) stack.push(member.id);
    }
  }
  return count;
}

/**
 * Groups to open while the code runs, besides those already open: level by level, groups of the same structure together, while there are
 * few boxes. Loops and folds are not opened, nor are runs of ops, which may grow to 500 boxes.
 */
export function growing(tree: Tree, keep: ReadonlySet<number>): Set<number> {
  const open = new Set([...keep].filter((id) => tree.groups.has(id)));
  let count = countBoxes(tree, open);
  let level = [TOP];
  while (level.length) {
    const inside = level.flatMap((id) => tree.children.get(id) ?? []).filter(({ group, id }) => group && !isSummary(id));
    const alike = new Map<string, number[]>();
    for (const { id } of inside) {
      const total = tree.totals.get(id)!;
      const group = tree.groups.get(id)!;
      const key = `${group.kind} ${group.label} ${total.ops} ${tree.children.get(id)!.length}`;
      alike.set(key, [...(alike.get(key) ?? []), id]);
    }
    const grows = (id: number) => isRun(id) || REPEATS.has(tree.groups.get(id)!.kind);
    const added = (ids: number[]) => ids.reduce((sum, id) => sum + (open.has(id) ? 0 : tree.children.get(id)!.length), 0);
    const classes = [...alike.values()].sort((a, b) => added(a) - added(b) || a[0]! - b[0]!);
    for (const ids of classes) {
      if (count + added(ids) > FEW || grows(ids[0]!)) continue;
      ids.forEach((id) => open.add(id));
      count = countBoxes(tree, open);
    }
    level = inside.map((member) => member.id).filter((id) => open.has(id));
  }
  return open;
}
