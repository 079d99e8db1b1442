// Marks derived from the state for each box and wire: selected, current, done, found, the tint and the badge.

import { failed } from "./face";
import { widthOfNorm, type Gradients } from "../panes/gradients";
import type { Flag as NodeFlag } from "../protocol";
import { answered, type State } from "../store";
import { numbersOf, type Numbers } from "./overlays";
import { summed } from "./stacks";
import { closedAround, drawnAs, homeOf, reachedBy, type Tree } from "./tree";
import { gradientText, numberText } from "../words";
import type { Wire } from "./wires";

/** A small glyph at a box's corner, and its meaning. */
export type Flag = Omit<NodeFlag, "node">;

export interface Mark {
  classes: string;
  badge: string;
  warm: boolean; // the badge is a gradient norm
  norm: string | null; // in full precision, for `data-grad-norm`
  tint: number; // 0 to 1
  flags: readonly Flag[]; // small glyphs at the corner
}

export interface Marks {
  /** The mark of a box, or of a pill on the box of `host`. */
  box(key: string, host?: number): Mark;
  wire(wire: Wire): { lit: boolean; flows: boolean; width: number; slope?: string };
}

export function marksOf(state: State, gradients: Gradients): Marks {
  const recording = state.recording!;
  const { tree } = recording;
  const holder = (node: number) => (node < 0 || node >= tree.size ? null : closedAround(tree, state.open, homeOf(tree, node)));
  const currentGroup = holder(gradients.current);
  const hits = new Set(state.search.hits);
  // A node drawn as part of another is marked there.
  const drawn = (node: number) => (node < 0 || node >= tree.size ? -1 : drawnAs(tree, node));
  const [selected, current] = [drawn(state.selected), drawn(gradients.current)];
  const [hitBoxes, caret] = [new Set(state.search.hits.map(drawn)), new Set([...state.caret].map(drawn))];
  const caretGroups = new Set([...state.caret].map(holder));
  const found = counted(tree, hits);
  const numbers = numbersOf(state);
  const totals = numbers && totalsOf(numbers, tree);
  const flags = flagsOf(state);
  const flagsAt = tree.plain ? flagsBy(flags, drawn) : flags;
  const slopes = slopesOf(state);
  let hidden: ReadonlyMap<number, Flag[]> | undefined; // flags inside closed groups, computed when first needed

  const plan = state.pass?.plan ?? [];
  const all = counted(tree, plan);
  const done = counted(tree, plan, gradients.done);
  const reached = tree.uses.size ? reachedBy(plan) : null;

  function nodeMark(node: number, host?: number): Mark {
    const classes: string[] = [];
    // a shared tensor is marked only at the uses that the pass goes through
    const passes = host === undefined || host === tree.host[node] || !reached || reached.has(host);
    const summary = passes ? gradients.total.get(node) : undefined;
    if (node === selected) classes.push("selected");
    if (passes && node === current) classes.push("current");
    if (passes && gradients.done.has(node)) classes.push("done");
    else if (summary) classes.push("reached");
    if (hitBoxes.has(node)) classes.push("hit");
    if (failed(recording, node)) classes.push("failed");
    if (node === recording.root) classes.push("root");
    if (caret.has(node)) classes.push("caret");
    const own = flagsAt.get(node) ?? NONE;
    if (numbers) {
      const value = numbers.of(node);
      const known = !Number.isNaN(value);
      const badge = known ? numbers.overlay.text(value) : "";
      return { classes: classes.join(" "), badge, warm: false, norm: full(summary?.norm), tint: known ? numbers.tint(value) : 0, flags: own };
    }
    const tangent = state.tangents.get(node);
    if (tangent !== undefined) return { classes: [...classes, "done"].join(" "), badge: tangent, warm: true, norm: null, tint: 0, flags: own };
    const badge = summary && state.overlay === "gradient" ? `∇ ${gradientText(summary)}` : "";
    return { classes: classes.join(" "), badge, warm: true, norm: full(summary?.norm), tint: 0, flags: own };
  }

  function groupMark(group: number): Mark {
    if (state.open.has(group)) return { classes: "", badge: "", warm: false, norm: null, tint: 0, flags: NONE };
    const classes: string[] = [];
    if (group === currentGroup) classes.push("current");
    if (done(group) > 0) classes.push(done(group) === all(group) ? "done" : "reached");
    if (found(group)) classes.push("hit");
    if (caretGroups.has(group)) classes.push("caret");
    if (state.selected >= 0 && holder(state.selected) === group) classes.push("selected");
    const total = totals?.(group) ?? NaN;
    const known = numbers && !Number.isNaN(total);
    const badge = known ? numbers.overlay.text(total) : !numbers && found(group) ? `${found(group)} found` : "";
    return { classes: classes.join(" "), badge, warm: false, norm: null, tint: known ? numbers.tint(total) : 0, flags: hiddenFlags(group) };
  }

  /** The flags of the nodes that a closed group hides. */
  function hiddenFlags(group: number): readonly Flag[] {
    hidden ??= flagsBy(flags, holder);
    return hidden.get(group) ?? NONE;
  }

  return {
    box: (key, host) => (key.startsWith("g") ? groupMark(Number(key.slice(1))) : nodeMark(Number(key.slice(1)), host)),
    wire({ source, consumers }) {
      const given = gradients.from.get(source);
      const known = (consumer: number) => slopes.get(`${source} ${consumer}`);
      const slope = slopes.size ? (consumers.map(known).find((text) => text) ?? "") : "";
      if (!given) return { lit: false, flows: false, width: 1.5, slope };
      let [lit, flows, width] = [false, false, 1.5];
      for (const consumer of consumers) {
        const summary = given.get(consumer);
        if (!summary) continue;
        lit = true;
        flows ||= consumer === gradients.current;
        width = state.overlay === "gradient" ? Math.max(width, widthOfNorm(summary.norm, gradients.largest)) : 2;
      }
      return { lit, flows, width, slope };
    },
  };
}

