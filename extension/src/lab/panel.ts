// The side panel and the tab "Gradient Workbench": host the view for the active notebook's kernel, or say why there is nothing to see.

import type { Message } from "@lumino/messaging";
import { Signal } from "@lumino/signaling";
import { Widget } from "@lumino/widgets";
import view, { type Parts } from "../view/index";
import type { Hub } from "./hub";
import { icon } from "./icon";

export class WorkbenchPanel extends Widget {
  /** It was put on the page, or taken off. */
  readonly placed = new Signal<this, void>(this);
  /** Whether it takes the keyboard when it is opened: not while JupyterLab puts back what was open. */
  takesKeys = false;
  private cleanup: (() => void) | null = null;

  constructor(
    private readonly hub: Hub,
    id: string,
    label: string,
    private readonly parts: () => Parts,
  ) {
    super();
    this.id = id;
    this.addClass("gradient-workbench-panel");
    this.title.icon = icon;
    this.title.caption = label;
    this.title.closable = true;
    this.node.setAttribute("aria-label", label);
    this.node.setAttribute("role", "region");
    this.node.tabIndex = -1;
    Object.assign(this.node.style, { overflow: "auto", minWidth: "320px", background: "var(--jp-layout-color1)", color: "var(--jp-ui-font-color1)" });
    hub.changed.connect(this.display, this);
  }

  override dispose(): void {
    if (this.isDisposed) return;
    this.hub.changed.disconnect(this.display, this);
    this.hub.drop(this);
    this.clear();
    super.dispose();
  }

  protected override onAfterShow(): void {
    this.begin();
  }
  protected override onAfterHide(): void {
    this.hub.drop(this);
  }
  protected override onAfterAttach(): void {
    this.placed.emit();
    if (this.isVisible) this.begin();
  }
  protected override onBeforeDetach(): void {
    this.hub.drop(this);
  }
  protected override onAfterDetach(message: Message): void {
    super.onAfterDetach(message);
    this.placed.emit();
  }

  /** Opened by the user, it is where the next keys go. */
  protected override onActivateRequest(): void {
    if (this.takesKeys && this.parts() !== "graph") this.focus();
  }

  /** The keys go to the graph; while there is nothing to see, to the panel itself. */
  private focus(): void {
    const inside = this.node.querySelector(".gradient-workbench")?.shadowRoot;
    (inside?.querySelector<HTMLElement>("[role=tree], [role=tabpanel]") ?? this.node).focus({ preventScroll: true });
  }

  private begin(): void {
    this.hub.use(this);
    this.display();
  }

  /** Draws anew: there is something else to show, or other parts of it. */
  display(): void {
    const held = this.node.contains(document.activeElement);
    this.clear();
    if (!this.isVisible) return;
    const { shown } = this.hub;
    const host = document.createElement("div");
    this.node.replaceChildren(host);
    if (typeof shown === "string") {
      host.textContent = shown;
      host.setAttribute("role", "status");
      Object.assign(host.style, { padding: "16px", fontSize: "var(--jp-ui-font-size1)" });
    } else {
      host.style.height = "100%";
      this.cleanup = view.render({ ...shown, el: host, parts: this.parts() });
    }
    if (held) this.focus(); // and nowhere else may a view that appears take the keyboard
  }

  private clear(): void {
    this.cleanup?.();
    this.cleanup = null;
  }
}
