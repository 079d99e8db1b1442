// The current step of the pass in full: code, words, rules and contributions.

import type { Controller } from "../controller";
import { h, put } from "../dom";
import type { Contribution, Step, Summary } from "../protocol";
import { changed, type Recording, type State } from "../store";
import { nameOf } from "../words";
import type { Gradients } from "./gradients";
import type { Pane, PaneContext } from "./pane";
import { normOf, pillOf } from "./pills";
import { depthSwitch, fitFormulas, ruleRows, siteLine } from "./rules";

export class StepPane implements Pane {
  readonly tab = "step";
  readonly title = "Step";
  readonly element = h("div", { class: "pane step" });
  private readonly controller: Controller;

  constructor({ controller }: PaneContext) {
    this.controller = controller;
  }

  offered(state: State): boolean {
    return state.pass !== null;
  }

  update(state: State, before: State | null, gradients: Gradients): void {
    if (!changed(state, before, "pass", "depth", "recording")) return;
    this.show(state, gradients);
    fitFormulas(this.element);
  }

  private show(state: State, gradients: Gradients): void {
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
        { class: "row upstream", "data-testid": "wb-upstream", "data-norm": normOf(step.upstream) },
        h("h4", {}, "Upstream gradient"),
        pillOf(step.upstream),
      ),
      ...accumulated(step),
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
      { class: "contribution", "data-testid": "wb-contribution", "data-target": target, "data-norm": normOf(total) },
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

/** A leaf's .grad before and after: what the pass added to. */
function accumulated({ before, after }: Step): HTMLElement[] {
  const line = (words: string, summary: Summary, test: string) =>
    h("div", { class: "row", "data-testid": test, "data-norm": normOf(summary) }, h("h4", {}, words), pillOf(summary));
  if (!after) return [];
  if (!before) return [h("p", { class: "quiet", "data-testid": "wb-grad-was" }, ".grad was None before this step.")];
  return [line(".grad before", before, "wb-grad-was"), line(".grad after", after, "wb-grad-now")];
}
