// Levels of folding, from the outermost groups to every op, with a name for each; and the choice of a level that fits a window.

import { bestScene, goodAt, wholeView, type Window } from "./fit";
import { isLine } from "./lines";
import type { Recording } from "../store";
import { countBoxes, HARD_CAP, isRun, isSummary, TOP, type Tree } from "./tree";

export interface Level {
  name: string; // "model", "blocks", "layers", "ops"
  open: ReadonlySet<number>;
  plain: boolean; // which tree is drawn
  boxes: number; // drawn when these groups are open
}

/** The two trees of a recording: every op with its tensors, and the plain architecture. */
export interface Trees {
  readonly full: Tree;
  readonly plain: Tree;
}

const MOST_BOXES = 250; // more are unreadable in any window, so they are not laid out to find out
const MOST_OPS = 0.75; // a part with a larger share of the ops is the main part of the model
const UNSEEN = 60; // boxes opened while the window's size is unknown
const REPEATS = new Set(["loop", "fold"]);
const found = new WeakMap<Trees, readonly Level[]>();

/**
 * The levels of a recording, outermost first; at least one. Each opens the groups one depth further, down to the modules and functions that
 * contain no others; the last one, of the full tree, opens these too. A loop or fold counts as the same depth as its part that is shown.
 */
export function levelsOf(trees: Trees): readonly Level[] {
  let levels = found.get(trees);
  if (!levels) found.set(trees, (levels = named(trees, distinct(trees))));
  return levels;
}

interface Inner {
  id: number;
  depth: number;
  leaf: boolean; // opened last
}

function distinct(trees: Trees): Omit<Level, "name">[] {
  const levels: Omit<Level, "name">[] = [];
  const outer = innerOf(trees.plain);
  const add = (tree: Tree, open: ReadonlySet<number>) => {
    const level = { open, plain: tree.plain, boxes: countBoxes(tree, open) };
    const before = levels.at(-1);
    // Without groups, leaving out the pills shows no architecture.
    const tells = before?.plain !== level.plain && outer.length > 0 && !sameWords(trees);
    if (before?.boxes === level.boxes && !tells) levels.pop();
    levels.push(level);
  };
  const chosen = (all: readonly Inner[], opens: (one: Inner) => boolean) => new Set(all.filter(opens).map(({ id }) => id));
  const deepest = outer.reduce((most, { depth }) => Math.max(most, depth + 1), 0);
  for (let level = 0; level <= deepest; level++) add(trees.plain, chosen(outer, ({ depth, leaf }) => depth < level && !leaf));
  const all = innerOf(trees.full);
  add(trees.full, chosen(all, ({ id }) => !isRun(id)));
  add(trees.full, chosen(all, () => true));
  const drawable = levels.filter(({ boxes }, at) => !at || boxes <= HARD_CAP);
  // A single closed box says less than its contents.
  while (drawable.length > 1 && drawable[0]!.boxes === 1) drawable.shift();
  return drawable;
}

/** Whether both trees show the same: there are no pills, and nothing is folded away. */
function sameWords({ full, plain }: Trees): boolean {
  return full === plain || (!full.pills.size && !plain.folded);
}

/** The groups of a tree that can be opened. */
function innerOf(tree: Tree): Inner[] {
  const inner: Inner[] = [];
  /** Visits a group; returns whether it contains a module. */
  const visit = (around: number, depth: number): boolean => {
    const repeats = REPEATS.has(tree.groups.get(around)?.kind ?? "");
    let modules = false;
    for (const { group, id } of tree.children.get(around) ?? []) {
      // A module that is a single op has no frame.
      if (!group) modules ||= !!tree.wraps.get(id)?.some((one) => tree.groups.get(one)!.kind === "module");
      if (!group || isSummary(id)) continue;
      const { kind } = tree.groups.get(id)!;
      const one: Inner = { id, depth: repeats ? depth - 1 : depth, leaf: kind === "function" || (isLine(id) && !tree.children.get(id)!.some(({ group: holds }) => holds)) };
      inner.push(one);
      const holds = visit(id, one.depth + 1);
      one.leaf ||= kind === "module" && !holds;
      modules ||= kind === "module" || holds;
    }
    return modules;
  };
  visit(TOP, 0);
  return inner;
}

function named({ full: tree, plain }: Trees, levels: readonly Omit<Level, "name">[]): Level[] {
  const modules = [...tree.places.kinds].includes("module");
  const middle = levels.length - 3; // number of levels between the first level and "layers" and "ops"
  const blocks = middle === 2 ? ["stages", "blocks"] : Array.from({ length: Math.max(0, middle) }, (_, at) => (middle === 1 ? "blocks" : `blocks ${at + 1}`));
  const last = modules ? "layers" : [...plain.places.kinds].includes("function") || ![...plain.groups.keys()].some(isLine) ? "functions" : "lines";
  const names = [modules ? "model" : "outline", ...blocks, last, "ops"];
  if (levels.length < 3) names.splice(last === "lines" || levels.length === 1 ? 0 : 1, names.length - levels.length);
  return levels.map((level, at) => ({ ...level, name: names[at]! }));
}

/** The recording with the tree of the given level. */
export function shownAt(recording: Recording, { plain }: Pick<Level, "plain">): Recording {
  const tree = plain ? recording.trees.plain : recording.trees.full;
  return tree === recording.tree ? recording : { ...recording, tree };
}

/**
 * The initial level and open groups: the deepest level that fits the window with every title readable, else the first. If one part contains
 * most of what the next levels would open, such as a model's encoder, it is opened too if there is room.
 */
export function firstLook(recording: Recording, window: Window): { level: number; open: ReadonlySet<number> } {
  const levels = levelsOf(recording.trees);
  const suits = (level: Pick<Level, "plain">, open: ReadonlySet<number>) => {
    const scene = bestScene(shownAt(recording, level), open, window);
    return wholeView(scene, window).k >= goodAt(scene);
  };
  let best = 0;
  for (const [at, level] of levels.entries()) {
    if (level.boxes > (window.w ? MOST_BOXES : UNSEEN)) break;
    if (!window.w || suits(level, level.open)) best = at;
  }
  const level = levels[best]!;
  const { tree } = shownAt(recording, level);
  let { open } = level;
  if (!window.w || !suits(level, open)) return { level: best, open };
  for (const next of levels.slice(best + 1)) {
    const wider = next.plain === level.plain ? withMost(tree, open, next.open) : open;
    if (wider === open || countBoxes(tree, wider) > MOST_BOXES || !suits(level, wider)) break;
    open = wider;
  }
  return { level: best, open };
}

/** The open groups, plus the part that contains by far the most of the ops that the next level would reveal. */
function withMost(tree: Tree, open: ReadonlySet<number>, next: ReadonlySet<number>): ReadonlySet<number> {
  const opsOf = (id: number) => tree.totals.get(id)!.ops;
  const parts = [...next].filter((id) => !open.has(id) && (tree.parent(id) === TOP || open.has(tree.parent(id))));
  const all = parts.reduce((sum, id) => sum + opsOf(id), 0);
  const most = parts.filter((id) => opsOf(id) > MOST_OPS * all);
  for (const id of most) most.push(...(tree.children.get(id) ?? []).filter((one) => one.group && next.has(one.id)).map((one) => one.id));
  return parts.length > 1 && most.length ? new Set([...open, ...most]) : open;
}
