// The recording as a tree of groups: who holds what, what a closed group hides, which tensors ride as pills on their consumer.

import type { Edges, Group, Nodes } from "../protocol";
import type { Totals } from "../words";

export const TOP = -1;
const LONG = 1000; // more ops than this in one group are split into runs
const RUN = 500;
const FIRST_RUN = 1e9; // ids of runs: far above those of the recording's groups
const MANY = 8; // of more iterations than this most are hidden in a stack
const MANY_ALIKE = 4; // and of more alike siblings
const DEEPEST = 10_000; // groups in each other: more would be a circle
const MANY_SOURCES = 32; // more tensors that no op made are gathered
const FIRST_BUNDLE = 1.5e9; // ids of these groups; those of groups that hold nodes must fit into 32 bits
const FIRST_STACK = 2e9; // ids of stacks
export const ALL = -1; // chosen: none is hidden

export interface Tree {
  size: number; // nodes
  groups: ReadonlyMap<number, Group>;
  parent(group: number): number;
  depth(group: number): number;
  /** The group a node is drawn in: tensors that no op made move to the lowest common group of their consumers. */
  home: Int32Array;
  /** The op that carries this node as a pill, the first one of several; or -1. */
  host: Int32Array;
  /** For each loop and fold how many tensors all that repeats in it shares: each stands as a pill wherever it is used. */
  shared: ReadonlyMap<number, number>;
  /** The groups, outermost first, that hold nothing but this op; they are not drawn. */
  wraps: ReadonlyMap<number, readonly number[]>;
  /** Input and consumer node ids, each once, in order of the edges. */
  inputs: readonly (readonly number[])[];
  consumers: readonly (readonly number[])[];
  pills: ReadonlyMap<number, number[]>;
  /** Boxes of a group in order of creation: node ids and group ids. */
  children: ReadonlyMap<number, Member[]>;
  totals: ReadonlyMap<number, Totals>;
  /** Loops and folds with so many alike parts that most can be hidden. */
  stacks: ReadonlyMap<number, Stack>;
}

/** A loop or fold of which the first part, the chosen one and (of a loop) the last are boxes; what lies between is hidden in stacks. */
export interface Stack {
  items: readonly number[]; // groups, in order
  at: number; // the chosen one; ALL: none is hidden
  hidden: readonly Hidden[];
}

export interface Hidden {
  id: number; // of the group that stands for them
  from: number; // the first and the last item
  to: number;
}

export interface Member {
  group: boolean;
  id: number;
  first: number; // the smallest node id inside: creation order
}

/** How many groups lie around a group, itself included. */
function depthBy(parent: (group: number) => number): (group: number) => number {
  const known = new Map<number, number>([[TOP, 0]]);
  return (group) => {
    const path: number[] = [];
    let at = group;
    for (; !known.has(at) && path.length < DEEPEST; at = parent(at)) path.push(at);
    let level = known.get(at) ?? 0;
    for (const id of path.reverse()) known.set(id, ++level);
    return level;
  };
}

