// What the state says about each box and wire: selected, current, done, found, tinted, and the number on its badge.

import { failed } from "./face";
import { widthOfNorm, type Gradients } from "../panes/gradients";
import type { Wire } from "./layout";
import type { State } from "../store";
import { closedAround, TOP } from "./tree";
import { bytesText, normText } from "../words";

export interface Mark {
  classes: string;
  badge: string;
  warm: boolean; // the badge is a gradient norm
  norm: string | null; // in full precision, for `data-grad-norm`
  tint: number; // 0 to 1
}

export interface Marks {
  box(key: string): Mark;
  wire(wire: Wire): { lit: boolean; width: number };
}

export function marksOf(state: State, gradients: Gradients): Marks {
  const recording = state.recording!;
  const { nodes, tree } = recording;
  const holder = (node: number) => (node < 0 || node >= tree.size ? null : closedAround(tree, state.open, tree.home[node]!));
  const currentGroup = holder(gradients.current);
  const hits = new Set(state.search.hits);
  const hitGroups = new Map<number, number>();
  for (const node of hits) {
    for (let at = tree.home[node]!; at !== TOP; at = tree.parent(at)) hitGroups.set(at, (hitGroups.get(at) ?? 0) + 1);
  }
  const column = state.overlay === "bytes" ? nodes.bytes : state.overlay === "saved" ? nodes.saved : null;
  const most = column ? column.reduce((a, b) => Math.max(a, b), 0) : 0;
  const tintOf = (value: number) => (most > 0 && value > 0 ? Math.max(0.08, Math.log1p(value) / Math.log1p(most)) : 0);
  const saved = new Map<number, number>();
  if (column) {
    for (let node = 0; node < tree.size; node++) {
      for (let at = tree.home[node]!; at !== TOP; at = tree.parent(at)) saved.set(at, (saved.get(at) ?? 0) + column[node]!);
    }
  }

  const passed = new Map<number, { all: number; done: number }>(); // of the pass's nodes in each group
  for (const node of state.pass?.plan ?? []) {
    if (node < 0 || node >= tree.size) continue;
    for (let at = tree.home[node]!; at !== TOP; at = tree.parent(at)) {
      const count = passed.get(at) ?? { all: 0, done: 0 };
      passed.set(at, count);
      count.all++;
      if (gradients.done.has(node)) count.done++;
    }
  }

  function nodeMark(node: number): Mark {
    const classes: string[] = [];
    const summary = gradients.total.get(node);
    if (node === state.selected) classes.push("selected");
    if (node === gradients.current) classes.push("current");
    if (gradients.done.has(node)) classes.push("done");
    else if (summary) classes.push("reached");
    if (hits.has(node)) classes.push("hit");
    if (failed(recording, node)) classes.push("failed");
    if (node === recording.root) classes.push("root");
    if (column)
      return {
        classes: classes.join(" "),
        badge: bytesText(column[node]!),
        warm: false,
        norm: full(summary?.norm),
        tint: tintOf(column[node]!),
      };
    const badge = summary && state.overlay === "gradient" ? `∇ ${normText(summary, 3)}` : "";
    return { classes: classes.join(" "), badge, warm: true, norm: full(summary?.norm), tint: 0 };
  }

  function groupMark(group: number): Mark {
    const classes: string[] = [];
    if (!state.open.has(group)) {
      const { all, done } = passed.get(group) ?? { all: 0, done: 0 };
      if (group === currentGroup) classes.push("current");
      if (done > 0) classes.push(done === all ? "done" : "reached");
      if (hitGroups.has(group)) classes.push("hit");
      if (state.selected >= 0 && holder(state.selected) === group) classes.push("selected");
    }
    const bytes = saved.get(group) ?? 0;
    const found = hitGroups.get(group);
    const badge = column ? bytesText(bytes) : found && !state.open.has(group) ? `${found} found` : "";
    return { classes: classes.join(" "), badge, warm: false, norm: null, tint: column && !state.open.has(group) ? tintOf(bytes) : 0 };
  }

  return {
    box: (key) => (key.startsWith("g") ? groupMark(Number(key.slice(1))) : nodeMark(Number(key.slice(1)))),
    wire({ source, consumers }) {
      const given = gradients.from.get(source);
      if (!given) return { lit: false, width: 1.5 };
      let [lit, width] = [false, 1.5];
      for (const consumer of consumers) {
        const summary = given.get(consumer);
        if (!summary) continue;
        lit = true;
        width = state.overlay === "gradient" ? Math.max(width, widthOfNorm(summary.norm, gradients.largest)) : 2;
      }
      return { lit, width };
    },
  };
}

function full(norm: number | null | undefined): string | null {
  return norm === null || norm === undefined ? null : String(norm);
}
