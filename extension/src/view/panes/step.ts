// The current step of the pass in full: code, words, rules and contributions.

import type { Controller } from "../controller";
import { h, put } from "../dom";
import { resultText } from "../graph/face";
import type { Contribution, LocalPart, Step, Summary, Term } from "../protocol";
import { answered, changed, type Recording, type State } from "../store";
import { nameOf } from "../words";
import { addendsOf, sumLine, sumPictures } from "./addends";
import { ForksSection } from "./forks";
import type { Gradients } from "./gradients";
import { LocalSection } from "./local";
import type { Pane, PaneContext } from "./pane";
import { PathsSection } from "./paths";
import { normOf, pillOf } from "./pills";
import { depthSwitch, fitFormulas, ruleRows, siteLine } from "./rules";
import { Asker } from "./section";
import { equation, figure, type StripOptions } from "./strip";
import { ValuesSection } from "./values";

const ANSWERS = ["local", "fan_out", "paths", "checked", "forks", "editable", "reran"] as const; // answers that this pane shows

/** The kernel's details for the step's op: its sub-steps and equations, by input. */
type Parts = { forward: readonly Term[]; parts: readonly LocalPart[]; options: StripOptions } | null;

export class StepPane implements Pane {
  readonly tab = "step";
  readonly title = "Step";
  readonly element = h("div", { class: "pane step" });
  private readonly controller: Controller;
  private readonly now = h("div", { class: "now" });
  private readonly further = h("div", {});
  private readonly sections: readonly { section: { element: HTMLElement }; update(state: State): void }[];
  private readonly local: LocalSection;
  private readonly sums: Asker;

  constructor(private readonly context: PaneContext) {
    this.controller = context.controller;
    this.sums = new Asker(this.controller);
    this.local = new LocalSection(context);
    this.sections = [this.local, new PathsSection(context), new ForksSection(context), new ValuesSection(context)];
    this.further.append(...this.sections.map(({ section }) => section.element));
    this.element.append(this.now, this.further);
  }

  offered(state: State): boolean {
    return state.pass !== null;
  }

  update(state: State, before: State | null, gradients: Gradients): void {
    const told = ANSWERS.some((type) => !before || answered(state, type) !== answered(before, type));
    const tone = before?.status.tone !== state.status.tone; // after a failed request, what waits for its answer says so
    if (!told && !tone && !changed(state, before, "pass", "depth", "recording", "selected", "room")) return;
    this.show(state, gradients);
    this.further.hidden = state.pass?.mode === "record"; // no engine can answer then
    if (!this.further.hidden) for (const section of this.sections) section.update(state);
    fitFormulas(this.element);
  }

  private show(state: State, gradients: Gradients): void {
    const { recording, pass } = state;
    if (!recording || !pass) return put(this.now);
    const { step } = gradients;
    if (!step) {
      const words =
        pass.index === 0
          ? `The backward pass has ${pass.total} steps. Each turns the gradient of a node's result into gradients of its inputs. Press next, or the right arrow key.`
          : "The kernel has not sent this step; press next or previous.";
      return put(this.now, h("p", { class: "quiet" }, words));
    }
    put(this.now, ...this.parts(step, state, recording));
  }

  /** The kernel's details for this step, requested if they are needed; null until they arrive. */
  private details(step: Step, state: State): Parts {
    const written = state.depth !== "numbers" || (step.forward.numbers && step.contributions.every(({ rule }) => rule.numbers));
    const wanted = !written || step.contributions.some(({ unbroadcast }) => unbroadcast.length);
    const spread = step.contributions.some(({ gradient }) => gradient.size !== step.upstream.size);
    if (wanted || spread) this.local.ask(step.node, state.pass!.index);
    const answer = answered(state, "local");
    if (answer?.message.node !== step.node || answer.message.place !== state.pass!.index) return null;
    return { forward: answer.message.forward, parts: answer.message.parts, options: this.options(answer.buffers) };
  }

  private options(buffers: readonly DataView[]): StripOptions {
    return { buffers, dark: this.context.isDark(), width: Math.max(120, this.context.width() - 30) };
  }

  /** The upstream gradient as a sum, if it has several contributions. */
  private arrived(step: Step, state: State, recording: Recording): (HTMLElement | null)[] {
    const addends = addendsOf(recording, state.pass!, step.node);
    if (addends.length < 2) return [];
    this.sums.ask({ type: "ask_fan_out", node: step.node }, `${recording.name} ${state.pass!.index}`);
    const answer = answered(state, "fan_out");
    const mine = answer?.message.node === step.node && answer.message.index === state.pass!.index ? answer : null;
    const pictures = mine && sumPictures(this.controller, recording, mine.message, this.options(mine.buffers));
    return [pictures ?? sumLine(this.controller, recording, addends)];
  }

