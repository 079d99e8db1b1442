// The overlay that explains the picture and lists the keys.

import { h, put } from "./dom";
import { BINDINGS } from "./keys";
import { legend } from "./legend";

export class Help {
  readonly element: HTMLDialogElement;
  private readonly legend = h("div"); // filled only while visible, since its samples look like parts of the graph

  constructor() {
    const rows = BINDINGS.map(({ shown, does }) => h("tr", {}, h("th", { scope: "row" }, h("kbd", {}, shown)), h("td", {}, does)));
    const close = h("button", { class: "close", "aria-label": "Close", click: () => this.toggle(false) }, "×");
    this.element = h(
      "dialog",
      { class: "help", "aria-label": "Legend and keys", "data-testid": "wb-keys" },
      close,
      h("h3", {}, "What the picture shows"),
      this.legend,
      h("h3", {}, "Keys, while the graph has the focus"),
      h("table", {}, h("tbody", {}, ...rows)),
      h("p", { class: "quiet" }, "Drag to pan. Ctrl or Cmd and the wheel, or a pinch, to zoom. A double click opens and closes a group."),
    );
  }

  toggle(show = !this.element.open): void {
    if (show === this.element.open) return;
    put(this.legend, show ? legend() : null);
    if (show) this.element.show();
    else this.element.close();
  }
}
