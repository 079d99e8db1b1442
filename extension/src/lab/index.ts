// The JupyterLab extension: a panel that follows the active notebook, commands that open it, and the jump from a node to its code.

import { type JupyterFrontEnd, type JupyterFrontEndPlugin, ILayoutRestorer } from "@jupyterlab/application";
import { ICommandPalette } from "@jupyterlab/apputils";
import { ILauncher } from "@jupyterlab/launcher";
import { INotebookTracker } from "@jupyterlab/notebook";
import type { Site } from "../view/protocol";
import { icon } from "./icon";
import { WorkbenchPanel } from "./panel";
import { reveal } from "./reveal";

const CATEGORY = "Gradient Workbench";

const plugin: JupyterFrontEndPlugin<void> = {
  id: "gradient-workbench:plugin",
  description: "Shows the autograd graph of the active notebook and steps through its backward pass.",
  autoStart: true,
  requires: [INotebookTracker],
  optional: [ICommandPalette, ILauncher, ILayoutRestorer],
  activate(
    app: JupyterFrontEnd,
    tracker: INotebookTracker,
    palette: ICommandPalette | null,
    launcher: ILauncher | null,
    restorer: ILayoutRestorer | null,
  ): void {
    const panel = new WorkbenchPanel(tracker);
    app.shell.add(panel, "right", { rank: 700, type: CATEGORY });
    restorer?.add(panel, panel.id);

    const place = (area: string, options: object) => () => {
      app.shell.add(panel, area, { ...options, type: CATEGORY });
      app.shell.activateById(panel.id);
    };
    const commands = [
      { id: "gradient-workbench:open", label: "Open Gradient Workbench", place: place("right", { rank: 700 }) },
      { id: "gradient-workbench:open-tab", label: "Open Gradient Workbench in a Tab", place: place("main", { mode: "split-right" }) },
    ];
    for (const { id, label, place } of commands) {
      app.commands.addCommand(id, { label, caption: `${label} beside the notebook`, icon, execute: place });
      palette?.addItem({ command: id, category: CATEGORY });
    }
    launcher?.add({ command: commands[0].id, category: "Other" });

    document.addEventListener("workbench-reveal", (event) => {
      void reveal(tracker, (event as CustomEvent<Site>).detail, event.target);
    });
  },
};

export default plugin;
