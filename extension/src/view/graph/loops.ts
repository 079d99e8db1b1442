// The part of a loop or fold that is shown: choosing an iteration, showing all, and finding hidden parts.

import type { Trees } from "./levels";
import type { Recording, State } from "../store";
import { stacked } from "./stacks";
import { ALL, closedAround, countBoxes, HARD_CAP, hosted, homeOf, TOP, type Stack, type Tree } from "./tree";
import { totalsText } from "../words";

/** The view's state for loops and folds: the trees without stacks, the item chosen for each, and the step whose iteration was brought last. */
export interface Loops {
  trees: Trees | null;
  chosen: ReadonlyMap<number, number>;
  followed: string;
}

export const NO_LOOPS: Loops = { trees: null, chosen: new Map(), followed: "" };

/** The recording with the chosen parts of its loops and folds shown. */
function choose(recording: Recording, { full, plain }: Trees, chosen: Loops["chosen"]): Recording {
  const trees = { full: stacked(full, chosen), plain: stacked(plain, chosen) };
  return { ...recording, trees, tree: recording.tree.plain ? trees.plain : trees.full };
}

/** The drawn tree, without stacks. */
function whole({ recording, loops }: State): Tree | null {
  return loops.trees && (recording?.tree.plain ? loops.trees.plain : loops.trees.full);
}

/** Shows item `to` of a loop or fold, or all of them for ALL. Groups that were open in the previous item are opened in this one. */
export function iterate(state: State, holder: number, to: number): State {
  const { recording, loops } = state;
  const stack = recording?.tree.stacks.get(holder);
  const base = whole(state);
  if (!recording || !loops.trees || !base || !stack) return state;
  const at = to === ALL ? ALL : Math.min(Math.max(to, 0), stack.items.length - 1);
  if (at === stack.at) return state;
  const chosen = new Map(loops.chosen).set(holder, at);
  const now = choose(recording, loops.trees, chosen);
  const { tree } = now;
  const open = new Set(state.open).add(holder);
  if (stack.at !== ALL && at !== ALL) openAlike(base, stack.items[stack.at]!, stack.items[at]!, open);
  const boxes = countBoxes(tree, open);
  if (boxes > HARD_CAP) {
    const sentence = `That would draw ${boxes} boxes, and at most ${HARD_CAP} are drawn. Close some of the turns, or choose one with the slider.`;
    return { ...state, status: { sentence, tone: "error" } };
  }
  const focus = hides(tree, open, state.focus) ? `g${holder}` : state.focus;
  return { ...state, recording: now, loops: { ...loops, chosen }, open, focus, touched: true };
}

/** Shows every item of the loops and folds in a group. */
export function unrolled(state: State, group: number): State {
  const { recording, loops } = state;
  const base = whole(state);
  if (!recording || !loops.trees || !base) return state;
  const chosen = new Map(loops.chosen);
  const holders = [...recording.tree.stacks.keys()];
  const within = (holder: number) => {
    for (let at = holder; at !== TOP; at = base.parent(at)) if (at === group) return true;
    return group === TOP;
  };
  for (const holder of holders) if (within(holder)) chosen.set(holder, ALL);
  return { ...state, recording: choose(recording, loops.trees, chosen), loops: { ...loops, chosen } };
}

/** Whether a key's box has disappeared because its iteration is now hidden. */
function hides(tree: Tree, open: ReadonlySet<number>, key: string): boolean {
  if (key === "") return false;
  const id = Number(key.slice(1));
  if (key.startsWith("g")) return !tree.groups.has(id) || closedAround(tree, open, tree.parent(id)) !== null;
  return id >= tree.size || closedAround(tree, open, homeOf(tree, id)) !== null;
}

/** Opens in `to` what is open in `from`, where both have the same structure. */
function openAlike(tree: Tree, from: number, to: number, open: Set<number>): void {
  const pairs: [number, number][] = [[from, to]];
  for (let pair = pairs.pop(); pair; pair = pairs.pop()) {
    const [a, b] = pair;
    if (!open.has(a)) continue;
    open.add(b);
    const groups = (group: number) => (tree.children.get(group) ?? []).filter((member) => member.group).map((member) => member.id);
    const [inA, inB] = [groups(a), groups(b)];
    if (inA.length === inB.length) inA.forEach((id, at) => pairs.push([id, inB[at]!]));
  }
}

