// Tells the views on the page of the notebook around: where its caret rests, how its cells read now, when its kernel can be reached again.

import type { Cell } from "@jupyterlab/cells";
import type { INotebookTracker, NotebookPanel } from "@jupyterlab/notebook";
import { ASKED, TOLD, type NotebookNews } from "../view/notebook";

const REST = 120; // milliseconds that the caret stays on a line before its nodes are lit
const TYPING = 300; // and that an edit is old

/** Tells from the moment on when the first view asks; before, nothing is listened to. */
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

  /** Everything, to a view that has just opened. */
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
    await cell?.ready; // a cell far off is drawn when it comes into sight, and has no editor before
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

/** Tells when the line to the same kernel is there again after it was cut. A kernel that has restarted knows nothing of the views. */
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
