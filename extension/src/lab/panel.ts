// The side panel and the tab: show the view for the active notebook's kernel, or the reason why there is none.

import type { Message } from "@lumino/messaging";
import { Signal } from "@lumino/signaling";
import { Widget } from "@lumino/widgets";
import view, { type Parts } from "../view/index";
import type { Hub } from "./hub";
import { icon } from "./icon";

export class WorkbenchPanel extends Widget {
  /** Emitted when the panel was attached to the page or detached. */
  readonly placed = new Signal<this, void>(this);
  /** Whether it takes the focus when activated; false while JupyterLab restores the layout. */
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

  /** Takes the focus when the user opens it. */
  protected override onActivateRequest(): void {
    if (this.takesKeys && this.parts() !== "graph") this.focus();
  }

  /** Focuses the graph or the details; if there is no view, the panel itself. */
  private focus(): void {
    const inside = this.node.querySelector(".gradient-workbench")?.shadowRoot;
    (inside?.querySelector<HTMLElement>("[role=tree], [role=tabpanel]") ?? this.node).focus({ preventScroll: true });
  }

  private begin(): void {
    this.hub.use(this);
    this.display();
  }

  /** Redraws the panel after a change of its content or parts. */
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
    if (held) this.focus(); // in no other case may a view that appears take the focus
  }

  private clear(): void {
    this.cleanup?.();
    this.cleanup = null;
  }
}
