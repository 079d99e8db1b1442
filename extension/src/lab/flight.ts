// Flight files in the file browser: a double click opens a notebook beside the file that shows it.

import type { JupyterFrontEnd } from "@jupyterlab/application";
import { showErrorMessage } from "@jupyterlab/apputils";
import type { CodeCell } from "@jupyterlab/cells";
import { ABCWidgetFactory, type DocumentRegistry, DocumentWidget, TextModelFactory } from "@jupyterlab/docregistry";
import { NotebookActions, type NotebookPanel } from "@jupyterlab/notebook";
import { type Contents, ServerConnection } from "@jupyterlab/services";
import { Widget } from "@lumino/widgets";
import { callIn, notebookOf, prepared, pythonOf } from "./flightNotebook";
import { icon } from "./icon";

const TYPE = "flight";
const NAME = "Flight recording";

/** Registers the type of flight files, and what opens them. */
export function openFlights(app: JupyterFrontEnd): void {
  const { docRegistry } = app;
  docRegistry.addFileType({ name: TYPE, displayName: NAME, extensions: [".flight"], fileFormat: "base64", contentType: "file", icon });
  docRegistry.addModelFactory(new Unread(false));
  docRegistry.addWidgetFactory(new Opener(app));
}

/** A model without the file's content, which may be large: the kernel reads it. */
class Unread extends TextModelFactory {
  override get name(): string {
    return TYPE;
  }
  override get fileFormat(): never {
    return null as never; // not text: JupyterLab then requests no content
  }
}

/** Opens the notebook instead of the file, whose own tab is there only until then. */
class Opener extends ABCWidgetFactory<DocumentWidget> {
  constructor(private readonly app: JupyterFrontEnd) {
    super({ name: NAME, fileTypes: [TYPE], defaultFor: [TYPE], modelName: TYPE, readOnly: true });
  }

  protected createNewWidget(context: DocumentRegistry.Context): DocumentWidget {
    const failed = (error: Error) => showErrorMessage(`${context.path} could not be opened`, error);
    const opened = context.ready.then(() => openNotebook(this.app, context.path)).catch(failed);
    const tab = new DocumentWidget({ content: new Widget(), context, reveal: opened });
    void opened.then(() => tab.dispose());
    return tab;
  }
}

/** Opens the notebook beside a flight file. One that is there is left as it is; a new one runs its first cell. */
async function openNotebook(app: JupyterFrontEnd, file: string): Promise<void> {
  const { contents, kernelspecs } = app.serviceManager;
  const path = `${file}.ipynb`;
  const isNew = !(await isThere(contents, path));
  if (isNew) {
    await kernelspecs.ready;
    const content = notebookOf(contents.localPath(file).split("/").pop()!, pythonOf(kernelspecs.specs));
    await contents.save(path, { type: "notebook", format: "json", content });
  }
  const panel: NotebookPanel = await app.commands.execute("docmanager:open", { path, factory: "Notebook" });
  if (isNew && !panel.isDisposed) void run(panel); // Jupyter Notebook opens it in another page
}

async function isThere(contents: Contents.IManager, path: string): Promise<boolean> {
  try {
    await contents.get(path, { content: false });
    return true;
  } catch (error) {
    if (error instanceof ServerConnection.ResponseError && error.response.status === 404) return false;
    throw error;
  }
}

async function run(panel: NotebookPanel): Promise<void> {
  const { content, context, sessionContext } = panel;
  await Promise.all([context.ready, sessionContext.ready]);
  const [first, second] = content.widgets as CodeCell[];
  await NotebookActions.runCells(content, [first], sessionContext);
  const call = callIn(first.model.outputs.toJSON());
  if (panel.isDisposed || second.model.sharedModel.getSource() !== prepared()) return; // the user was faster
  if (call !== undefined) second.model.sharedModel.setSource(prepared(call));
  content.activeCellIndex = 1;
  await context.save();
}
