// In a reopened notebook, shows the saved drawing instead of Jupyter's error if a view's model is gone with its kernel.

import type { CodeCell } from "@jupyterlab/cells";
import type { INotebookTracker, NotebookPanel } from "@jupyterlab/notebook";

const LOST = "Error displaying widget: model not found"; // Jupyter's widget manager writes this into the output in every language
const PLACES = ".jupyter-widgets"; // what the manager has written into
const SVG = "image/svg+xml";

/** Shows the drawing saved with an output, in every notebook, once its widget turns out to be lost. */
export function showSaved(tracker: INotebookTracker): void {
  const sought = new WeakSet<Element>();
  tracker.widgetAdded.connect((_, panel) => {
    const watch = new MutationObserver((records) => {
      for (const node of records.flatMap((record) => [...record.addedNodes])) {
        // The message itself, or a cell that has it already: JupyterLab attaches cells when they come into view.
        const places = node instanceof Element ? node.querySelectorAll(PLACES) : [node.parentElement];
        for (const place of places) if (place?.firstChild?.nodeValue === LOST) draw(panel, place, sought);
      }
    });
    watch.observe(panel.content.node, { childList: true, subtree: true });
    panel.disposed.connect(() => watch.disconnect());
  });
}

function draw(panel: NotebookPanel, place: Element, sought: WeakSet<Element>): void {
  const area = panel.content.widgets.map((cell) => (cell as unknown as Partial<CodeCell>).outputArea).find((one) => one?.node.contains(place));
  const output = area?.widgets.find((one) => one.node.contains(place));
  const model = output && area!.model.get(area!.widgets.indexOf(output));
  const saved = model?.data[SVG];
  if (!output || !saved) return; // a widget from another library, without a drawing
  const svg = Array.isArray(saved) ? saved.join("") : String(saved);
  const picture = document.createElement("img"); // images do not run scripts
  picture.src = `data:${SVG};charset=utf-8,${encodeURIComponent(svg)}`;
  picture.alt = new DOMParser().parseFromString(svg, SVG).documentElement.getAttribute("aria-label") ?? "The view as it was saved";
  picture.style.maxWidth = "100%";
  const words = document.createElement("p");
  words.textContent = "As it was saved. Run the cell to have it live again.";
  if (!sought.has(place)) {
    // The manager gives up after two seconds without checking again, and on a busy page the widget may have been found by then: retry once.
    sought.add(place);
    const renderer = [...output.children()].find((one) => one.node === place) as { renderModel?: (of: typeof model) => Promise<void> } | undefined;
    void renderer?.renderModel?.(model);
  }
  place.replaceChildren(words, picture); // until the view is rendered
}
