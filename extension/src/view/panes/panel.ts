// The side panel: a tab for each pane with content, and the chosen pane below.

import type { Controller, Request } from "../controller";
import { h, setAttribute } from "../dom";
import { STUDENTS, type State } from "../store";
import type { Gradients } from "./gradients";
import { PANES } from "./index";
import type { Pane, PaneContext } from "./pane";

const BORDER = 26; // pixels: padding and scroll bar

export class Panel {
  readonly element: HTMLElement;
  private readonly panes: readonly Pane[];
  private readonly tabs: Map<string, HTMLButtonElement>;
  readonly scroller = h("div", { class: "scroller", role: "tabpanel", tabindex: 0 });
  private shown = ""; // the tab of the last updated pane

  constructor(
    private readonly controller: Controller,
    isDark: () => boolean,
    prefix: string,
  ) {
    const context: PaneContext = { controller, isDark, prefix, width: () => this.scroller.clientWidth - BORDER };
    this.panes = PANES.map((make) => make(context));
    this.tabs = new Map(
      this.panes.map(({ tab, title }) => [
        tab,
        h("button", { role: "tab", "data-testid": `wb-tab-${tab}`, id: `${prefix}tab-${tab}`, click: () => controller.tab(tab) }, title),
      ]),
    );
    this.scroller.append(...this.panes.map(({ element }) => element));
    const bar = h("div", { class: "tabs", role: "tablist", "aria-label": "Details" }, ...this.tabs.values());
    bar.addEventListener("keydown", (event) => this.arrow(event));
    this.element = h("section", { class: "panel", "aria-label": "Details", "data-testid": "wb-panel" }, bar, this.scroller);
    controller.askers.add(this.asks);
  }

  close(): void {
    this.controller.askers.delete(this.asks);
  }

  /** Turns a page of the lesson. */
  turnPage(by: 1 | -1): void {
    for (const pane of this.panes) pane.turnPage?.(by);
  }

  private readonly asks = (state: State): Request | null => this.panes.find(({ tab }) => tab === state.tab)?.asks?.(state) ?? null;

  private arrow(event: KeyboardEvent): void {
    const by = event.key === "ArrowRight" ? 1 : event.key === "ArrowLeft" ? -1 : 0;
    if (!by) return;
    event.preventDefault();
    event.stopPropagation();
    const names = [...this.tabs].filter(([, button]) => !button.hidden).map(([tab]) => tab);
    const to = names[(names.indexOf(this.controller.store.state.tab) + by + names.length) % names.length]!;
    this.controller.tab(to);
    this.tabs.get(to)!.focus();
  }

  update(state: State, before: State | null, gradients: Gradients): void {
    for (const pane of this.panes) {
      const chosen = pane.tab === state.tab;
      const button = this.tabs.get(pane.tab)!;
      button.hidden = !pane.offered(state) || (state.student && !STUDENTS.has(pane.tab) && !chosen);
      const caption = pane.caption?.(state) ?? pane.title;
      if (button.textContent !== caption) button.textContent = caption;
      pane.element.hidden = !chosen;
      setAttribute(button, "aria-selected", String(chosen));
      setAttribute(button, "tabindex", chosen ? 0 : -1);
      if (!chosen) continue;
      setAttribute(this.scroller, "aria-labelledby", button.id);
      if (!before || state.tab !== before.tab || (state.subject !== before.subject && !pane.stays)) this.scroller.scrollTop = 0;
      pane.update(state, this.shown === pane.tab ? before : null, gradients);
      this.shown = pane.tab;
    }
  }
}