/** While the code runs (`live`) more may come into a group, so each stays a box. */
export function buildTree(nodes: Nodes, edges: Edges, groupList: readonly Group[], live = false): Tree {
  const size = nodes.op.length;
  const groups = new Map(groupList.map((group) => [group.id, group]));
  const parent = (group: number): number => {
    const up = groups.get(group)?.parent ?? TOP;
    return groups.has(up) ? up : TOP;
  };
  const depth = depthBy(parent);
  // Data comes into a module or function from outside, even if it was first seen there.
  const outside = (group: number): number => {
    let at = group;
    while (["module", "function", "fold"].includes(groups.get(at)?.kind ?? "")) at = parent(at);
    return at;
  };

  const inputs = new Ends(size, edges.target, edges.source);
  const consumers = new Ends(size, edges.source, edges.target);
  const home = new Int32Array(size);
  const host = new Int32Array(size).fill(-1);
  const pills = new Map<number, number[]>();
  for (let node = 0; node < size; node++) {
    const own = nodes.group[node]!;
    home[node] = groups.has(own) ? own : TOP;
  }
  const wraps = live ? new Map<number, number[]>() : unwrapSingles(nodes, home, groups, parent, consumers);
  splitLong(nodes, home, groups);
  // From here on groups are places in an array: a large recording has tens of thousands, and every node climbs through some.
  const ids = [TOP, ...groups.keys()];
  const places = new Map(ids.map((id, place) => [id, place]));
  const up = Int32Array.from(ids, (id) => (id === TOP ? 0 : places.get(parent(id))!));
  const depths = Int32Array.from(ids, depth);
  const common = (a: number, b: number): number => {
    let [x, y] = [a, b];
    while (x !== y) {
      if (depths[x]! >= depths[y]!) x = up[x]!;
      else y = up[y]!;
    }
    return x;
  };
  const place = placesOf(home, places);
  const shared = new Map<number, number>();
  for (let node = 0; node < size; node++) {
    if (nodes.kind[node] === "op" || !consumers.count(node)) continue;
    const used = consumers.of(node);
    let lowest = place[used[0]!]!;
    for (let n = 1; n < used.length && lowest; n++) lowest = common(lowest, place[used[n]!]!);
    // What has no name was made where it is used: a mask, a buffer. While the code runs names are yet to come.
    const given = nodes.kind[node] === "input" && (live || nodes.name[node] !== "");
    home[node] = given ? outside(ids[common(lowest, place[node]!)]!) : ids[lowest]!;
    if (nodes.kind[node] === "input" || !used.every((user) => nodes.kind[user] === "op")) continue;
    // Weights that every iteration uses are told at each use: their wires would be all that is seen of a training loop.
    if (used.length > 1) {
      if (!["loop", "fold"].includes(groups.get(ids[lowest]!)?.kind ?? "")) continue;
      shared.set(ids[lowest]!, (shared.get(ids[lowest]!) ?? 0) + 1);
    }
    host[node] = used[0]!;
    for (const user of used) {
      const list = pills.get(user);
      if (list) list.push(node);
      else pills.set(user, [node]);
    }
  }
  if (!live) bundle(nodes, home, host, consumers, groups);

  const totals = new Map<number, Totals>();
  const first = new Map<number, number>();
  for (let node = 0; node < size; node++) {
    let sum = totals.get(home[node]!);
    if (!sum) totals.set(home[node]!, (sum = { ops: 0, parameters: 0, bytes: 0, nodes: 0 }));
    if (nodes.kind[node] === "op") sum.ops++;
    else if (nodes.kind[node] === "parameter") sum.parameters += nodes.shape[node]!.reduce((a, b) => a * b, 1);
    sum.bytes += nodes.bytes[node]!;
    sum.nodes++;
    if (!first.has(home[node]!)) first.set(home[node]!, node);
  }
  // What lies deepest goes into what lies around it, and so on up.
  const deepest = [...groups.keys()].sort((a, b) => depth(b) - depth(a));
  for (const id of deepest) {
    const [own, around] = [totals.get(id), parent(id)];
    if (!own) continue;
    const sum = totals.get(around);
    if (!sum) totals.set(around, { ...own });
    else for (const key of SUMS) sum[key] += own[key];
    first.set(around, Math.min(first.get(around) ?? Infinity, first.get(id)!));
  }

  const children = new Map<number, Member[]>([[TOP, []]]);
  for (const id of groups.keys()) if (first.has(id)) children.set(id, []);
  for (let node = 0; node < size; node++) {
    if (host[node]! < 0) children.get(home[node]!)!.push({ group: false, id: node, first: node });
  }
  for (const id of groups.keys()) if (first.has(id)) children.get(parent(id))!.push({ group: true, id, first: first.get(id)! });
  for (const members of children.values()) members.sort((a, b) => a.first - b.first || Number(b.group) - Number(a.group));
  const stacks = new Map<number, Stack>();
  return {
    ...{ size, groups, parent, depth, home, host, shared, wraps, pills, children, totals, stacks },
    get inputs() {
      return inputs.all();
    },
    get consumers() {
      return consumers.all();
    },
  };
}

const NOUNS = {
  parameter: ["parameter", "parameters"],
  leaf: ["leaf", "leaves"],
  input: ["input", "inputs"],
  constant: ["constant", "constants"],
} as const;
const SUMS = ["ops", "parameters", "bytes", "nodes"] as const;

