// The JupyterLab extension: side panel, tab and status item for the active notebook, and links from nodes to lines of code.

import { type JupyterFrontEnd, type JupyterFrontEndPlugin, ILayoutRestorer } from "@jupyterlab/application";
import { ICommandPalette, ToolbarButton, WidgetTracker } from "@jupyterlab/apputils";
import { ILauncher } from "@jupyterlab/launcher";
import { INotebookTracker, type NotebookPanel } from "@jupyterlab/notebook";
import { IStatusBar } from "@jupyterlab/statusbar";
import { HEARD, LEFT, OPEN, SIDE_PANEL } from "../view/notebook";
import type { Site } from "../view/protocol";
import { openFlights } from "./flight";
import { Hub } from "./hub";
import { icon } from "./icon";
import { keepAnswers, keepLevels } from "./keep";
import { tellNews } from "./news";
import { WorkbenchPanel } from "./panel";
import { reveal } from "./reveal";
import { showSaved } from "./saved";
import { StatusItem } from "./status";
import { tellOfWaiting } from "./waiting";

const CATEGORY = "Gradient Workbench";
const SIDE = "gradient-workbench:open";
const TAB = "gradient-workbench:open-tab";

const plugin: JupyterFrontEndPlugin<void> = {
  id: "gradient-workbench:plugin",
  description: "Shows the autograd graph of the active notebook and steps through its backward pass.",
  autoStart: true,
  requires: [INotebookTracker],
  optional: [ICommandPalette, ILauncher, ILayoutRestorer, IStatusBar],
  activate(
    app: JupyterFrontEnd,
    tracker: INotebookTracker,
    palette: ICommandPalette | null,
    launcher: ILauncher | null,
    restorer: ILayoutRestorer | null,
    statusBar: IStatusBar | null,
  ): void {
    const hub = new Hub(tracker);
    const tabs = new WidgetTracker<WorkbenchPanel>({ namespace: "gradient-workbench" });
    let tab: WorkbenchPanel | null = null;

    // With the graph in a separate tab, the side panel shows only the details.
    const side = new WorkbenchPanel(hub, "gradient-workbench", CATEGORY, () => (tab?.isAttached ? "details" : "all"));
    app.shell.add(side, "right", { rank: 700, type: CATEGORY });
    restorer?.add(side, side.id);
    void app.restored.then(() => (side.takesKeys = true));

    const openSide = () => {
      if (!side.isAttached) app.shell.add(side, "right", { rank: 700, type: CATEGORY });
      app.shell.activateById(side.id);
    };
    const openTab = () => {
      if (!tab || tab.isDisposed) {
        tab = new WorkbenchPanel(hub, "gradient-workbench-graph", "Graph", () => "graph");
        tab.title.label = "Graph";
        tab.placed.connect(() => side.isVisible && side.display());
      }
      if (!tab.isAttached) app.shell.add(tab, "main", { mode: "split-right", type: CATEGORY });
      if (!tabs.has(tab)) void tabs.add(tab);
      app.shell.activateById(tab.id);
    };
    const commands = [
      { id: SIDE, label: "Open Gradient Workbench", keys: "Accel Alt G", execute: openSide },
      {
        id: TAB,
        label: "Open Gradient Workbench in a Tab",
        keys: "Accel Alt Shift G",
        execute: () => {
          openTab();
          openSide();
        },
      },
    ];
    for (const { id, label, keys, execute } of commands) {
      app.commands.addCommand(id, { label, caption: `${label} beside the notebook`, icon, execute });
      app.commands.addKeyBinding({ command: id, keys: [keys], selector: "body" });
      palette?.addItem({ command: id, category: CATEGORY });
    }
    app.commands.addCommand("gradient-workbench:restore-tab", { label: "Graph of Gradient Workbench", execute: openTab });
    if (restorer) void restorer.restore(tabs, { command: "gradient-workbench:restore-tab", name: () => "graph" });
    launcher?.add({ command: SIDE, category: "Other" });

    app.docRegistry.addWidgetExtension("Notebook", {
      createNew(panel: NotebookPanel) {
        const button = new ToolbarButton({ icon, tooltip: `${CATEGORY} (graph, tensors, backward pass, memory)`, onClick: openSide });
        if (!panel.toolbar.insertBefore("spacer", "gradient-workbench", button)) panel.toolbar.addItem("gradient-workbench", button);
        return button;
      },
    });
    const item = new StatusItem(hub, () => {
      openSide();
      hub.core?.controller.tab("memory");
    });
    statusBar?.registerStatusItem("gradient-workbench:memory", { item, align: "right", rank: 30 });

    openFlights(app);
    tellOfWaiting(hub, openSide);

    document.documentElement.dataset[SIDE_PANEL] = "";
    tellNews(tracker);
    document.addEventListener(HEARD, (event) => hub.heard(event.target));
    document.addEventListener(OPEN, openSide);
    document.addEventListener(LEFT, () => {
      const panel = tracker.currentWidget;
      if (panel) app.shell.activateById(panel.id);
      panel?.content.node.focus();
    });
    keepAnswers(tracker);
    keepLevels(tracker);
    showSaved(tracker);
    document.addEventListener("workbench-reveal", (event) => {
      void reveal(tracker, (event as CustomEvent<Site>).detail, event.target);
    });
  },
};

export default plugin;
