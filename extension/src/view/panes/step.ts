// The stepper: the bar with its buttons and scrubber, and the current step in code, words, rules and contributions.

import type { Controller } from "../controller";
import { h, put, setAttribute, setText } from "../dom";
import type { Gradients } from "./gradients";
import { icon, type Icon } from "../icons";
import type { Contribution, Step, Summary } from "../protocol";
import { depthSwitch, ruleRows, siteLine, valuesText } from "./rules";
import type { Recording, State } from "../store";
import { normText, shapeText } from "../words";

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

/** The current step in full. */
export class StepPane {
  readonly element = h("div", { class: "pane step" });

  constructor(private readonly controller: Controller) {}

  update(state: State, gradients: Gradients): void {
    const { recording, pass } = state;
    if (!recording || !pass) return put(this.element);
    const { step } = gradients;
    if (!step) {
      const words =
        pass.index === 0
          ? `The backward pass has ${pass.total} steps. Each turns the gradient of a node's result into gradients of its inputs. Press next, or the right arrow key.`
          : "The kernel has not sent this step; press next or previous.";
      return put(this.element, h("p", { class: "quiet" }, words));
    }
    put(this.element, ...this.parts(step, state, recording));
  }

  private parts(step: Step, state: State, recording: Recording): (HTMLElement | null)[] {
    const choose = (to: State["depth"]) => this.controller.store.dispatch({ do: "depth", to });
    const isOp = recording.nodes.kind[step.node] === "op"; // else a tensor that keeps its gradient
    return [
      h(
        "div",
        { class: "headline" },
        h("h3", {}, step.op),
        h("span", { class: "quiet" }, recording.nodes.name[step.node] || `#${step.node}`),
      ),
      siteLine(recording.sites[step.site]),
      h("div", { class: "row" }, h("h4", {}, isOp ? "Forward" : "Rule"), depthSwitch(state.depth, choose)),
      ruleRows(step.forward, state.depth),
      h(
        "div",
        { class: "row upstream", "data-testid": "wb-upstream", "data-norm": norm(step.upstream) },
        h("h4", {}, "Upstream gradient"),
        pillOf(step.upstream),
      ),
      step.contributions.length ? h("h4", {}, step.contributions.length === 1 ? "Contribution" : "Contributions") : null,
      ...step.contributions.map((contribution) => this.contribution(contribution, state, recording)),
    ];
  }

  private contribution(contribution: Contribution, state: State, recording: Recording): HTMLElement {
    const { target, input, gradient, total, addends, unbroadcast, rule } = contribution;
    const notes: string[] = [];
    if (unbroadcast.length)
      notes.push(`summed over ${unbroadcast.length === 1 ? "axis" : "axes"} ${unbroadcast.join(", ")} because it was broadcast`);
    const jump = () => {
      this.controller.store.dispatch({ do: "reveal", node: target });
      this.controller.select(target);
    };
    return h(
      "div",
      { class: "contribution", "data-testid": "wb-contribution", "data-target": target, "data-norm": norm(total) },
      h(
        "div",
        { class: "row" },
        h("button", { class: "link", title: "Select this node", click: jump }, nameOf(recording, target)),
        h("span", { class: "quiet" }, input),
      ),
      ruleRows(rule, state.depth),
      pillOf(gradient),
      notes.length ? h("p", { class: "quiet" }, notes.join("; ")) : null,
      addends > 1 ? h("div", { class: "sum" }, h("span", { class: "quiet" }, `sum of ${addends} addends so far: `), pillOf(total)) : null,
    );
  }
}

function norm(summary: Summary): string {
  return String(summary.norm);
}

export function nameOf(recording: Recording, node: number): string {
  const { nodes } = recording;
  return nodes.name[node] || `${nodes.kind[node] === "op" ? nodes.op[node] : nodes.kind[node]} #${node}`;
}

/** A gradient in one line: norm, shape, values where they are few. */
function pillOf(summary: Summary): HTMLElement {
  const values = valuesText(summary);
  return h(
    "span",
    { class: "gradient", title: summary.text },
    h("b", {}, `‖∇‖ ${normText(summary)}`),
    h("span", { class: "quiet" }, shapeText(summary.shape)),
    values ? h("code", {}, values) : null,
  );
}