  private parts(step: Step, state: State, recording: Recording): (HTMLElement | null)[] {
    const choose = (to: State["depth"]) => this.controller.store.dispatch({ do: "depth", to });
    const isOp = recording.nodes.kind[step.node] === "op"; // else a tensor that keeps its gradient
    const details = this.details(step, state);
    return [
      h(
        "div",
        { class: "headline" },
        h("h3", {}, step.op),
        h("span", { class: "quiet" }, recording.nodes.name[step.node] || resultText(recording, step.node)),
      ),
      siteLine(recording.sites[step.site]),
      h("div", { class: "row" }, h("h4", {}, isOp ? "Forward" : "Rule"), depthSwitch(state.depth, choose)),
      ruleRows(step.forward, state.depth, details?.forward.length ? equation(details.forward, details.options) : null),
      h(
        "div",
        { class: "row upstream", "data-testid": "wb-upstream", "data-norm": normOf(step.upstream) },
        h("h4", {}, "Upstream gradient"),
        pillOf(step.upstream),
      ),
      ...this.arrived(step, state, recording),
      ...accumulated(step),
      step.contributions.length ? h("h4", {}, step.contributions.length === 1 ? "Contribution" : "Contributions") : null,
      ...step.contributions.map((contribution, at) => {
        const last = !step.contributions.slice(at + 1).some(({ target }) => target === contribution.target);
        return this.contribution(contribution, last, state, recording, details);
      }),
    ];
  }

  private contribution(contribution: Contribution, last: boolean, state: State, recording: Recording, details: Parts): HTMLElement {
    const { target, input, gradient, total, addends, unbroadcast, rule } = contribution;
    const part = details?.parts.find((one) => one.input === input);
    const jump = () => {
      this.controller.store.dispatch({ do: "reveal", node: target });
      this.controller.select(target);
    };
    // If the step contributes twice, the sum is complete after the second.
    const sum = last ? sumLine(this.controller, recording, addendsOf(recording, state.pass!, target)) : null;
    return h(
      "div",
      { class: "contribution", "data-testid": "wb-contribution", "data-target": target, "data-norm": normOf(total) },
      h(
        "div",
        { class: "row" },
        h("button", { class: "link", title: "Select this node", click: jump }, nameOf(recording, target)),
        h("span", { class: "quiet" }, input),
      ),
      ruleRows(rule, state.depth, part?.equation.length ? equation(part.equation, details!.options) : null),
      pillOf(gradient),
      ...subSteps(part, unbroadcast, details),
      sum ? h("div", { class: "so-far" }, sum, addends > 1 ? h("span", {}, "= ", pillOf(total)) : null) : null,
    );
  }
}

/** Sub-steps within the step: sums over broadcast axes, spreading over summed axes, casts. */
function subSteps(part: LocalPart | undefined, unbroadcast: readonly number[], details: Parts): (HTMLElement | null)[] {
  if (!part?.sub_steps.length) {
    if (!unbroadcast.length) return [];
    return [h("p", { class: "quiet" }, `summed over ${unbroadcast.length === 1 ? "axis" : "axes"} ${unbroadcast.join(", ")} because it was broadcast`)];
  }
  return part.sub_steps.map(({ kind, sentence, before, after }) =>
    h(
      "div",
      { class: "sub-step", "data-testid": "wb-sub-step", "data-kind": kind },
      h("p", {}, h("b", {}, { sum: "Σ", spread: "⇉", cast: "→" }[kind]), ` ${sentence}`),
      h("div", { class: "equation" }, figure(before, half(details)), h("span", { class: "sign" }, "→"), figure(after, half(details))),
    ),
  );
}

function half(details: Parts): StripOptions {
  return { ...details!.options, width: Math.floor(details!.options.width / 2) - 20, height: 44 };
}

/** A leaf's .grad before and after the pass added to it. */
function accumulated({ before, after }: Step): HTMLElement[] {
  const line = (words: string, summary: Summary, test: string) =>
    h("div", { class: "row", "data-testid": test, "data-norm": normOf(summary) }, h("h4", {}, words), pillOf(summary));
  if (!after) return [];
  if (!before) return [h("p", { class: "quiet", "data-testid": "wb-grad-was" }, ".grad was None before this step.")];
  return [line(".grad before", before, "wb-grad-was"), line(".grad after", after, "wb-grad-now")];
}
