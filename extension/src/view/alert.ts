// The error message, between the toolbar and the graph; it covers neither and can be dismissed.

import { h, setText } from "./dom";

export class Alert {
  private readonly words = h("span", { "data-testid": "wb-alert" });
  readonly element: HTMLElement;

  constructor(dismiss: () => void) {
    const labels = { title: "Dismiss", "aria-label": "Dismiss", "data-testid": "wb-dismiss" };
    const close = h("button", { class: "dismiss", ...labels, click: dismiss }, "×");
    this.element = h("div", { class: "alert error", role: "alert", hidden: true }, this.words, close);
  }

  show(sentence: string): void {
    this.element.hidden = sentence === "";
    setText(this.words, sentence);
  }
}
