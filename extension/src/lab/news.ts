// Sends views on the page news of the surrounding notebook: the caret's line, the cells' text, and restored kernel connections.

import type { Cell } from "@jupyterlab/cells";
import type { INotebookTracker, NotebookPanel } from "@jupyterlab/notebook";
import { ASKED, TOLD, type NotebookNews } from "../view/notebook";

const REST = 120; // milliseconds that the caret must stay on a line before its nodes are highlighted
const TYPING = 300; // and that an edit must be old

/** Starts listening when the first view asks for news. */
export function tellNews(tracker: INotebookTracker): void {
  let teller: Teller | null = null;
  document.addEventListener(ASKED, (event) => {
    teller ??= new Teller(tracker);
    const { target } = event;
    const around = target instanceof Node ? tracker.find((panel) => panel.node.contains(target)) : undefined;
    teller.tellAll(around ?? tracker.currentWidget);
  });
}

type Editor = NonNullable<Cell["editor"]>;

class Teller {
  private cell: Cell | null = null;
  private editor: Editor | null = null;
  private panel: NotebookPanel | null = null;
  private resting: ReturnType<typeof setTimeout> | undefined;
  private typing: ReturnType<typeof setTimeout> | undefined;

  constructor(private readonly tracker: INotebookTracker) {
    tracker.currentChanged.connect(() => this.follow());
    tracker.activeCellChanged.connect((_, cell) => void this.enter(cell));
    this.follow();
    void this.enter(tracker.activeCell);
    tracker.widgetAdded.connect((_, panel) => watchLine(panel));
    tracker.forEach(watchLine);
  }

  /** Sends all news to a view that has just opened. */
  tellAll(panel: NotebookPanel | null): void {
    if (panel) this.tellCells(panel);
    this.tellCaret();
  }

  private follow(): void {
    this.panel?.content.modelContentChanged.disconnect(this.edited, this);
    this.panel = this.tracker.currentWidget;
    this.panel?.content.modelContentChanged.connect(this.edited, this);
    if (this.panel) this.tellCells(this.panel);
  }

  private edited(): void {
    clearTimeout(this.typing);
    const { panel } = this;
    this.typing = setTimeout(() => panel && !panel.isDisposed && this.tellCells(panel), TYPING);
  }

  private async enter(cell: Cell | null): Promise<void> {
    this.cell = cell;
    await cell?.ready; // a cell far from the visible ones is rendered later, and has no editor until then
    if (this.cell !== cell) return;
    this.editor?.model.selections.changed.disconnect(this.moved, this);
    this.editor = cell && cell.model.type === "code" ? cell.editor : null;
    this.editor?.model.selections.changed.connect(this.moved, this);
    this.moved();
  }

  private moved(): void {
    clearTimeout(this.resting);
    this.resting = setTimeout(() => this.tellCaret(), REST);
  }

  private tellCaret(): void {
    const { cell, editor } = this;
    const panel = this.tracker.currentWidget;
    if (!panel) return;
    const at = editor && !editor.isDisposed ? editor.getCursorPosition().line : -1;
    const caret = cell && at >= 0 ? { cell_id: cell.model.id, line: at + 1, text: editor!.getLine(at) ?? "" } : null;
    tell({ notebook: panel.node, caret });
  }

  private tellCells(panel: NotebookPanel): void {
    const cells = panel.content.widgets.filter((cell) => cell.model.type === "code");
    tell({ notebook: panel.node, cells: new Map(cells.map(({ model }) => [model.id, model.sharedModel.getSource()])) });
  }
}

/** Announces a restored connection to the same kernel. A restarted kernel has no state of the views. */
function watchLine(panel: NotebookPanel): void {
  let connected = "";
  let cut = "";
  panel.sessionContext.connectionStatusChanged.connect(({ session }, status) => {
    const kernel = session?.kernel?.id ?? "";
    if (status !== "connected") {
      cut ||= connected;
      connected = "";
      return;
    }
    if (cut && cut === kernel) tell({ notebook: panel.node, reconnected: true });
    connected = kernel;
    cut = "";
  });
  if (panel.sessionContext.session?.kernel?.connectionStatus === "connected") connected = panel.sessionContext.session.kernel.id;
}

function tell(detail: NotebookNews): void {
  document.dispatchEvent(new CustomEvent(TOLD, { detail }));
}