/** For each node the nodes at the other end of its edges, each once, as slices of one array: most are never asked for as lists. */
class Ends {
  private readonly start: Int32Array;
  private readonly other: Int32Array;
  private lists: readonly (readonly number[])[] | null = null;

  constructor(size: number, near: readonly number[], far: readonly number[]) {
    // Edges come in order of their targets, so the same pair comes twice only in a row.
    const last = new Int32Array(size).fill(-1);
    const fits = (row: number) => near[row]! >= 0 && far[row]! >= 0 && near[row]! < size && far[row]! < size;
    this.start = new Int32Array(size + 1);
    for (let row = 0; row < near.length; row++) {
      if (!fits(row) || last[near[row]!] === far[row]) continue;
      last[near[row]!] = far[row]!;
      this.start[near[row]! + 1]!++;
    }
    for (let node = 0; node < size; node++) this.start[node + 1]! += this.start[node]!;
    this.other = new Int32Array(this.start[size]!);
    const next = this.start.slice();
    last.fill(-1);
    for (let row = 0; row < near.length; row++) {
      if (!fits(row) || last[near[row]!] === far[row]) continue;
      last[near[row]!] = far[row]!;
      this.other[next[near[row]!]!++] = far[row]!;
    }
  }

  of(node: number): Int32Array {
    return this.other.subarray(this.start[node]!, this.start[node + 1]!);
  }
  count(node: number): number {
    return this.start[node + 1]! - this.start[node]!;
  }
  /** As lists, made when they are first asked for. */
  all(): readonly (readonly number[])[] {
    this.lists ??= Array.from({ length: this.start.length - 1 }, (_, node) => [...new Set(this.of(node))]);
    return this.lists;
  }
}

/** Each node's group as its place in the array of groups. */
function placesOf(home: Int32Array, places: ReadonlyMap<number, number>): Int32Array {
  const found = new Int32Array(home.length);
  for (let node = 0, last = NaN, place = 0; node < home.length; node++) {
    if (home[node] !== last) place = places.get((last = home[node]!))!;
    found[node] = place;
  }
  return found;
}

/** Many tensors that no op made, side by side in one group, become a group of their own: hundreds of shared weights, say. */
function bundle(nodes: Nodes, home: Int32Array, host: Int32Array, consumers: Ends, groups: Map<number, Group>): void {
  const inside = new Map<number, number[]>();
  for (let node = 0; node < home.length; node++) {
    if (nodes.kind[node] === "op" || host[node]! >= 0 || !consumers.count(node)) continue;
    const list = inside.get(home[node]!);
    if (list) list.push(node);
    else inside.set(home[node]!, [node]);
  }
  let id = FIRST_BUNDLE;
  for (const [group, sources] of inside) {
    if (sources.length <= MANY_SOURCES) continue;
    const label = Object.entries(NOUNS)
      .map(([kind, noun]) => [sources.filter((node) => nodes.kind[node] === kind).length, noun] as const)
      .filter(([count]) => count)
      .map(([count, noun]) => `${count} ${count === 1 ? noun[0] : noun[1]}`)
      .join(", ");
    groups.set(id, { id, parent: group, kind: "scope", name: "", label, count: sources.length });
    for (const node of sources) home[node] = id;
    id++;
  }
}

/** A frame around one op says no more than the op: of modules and functions that hold a single op, the op takes the place. */
function unwrapSingles(
  nodes: Nodes,
  home: Int32Array,
  groups: ReadonlyMap<number, Group>,
  parent: (group: number) => number,
  consumers: Ends,
): Map<number, number[]> {
  const held = new Map<number, number>();
  const stays = (node: number) => nodes.kind[node] === "op" || !consumers.count(node);
  home.forEach((group, node) => {
    if (stays(node)) for (let at = group; at !== TOP; at = parent(at)) held.set(at, (held.get(at) ?? 0) + 1);
  });
  const kindOf = (group: number) => groups.get(group)?.kind ?? "";
  const single = (group: number) =>
    ["module", "function"].includes(kindOf(group)) && held.get(group) === 1 && !["fold", "loop"].includes(kindOf(parent(group)));
  const wraps = new Map<number, number[]>();
  home.forEach((group, node) => {
    if (nodes.kind[node] !== "op") return;
    const path: number[] = [];
    let at = group;
    for (; single(at); at = parent(at)) path.unshift(at);
    if (!path.length) return;
    wraps.set(node, path);
    home[node] = at;
  });
  return wraps;
}

