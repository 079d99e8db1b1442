// The state of the view: a pure reducer of messages and gestures, and the store around it.

import type { Edges, Flag, Graph, Group, Inspected, Nodes, Problem, Step, Stepped, Stepper, StepTo, ToView } from "./protocol";
import type { Received } from "./channel";
import { sizesOf, type StepSizes } from "./norms";
import { find } from "./graph/search";
import type { Faces } from "./graph/dress";
import type { Trace } from "./graph/trace";
import type { Window } from "./graph/fit";
import { firstLook, levelsOf, shownAt, type Trees } from "./graph/levels";
import { caretNode, choosing, following, iterate, meeting, NO_LOOPS, unrolled, type Loops } from "./graph/loops";
import { stacked } from "./graph/stacks";
import { ALL, buildTree, closedAround, countBoxes, growing, HARD_CAP, hosted, homeOf, TOP, type Tree } from "./graph/tree";

export type Direction = "right" | "down"; // the direction of the data flow
export type Depth = "symbols" | "shapes" | "numbers";
const LARGE = 50_000; // nodes

export interface Recording extends Pick<
  Graph,
  "title" | "nodes" | "edges" | "sites" | "groups" | "live" | "dropped" | "left_out" | "root" | "view"
> {
  name: string;
  badges: "" | "gradients" | "all"; // boxes with room for a number; set by the first pass or overlay, so that stepping moves nothing
  tree: Tree; // the drawn tree
  trees: Trees;
}

export interface Pass {
  mode: Stepper["mode"];
  plan: number[];
  index: number;
  total: number;
  steps: ReadonlyMap<number, Step>;
  norms: ReadonlyMap<number, StepSizes>; // of steps not sent in full
  done: boolean;
  failed: boolean;
  sentence: string;
  stopped: string; // the breakpoint at which it stopped, as a sentence
  runs: boolean; // a running cell is running to the next breakpoint
  number: number; // index in `passes`
  passes: readonly string[]; // description of each pass
  trouble: string; // why the last step was refused, or ""
}

export interface Status {
  sentence: string;
  tone: "plain" | "error";
}

export interface Search {
  query: string;
  hits: readonly number[]; // nodes
  at: number; // index of the shown hit; -1 before the first
  problem: string; // why the query could not run, or ""
}

/** A message from the kernel with its binary buffers. */
export interface Answer<T extends ToView["type"]> {
  message: Extract<ToView, { type: T }>;
  buffers: DataView[];
}
export type Answers = ReadonlyMap<string, Answer<ToView["type"]>>;

export interface State {
  recording: Recording | null;
  loops: Loops; // the shown iterations
  open: ReadonlySet<number>;
  level: number; // of graph/levels.ts; -1 after groups were opened or closed individually
  touched: boolean; // the user has chosen the open groups, so the view no longer does
  window: Window; // size of the graph in pixels; the width is 0 until known
  selected: number; // node id, or -1
  subject: number; // node whose tensor the Value and Grad tabs show, the selected one or the step's; -1: none
  held: boolean; // the subject is kept while the pass moves
  playing: boolean; // steps are taken automatically
  student: boolean; // reduced view: few tabs and a simple bar
  left: string; // the tab hidden by the student level and restored after it, or ""
  trace: Trace | null; // the highlighted paths between nodes
  focus: string; // key of a box or pill, such as "n12" or "g3", or ""
  direction: "auto" | Direction;
  overlay: string; // name of an overlay in graph/overlays.ts
  depth: Depth;
  tab: string; // name of a pane's tab
  tabbed: boolean; // the user has chosen the tab, so a step does not switch to its own
  by: StepTo["by"]; // step size
  pass: Pass | null;
  inspected: { message: Inspected; buffers: DataView[] } | null;
  faces: Faces; // of the nodes requested so far
  flags: ReadonlyMap<string, readonly Flag[]>; // by origin
  caret: ReadonlySet<number>; // nodes made by the notebook line under the caret
  answers: Answers; // the kernel's latest message of each type, for this recording
  tangents: ReadonlyMap<number, string>; // values at each node so far, in a walk through forward or reverse mode
  room: number; // incremented when the view's width changes
  status: Status;
  text: boolean; // show the table instead of the picture
  search: Search;
}

