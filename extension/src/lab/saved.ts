// A notebook that is opened again: where a view's model is gone with its kernel, the saved drawing takes the place of Jupyter's error.

import type { CodeCell } from "@jupyterlab/cells";
import type { INotebookTracker, NotebookPanel } from "@jupyterlab/notebook";

const LOST = "Error displaying widget: model not found"; // what Jupyter's widget manager writes into the output, in every language
const SVG = "image/svg+xml";

/** Shows what was saved with an output, in every notebook, as soon as its widget turns out to be lost. */
export function showSaved(tracker: INotebookTracker): void {
  tracker.widgetAdded.connect((_, panel) => {
    const watch = new MutationObserver((records) => {
      for (const { target, addedNodes } of records) {
        if (addedNodes.length === 1 && addedNodes[0]!.nodeType === Node.TEXT_NODE && addedNodes[0]!.nodeValue === LOST) draw(panel, target as Element);
      }
    });
    watch.observe(panel.content.node, { childList: true, subtree: true });
    panel.disposed.connect(() => watch.disconnect());
  });
}

function draw(panel: NotebookPanel, place: Element): void {
  const area = panel.content.widgets.map((cell) => (cell as unknown as Partial<CodeCell>).outputArea).find((one) => one?.node.contains(place));
  const at = area?.widgets.findIndex((output) => output.node.contains(place)) ?? -1;
  const saved = at < 0 ? undefined : area!.model.get(at)?.data[SVG];
  if (!saved) return; // another library's widget, which left no drawing
  const svg = Array.isArray(saved) ? saved.join("") : String(saved);
  const picture = document.createElement("img"); // nothing in an image runs
  picture.src = `data:${SVG};charset=utf-8,${encodeURIComponent(svg)}`;
  picture.alt = new DOMParser().parseFromString(svg, SVG).documentElement.getAttribute("aria-label") ?? "The view as it was saved";
  picture.style.maxWidth = "100%";
  const words = document.createElement("p");
  words.textContent = "As it was saved. Run the cell to have it live again.";
  place.replaceChildren(words, picture);
}