/** The local derivative on each edge between scalars, if that overlay is chosen. */
function slopesOf(state: State): Map<string, string> {
  const message = state.overlay === "slope" ? answered(state, "slopes")?.message : undefined;
  const found = new Map<string, Set<string>>(); // an op that takes one scalar twice has two derivatives
  message?.source.forEach((source, at) => {
    const key = `${source} ${message.target[at]!}`;
    found.set(key, (found.get(key) ?? new Set()).add(numberText(message.value[at], 3)));
  });
  return new Map([...found].map(([key, values]) => [key, `∂ ${[...values].join(", ")}`]));
}

function full(norm: number | null | undefined): string | null {
  return norm === null || norm === undefined ? null : String(norm);
}

const NONE: readonly Flag[] = [];

/** The flags of all origins, by node. */
function flagsOf({ flags }: State): Map<number, Flag[]> {
  const found = new Map<number, Flag[]>();
  for (const some of flags.values()) {
    for (const flag of some) found.set(flag.node, [...(found.get(flag.node) ?? []), flag]);
  }
  return found;
}

/** The flags of the nodes of each box, or closed group: one of each kind, with the number of nodes that have it. */
function flagsBy(flags: ReadonlyMap<number, Flag[]>, boxOf: (node: number) => number | null): Map<number, Flag[]> {
  const all = new Map<number, Map<string, Flag[]>>(); // by box and glyph
  for (const [node, own] of flags) {
    const box = boxOf(node);
    if (box === null) continue;
    const kinds = all.get(box) ?? new Map<string, Flag[]>();
    all.set(box, kinds);
    for (const flag of own) kinds.set(flag.glyph, [...(kinds.get(flag.glyph) ?? []), flag]);
  }
  const told = (same: Flag[]) => (same.length === 1 ? same[0]! : { ...same[0]!, words: `${same.length} nodes in here; the first: ${same[0]!.words}` });
  return new Map([...all].map(([box, kinds]) => [box, [...kinds.values()].map(told)]));
}

/** A function that counts how many of these nodes (and of `among`) are in a group. */
function counted(tree: Tree, nodes: Iterable<number>, among?: ReadonlySet<number>): (group: number) => number {
  let of: ((group: number) => number) | undefined; // computed on first use
  return (group) => {
    if (!of) {
      const sums = new Float64Array(tree.places.ids.length);
      for (const node of nodes) if (node >= 0 && node < tree.size && (!among || among.has(node))) sums[tree.place[node]!]!++;
      of = summed(tree, tree.places.rollUp(sums));
    }
    return of(group);
  };
}

/** A function that returns the sum or the maximum of the numbers in a group; NaN if none of its nodes has one. */
function totalsOf({ overlay, of }: Numbers, tree: Tree): (group: number) => number {
  const join = (a: number, b: number) => (Number.isNaN(a) ? b : Number.isNaN(b) ? a : overlay.total === "sum" ? a + b : Math.max(a, b));
  const sums = new Float64Array(tree.places.ids.length).fill(NaN);
  for (let node = 0; node < tree.size; node++) sums[tree.place[node]!] = join(sums[tree.place[node]!]!, of(node));
  return summed(tree, tree.places.rollUp(sums, join), join);
}
