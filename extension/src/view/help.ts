// The overlay that lists the keys.

import { h } from "./dom";
import { BINDINGS } from "./keys";

export class Help {
  readonly element: HTMLDialogElement;

  constructor() {
    const rows = BINDINGS.map(({ shown, does }) => h("tr", {}, h("th", { scope: "row" }, h("kbd", {}, shown)), h("td", {}, does)));
    const close = h("button", { class: "close", "aria-label": "Close", click: () => this.toggle(false) }, "×");
    this.element = h(
      "dialog",
      { class: "help", "aria-label": "Keys", "data-testid": "wb-keys" },
      close,
      h("h3", {}, "Keys, while the graph has the focus"),
      h("table", {}, h("tbody", {}, ...rows)),
      h("p", { class: "quiet" }, "Drag to pan. Ctrl or Cmd and the wheel, or a pinch, to zoom. A double click opens and closes a group."),
    );
  }

  toggle(show = !this.element.open): void {
    if (show === this.element.open) return;
    if (show) this.element.show();
    else this.element.close();
  }
}
