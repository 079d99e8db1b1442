// Straight-line code: the plain tree gathers the ops of a source line in one box, and long runs of lines in boxes of several lines.

import type { Places } from "./columns";
import type { Nodes, Site } from "../protocol";

const MANY = 20; // ops or lines in one group that are drawn side by side
export const FIRST_LINE = 1.2e9; // first id of these groups: above those of runs, below those of bundles
export const FIRST_BUNDLE = 1.5e9;

/** Whether a group holds the ops of one line of source, or of several consecutive lines. */
export function isLine(group: number): boolean {
  return group >= FIRST_LINE && group < FIRST_BUNDLE;
}

interface Line {
  nodes: number[]; // consecutive, with nothing else between them
  first: Site;
  last: Site;
}

/** Splits each group with many direct ops into groups by source line, for lines with several ops; `counts` says which ops are drawn. */
export function byLine(nodes: Nodes, sites: readonly Site[], place: Int32Array, places: Places, counts: (node: number) => boolean): void {
  const own = new Int32Array(places.ids.length);
  for (let node = 0; node < place.length; node++) if (nodes.kind[node] === "op" && counts(node)) own[place[node]!]!++;
  let id = FIRST_LINE;
  const add = (parent: number, { nodes: members }: Line, name: string, label: string) => {
    const at = places.add({ id: id++, parent, kind: "scope", name, label, count: 1 });
    for (const node of members) place[node] = at;
    return places.ids[at]!;
  };
  for (const { at, lines } of stretches(nodes, sites, place, own)) {
    if (lines.length < 2) continue;
    const size = lines.length > MANY ? Math.ceil(lines.length / Math.ceil(Math.sqrt(lines.length))) : lines.length;
    for (let from = 0; from < lines.length; from += size) {
      const part = lines.slice(from, from + size);
      const all: Line = { nodes: part.flatMap((line) => line.nodes), first: part[0]!.first, last: part.at(-1)!.last };
      const around = size < lines.length && part.length > 1 ? add(places.ids[at]!, all, "", span(all)) : places.ids[at]!;
      for (const line of part) if (line.nodes.filter(counts).length > 1) add(around, line, `line ${line.first.line}`, line.first.text);
    }
  }
}

/** Runs of consecutive lines in one group, with nothing from another group between them. */
function stretches(nodes: Nodes, sites: readonly Site[], place: Int32Array, own: Int32Array): { at: number; lines: Line[] }[] {
  const found: { at: number; lines: Line[] }[] = [];
  let before = -1; // the place of the previous op
  for (let node = 0; node < place.length; node++) {
    if (nodes.kind[node] !== "op") continue;
    const at = place[node]!;
    const site = sites[nodes.site[node]!];
    const goes = at === before;
    before = own[at]! > MANY && site ? at : -1;
    if (before < 0) continue;
    if (!goes) found.push({ at, lines: [] });
    const { lines } = found.at(-1)!;
    const line = lines.at(-1);
    if (line && line.last.line === site!.line && line.last.file === site!.file && line.last.cell_id === site!.cell_id) line.nodes.push(node);
    else lines.push({ nodes: [node], first: site!, last: site! });
  }
  return found;
}

function span({ first, last }: Line): string {
  return first.line < last.line && first.cell_id === last.cell_id ? `lines ${first.line}–${last.line}` : `from line ${first.line}`;
}