export type Action =
  | { do: "receive"; received: Received }
  | { do: "return"; to: State } // undo a change that cannot be shown
  | { do: "say"; status: Status }
  | { do: "select"; node: number }
  | { do: "hold"; on: boolean }
  | { do: "playing"; on: boolean }
  | { do: "student"; on: boolean }
  | { do: "focus"; key: string }
  | { do: "toggle"; group: number; open?: boolean }
  | { do: "open all"; group: number }
  | { do: "level"; to: number }
  | { do: "window"; to: Window; keep: boolean } // keep: the user has moved the camera
  | { do: "iterate"; loop: number; to: number }
  | { do: "reveal"; node: number }
  | { do: "flag"; origin: string; flags: readonly Flag[] }
  | { do: "caret"; nodes: ReadonlySet<number> }
  | { do: "trace"; trace: Trace | null }
  | { do: "direction"; to: Direction }
  | { do: "overlay"; to: string }
  | { do: "depth"; to: Depth }
  | { do: "tab"; to: string }
  | { do: "by"; to: StepTo["by"] }
  | { do: "text"; on: boolean }
  | { do: "tangents"; to: ReadonlyMap<number, string> }
  | { do: "room" }
  | { do: "gone" } // the kernel is gone, and with it the cell that waited for the pass
  | { do: "search"; query: string }
  | { do: "next hit"; by: 1 | -1 };

export const START: State = {
  recording: null,
  loops: NO_LOOPS,
  open: new Set(),
  level: -1,
  touched: false,
  window: { w: 0, h: 0 },
  selected: -1,
  subject: -1,
  held: false,
  playing: false,
  student: false,
  left: "",
  trace: null,
  focus: "",
  direction: "auto",
  overlay: "gradient",
  depth: "symbols",
  tab: "value",
  tabbed: false,
  by: "op",
  pass: null,
  inspected: null,
  faces: new Map(),
  flags: new Map(),
  caret: new Set(),
  answers: new Map(),
  tangents: new Map(),
  room: 0,
  status: { sentence: "", tone: "plain" },
  text: false,
  search: { query: "", hits: [], at: -1, problem: "" },
};

export function reduce(state: State, action: Action): State {
  switch (action.do) {
    case "receive":
      return receive(state, action.received);
    case "return":
      return action.to;
    case "say":
      return { ...state, status: action.status };
    case "select": {
      const tab = action.node >= 0 && state.tab === "step" ? "value" : state.tab;
      const focus = action.node >= 0 ? `n${action.node}` : state.focus;
      const chosen = { selected: action.node, subject: action.node, held: false };
      const brought = state.tab === "memory" ? "value" : tab;
      return { ...state, ...chosen, trace: null, focus, tab: brought, tabbed: state.tabbed && brought === state.tab };
    }
    case "hold":
      return met({ ...state, held: action.on });
    case "playing":
      return { ...state, playing: action.on };
    case "student":
      return student(state, action.on);
    case "focus":
      return { ...state, focus: action.key };
    case "toggle":
      return toggle(state, action.group, action.open);
    case "open all":
      return openAll(state, action.group);
    case "level":
      return leveled(state, action.to);
    case "window":
      return action.keep ? { ...state, window: action.to } : arranged({ ...state, window: action.to });
    case "flag":
      return { ...state, flags: new Map(state.flags).set(action.origin, action.flags) };
    case "caret":
      return choosing({ ...state, caret: action.nodes }, caretNode(action.nodes, state.pass));
    case "gone":
      return { ...state, pass: state.pass && { ...state.pass, mode: "live", runs: false } };
    case "trace":
      return { ...state, trace: action.trace };
    case "iterate":
      return iterate(state, action.loop, action.to);
    case "reveal":
      return reveal(state, action.node);
    case "direction":
      return { ...state, direction: action.to };
    case "overlay":
      return { ...state, overlay: action.to, recording: badged(state, badgesOf(action.to)) };
    case "depth":
      return { ...state, depth: action.to };
    case "tab":
      return { ...state, tab: action.to, left: action.to === state.tab ? state.left : "", tabbed: state.tabbed || action.to !== state.tab };
    case "by":
      return { ...state, by: action.to };
    case "tangents":
      return { ...state, tangents: action.to, recording: badged(state, "gradients") };
    case "room":
      return { ...state, room: state.room + 1 };
    case "text":
      return { ...state, text: action.on };
    case "search": {
      const { nodes, problem } = state.recording ? find(state.recording, action.query) : { nodes: [], problem: "" };
      return { ...state, search: { query: action.query, hits: nodes, at: -1, problem } };
    }
    case "next hit":
      return nextHit(state, action.by);
  }
}

