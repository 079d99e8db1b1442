// What a pane of the side panel is: a tab, an element, and how it follows the state.

import type { Controller, Request } from "../controller";
import { h } from "../dom";
import type { State } from "../store";
import type { Gradients } from "./gradients";

export interface PaneContext {
  controller: Controller;
  isDark(): boolean;
  prefix: string; // for ids that must not occur twice on a page
  width(): number; // pixels that a pane's content may be wide
}

export interface Pane {
  readonly tab: string;
  readonly title: string;
  readonly element: HTMLElement;
  /** Its content is not about the selected node: choosing another one does not scroll it to its top. */
  readonly stays?: boolean;
  /** What the tab says, where that is more than the title. */
  caption?(state: State): string;
  /** Whether there is something to see, and so a tab. */
  offered(state: State): boolean;
  /** The state has changed, or the pane has just been opened (`before` is null). Called only while its tab is chosen. */
  update(state: State, before: State | null, gradients: Gradients): void;
  /** What to ask the kernel for when the pane is opened, the graph is another one, or the pass has moved; null: nothing. */
  asks?(state: State): Request | null;
  /** Another page, where there are pages. */
  turnPage?(by: 1 | -1): void;
}

/** What stands in a pane while its answer has not come. */
export function waiting({ status }: State): HTMLElement {
  return h("p", { class: "quiet" }, status.tone === "error" ? "No answer came." : "Asking the kernel…");
}