/** The state in which every loop and fold around a node shows the item that contains it, opened like the item shown before. */
export function choosing(state: State, node: number): State {
  const { recording, loops } = state;
  const base = whole(state);
  if (!recording || !loops.trees || !base || node < 0 || node >= recording.tree.size) return state;
  const chosen = new Map(loops.chosen);
  const open = new Set(state.open);
  let moved = false;
  for (let at = homeOf(base, node); at !== TOP; at = base.parent(at)) {
    const holder = base.parent(at);
    const stack = recording.tree.stacks.get(holder);
    const item = stack?.rank.get(at) ?? -1;
    if (!stack || item < 0 || stack.at === ALL || stack.at === item) continue;
    chosen.set(holder, item);
    openAlike(base, stack.items[stack.at]!, at, open);
    moved = true;
  }
  if (!moved) return state;
  return { ...state, recording: choose(recording, loops.trees, chosen), loops: { ...loops, chosen }, open };
}

/** The state in which the iteration of the pass's last step is shown; of the same step only once, as another may have been chosen since. */
export function following(state: State): State {
  const { pass } = state;
  if (!pass) return state;
  const node = pass.steps.get(pass.index)?.node ?? pass.plan[Math.max(0, pass.index - 1)] ?? -1;
  const followed = `${pass.number} ${pass.index} ${node}`;
  if (followed === state.loops.followed) return state;
  const next = choosing(state, node);
  return { ...next, loops: { ...next.loops, followed } };
}

/** The state after the pass has changed: a tensor used in several iterations is attributed to the use that the pass goes through. */
export function meeting(state: State): State {
  const { recording, loops, pass } = state;
  if (!recording || !pass) return state;
  const base = loops.trees ?? recording.trees;
  const trees = { full: hosted(base.full, pass.plan), plain: hosted(base.plain, pass.plan) };
  if (trees.full === base.full && trees.plain === base.plain) return state;
  if (!loops.trees) return { ...state, recording: { ...recording, trees, tree: trees.full } }; // it still grows
  return { ...state, recording: choose(recording, trees, loops.chosen), loops: { ...loops, trees } };
}

/**
 * One of the nodes that a line of code made in any iteration: the first that the pass goes through, else the first of all; -1 if there are
 * none.
 */
export function caretNode(nodes: ReadonlySet<number>, pass: State["pass"]): number {
  const [first = -1] = nodes;
  return pass?.plan.find((node) => nodes.has(node)) ?? first;
}

/** The loop or fold that keys act on: the innermost one around the focus, else the first that is drawn open, else the first of all. */
export function loopAt({ recording, focus, open }: State): number | null {
  if (!recording) return null;
  const { tree } = recording;
  const id = Number(focus.slice(1));
  const known = focus !== "" && (focus.startsWith("g") ? tree.groups.has(id) : id < tree.size);
  for (let at = known ? (focus.startsWith("g") ? id : homeOf(tree, id)) : TOP; at !== TOP; at = tree.parent(at)) if (tree.stacks.has(at)) return at;
  for (const holder of tree.stacks.keys()) if (open.has(holder) && closedAround(tree, open, holder) === null) return holder;
  return tree.stacks.keys().next().value ?? null;
}

/** For example "1–11, 13–498 hidden: 3.9k ops, 12 kB", counted from 1; "" if nothing is hidden. */
export function hiddenText(tree: Tree, stack: Stack): string {
  if (!stack.hidden.length) return "";
  const sum = { ops: 0, parameters: 0, bytes: 0, nodes: 0 };
  for (const { id } of stack.hidden) {
    const totals = tree.totals.get(id)!;
    for (const key of ["ops", "parameters", "bytes", "nodes"] as const) sum[key] += totals[key];
  }
  const ranges = stack.hidden.map(({ from, to }) => (from === to ? from + 1 : `${from + 1}–${to + 1}`)).join(", ");
  return `${ranges} hidden: ${totalsText(sum)}`;
}

/** Says in a sentence which part of a loop or fold is shown. */
export function shownText(tree: Tree, holder: number): string {
  const [stack, group] = [tree.stacks.get(holder)!, tree.groups.get(holder)!];
  if (stack.at === ALL) return `All ${stack.items.length} of ${group.label} are shown.`;
  const item = tree.groups.get(stack.items[stack.at]!)!;
  const shown = group.kind === "loop" ? item.label : `${item.label} ${item.name}`;
  return `${group.label}: ${shown} is shown; ${hiddenText(tree, stack) || "nothing is hidden"}.`;
}
