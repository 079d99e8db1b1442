// What the side panel, the tab and the status bar show is one thing: one line to the active notebook's kernel, and one state.

import type { INotebookTracker } from "@jupyterlab/notebook";
import { Signal } from "@lumino/signaling";
import view, { type Core } from "../view/index";
import { type Content, KernelLink, NO_NOTEBOOK } from "./link";
import { CommModel } from "./model";

const MOVING = 100; // milliseconds

/** A state to show, with the model behind it; or a sentence that says why there is none. */
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

  /** Somebody can see what is shown. The kernel is asked for a graph only as long as there is somebody; else for a few bytes, by the status bar. */
  use(user: object): void {
    this.users.add(user);
    clearTimeout(this.leaving);
    this.link.watch(true);
    this.core?.start();
  }

  drop(user: object): void {
    if (!this.users.delete(user) || this.users.size) return;
    // Where panels are only moved about, they are taken off the page for a moment.
    this.leaving = setTimeout(() => this.link.watch(false), MOVING);
  }

  /** A view on the page has heard from the kernel of the notebook that it is in. */
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
    // A graph that is on the screen stays there when its kernel goes: the view itself says so.
    if (!(content.keeps && this.core?.store.state.recording)) this.show(content.sentence);
  }

  private show(shown: Shown): void {
    const before = this.core;
    this.shown = shown;
    this.changed.emit();
    before?.close();
  }
}