function receive(state: State, { message, buffers, answers }: Received): State {
  if (message.type === "problem") return problem(state, message, answers);
  if (message.type === "graph") return graph(state, message);
  if ("recording" in message && state.recording?.name !== message.recording) return state;
  // A view of one tensor does not show a pass.
  if (state.recording?.view === "tensor" && (message.type === "stepper" || message.type === "stepped")) return state;
  switch (message.type) {
    case "stepper":
      return stepper(state, message);
    case "stepped":
      return stepped(state, message);
    case "norms": {
      const { pass } = state;
      if (!pass || pass.number !== message.number) return state;
      return { ...state, pass: { ...pass, norms: new Map([...pass.norms, ...sizesOf(message, buffers)]) } };
    }
    case "inspected":
      return message.node === state.subject ? { ...state, inspected: { message, buffers } } : state;
    case "level":
      return student(state, message.level === "student");
    case "faces":
      return { ...state, faces: new Map([...state.faces, ...message.faces.map((face) => [face.node, face] as const)]) };
    case "findings":
      return findings(state, { message, buffers });
    case "flags":
      return { ...state, flags: new Map(state.flags).set(message.origin, message.flags) };
    default:
      return { ...state, answers: new Map(state.answers).set(message.type, { message, buffers }) };
  }
}

export const STUDENTS: ReadonlySet<string> = new Set(["lesson", "step", "value", "checks"]); // tabs

function student(state: State, on: boolean): State {
  if (on === state.student) return state;
  if (!on) return { ...state, student: on, tab: state.left || state.tab, left: "" };
  if (STUDENTS.has(state.tab)) return { ...state, student: on };
  return { ...state, student: on, tab: state.pass ? "step" : "value", left: state.tab };
}

/** Findings with errors that arrive with a cell open the checks tab, unless the user has looked at something else. */
function findings(state: State, answer: Answer<"findings">): State {
  const grave = answer.message.re === null && answer.message.findings.some(({ severity }) => severity === "error");
  const tab = grave && state.tab === START.tab && state.selected < 0 ? "checks" : state.tab;
  return { ...state, tab, answers: new Map(state.answers).set("findings", answer as Answer<ToView["type"]>) };
}

function problem(state: State, message: Problem, answers: Received["answers"]): State {
  const focus = message.node >= 0 ? `n${message.node}` : state.focus;
  // A problem with the pass is shown in its bar.
  if (answers === "break") return state; // shown in the list of breakpoints, or by the caller
  if (answers === "step" && state.pass) return { ...state, focus, pass: { ...state.pass, trouble: message.sentence } };
  return { ...state, focus, status: { sentence: message.sentence, tone: "error" } };
}