/** A group with very many ops of its own gets runs of them as groups, so that no level has more boxes than can be drawn. */
function splitLong(nodes: Nodes, home: Int32Array, groups: Map<number, Group>): void {
  const count = new Map<number, number>();
  home.forEach((group, node) => nodes.kind[node] === "op" && count.set(group, (count.get(group) ?? 0) + 1));
  const seen = new Map<number, number>();
  let id = FIRST_RUN;
  const runs = new Map<string, number>();
  home.forEach((group, node) => {
    const all = count.get(group) ?? 0;
    if (nodes.kind[node] !== "op" || all <= LONG) return;
    const rank = seen.get(group) ?? 0;
    seen.set(group, rank + 1);
    const start = rank - (rank % RUN);
    const key = `${group} ${start}`;
    if (!runs.has(key)) {
      runs.set(key, id);
      const label = `ops ${start + 1}–${Math.min(all, start + RUN)} of ${all}`;
      groups.set(id, { id: id++, parent: group, kind: "scope", name: "", label, count: 1 });
    }
    home[node] = runs.get(key)!;
  });
}

/** A map with some entries put over those of another, which stays as it is: choosing another iteration copies nothing. */
class Over<V> implements ReadonlyMap<number, V> {
  private readonly own = new Map<number, V>();
  private more = 0;

  constructor(private readonly base: ReadonlyMap<number, V>) {}

  set(key: number, value: V): void {
    if (!this.own.has(key) && !this.base.has(key)) this.more++;
    this.own.set(key, value);
  }
  get(key: number): V | undefined {
    return this.own.get(key) ?? this.base.get(key);
  }
  has(key: number): boolean {
    return this.own.has(key) || this.base.has(key);
  }
  get size(): number {
    return this.base.size + this.more;
  }
  *entries(): MapIterator<[number, V]> {
    for (const [key, value] of this.base) yield [key, this.own.get(key) ?? value];
    for (const [key, value] of this.own) if (!this.base.has(key)) yield [key, value];
  }
  *keys(): MapIterator<number> {
    for (const [key] of this.entries()) yield key;
  }
  *values(): MapIterator<V> {
    for (const [, value] of this.entries()) yield value;
  }
  [Symbol.iterator](): MapIterator<[number, V]> {
    return this.entries();
  }
  forEach(each: (value: V, key: number, map: ReadonlyMap<number, V>) => void): void {
    for (const [key, value] of this.entries()) each(value, key, this);
  }
}

