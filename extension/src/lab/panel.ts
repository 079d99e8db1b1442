// The panel "Gradient Workbench": hosts the view for the active notebook's kernel, or says in a sentence why there is nothing to see.

import type { INotebookTracker } from "@jupyterlab/notebook";
import { Widget } from "@lumino/widgets";
import view from "../view/index";
import { icon } from "./icon";
import { type Content, KernelLink } from "./link";

export class WorkbenchPanel extends Widget {
  private readonly link: KernelLink;
  private cleanup: (() => void) | null = null;

  constructor(tracker: INotebookTracker) {
    super();
    this.id = "gradient-workbench";
    this.addClass("gradient-workbench-panel");
    this.title.icon = icon;
    this.title.caption = "Gradient Workbench";
    this.title.closable = true;
    this.node.setAttribute("aria-label", "Gradient Workbench");
    this.node.setAttribute("role", "region");
    Object.assign(this.node.style, { overflow: "auto", minWidth: "320px", background: "var(--jp-layout-color1)", color: "var(--jp-ui-font-color1)" });
    this.link = new KernelLink(tracker);
    this.link.changed.connect((_, content) => this.display(content));
  }

  override dispose(): void {
    this.link.stop();
    this.clear();
    super.dispose();
  }

  // The kernel has work only while somebody can see the panel.
  protected override onAfterShow(): void {
    this.link.start();
  }
  protected override onAfterHide(): void {
    this.link.stop();
  }
  protected override onAfterAttach(): void {
    if (this.isVisible) this.link.start();
  }
  protected override onBeforeDetach(): void {
    this.link.stop();
  }

  private display(content: Content): void {
    this.clear();
    const host = document.createElement("div");
    this.node.replaceChildren(host);
    if (typeof content === "string") {
      host.textContent = content;
      host.setAttribute("role", "status");
      Object.assign(host.style, { padding: "16px", fontSize: "var(--jp-ui-font-size1)" });
    } else {
      host.style.height = "100%";
      this.cleanup = view.render({ model: content, el: host }) ?? null;
    }
  }

  private clear(): void {
    this.cleanup?.();
    this.cleanup = null;
  }
}