function graph(state: State, message: Graph): State {
  const old = state.recording;
  const fresh = message.start === 0;
  if (!fresh && (!old || old.name !== message.recording)) return state;
  const follows = fresh || (old!.nodes.op.length === message.start && old!.edges.source.length === message.first_edge && old!.groups.length === message.first_group);
  if (!follows) {
    const sentence = "A part of the graph is missing here. Close this view and open it again.";
    return { ...state, status: { sentence, tone: "error" } };
  }
  const nodes = fresh ? message.nodes : appended(old!.nodes, message.nodes);
  const edges = fresh ? message.edges : appended(old!.edges, message.edges);
  const sites = fresh ? message.sites : [...old!.sites.slice(0, message.first_site), ...message.sites];
  const groups = fresh ? message.groups : [...old!.groups, ...message.groups];
  const { title, live, dropped, left_out, root, view } = message;
  const overlay = view === "difference" ? "difference" : state.overlay === "difference" ? START.overlay : state.overlay;
  const badges = old?.name === message.recording ? old.badges : badgesOf(overlay);
  const chosen = old?.name === message.recording && !live && sameGroups(old.groups, groups) ? state.loops.chosen : NO_LOOPS.chosen;
  const { trees, loops } = grownTrees(message, { nodes, edges, groups, sites }, old?.name === message.recording ? state.pass : null, chosen);
  const same = fresh ? old?.name === message.recording : true;
  // At the end of a cell the groups are rearranged, and the earlier open set no longer applies.
  const alike = same && sameGroups(old!.groups, groups);
  const touched = alike && state.touched;
  const shown = { title, live, dropped, left_out, root, view, badges };
  const own = { name: message.recording, nodes, edges, sites, groups, trees, tree: touched && old!.tree.plain ? trees.plain : trees.full };
  // While code runs, open groups stay open; the final choice is made when it ends.
  const now: Recording = { ...own, ...shown };
  const first = touched || live ? null : firstLook(now, state.window);
  const level = first?.level ?? -1;
  const recording = first ? shownAt(now, levelsOf(trees)[level]!) : now;
  const { tree } = recording;
  const wanted = touched ? state.open : live ? growing(tree, alike ? state.open : new Set()) : first!.open;
  const many = countBoxes(tree, wanted) > HARD_CAP;
  const open = many ? levelsOf(trees)[0]!.open : wanted;
  const closing = `The graph has grown past ${HARD_CAP} boxes, so groups were closed.`;
  const status: Status = many ? { sentence: closing, tone: "plain" } : same ? state.status : START.status;
  const focus = alike || state.focus.startsWith("n") ? state.focus : "";
  // A complete graph may belong to another iteration of a loop; it is followed by the complete pass, or none.
  const pass = fresh && state.pass ? { ...state.pass, steps: new Map(), norms: new Map() } : state.pass;
  const faces: Faces = fresh ? new Map() : state.faces;
  if (same) {
    const next = { ...state, recording, loops, open, level: touched ? state.level : level, touched, focus, status, pass, faces };
    return old!.live && !live ? following(next) : next; // loops are found when the code has ended
  }
  const { direction, depth, text, by, window, student } = state;
  const selected = view === "tensor" ? root : -1;
  const tab = ["graph", "tensor", "difference", "program"].includes(view) ? START.tab : view;
  return { ...START, direction, overlay, depth, text, by, window, student, recording, loops, open, level, touched, status, selected, subject: selected, tab };
}

/** Sets the subject of the Value and Grad tabs to the node of the last step, unless they hold another. */
function met(state: State): State {
  const { pass, held, selected } = state;
  if (!pass || held) return state;
  const node = pass.plan[pass.index - 1] ?? -1;
  return { ...state, subject: node >= 0 ? node : selected };
}

/** Builds the trees of the recording so far; while the code runs, or if the recording is very large, both are the full tree. */
function grownTrees(
  { live }: Graph,
  { nodes, edges, groups, sites }: Pick<Recording, "nodes" | "edges" | "groups" | "sites">,
  pass: Pass | null,
  chosen: Loops["chosen"],
): { trees: Trees; loops: Loops } {
  const built = (plain: boolean) => {
    const tree = buildTree(nodes, edges, groups, sites, live, plain);
    return pass ? hosted(tree, pass.plan) : tree;
  };
  const full = built(false);
  if (live) return { trees: { full, plain: full }, loops: NO_LOOPS };
  const plain = nodes.op.length > LARGE ? full : built(true);
  const stack = (tree: Tree) => stacked(tree, chosen);
  return { trees: { full: stack(full), plain: stack(plain) }, loops: { ...NO_LOOPS, trees: { full, plain }, chosen } };
}

