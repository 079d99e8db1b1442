// The local derivatives of the current node, and a check of its rule against finite differences.

import { h, put } from "../dom";
import type { Checked, LocalPart } from "../protocol";
import { answered, type State } from "../store";
import { numberText } from "../words";
import { type PaneContext, waiting } from "./pane";
import { Asker, demand, Section } from "./section";
import { figure, indexOf, strip, type StripOptions } from "./strip";
import { structureIcon } from "./structure";

export class LocalSection {
  readonly section: Section;
  private readonly asker: Asker;
  private readonly parts = h("div", { class: "parts" });
  private readonly outcome = h("div", { class: "outcome", "aria-live": "polite" });
  private readonly button = h("button", { class: "framed", "data-testid": "wb-check", title: "Hold the rule against finite differences", click: () => void this.check() }, "check the rule");
  private chosen = 0;
  private shown = -1; // node
  private state: State | null = null;

  constructor(private readonly context: PaneContext) {
    this.asker = new Asker(context.controller);
    this.section = new Section("Local derivatives", "wb-local", () => this.state && this.update(this.state));
    this.section.body.append(this.parts, h("div", { class: "row" }, this.button), this.outcome);
  }

  /** Requests the local derivatives for this section or the step above it. */
  ask(node: number, place: number): void {
    if (node !== this.shown) {
      this.shown = node;
      this.chosen = 0;
      put(this.outcome);
    }
    this.asker.ask({ type: "ask_local", node, place, chosen: this.chosen });
  }

  update(state: State): void {
    this.state = state;
    const { recording, pass } = state;
    const step = pass?.steps.get(pass.index);
    const isOp = !!step && recording?.nodes.kind[step.node] === "op";
    this.section.element.hidden = !isOp;
    if (!isOp || !this.section.open) return;
    this.ask(step.node, pass!.index);
    const answer = answered(state, "local");
    const mine = answer?.message.node === step.node && answer.message.place === pass!.index ? answer : null;
    if (!mine) return put(this.parts, waiting(state));
    const { message, buffers } = mine;
    const options = { buffers, dark: this.context.isDark(), width: Math.max(120, this.context.width() - 24) };
    put(
      this.parts,
      message.missing ? h("p", { class: "missing" }, message.missing) : null,
      ...message.parts.filter(({ kind, missing }) => kind || missing).map((part) => this.part(part, message.shape, step.op, options)),
    );
    const checked = answered(state, "checked")?.message;
    if (checked?.node === step.node) put(this.outcome, ...outcomeOf(checked));
  }

  private part(part: LocalPart, shape: number[], op: string, options: StripOptions): HTMLElement {
    const head = h("div", { class: "row" }, h("b", {}, `∂${op}/∂${part.input}`), part.kind && h("span", { class: "quiet" }, sizeOf(part)));
    if (part.missing) return h("div", { class: "local" }, head, h("p", { class: "quiet" }, part.missing));
    if (part.kind === "scalar")
      return h("div", { class: "local", "data-testid": "wb-derivative" }, head, h("output", { class: "number" }, numberText(part.number)));
    const choose = (at: number) => {
      this.chosen = Math.max(0, Math.min(part.rows - 1, at));
      if (this.state) this.update(this.state);
    };
    const row = h("input", { type: "number", min: 0, max: part.rows - 1, value: part.chosen, "aria-label": "Row of the Jacobian" });
    row.addEventListener("change", () => choose(Number(row.value) || 0));
    return h(
      "div",
      { class: "local", "data-testid": "wb-derivative", "data-kind": part.kind, "data-structure": part.structure },
      head,
      h("div", { class: "structure" }, structureIcon(part.structure), h("span", {}, part.sentence)),
      part.kind === "row"
        ? h("label", { class: "row choice" }, h("span", {}, `row of result [${indexOf(part.chosen, shape).join(", ")}]`), row)
        : null,
      part.kind === "matrix" && part.picture
        ? h(
            "div",
            { class: "matrix" },
            h("span", { class: "axis" }, `results ↓ ${part.rows}   inputs → ${part.cols}`),
            strip(part.picture, { ...options, height: 180 }),
          )
        : part.picture && figure(part.picture, { ...options, height: 90 }),
    );
  }

  private async check(): Promise<void> {
    if (this.shown < 0) return;
    put(this.outcome, h("p", { class: "quiet" }, "Computing differences…"));
    const refused = await demand(this.context.controller, { type: "check_rule", node: this.shown });
    if (refused) put(this.outcome, h("p", { class: "missing" }, refused));
  }
}

function sizeOf({ kind, rows, cols }: LocalPart): string {
  return { scalar: "", elementwise: "one number for each element of the result", matrix: `${rows} × ${cols}`, row: `${rows} × ${cols}, one row` }[
    kind || "scalar"
  ];
}

const GLYPHS = { agrees: "✓", disagrees: "✗", "not told": "?" } as const;

function outcomeOf({ outcome, sentence, inputs }: Checked): HTMLElement[] {
  return [
    h("p", { class: `verdict ${outcome.replace(" ", "-")}`, "data-testid": "wb-checked", "data-outcome": outcome }, h("b", {}, GLYPHS[outcome]), " ", sentence),
    ...inputs.map((one) =>
      h(
        "div",
        { class: "row" },
        h("span", {}, `${GLYPHS[one.outcome]} ${one.input}`),
        h("span", { class: "quiet" }, `${one.how}; error ${numberText(one.absolute, 3)}, relative ${numberText(one.relative, 3)}`),
      ),
    ),
  ];
}
