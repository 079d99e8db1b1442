// Shows the line of code that made a node.

import type { INotebookTracker, NotebookPanel } from "@jupyterlab/notebook";
import type { Site } from "../view/protocol";

/** Scrolls to the site's cell in its notebook and selects the line. Does nothing if no open notebook has that cell. */
export async function reveal(tracker: INotebookTracker, site: Site, from: EventTarget | null): Promise<void> {
  const panel = find(tracker, site.cell_id, from);
  if (panel === undefined) return;
  const notebook = panel.content;
  const index = cellIndex(panel, site.cell_id);
  notebook.deselectAll();
  notebook.activeCellIndex = index;
  await notebook.scrollToItem(index, "smart");
  const cell = notebook.widgets[index];
  await cell.ready;
  const editor = cell.editor;
  if (editor === null || site.line < 1 || site.line > editor.lineCount) return;
  const line = site.line - 1;
  const selection = { start: { line, column: 0 }, end: { line, column: editor.getLine(line)?.length ?? 0 } };
  editor.setSelection(selection);
  editor.revealSelection(selection);
}

/** The notebook that contains the event's target, then the active one, then any other open one. */
function find(tracker: INotebookTracker, cell_id: string | null, from: EventTarget | null): NotebookPanel | undefined {
  const around = from instanceof Node ? tracker.find((panel) => panel.node.contains(from)) : undefined;
  return [around, tracker.currentWidget].find((panel) => panel && cellIndex(panel, cell_id) >= 0) ?? tracker.find((panel) => cellIndex(panel, cell_id) >= 0);
}

function cellIndex(panel: NotebookPanel, cell_id: string | null): number {
  return panel.content.widgets.findIndex((cell) => cell.model.id === cell_id);
}