/** Whether every earlier group still exists unchanged; there may be new ones. */
function sameGroups(old: readonly Group[], now: readonly Group[]): boolean {
  const names = new Map(now.map((group) => [group.id, `${group.parent} ${group.kind} ${group.name}`]));
  return old.every((group) => names.get(group.id) === `${group.parent} ${group.kind} ${group.name}`);
}

/** Appends a table to another, column by column. */
function appended<T extends Nodes | Edges>(old: T, more: T): T {
  const joined: Record<string, unknown[]> = {};
  for (const column of Object.keys(old)) {
    const [head, tail] = [old, more].map((table) => (table as unknown as Record<string, unknown[]>)[column] ?? []);
    joined[column] = [...head!, ...tail!];
  }
  return joined as unknown as T;
}

function stepper(state: State, message: Stepper): State {
  const { mode, plan, index, failed, sentence, stopped, runs, number, passes } = message;
  const again = state.pass?.number === number && samePlan(state.pass.plan, plan);
  const steps = again ? state.pass!.steps : new Map<number, Step>();
  const norms = again ? state.pass!.norms : new Map<number, StepSizes>();
  const done = index >= plan.length;
  const where = { stopped, runs, number, passes, norms };
  const pass: Pass = { mode, plan, index, total: plan.length, steps, done, failed, sentence, ...where, trouble: "" };
  const stays = state.pass || state.tab === "lesson" || state.tab === state.recording?.view; // the session opens on that tab
  const tab = stays ? state.tab : "step";
  const next = following(meeting(met({ ...state, pass, recording: badged(state, "gradients"), tab })));
  return again ? next : arranged(next); // room for gradients makes boxes wider
}

function badgesOf(overlay: string): Recording["badges"] {
  return overlay === "gradient" || overlay === "none" ? "" : "all";
}

/** The recording with room for these numbers in addition to those it already has room for. */
function badged({ recording }: State, wanted: Recording["badges"]): Recording | null {
  const more = wanted === "all" ? recording?.badges !== "all" : wanted !== "" && recording?.badges === "";
  return recording && more ? { ...recording, badges: wanted } : recording;
}

function samePlan(a: readonly number[], b: readonly number[]): boolean {
  return a.length === b.length && a.every((node, row) => node === b[row]);
}

function stepped(state: State, message: Stepped): State {
  const steps = new Map(state.pass?.steps ?? []);
  for (const step of message.steps) steps.set(step.index, step);
  const { index, total, done, failed, sentence, stopped, runs } = message;
  const base = state.pass ?? { mode: "live" as const, plan: [], index: 0, trouble: "", number: 0, passes: [], norms: new Map() };
  const tab = state.tab === "value" && !state.tabbed ? "step" : state.tab;
  const trouble = index === base.index ? base.trouble : "";
  return following(met({ ...state, tab, pass: { ...base, index, total, steps, done, failed, sentence, stopped, runs, trouble } }));
}

function toggle(state: State, group: number, wanted?: boolean): State {
  const tree = state.recording?.tree;
  if (!tree?.groups.has(group)) return state;
  // The placeholder of hidden iterations opens by showing them all.
  const holder = tree.parent(group);
  if (tree.stacks.get(holder)?.hidden.some(({ id }) => id === group)) return iterate(state, holder, ALL);
  const open = new Set(state.open);
  if (wanted ?? !open.has(group)) open.add(group);
  else open.delete(group);
  return capped(state, open);
}

