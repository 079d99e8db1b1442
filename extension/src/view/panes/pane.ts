// The interface of a side panel pane: a tab, an element, and methods to follow the state.

import type { Controller, Request } from "../controller";
import { h } from "../dom";
import type { State } from "../store";
import type { Gradients } from "./gradients";

export interface PaneContext {
  controller: Controller;
  isDark(): boolean;
  prefix: string; // for ids that must be unique on a page
  width(): number; // width available to a pane's content, in pixels
}

export interface Pane {
  readonly tab: string;
  readonly title: string;
  readonly element: HTMLElement;
  /** The content is not about the selected node, so selecting another one does not scroll it to the top. */
  readonly stays?: boolean;
  /** The tab's text, if it differs from the title. */
  caption?(state: State): string;
  /** Whether the pane has content, and so a tab. */
  offered(state: State): boolean;
  /** Called after a change of state, or when the pane has just been opened (`before` is null); only while its tab is chosen. */
  update(state: State, before: State | null, gradients: Gradients): void;
  /** The request to send when the pane is opened, the graph changes or the pass moves; null: none. */
  asks?(state: State): Request | null;
  /** Turns to another page, in panes with pages. */
  turnPage?(by: 1 | -1): void;
}

/** The placeholder shown until the answer arrives. */
export function waiting({ status }: State): HTMLElement {
  return h("p", { class: "quiet" }, status.tone === "error" ? "No answer came." : "Asking the kernel…");
}
