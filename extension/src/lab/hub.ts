// Shared state of the side panel, the tab and the status bar: one channel to the active notebook's kernel.

import type { INotebookTracker } from "@jupyterlab/notebook";
import { Signal } from "@lumino/signaling";
import view, { type Core } from "../view/index";
import { type Content, KernelLink, NO_NOTEBOOK } from "./link";
import { CommModel } from "./model";

const MOVING = 100; // milliseconds

/** A state to show, with its model; or a message that explains why there is none. */
export type Shown = { core: Core; model: CommModel } | string;

export class Hub {
  readonly changed = new Signal<this, void>(this);
  readonly ran: KernelLink["ran"];
  shown: Shown = NO_NOTEBOOK;
  private readonly link: KernelLink;
  private readonly users = new Set<object>();
  private leaving: ReturnType<typeof setTimeout> | undefined;

  constructor(readonly tracker: INotebookTracker) {
    this.link = new KernelLink(tracker);
    this.ran = this.link.ran;
    this.link.changed.connect((_, content) => this.take(content));
    this.link.start();
  }

  get core(): Core | null {
    return typeof this.shown === "string" ? null : this.shown.core;
  }

  /**
   * Registers a visible user. The graph is requested from the kernel only while there is one; otherwise the status bar requests a few
   * bytes.
   */
  use(user: object): void {
    this.users.add(user);
    clearTimeout(this.leaving);
    this.link.watch(true);
    this.core?.start();
  }

  drop(user: object): void {
    if (!this.users.delete(user) || this.users.size) return;
    // Moved panels are briefly detached from the page.
    this.leaving = setTimeout(() => this.link.watch(false), MOVING);
  }

  /** A view on the page has received a message from the kernel of its notebook. */
  heard(from: EventTarget | null): void {
    const panel = from instanceof Node ? this.tracker.find((one) => one.node.contains(from)) : undefined;
    if (panel) this.link.heard(panel.sessionContext);
  }

  private take(content: Content): void {
    if (content instanceof CommModel) {
      const core = view.listen(content);
      this.show({ core, model: content });
      if (this.users.size) core.start();
      return;
    }
    // A graph on the screen is kept when its kernel is gone; the view shows the reason.
    if (!(content.keeps && this.core?.store.state.recording)) this.show(content.sentence);
  }

  private show(shown: Shown): void {
    const before = this.core;
    this.shown = shown;
    this.changed.emit();
    before?.close();
  }
}