function openAll(state: State, group: number): State {
  const all = unrolled(state, group);
  const tree = all.recording?.tree;
  if (!tree) return state;
  const open = new Set(state.open);
  const stack = [group];
  while (stack.length) {
    const id = stack.pop()!;
    if (id !== TOP) open.add(id);
    for (const member of tree.children.get(id) ?? []) if (member.group) stack.push(member.id);
  }
  const next = capped(all, open);
  return next.open === open ? next : { ...state, status: next.status };
}

/** Opens the level's groups and closes all others. */
function leveled(state: State, to: number): State {
  const levels = state.recording ? levelsOf(state.recording.trees) : [];
  const level = levels[to];
  return level && level.open !== state.open ? { ...atLevel(state, to), touched: true } : state;
}

function atLevel(state: State, level: number, open?: ReadonlySet<number>): State {
  const recording = state.recording!;
  const shown = levelsOf(recording.trees)[level]!;
  return { ...state, level, open: open ?? shown.open, recording: shownAt(recording, shown) };
}

/** Chooses the level that suits the window, unless the user has chosen one. */
function arranged(state: State): State {
  const { recording, touched } = state;
  if (!recording || recording.live || touched) return state;
  const { level, open } = firstLook(recording, state.window);
  return level === state.level && sameSet(open, state.open) ? state : atLevel(state, level, open);
}

function sameSet(a: ReadonlySet<number>, b: ReadonlySet<number>): boolean {
  return a.size === b.size && [...a].every((one) => b.has(one));
}

function capped(state: State, open: Set<number>): State {
  const boxes = countBoxes(state.recording!.tree, open);
  if (boxes <= HARD_CAP) return { ...state, open, level: -1, touched: true };
  const sentence = `That would draw ${boxes} boxes, and at most ${HARD_CAP} are drawn. Open a smaller group, or use the text view (t).`;
  return { ...state, status: { sentence, tone: "error" } };
}

/** Opens the closed groups around a node. */
function reveal(before: State, node: number): State {
  const state = choosing(before, node);
  const tree = state.recording?.tree;
  if (!tree || node < 0 || node >= tree.size) return state;
  if (closedAround(tree, state.open, homeOf(tree, node)) === null) return { ...state, focus: `n${node}` };
  const open = new Set(state.open);
  for (let at = homeOf(tree, node); at !== TOP; at = tree.parent(at)) open.add(at);
  return { ...capped(state, open), focus: `n${node}` };
}

function nextHit(state: State, by: 1 | -1): State {
  const { hits, at } = state.search;
  if (!hits.length) return state;
  const to = at < 0 ? (by > 0 ? 0 : hits.length - 1) : (at + by + hits.length) % hits.length;
  return { ...reveal(state, hits[to]!), search: { ...state.search, at: to } };
}

/** The nodes at which a backward pass can start; empty if there is a pass already. */
export function offered(state: State): readonly number[] {
  return state.pass || state.recording?.live ? [] : (answered(state, "offer")?.message.roots ?? []);
}

/** The kernel's latest message of this type; undefined if there is none. */
export function answered<T extends ToView["type"]>(state: State, type: T): Answer<T> | undefined {
  return state.answers.get(type) as Answer<T> | undefined;
}

/** Whether any of these parts of the state has changed. */
export function changed(state: State, before: State | null, ...parts: (keyof State)[]): boolean {
  return !before || parts.some((part) => state[part] !== before[part]);
}

export interface Store {
  readonly state: State;
  dispatch(action: Action): void;
  subscribe(listener: (state: State, before: State) => void): () => void;
}

/** Creates a store. `recover` is called if a change cannot be shown, with the state before it; the error is then rethrown. */
export function createStore(initial: State = START, recover?: (error: unknown, action: Action, before: State) => void): Store {
  let state = initial;
  const listeners = new Set<(state: State, before: State) => void>();
  return {
    get state() {
      return state;
    },
    dispatch(action) {
      const before = state;
      try {
        state = reduce(state, action);
        if (state !== before) for (const listener of [...listeners]) listener(state, before);
      } catch (error) {
        recover?.(error, action, before);
        throw error;
      }
    },
    subscribe(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
  };
}
