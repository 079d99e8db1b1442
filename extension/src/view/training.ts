// The bar of a training loop: play, pause, single iteration, reset, and progress.

import type { Controller } from "./controller";
import { h, put, setAttribute, setText } from "./dom";
import { icon, type Icon } from "./icons";
import type { Train } from "./protocol";
import { answered, type State } from "./store";

const WORDS = { waits: "waits", runs: "runs", ended: "has ended" } as const;

export class TrainingBar {
  readonly element: HTMLElement;
  private readonly play: HTMLButtonElement;
  private readonly step: HTMLButtonElement;
  private readonly reset: HTMLButtonElement;
  private readonly end: HTMLButtonElement;
  private readonly progress = h("progress", { "aria-label": "Turns of the loop", "data-testid": "wb-train-progress" });
  private readonly label = h("output", { class: "label", "data-testid": "wb-train-label" });
  private runs = false;

  constructor(controller: Controller) {
    const button = (name: Icon, test: string, title: string, click: () => void) =>
      h("button", { title, "aria-label": title, "data-testid": test, click }, icon(name));
    const ask = (what: Train["do"]) => void controller.ask({ type: "train", do: what });
    this.play = button("play", "wb-train-play", "Play the training", () => ask(this.runs ? "pause" : "play"));
    this.step = button("next", "wb-train-step", "One turn of the loop", () => ask("step"));
    this.reset = button("reset", "wb-train-reset", "Put weights, optimizer and random numbers back to the start of the loop", () => ask("reset"));
    this.end = button("stop", "wb-train-end", "Leave the loop: the cell goes on after it", () => ask("end"));
    this.element = h(
      "section",
      { class: "training", "aria-label": "Training loop", "data-testid": "wb-training", hidden: true },
      h("strong", {}, "Training"),
      h("div", { class: "buttons" }, this.play, this.step, this.reset, this.end),
      this.progress,
      this.label,
    );
  }

  update(state: State): void {
    const training = answered(state, "training")?.message;
    this.element.hidden = !training;
    if (!training) return;
    const { turn, total, state: how, resets } = training;
    const runs = how === "runs";
    if (runs !== this.runs) {
      this.runs = runs;
      put(this.play, icon(runs ? "pause" : "play"));
      const words = runs ? "Pause the training" : "Play the training";
      setAttribute(this.play, "title", words);
      setAttribute(this.play, "aria-label", words);
    }
    setText(this.label, `turn ${turn}${total < 0 ? "" : ` of ${total}`}, ${WORDS[how]}`);
    this.progress.hidden = total < 0;
    setAttribute(this.progress, "max", Math.max(1, total));
    setAttribute(this.progress, "value", turn);
    for (const one of [this.play, this.step, this.end]) setAttribute(one, "aria-disabled", how === "ended" ? "true" : null);
    setAttribute(this.reset, "aria-disabled", resets ? null : "true");
  }
}
