// Keyboard navigation in the graph: along edges, among siblings, into and out of groups.

import type { Recording } from "../store";
import { closedAround, drawnAs, homeOf, TOP } from "./tree";

/** The key of the box or pill that shows a node now. */
export function keyOf(recording: Recording, open: ReadonlySet<number>, node: number): string {
  const closed = closedAround(recording.tree, open, homeOf(recording.tree, node));
  return closed === null ? `n${drawnAs(recording.tree, node)}` : `g${closed}`;
}

function within(recording: Recording, key: string, node: number): boolean {
  const id = Number(key.slice(1));
  if (key.startsWith("n")) return id === drawnAs(recording.tree, node);
  for (let at = homeOf(recording.tree, node); at !== TOP; at = recording.tree.parent(at)) if (at === id) return true;
  return false;
}

/** The first neighbor against (`up`) or along the edges. */
export function alongEdge(recording: Recording, open: ReadonlySet<number>, key: string, up: boolean): string | null {
  const { edges, tree } = recording;
  const near = up ? edges.target : edges.source;
  const far = up ? edges.source : edges.target;
  for (let row = 0; row < near.length; row++) {
    const [here, there] = [near[row]!, far[row]!];
    if (here >= tree.size || there >= tree.size || !within(recording, key, here) || within(recording, key, there)) continue;
    return keyOf(recording, open, there);
  }
  return null;
}

/** The next or previous box in the same group; pills come right before the box that carries them. */
export function sibling(recording: Recording, key: string, by: 1 | -1): string | null {
  const { tree } = recording;
  const id = Number(key.slice(1));
  const group = key.startsWith("g") ? tree.parent(id) : homeOf(tree, id);
  const keys = (tree.children.get(group) ?? []).flatMap((member) =>
    member.group ? [`g${member.id}`] : [...(tree.pills.get(member.id) ?? []).map((pill) => `n${pill}`), `n${member.id}`],
  );
  return keys[keys.indexOf(key) + by] ?? null;
}

export function firstInside(recording: Recording, group: number): string | null {
  const member = recording.tree.children.get(group)?.[0];
  return member ? (member.group ? "g" : "n") + member.id : null;
}

export function groupAround(recording: Recording, key: string): number {
  const id = Number(key.slice(1));
  return key.startsWith("g") ? recording.tree.parent(id) : homeOf(recording.tree, id);
}
