// The recording as a tree of groups: who holds what, what a closed group hides, which tensors ride as pills on their consumer.

import type { Edges, Group, Nodes } from "../protocol";
import type { Totals } from "../words";

export const TOP = -1;
const LONG = 1000; // more ops than this in one group are split into runs
const RUN = 500;
const FIRST_RUN = 1e9; // ids of runs: far above those of the recording's groups
const MANY = 8; // of more iterations than this most are hidden in a stack
const MANY_ALIKE = 4; // and of more alike siblings
const FIRST_STACK = 2e9; // ids of stacks
export const ALL = -1; // chosen: none is hidden

export interface Tree {
  size: number; // nodes
  groups: ReadonlyMap<number, Group>;
  parent(group: number): number;
  depth(group: number): number;
  /** The group a node is drawn in: tensors that no op made move to the lowest common group of their consumers. */
  home: Int32Array;
  /** The op that carries this node as a pill, or -1. */
  host: Int32Array;
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

function ancestry(groups: ReadonlyMap<number, Group>): Pick<Tree, "parent" | "depth"> {
  const depths = new Map<number, number>([[TOP, 0]]);
  const parent = (group: number): number => {
    const up = groups.get(group)?.parent ?? TOP;
    return groups.has(up) ? up : TOP;
  };
  const depth = (group: number): number => {
    const path: number[] = [];
    let at = groups.has(group) ? group : TOP;
    while (!depths.has(at) && path.length <= groups.size) {
      path.push(at);
      at = parent(at);
    }
    let level = depths.get(at) ?? 0;
    for (const id of path.reverse()) depths.set(id, ++level);
    return level;
  };
  return { parent, depth };
}

/** While the code runs (`live`) more may come into a group, so each stays a box. */
export function buildTree(nodes: Nodes, edges: Edges, groupList: readonly Group[], live = false): Tree {
  const size = nodes.op.length;
  const groups = new Map(groupList.map((group) => [group.id, group]));
  const { parent, depth } = ancestry(groups);
  const common = (a: number, b: number): number => {
    let [x, y] = [a, b];
    while (depth(x) > depth(y)) x = parent(x);
    while (depth(y) > depth(x)) y = parent(y);
    while (x !== y) [x, y] = [parent(x), parent(y)];
    return x;
  };

  // Data comes into a module or function from outside, even if it was first seen there.
  const outside = (group: number): number => {
    let at = group;
    while (["module", "function", "fold"].includes(groups.get(at)?.kind ?? "")) at = parent(at);
    return at;
  };

  const inputs: number[][] = Array.from({ length: size }, () => []);
  const consumers: number[][] = Array.from({ length: size }, () => []);
  edges.source.forEach((source, row) => {
    const target = edges.target[row]!;
    if (source < 0 || target < 0 || source >= size || target >= size) return;
    if (!inputs[target]!.includes(source)) {
      inputs[target]!.push(source);
      consumers[source]!.push(target);
    }
  });

  const home = new Int32Array(size);
  const host = new Int32Array(size).fill(-1);
  const pills = new Map<number, number[]>();
  for (let node = 0; node < size; node++) {
    const own = nodes.group[node]!;
    home[node] = groups.has(own) ? own : TOP;
  }
  const wraps = live ? new Map<number, number[]>() : unwrapSingles(nodes, home, groups, parent, consumers);
  splitLong(nodes, home, groups);
  for (let node = 0; node < size; node++) {
    const used = consumers[node]!;
    if (nodes.kind[node] === "op" || used.length === 0) continue;
    const lowest = used.map((c) => home[c]!).reduce(common);
    // What has no name was made where it is used: a mask, a buffer. While the code runs names are yet to come.
    const given = nodes.kind[node] === "input" && (live || nodes.name[node] !== "");
    home[node] = given ? outside(common(lowest, home[node]!)) : lowest;
    if (nodes.kind[node] !== "input" && used.length === 1 && nodes.kind[used[0]!] === "op") {
      host[node] = used[0]!;
      const list = pills.get(used[0]!);
      if (list) list.push(node);
      else pills.set(used[0]!, [node]);
    }
  }

  const first = new Map<number, number>();
  const totals = new Map<number, Totals>();
  for (let node = 0; node < size; node++) {
    const op = nodes.kind[node] === "op" ? 1 : 0;
    const parameters = nodes.kind[node] === "parameter" ? nodes.shape[node]!.reduce((a, b) => a * b, 1) : 0;
    let group = home[node]!;
    for (let up = 0; up <= groups.size; up++) {
      const sum = totals.get(group);
      if (sum) {
        sum.ops += op;
        sum.parameters += parameters;
        sum.bytes += nodes.bytes[node]!;
        sum.nodes++;
      } else {
        totals.set(group, { ops: op, parameters, bytes: nodes.bytes[node]!, nodes: 1 });
      }
      if (!first.has(group)) first.set(group, node);
      if (group === TOP) break;
      group = parent(group);
    }
  }

  const children = new Map<number, Member[]>([[TOP, []]]);
  for (const id of first.keys()) children.set(id, []);
  for (let node = 0; node < size; node++) {
    if (host[node]! < 0) children.get(home[node]!)!.push({ group: false, id: node, first: node });
  }
  for (const [id, start] of first) {
    if (id !== TOP) children.get(parent(id))!.push({ group: true, id, first: start });
  }
  for (const members of children.values()) members.sort((a, b) => a.first - b.first || Number(b.group) - Number(a.group));
  const stacks = new Map<number, Stack>();
  return { size, groups, parent, depth, home, host, wraps, inputs, consumers, pills, children, totals, stacks };
}

/** A frame around one op says no more than the op: of modules and functions that hold a single op, the op takes the place. */
function unwrapSingles(
  nodes: Nodes,
  home: Int32Array,
  groups: ReadonlyMap<number, Group>,
  parent: (group: number) => number,
  consumers: readonly (readonly number[])[],
): Map<number, number[]> {
  const held = new Map<number, number>();
  const stays = (node: number) => nodes.kind[node] === "op" || consumers[node]!.length === 0;
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

/** The tree with most of the many iterations of each loop, and of the alike siblings of each fold, hidden in stacks. */
export function stacked(tree: Tree, chosen: ReadonlyMap<number, number>): Tree {
  const [groups, children, totals] = [new Map(tree.groups), new Map(tree.children), new Map(tree.totals)];
  const stacks = new Map<number, Stack>();
  for (const [holder, members] of tree.children) {
    const kind = holder === TOP ? "" : tree.groups.get(holder)!.kind;
    const items = kind === "loop" || kind === "fold" ? members.filter((member) => member.group).map((member) => member.id) : [];
    if (items.length <= (kind === "loop" ? MANY : MANY_ALIKE)) continue;
    const at = Math.min(chosen.get(holder) ?? (kind === "loop" ? 1 : 0), items.length - 1);
    const hidden: Hidden[] = [];
    const shown = new Set(at === ALL ? items.keys() : kind === "loop" ? [0, at, items.length - 1] : [0, at]);
    for (let from = 0; from < items.length; from++) {
      if (shown.has(from)) continue;
      let to = from;
      while (to + 1 < items.length && !shown.has(to + 1)) to++;
      if (to > from) hidden.push({ id: FIRST_STACK + 2 * holder + hidden.length, from, to });
      from = to;
    }
    stacks.set(holder, { items, at, hidden });
    const own = [...members];
    for (const { id, from, to } of hidden) {
      const inside = own.filter((member) => member.group && items.slice(from, to + 1).includes(member.id));
      own.splice(own.indexOf(inside[0]!), inside.length, { group: true, id, first: inside[0]!.first });
      children.set(id, inside);
      const sum: Totals = { ops: 0, parameters: 0, bytes: 0, nodes: 0 };
      for (const { id: one } of inside) {
        groups.set(one, { ...groups.get(one)!, parent: id });
        for (const key of ["ops", "parameters", "bytes", "nodes"] as const) sum[key] += totals.get(one)![key];
      }
      totals.set(id, sum);
      groups.set(id, { id, parent: holder, kind: "scope", ...hiddenWords(tree.groups, holder, items, from, to), count: to - from + 1 });
    }
    children.set(holder, own);
  }
  if (!stacks.size) return tree;
  return { ...tree, groups, children, totals, stacks, ...ancestry(groups) };
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
    const inside = level.flatMap((id) => tree.children.get(id) ?? []).filter((member) => member.group);
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
