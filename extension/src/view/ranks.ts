// The bar of a view of several processes: which rank is shown, and what differs between the ranks.

import type { Controller } from "./controller";
import { h, put, setAttribute, setText } from "./dom";
import { answered, type State } from "./store";

export class RanksBar {
  readonly element: HTMLElement;
  private readonly slider = h("input", { type: "range", min: 0, step: 1, "aria-label": "Rank", "data-testid": "wb-rank" });
  private readonly label = h("output", { class: "label", "data-testid": "wb-rank-label" });
  private readonly words = h("div", { class: "sentence", "data-testid": "wb-rank-words" });
  private told = "";

  constructor(controller: Controller) {
    this.slider.addEventListener("input", () => void controller.rank(Number(this.slider.value)));
    this.element = h(
      "section",
      { class: "ranks", "aria-label": "Ranks", "data-testid": "wb-ranks", hidden: true },
      h("div", { class: "position" }, this.slider, this.label),
      this.words,
    );
  }

  update(state: State): void {
    const ranks = answered(state, "ranks")?.message;
    this.element.hidden = !ranks;
    if (!ranks) return;
    const { rank, size, sentences } = ranks;
    setAttribute(this.slider, "max", size - 1);
    if (this.slider.value !== String(rank)) this.slider.value = String(rank);
    this.slider.style.setProperty("--done", `${(100 * rank) / (size - 1)}%`);
    setAttribute(this.slider, "aria-valuetext", `rank ${rank}`);
    setText(this.label, `rank ${rank} of ${size}`);
    const told = sentences.join("\n");
    if (told !== this.told) put(this.words, ...sentences.map((one) => h("div", {}, one)));
    this.told = told;
  }
}
