// The stepper's bar: its buttons, its scrubber and the sentence of the current step.

import type { Controller } from "./controller";
import { h, put, setAttribute, setText } from "./dom";
import { icon, type Icon } from "./icons";
import type { State } from "./store";

export class StepperBar {
  readonly element: HTMLElement;
  private readonly buttons: Record<"first" | "previous" | "next" | "last" | "play" | "target", HTMLButtonElement>;
  private readonly scrub = h("input", {
    type: "range",
    min: 0,
    step: 1,
    "aria-label": "Step of the backward pass",
    "data-testid": "wb-scrub",
  });
  private readonly label = h("output", { class: "label", "data-testid": "wb-step-label" });
  private readonly paused = h(
    "span",
    { class: "paused", title: "A running cell waits inside backward() until the pass is done", "data-testid": "wb-paused", hidden: true },
    "cell waits",
  );
  private readonly words = h("span", { "data-testid": "wb-sentence" });
  private readonly sentence = h("div", { class: "sentence", "aria-live": "polite" }, this.words);

  constructor(private readonly controller: Controller) {
    const button = (name: Icon, test: string, title: string, click: () => void, words = "") =>
      h("button", { title, "aria-label": title, "data-testid": test, click }, icon(name), words ? h("span", {}, words) : null);
    this.buttons = {
      first: button("first", "wb-first", "Back to the start (Home)", () => void controller.step("first")),
      previous: button("previous", "wb-prev", "Previous step (Left)", () => void controller.step("previous")),
      play: button("play", "wb-play", "Play (k)", () => controller.play()),
      next: button("next", "wb-next", "Next step (Right)", () => void controller.step("next")),
      last: button("last", "wb-last", "To the end (End)", () => void controller.step("last")),
      target: button(
        "target",
        "wb-run-to",
        "Run to the selected node",
        () => controller.runTo(controller.store.state.selected),
        "run to node",
      ),
    };
    this.buttons.target.className = "wide";
    this.scrub.addEventListener("input", () => void controller.step("index", Number(this.scrub.value)));
    const { first, previous, play, next, last, target } = this.buttons;
    this.element = h(
      "section",
      { class: "stepper", "aria-label": "Backward pass", hidden: true },
      h(
        "div",
        { class: "controls" },
        h("div", { class: "buttons" }, first, previous, play, next, last),
        this.scrub,
        this.paused,
        this.label,
        target,
      ),
      this.sentence,
    );
    controller.onPlaying = () => this.showPlaying();
  }

  update({ pass, selected }: State): void {
    this.element.hidden = !pass;
    if (!pass) return;
    const { index, total } = pass;
    setAttribute(this.scrub, "max", total);
    if (this.scrub.value !== String(index)) this.scrub.value = String(index);
    const word = index === 0 ? `Start of ${total} steps` : `Step ${index} of ${total}`;
    setAttribute(this.scrub, "aria-valuetext", word);
    this.scrub.style.setProperty("--done", total ? `${(100 * index) / total}%` : "0%");
    setText(this.label, word);
    this.paused.hidden = pass.mode !== "paused" || pass.done;
    const step = pass.steps.get(index);
    setText(this.words, (!pass.failed && pass.trouble) || pass.sentence || step?.sentence || "Press next to run the first step.");
    this.sentence.classList.toggle("error", pass.failed || pass.trouble !== "");
    // Not `disabled`: a button that disables itself under the finger loses the focus.
    for (const name of ["first", "previous"] as const) setAttribute(this.buttons[name], "aria-disabled", index === 0 ? "true" : null);
    for (const name of ["next", "last"] as const) setAttribute(this.buttons[name], "aria-disabled", index >= total ? "true" : null);
    setAttribute(this.buttons.target, "aria-disabled", selected < 0 ? "true" : null);
    setAttribute(this.element, "data-index", index);
  }

  private showPlaying(): void {
    const { playing } = this.controller;
    const { play } = this.buttons;
    put(play, icon(playing ? "pause" : "play"));
    const words = playing ? "Pause (k)" : "Play (k)";
    setAttribute(play, "title", words);
    setAttribute(play, "aria-label", words);
  }
}
