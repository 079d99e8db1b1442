// Overlays: one number per node, shown on its box as a badge and a tint.

import { readBuffer } from "../buffers";
import { answered, type Recording, type State } from "../store";
import { bytesText, countText, durationText, numberText } from "../words";

export interface Overlay {
  name: string;
  label: string; // in the toolbar
  sentence: string; // announced when it is chosen
  metric: string | null; // requested from the kernel; null: known here
  moves: boolean; // changes after a step of the pass
  text(value: number): string;
  total: "sum" | "max"; // how a closed group combines its nodes' numbers
  scale: "from zero" | "decades"; // of the tint
}

const three = (value: number) => numberText(value, 3);

// The first one shows the gradient norms of the pass and the widths of edges, taken from the steps themselves.
export const OVERLAYS: readonly Overlay[] = [
  overlay("gradient", "gradients", "Boxes show gradient norms; edges are as wide as their gradients' logarithm."),
  overlay("bytes", "bytes", "Boxes show the bytes of their results.", { text: bytesText }),
  overlay("saved", "saved bytes", "Boxes show the bytes that the tape keeps for backward.", { text: bytesText }),
  overlay("time", "time", "Boxes show how long their ops ran.", { metric: "time", text: durationText }),
  overlay("activation", "|activation|", "Boxes show the mean magnitude of their values.", { metric: "activation", ...decades() }),
  overlay("mean gradient", "|gradient|", "Boxes show the mean magnitude of their gradients.", { metric: "gradient", moves: true, ...decades() }),
  overlay("ratio", "|grad| / |act|", "Boxes show the mean magnitude of the gradient over that of the value.", {
    metric: "ratio",
    moves: true,
    ...decades(),
  }),
  overlay("bad", "NaN and Inf", "Boxes show how many elements of value and gradient are NaN or infinite.", {
    metric: "bad",
    moves: true,
    text: (value) => (value ? `${countText(value)} bad` : "fine"),
  }),
  overlay("difference", "difference", "Boxes show how far values are from those of the other recording, relative to their size.", {
    metric: "difference",
    text: (value) => (value === 0 ? "same" : `Δ ${three(value)}`),
    total: "max",
    scale: "decades",
  }),
  overlay("slope", "∂ on edges", "Edges between scalars show local derivatives: how much the result changes for a small change of the input."),
  overlay("none", "no overlay", "Boxes show no overlay."),
];

function overlay(name: string, label: string, sentence: string, more: Partial<Overlay> = {}): Overlay {
  return { name, label, sentence, metric: null, moves: false, text: three, total: "sum", scale: "from zero", ...more };
}

function decades(): Pick<Overlay, "text" | "total" | "scale"> {
  return { text: three, total: "max", scale: "decades" };
}

export function overlayOf(name: string): Overlay {
  return OVERLAYS.find((one) => one.name === name) ?? OVERLAYS[OVERLAYS.length - 1]!;
}

const WITHOUT_VALUES = new Set(["bytes", "time", "none"]);

/** The overlays that this recording has numbers for: "difference" only if two recordings were compared. */
export function offeredOverlays(recording: Recording | null): readonly Overlay[] {
  if (recording?.view === "program") return OVERLAYS.filter(({ name }) => WITHOUT_VALUES.has(name));
  return recording?.view === "difference" ? OVERLAYS : OVERLAYS.filter(({ name }) => name !== "difference");
}

export interface Numbers {
  overlay: Overlay;
  of(node: number): number; // NaN: no number
  tint(value: number): number; // 0 to 1
}

const LEAST = 0.08; // smallest visible tint

/** The overlay's numbers; null for overlays without numbers, and until the numbers have arrived. */
export function numbersOf(state: State): Numbers | null {
  const chosen = overlayOf(state.overlay);
  const values = columnOf(state, chosen);
  if (!values) return null;
  let [least, most] = [Infinity, 0];
  for (const value of values) {
    if (value > most) most = value;
    if (value > 0 && value < least) least = value;
  }
  const span = Math.log(most / Math.max(least, most * 1e-8));
  const tint = (value: number) => {
    if (!(value > 0) || !(most > 0)) return 0;
    if (chosen.scale === "from zero") return Math.max(LEAST, Math.log1p(value) / Math.log1p(most));
    return span > 0 ? Math.max(LEAST, 1 + Math.log(value / most) / span) : 1;
  };
  return { overlay: chosen, of: (node) => values[node] ?? NaN, tint };
}

function columnOf(state: State, { name, metric }: Overlay): ArrayLike<number> & Iterable<number> | null {
  const { recording } = state;
  if (!recording) return null;
  if (name === "bytes") return recording.nodes.bytes;
  if (name === "saved") return recording.nodes.saved;
  const answer = metric === null ? undefined : answered(state, "metric");
  return answer && answer.message.metric === metric ? readBuffer(answer.message.values, answer.buffers) : null;
}
