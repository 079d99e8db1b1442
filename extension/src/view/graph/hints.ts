// Tooltips for the parts of the graph. Titles are created on demand, since there may be thousands of boxes.

import { s } from "../dom";
import { overlayOf } from "./overlays";

const ARRIVED = "The gradient that has arrived here: its value for a number, else its norm";

/** Gives the part under the pointer a title, unless it already has one; `overlay` returns what the badges show now. */
export function listenHints(graph: SVGSVGElement, overlay: () => string): void {
  graph.addEventListener("pointerover", ({ target }) => {
    const [part, words] = hintOf(target as Element, overlay());
    if (!part) return;
    const title = part.querySelector(":scope > title") ?? s("title");
    if (title.isConnected && !title.hasAttribute("data-hint")) return; // a title of another kind, such as a note
    if (title.textContent !== words) title.textContent = words;
    title.setAttribute("data-hint", "");
    if (!title.isConnected) part.append(title);
  });
}

function hintOf(target: Element, overlay: string): [Element | null, string] {
  const badge = target.closest(".badge");
  if (badge) return [badge, overlay === "gradient" ? ARRIVED : overlayOf(overlay).sentence];
  const wire = target.closest(".wb-wire");
  if (wire) return [wire, wireWords(wire.classList)];
  const box = target.closest("[data-key]");
  return [box, box?.getAttribute("aria-label") ?? ""]; // in full, since the box may have cut the name
}

function wireWords(classes: DOMTokenList): string {
  if (classes.contains("lit")) return "A gradient has flowed back here; the wider, the larger";
  if (classes.contains("back")) return "It leads back: a cycle that only the grouping makes";
  return classes.contains("view") ? "A view: the same memory" : "A result flows here";
}
