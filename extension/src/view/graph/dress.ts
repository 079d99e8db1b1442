// Information added to a box without enlarging it, once it is known: a scalar's value, a tensor's health, what the tape saves.

import { firstRow } from "./columns";
import { s } from "../dom";
import type { NodeFace } from "../protocol";
import type { Recording } from "../store";
import { bytesText, numberText } from "../words";

export type Faces = ReadonlyMap<number, NodeFace>;

const HEALTH = ["NaN", "infinite", "negative", "zero", "positive"] as const;
const CLASSES = ["nan", "inf", "minus", "zero", "plus"] as const;

/** For example "3 NaN, 12 negative, 85 positive"; "" if all counts are 0. */
export function healthText(health: readonly number[]): string {
  return health.map((count, at) => (count ? `${count} ${HEALTH[at]}` : "")).filter(Boolean).join(", ");
}

const worn = new WeakMap<SVGGElement, NodeFace>();

/** Adds the known information about a node to the element of its box or pill, in place of what an earlier iteration had there. */
export function dress(element: SVGGElement, node: number, recording: Recording, face: NodeFace | undefined): void {
  if (!face || worn.get(element) === face) return;
  worn.set(element, face);
  element.dataset.dressed = String(node);
  element.querySelectorAll(":scope > .healthbar, :scope > .keeps").forEach((old) => old.remove());
  const shape = element.querySelector(":scope > text > .shape");
  if (face.value !== null && shape && recording.nodes.shape[node]!.length === 0) shape.textContent = numberText(face.value);
  const card = element.querySelector<SVGElement>(":scope > .card");
  if (!card || element.classList.contains("wb-pill")) return;
  const [w, h] = [Number(card.getAttribute("width")), Number(card.getAttribute("height"))];
  const total = face.health.reduce((a, b) => a + b, 0);
  if (total) {
    let x = 12;
    const unit = (w - 24) / total;
    const bars = face.health.map((count, at) => {
      const bar = count ? s("rect", { class: CLASSES[at]!, x, y: h - 5, width: Math.max(at < 2 ? 3 : 0.5, count * unit), height: at < 2 ? 4 : 3 }) : null;
      x += count * unit;
      return bar;
    });
    element.append(s("g", { class: "healthbar" }, s("title", {}, `${healthText(face.health)} of ${total}`), ...bars));
  }
  if (face.saves.length) {
    const title = `Kept for backward: ${face.saves.join(", ")}; ${bytesText(recording.nodes.saved[node]!)}`;
    element.append(
      s("g", { class: "keeps", transform: `translate(${w - 20} ${h - 5})` }, s("title", {}, title), s("path", { d: "M0 0H9V12L4.5 8.5L0 12Z" })),
    );
  }
  if (face.version > 0) {
    const note = element.querySelector<SVGTextElement>(":scope > .note:not(.error) > text");
    if (note) note.textContent = `v${face.version}`;
    note?.parentElement?.classList.add("version");
  }
}

/** The node of whose memory this node's result is a view, or -1. */
export function baseOf({ nodes }: Recording, node: number): number {
  const found = /^view of #(\d+)/.exec(nodes.note[node] ?? "");
  return found ? Number(found[1]) : -1;
}

/** Whether the tape saves the result carried by this wire, as an input of one of its consumers or as the result of its own op. */
export function isKept({ edges }: Recording, faces: Faces, source: number, consumers: readonly number[]): boolean {
  if (faces.get(source)?.kept_result) return true;
  for (const consumer of consumers) {
    const slots = faces.get(consumer)?.kept_inputs ?? [];
    if (!slots.length) continue;
    for (let row = firstRow(edges.target, consumer); edges.target[row] === consumer; row++) {
      if (edges.source[row] === source && slots.includes(edges.slot[row]!)) return true;
    }
  }
  return false;
}
