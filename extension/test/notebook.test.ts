// What the notebook around says: the caret's line finds its nodes, and lines or cells that are others now make nodes stale.
import { describe, expect, it } from "vitest";
import { checksum, nodesAt, staleFlags } from "../src/view/notebook";
import type { Flag, Site } from "../src/view/protocol";
import type { Recording } from "../src/view/store";
import { recordingOf } from "./dag";
import { mlp } from "./page/recordings";

const site = (cell_id: string | null, cell: string, line: number, text: string): Site => ({ cell, cell_id, file: "", line, text });
const SITES = [
  site("a", "In [1]", 2, "h = f(x)"),
  site("b", "In [2]", 1, "y = h + h"),
  site("b", "In [2]", 4, "y = h + h"),
  site(null, null as never, 9, "return x"),
];

/** A recording whose first nodes were made at these sites, the rest at none. */
function recording(...at: number[]): Recording {
  const made = recordingOf(mlp());
  const site = made.nodes.op.map((_, node) => at[node] ?? -1);
  return { ...made, sites: SITES, nodes: { ...made.nodes, site } };
}

describe("the caret's line", () => {
  const shown = recording(0, 1, 2, 2, 3);
  it("has the nodes of its cell and text, of equal lines those of the nearest", () => {
    expect(nodesAt(shown, { cell_id: "a", line: 2, text: "  h = f(x)" })).toEqual([0]);
    expect(nodesAt(shown, { cell_id: "b", line: 1, text: "y = h + h" })).toEqual([1]);
    expect(nodesAt(shown, { cell_id: "b", line: 5, text: "y = h + h" })).toEqual([2, 3]); // one line was put in above
  });
  it("has none in another cell, in a line that reads otherwise, or in a file", () => {
    expect(nodesAt(shown, { cell_id: "c", line: 2, text: "h = f(x)" })).toEqual([]);
    expect(nodesAt(shown, { cell_id: "a", line: 2, text: "h = g(x)" })).toEqual([]);
    expect(nodesAt(shown, { cell_id: "a", line: 9, text: "return x" })).toEqual([]);
  });
});

describe("stale nodes", () => {
  const run = (cell_id: string, cell: string, now: string, text = -1) => ({ cell_id, cell, now, text });
  const own = (flags: readonly Flag[]) => flags.flatMap(({ node, words, glyph }) => (glyph === "~" ? [[node, words]] : []));
  const shown = recording(0, 1, 3);
  const cells = (a: string) => new Map([["a", a], ["b", "y = h + h"]]);
  it("are those whose line is not in the cell any more", () => {
    expect(staleFlags(shown, [], cells("import f\n  h = f(x)"))).toEqual([]);
    expect(own(staleFlags(shown, [], cells("h = g(x)")))).toEqual([[0, "Stale: its line was changed after In [1] had run; it was: h = f(x)"]]);
  });
  it("are those whose cell has run again under another number", () => {
    const found = staleFlags(shown, [run("b", "In [2]", "In [7]"), run("a", "In [1]", "In [1]")], null);
    expect(own(found)).toEqual([[1, "Stale: In [2] has run again since, as In [7]; this was made before"]]);
  });
  it("are those whose cell was edited, in whatever line; not by a comment, an empty line, or space", () => {
    const runs = [run("a", "In [1]", "In [1]", checksum("h = f(x)\ny = 2"))];
    expect(staleFlags(shown, runs, cells("  h = f(x)\n\n# a remark\ny = 2 "))).toEqual([]);
    expect(own(staleFlags(shown, runs, cells("h = f(x)\ny = 3")))).toEqual([[0, "Stale: another line of its cell was changed after In [1] had run"]]);
    expect(staleFlags(shown, [run("a", "In [1]", "In [1]")], cells("h = f(x)\ny = 3"))).toEqual([]); // what ran is not known
  });
  it("lead to what was made from them, by another mark, as far as it goes", () => {
    const found = staleFlags(shown, [], cells("h = g(x)"));
    const { source, target } = shown.edges;
    const reached = new Set([0]);
    target.forEach((node, at) => reached.has(source[at]!) && reached.add(node)); // edges are in the order of their targets
    expect(reached.size).toBeGreaterThan(3);
    expect(new Set(found.map(({ node }) => node))).toEqual(reached);
    expect(found.filter(({ glyph }) => glyph === "≈").map(({ node }) => node)).toEqual([...reached].filter((node) => node > 0));
  });
  it("has the checksum that everybody has", () => {
    expect(checksum("123456789")).toBe(0xcbf43926); // the check value of CRC-32 in its catalogue
    expect(checksum(" ü = 1\n\n# no\n\tb")).toBe(checksum("ü = 1\nb"));
  });
  it("are none where nothing is known of the notebook", () => {
    expect(staleFlags(shown, [], null)).toEqual([]);
  });
});
