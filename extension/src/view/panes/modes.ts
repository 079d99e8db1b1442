// Forward versus reverse mode: the counted cost of the whole Jacobian in each, and each pass step by step.

import type { Controller } from "../controller";
import { h, put, setText } from "../dom";
import type { Cost, Modes } from "../protocol";
import { answered, type State } from "../store";
import { bytesText, countText, nameOf } from "../words";

type Name = "forward" | "reverse";
const NAMES: readonly Name[] = ["forward", "reverse"];
const LINES: readonly [string, (cost: Cost) => number, (count: number) => string][] = [
  ["multiplications", (cost) => cost.multiplications, countText],
  ["additions", (cost) => cost.additions, countText],
  ["other operations", (cost) => cost.others, countText],
  ["moved", (cost) => cost.bytes, bytesText],
];

export class ModesTable {
  readonly element = h("section", { class: "modes", "data-testid": "wb-modes", hidden: true });
  private readonly table = h("div", {});
  private readonly walk = h("div", { class: "walk" });
  private readonly turns = h("p", { class: "quiet" });
  private modes: Modes | null = null;
  private size = 0;

  constructor(private readonly controller: Controller) {
    this.element.append(this.table, this.walk, this.turns);
  }

  update(state: State): void {
    const modes = answered(state, "modes")?.message ?? null;
    this.element.hidden = !modes;
    if (!modes || (modes === this.modes && state.recording!.tree.size === this.size)) return;
    this.modes = modes;
    this.size = state.recording!.tree.size;
    put(
      this.table,
      h("p", {}, modes.sentence),
      h(
        "table",
        { class: "costs" },
        h("caption", { class: "quiet" }, `The whole Jacobian of ${modes.outputs} × ${modes.inputs} numbers`),
        h("thead", {}, h("tr", {}, h("td", {}), ...NAMES.map((name) => h("th", { scope: "col" }, name)))),
        h(
          "tbody",
          {},
          this.line("passes", (name) => modes[name].passes, countText),
          ...LINES.map(([label, of, text]) => this.line(label, (name) => of(modes[name].total), text)),
        ),
      ),
    );
    setText(this.turns, modes.crossover);
    this.choose(modes.inputs <= modes.outputs ? "forward" : "reverse", 0, 0, false);
  }

  private line(label: string, of: (name: Name) => number, text: (count: number) => string): HTMLElement {
    const [forward, reverse] = [of("forward"), of("reverse")];
    const cell = (mine: number, other: number, name: Name) =>
      h("td", { class: mine < other ? "less" : null, "data-testid": `wb-modes-${name}-${label.split(" ")[0]}`, "data-count": mine }, text(mine));
    return h("tr", {}, h("th", { scope: "row" }, label), cell(forward, reverse, "forward"), cell(reverse, forward, "reverse"));
  }

  private choose(mode: Name, pass: number, step: number, point = true): void {
    const chosen = this.modes![mode];
    const { steps, gives } = chosen.shown[pass]!;
    const done = steps.slice(0, step);
    const sums = LINES.map(([label, of, text]) => `${text(done.reduce((sum, one) => sum + of(one.cost), 0))} ${label}`);
    const button = (words: string, test: string, to: number, off: boolean) =>
      h("button", { class: "wide", "data-testid": test, "aria-disabled": off ? "true" : null, click: () => !off && this.choose(mode, pass, to) }, words);
    const select = h("select", { "aria-label": "Which pass" }, ...chosen.shown.map((one, at) => h("option", { value: at, selected: at === pass }, one.seed)));
    select.addEventListener("change", () => this.choose(mode, Number(select.value), 0));
    const focused = (this.element.getRootNode() as ShadowRoot).activeElement?.getAttribute("data-testid");
    const status = h("p", { role: "status", "data-testid": "wb-modes-status" });
    const { recording } = this.controller.store.state;
    put(
      this.walk,
      h(
        "div",
        { class: "row" },
        h(
          "div",
          { class: "segments", role: "group", "aria-label": "Mode" },
          ...NAMES.map((name) => h("button", { "aria-pressed": String(name === mode), "data-testid": `wb-modes-${name}`, click: () => this.choose(name, 0, 0) }, name)),
        ),
        h("span", { class: "quiet" }, mode === "forward" ? "nudge" : "ask about"),
        select,
        chosen.passes > chosen.shown.length ? h("span", { class: "quiet" }, `of ${countText(chosen.passes)}`) : null,
      ),
      h(
        "div",
        { class: "row" },
        button("Back", "wb-modes-back", step - 1, step === 0),
        button("Next", "wb-modes-next", step + 1, step === steps.length),
        h("span", { class: "quiet" }, `step ${step} of ${steps.length} of this pass`),
      ),
      status,
      h(
        "ol",
        { class: "flow" },
        ...done.map(({ node, op, value }, at) =>
          h(
            "li",
            { class: at === step - 1 ? "now" : null },
            h("button", { class: "link", click: () => this.controller.show(node) }, node >= 0 && recording ? nameOf(recording, node) : op),
            h("code", {}, ` ${mode === "forward" ? "ẋ" : "x̄"} = ${value}`),
          ),
        ),
      ),
    );
    setText(status, step ? `So far: ${sums.join(", ")}.${step === steps.length ? ` The pass gives ${gives}.` : ""}` : "Press Next: the pass goes node by node.");
    if (focused) this.walk.querySelector<HTMLElement>(`[data-testid="${focused}"]`)?.focus();
    const sign = mode === "forward" ? "ẋ" : "∇";
    const tangents = new Map(done.map(({ node: at, badge }) => [at, `${sign} ${badge}`]));
    // This call's state is still being drawn, so the graph gets its numbers afterwards.
    queueMicrotask(() => this.controller.store.dispatch({ do: "tangents", to: tangents }));
    const node = done.at(-1)?.node ?? -1;
    if (point && node >= 0) this.controller.show(node);
  }
}
