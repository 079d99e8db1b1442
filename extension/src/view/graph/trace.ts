// Nodes between others: neighbors, all paths between two nodes, everything that leads to the inputs or to the loss.

import type { Recording } from "../store";
import type { Tree } from "./tree";
import { keyOf } from "./walk";
import { nameOf, plural } from "../words";

export interface Trace {
  nodes: ReadonlySet<number>;
  ends: readonly number[]; // its start and end
  sentence: string;
}

/** Everything reachable from `start` in the direction of `next`, including itself. */
function reached(next: Tree["inputs"], start: number): Set<number> {
  const found = new Set([start]);
  for (const node of found) for (const other of next.slice(node)) found.add(other);
  return found;
}

/** All paths from one of two nodes to the other; the order is found from their ids. */
export function pathsBetween(recording: Recording, a: number, b: number): Trace {
  const { tree } = recording;
  const [from, to] = a < b ? [a, b] : [b, a]; // inputs have smaller ids
  const [first, last] = [nameOf(recording, from), nameOf(recording, to)];
  const behind = reached(tree.inputs, to);
  if (!behind.has(from)) return { nodes: new Set(), ends: [from, to], sentence: `No path leads from ${first} to ${last}.` };
  const nodes = new Set([...reached(tree.consumers, from)].filter((node) => behind.has(node)));
  const ways = new Map([[from, 1]]);
  for (const node of [...nodes].sort((x, y) => x - y)) {
    if (node !== from) ways.set(node, tree.inputs.of(node).reduce((sum, input) => sum + (ways.get(input) ?? 0), 0));
  }
  const count = ways.get(to)!;
  const between = nodes.size - (from === to ? 1 : 2);
  const paths = count === 1 ? "the one path" : `the ${count < 1e6 ? count : count.toExponential(1)} paths`;
  const lie = between === 1 ? "1 node is" : `${between} nodes are`;
  return { nodes, ends: [from, to], sentence: `${lie} on ${paths} from ${first} to ${last}.` };
}

/** Everything that the node was computed from. */
export function toInputs(recording: Recording, node: number): Trace {
  const { nodes, tree } = recording;
  const found = reached(tree.inputs, node);
  const sources = [...found].filter((one) => one !== node && !tree.inputs.count(one));
  const parameters = sources.filter((one) => nodes.kind[one] === "parameter").length;
  const of = parameters ? `, ${plural(parameters, "parameter")} among them` : "";
  const sentence = `${nameOf(recording, node)} was computed from ${plural(sources.length, "source")}${of}, through ${plural(found.size - 1 - sources.length, "op")}.`;
  return { nodes: found, ends: [node], sentence };
}

/** Everything between the node and the loss; if there is no loss or no path to it, everything the node reaches. */
export function toLoss(recording: Recording, node: number): Trace {
  const { root, tree } = recording;
  const found = reached(tree.consumers, node);
  if (root >= 0 && root !== node && found.has(root)) return pathsBetween(recording, node, root);
  const why = root >= 0 && root !== node ? `No path leads from ${nameOf(recording, node)} to ${nameOf(recording, root)}. It` : nameOf(recording, node);
  return { nodes: found, ends: [node], sentence: `${why} reaches ${plural(found.size - 1, "node")}.` };
}

/** What is highlighted: keys of boxes and pills. */
export interface Lit {
  path: ReadonlySet<string>;
  beside: ReadonlySet<string>; // inputs and consumers of the selected node
  onPath(source: number, consumers: readonly number[]): boolean;
}

export const NONE_LIT: Lit = { path: new Set(), beside: new Set(), onPath: () => false };

export function litOf(recording: Recording, open: ReadonlySet<number>, selected: number, trace: Trace | null): Lit {
  const { tree } = recording;
  const keys = (nodes: Iterable<number>) => {
    const found = new Set<string>();
    for (const node of nodes) {
      found.add(keyOf(recording, open, node));
      const host = tree.plain ? -1 : tree.host[node]!;
      if (host >= 0 && trace?.nodes.has(host)) found.add(keyOf(recording, open, host));
    }
    return found;
  };
  const known = selected >= 0 && selected < tree.size;
  const beside = known ? keys([...tree.inputs.of(selected), ...tree.consumers.of(selected)]) : new Set<string>();
  const on = trace?.nodes;
  const onPath = (source: number, consumers: readonly number[]) => !!on?.has(source) && consumers.some((consumer) => on.has(consumer));
  return { path: trace ? keys(trace.nodes) : new Set(), beside, onPath };
}