/** The tree with most of the many iterations of each loop, and of the alike siblings of each fold, hidden in stacks. */
export function stacked(tree: Tree, chosen: ReadonlyMap<number, number>): Tree {
  const [groups, children, totals] = [new Over(tree.groups), new Over(tree.children), new Over(tree.totals)];
  const within = new Map<number, number>(); // a hidden part -> the group that stands for it
  const stacks = new Map<number, Stack>();
  for (const [holder, group] of tree.groups) {
    if (group.kind !== "loop" && group.kind !== "fold") continue;
    const members = tree.children.get(holder) ?? [];
    const items = members.filter((member) => member.group).map((member) => member.id);
    if (items.length <= (group.kind === "loop" ? MANY : MANY_ALIKE)) continue;
    const at = Math.min(chosen.get(holder) ?? (group.kind === "loop" ? 1 : 0), items.length - 1);
    const shown = new Set(at === ALL ? items.keys() : group.kind === "loop" ? [0, at, items.length - 1] : [0, at]);
    const hidden: Hidden[] = [];
    for (let from = 0; from < items.length; from++) {
      if (shown.has(from)) continue;
      let to = from;
      while (to + 1 < items.length && !shown.has(to + 1)) to++;
      if (to > from) hidden.push({ id: FIRST_STACK + 2 * holder + hidden.length, from, to });
      from = to;
    }
    stacks.set(holder, { items, at, hidden });
    for (const { id, from, to } of hidden) {
      const inside = items.slice(from, to + 1);
      const sum: Totals = { ops: 0, parameters: 0, bytes: 0, nodes: 0 };
      for (const one of inside) {
        within.set(one, id);
        for (const key of SUMS) sum[key] += totals.get(one)![key];
      }
      totals.set(id, sum);
      groups.set(id, { id, parent: holder, kind: "scope", ...hiddenWords(tree.groups, holder, items, from, to), count: inside.length });
    }
    if (!hidden.length) continue;
    const own: Member[] = [];
    for (const member of members) {
      const id = member.group ? within.get(member.id) : undefined;
      if (id === undefined) own.push(member);
      else if (children.get(id) === undefined) {
        own.push({ ...member, id });
        children.set(id, [member]);
      } else children.get(id)!.push(member);
    }
    children.set(holder, own);
  }
  if (!stacks.size) return tree;
  const parent = (group: number) => within.get(group) ?? (group >= FIRST_STACK ? (groups.get(group)?.parent ?? TOP) : tree.parent(group));
  return Object.assign(Object.create(tree) as Tree, { groups, children, totals, stacks, parent, depth: depthBy(parent) });
}

function hiddenWords(groups: ReadonlyMap<number, Group>, holder: number, items: readonly number[], from: number, to: number): Pick<Group, "name" | "label"> {
  const [first, last] = [groups.get(items[from]!)!, groups.get(items[to]!)!];
  if (groups.get(holder)!.kind === "loop") {
    const noun = first.label.startsWith(`call `) ? "calls" : "iterations";
    return { name: "", label: `${noun} ${from}–${to} hidden` };
  }
  const same = groups.get(holder)!.label.includes("same weights") ? ", same weights" : "";
  return { name: `${first.name} … ${last.name}`, label: `${first.label} +${to - from + 1} more${same}` };
}

/** The outermost closed group around a group, itself included; or null where all are open. */
export function closedAround(tree: Tree, open: ReadonlySet<number>, group: number): number | null {
  let found: number | null = null;
  for (let at = group; at !== TOP; at = tree.parent(at)) if (!open.has(at)) found = at;
  return found;
}

/** Counts the boxes that are drawn with these groups open. */
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
 * Groups to open at first: level by level, groups of one structure all together, while at most `budget` boxes are drawn.
 * A recording that still grows gives the groups to `keep` open, and opens nothing that repeats.
 */
export function frontier(tree: Tree, budget = 60, keep: ReadonlySet<number> | null = null): Set<number> {
  const open = new Set([...(keep ?? [])].filter((id) => tree.groups.has(id)));
  let count = countBoxes(tree, open);
  let level = [TOP];
  while (level.length) {
    // What stands for hidden iterations stays closed, and so does a bundle of tensors, one long row: they say what they hide.
    const opens = ({ group, id }: Member) => group && id < FIRST_BUNDLE;
    const inside = level.flatMap((id) => tree.children.get(id) ?? []).filter(opens);
    const alike = new Map<string, number[]>();
    for (const { id } of inside) {
      const total = tree.totals.get(id)!;
      const group = tree.groups.get(id)!;
      const key = `${group.kind} ${group.label} ${total.ops} ${tree.children.get(id)!.length}`;
      alike.set(key, [...(alike.get(key) ?? []), id]);
    }
    const repeats = (id: number) => ["fold", "loop"].includes(tree.groups.get(id)!.kind);
    const added = (ids: number[]) => ids.reduce((sum, id) => sum + (open.has(id) ? 0 : tree.children.get(id)!.length), 0);
    const classes = [...alike.values()].sort((a, b) => added(a) - added(b) || a[0]! - b[0]!);
    for (const ids of classes) {
      if (count + added(ids) > budget || (keep && repeats(ids[0]!))) continue;
      ids.forEach((id) => open.add(id));
      count = countBoxes(tree, open);
    }
    level = inside.map((member) => member.id).filter((id) => open.has(id));
  }
  return open;
}
