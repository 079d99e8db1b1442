// What the mouse learns by resting on a part of the graph. A title is made when it is wanted: there are thousands of boxes.

import { s } from "../dom";
import { overlayOf } from "./overlays";

const ARRIVED = "The gradient that has arrived here: its value for a number, else its norm";

/** Gives what the pointer comes to a title, where it has none of its own; `overlay` tells what the badges show now. */
export function listenHints(graph: SVGSVGElement, overlay: () => string): void {
  graph.addEventListener("pointerover", ({ target }) => {
    const [part, words] = hintOf(target as Element, overlay());
    if (!part) return;
    const title = part.querySelector(":scope > title") ?? s("title");
    if (title.isConnected && !title.hasAttribute("data-hint")) return; // its own, such as a note
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
  return [box, box?.getAttribute("aria-label") ?? ""]; // all of it, though the box may have cut the name
}

function wireWords(classes: DOMTokenList): string {
  if (classes.contains("lit")) return "A gradient has flowed back here; the wider, the larger";
  if (classes.contains("back")) return "It leads back: a cycle that only the grouping makes";
  return classes.contains("view") ? "A view: the same memory" : "A result flows here";
}
