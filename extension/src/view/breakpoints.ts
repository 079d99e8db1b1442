// The list of breakpoints and the editor for a new one, below the stepper's bar.

import type { Controller } from "./controller";
import { h, put, setAttribute, setText } from "./dom";
import type { Break, Breakpoint } from "./protocol";
import { answered, type State } from "./store";
import { nameOf, plural } from "./words";

const PLACES: readonly [Break["where"], string, string][] = [
  ["any", "anywhere", ""],
  ["node", "at the selected node", ""],
  ["op", "at every op", "mul"],
  ["name", "at the name", "layers.*.weight"],
  ["module", "in the module", "encoder"],
];
const EXAMPLE = "nan > 0 or norm > 1e3";
const HINT =
  "A condition speaks of the gradients that a step hands on: nan, inf (how many), zero (their share), norm, min, max, mean, std, size.";

export class BreakpointList {
  readonly element: HTMLElement;
  private readonly rows = h("ul", { class: "rows" });
  private readonly where = h("select", { "aria-label": "Where to stop", "data-testid": "wb-break-where" });
  private readonly what = h("input", { type: "text", "aria-label": "Which", "data-testid": "wb-break-what", spellcheck: "false" });
  private readonly when = h("input", {
    type: "text",
    "aria-label": "On what condition; empty for always",
    placeholder: EXAMPLE,
    title: HINT,
    "data-testid": "wb-break-when",
    spellcheck: "false",
    autocomplete: "off",
  });
  private readonly ops = h("datalist", { id: "" });
  private readonly problem = h("p", { class: "problem", role: "alert", "data-testid": "wb-break-problem", hidden: true });
  private shown: unknown = null;

  constructor(
    private readonly controller: Controller,
    id: string,
    private readonly closed: () => void,
  ) {
    this.ops.id = id;
    for (const [value, words] of PLACES) this.where.append(h("option", { value }, words));
    this.where.addEventListener("change", () => this.showWhat());
    const form = h(
      "div",
      { class: "new" },
      h("span", {}, "Stop"),
      this.where,
      this.what,
      this.ops,
      h("span", {}, "when"),
      this.when,
      h("button", { class: "add", "data-testid": "wb-break-add", click: () => void this.add() }, "Add"),
    );
    this.element = h(
      "div",
      { class: "breakpoints", role: "group", "aria-label": "Breakpoints", "data-testid": "wb-breakpoints", hidden: true },
      this.rows,
      form,
      this.problem,
      h("p", { class: "quiet hint" }, HINT),
    );
    this.element.addEventListener("keydown", (event) => {
      // Not a form: notebooks suppress implicit submission.
      const adds = event.key === "Enter" && event.composedPath()[0] instanceof HTMLInputElement;
      if (event.key !== "Escape" && !adds) return;
      event.preventDefault();
      event.stopPropagation();
      if (adds) void this.add();
      else this.open(false);
    });
    this.showWhat();
  }

  get isOpen(): boolean {
    return !this.element.hidden;
  }

  /** Shows or hides the list; with `node`, prepares a condition at that node. */
  open(on: boolean, node = -1): void {
    if (!on && this.element.hidden) return;
    this.element.hidden = !on;
    if (!on) return this.closed();
    void this.controller.breakpoint({ do: "list" });
    this.where.value = node >= 0 ? "node" : "any";
    this.showWhat();
    this.when.focus();
  }

  update(state: State): void {
    const { selected, recording } = state;
    const node = this.where.querySelector<HTMLOptionElement>('[value="node"]')!;
    setText(node, selected >= 0 && recording ? `at ${nameOf(recording, selected)}` : PLACES[1]![1]);
    node.disabled = selected < 0;
    const list = answered(state, "breakpoints")?.message.breakpoints;
    if (this.element.hidden || this.shown === list) return;
    this.shown = list;
    put(this.rows, ...(list ?? []).map((one) => this.row(one)));
    put(this.ops, ...[...new Set(recording?.nodes.op)].filter(Boolean).map((value) => h("option", { value })));
    if (!list?.length) put(this.rows, h("li", { class: "quiet" }, "No breakpoint is set. b sets one at the selected node."));
  }

  private row({ number, where, what, when, on, places }: Breakpoint): HTMLElement {
    const box = h("input", { type: "checkbox", "aria-label": "Works", title: on ? "Let it rest" : "Let it work again" });
    box.checked = on;
    box.addEventListener("change", () => void this.controller.breakpoint({ do: box.checked ? "on" : "off", number }));
    const place = where === "any" ? "anywhere" : where === "op" ? `every ${what}` : where === "module" ? `module ${what}` : what;
    const count = places < 0 ? "" : places === 0 ? "nowhere in this graph" : where === "node" ? "" : `at ${plural(places, "node")}`;
    const drop = () => void this.controller.breakpoint({ do: "remove", number });
    return h(
      "li",
      { class: on ? null : "resting", "data-testid": "wb-break" },
      h("label", {}, box, h("span", { class: "place" }, place), when ? h("code", {}, `when ${when}`) : null),
      h("span", { class: "quiet" }, count),
      h("button", { title: "Take this breakpoint away", "aria-label": `Take the breakpoint away: ${place} ${when}`, click: drop }, "×"),
    );
  }

  private showWhat(): void {
    const place = PLACES.find(([value]) => value === this.where.value)!;
    this.what.hidden = place[2] === "";
    this.what.placeholder = place[2];
    setAttribute(this.what, "list", place[0] === "op" ? this.ops.id : null);
  }

  private async add(): Promise<void> {
    const where = this.where.value as Break["where"];
    const number = this.controller.store.state.selected;
    const sentence = await this.controller.breakpoint({ do: "add", where, number, what: this.what.value, when: this.when.value });
    setText(this.problem, sentence);
    this.problem.hidden = !sentence;
    if (sentence) return this.when.focus();
    [this.what.value, this.when.value] = ["", ""];
  }
}
