// Reruns the recorded program with another weight or input, and compares the result with the original.

import { h, put } from "../dom";
import type { Reran } from "../protocol";
import { answered, type Recording, type State } from "../store";
import { nameOf, normText } from "../words";
import { besideTable } from "./beside";
import { Editor } from "./editor";
import type { PaneContext } from "./pane";
import { valuesText } from "./rules";
import { Asker, demand, Section } from "./section";

const CHIPS = ["x * 1.1", "x + 0.1", "x * 0", "-x"];

export class ValuesSection {
  readonly section: Section;
  private readonly chosen = h("select", { "aria-label": "Value of", "data-testid": "wb-value-of" });
  private readonly editor: Editor;
  private readonly result = h("div", { class: "reran", "aria-live": "polite" });
  private readonly asker: Asker;
  private options = "";
  private state: State | null = null;

  constructor(private readonly context: PaneContext) {
    this.asker = new Asker(context.controller);
    this.editor = new Editor("x", CHIPS, "wb-value", "Run again", ({ text, index }) =>
      demand(context.controller, { type: "rerun", node: Number(this.chosen.value), text, index }),
    );
    this.chosen.addEventListener("change", () => this.state && this.update(this.state));
    this.section = new Section("What if this value were…", "wb-other-value", () => this.state && this.update(this.state));
    this.section.body.append(h("label", { class: "row" }, "x is", this.chosen), this.editor.element, this.result);
  }

  update(state: State): void {
    this.state = state;
    const { recording } = state;
    if (!recording || !this.section.open) return;
    this.offer(recording, state.selected);
    const node = Number(this.chosen.value);
    this.asker.ask({ type: "ask_edit", node, what: "value", place: 0, slot: -1 }, recording.name);
    const answer = answered(state, "editable");
    const place = { dark: this.context.isDark(), width: Math.max(120, this.context.width() - 30) };
    if (answer?.message.node === node && answer.message.what === "value")
      this.editor.show(answer.message.edited, answer.message.missing, answer.buffers, place);
    const message = answered(state, "reran")?.message;
    put(this.result, ...(message ? this.shown(message) : []));
  }

  /** Offers everything not made by an op: parameters, leaves, inputs and constants. */
  private offer(recording: Recording, selected: number): void {
    const { kind } = recording.nodes;
    const order = ["parameter", "leaf", "input", "constant"];
    const nodes = kind.flatMap((one, node) => (order.includes(one) ? [node] : []));
    nodes.sort((a, b) => order.indexOf(kind[a]!) - order.indexOf(kind[b]!) || a - b);
    const few = nodes.slice(0, 400);
    const key = `${recording.name} ${few.map((node) => nameOf(recording, node)).join("\n")} ${selected}`;
    if (key === this.options) return;
    this.options = key;
    const before = this.chosen.value;
    put(this.chosen, ...few.map((node) => h("option", { value: node }, nameOf(recording, node))));
    this.chosen.value = few.includes(selected) ? String(selected) : few.map(String).includes(before) ? before : String(few[0] ?? -1);
  }

  private shown({ changes, base, loss, parameters, notes }: Reran): HTMLElement[] {
    const text = (summary: Reran["base"]) => (summary.size === 1 ? valuesText(summary)! : `‖·‖ ${normText(summary)}`);
    return [
      h("p", {}, h("code", {}, changes.join("; "))),
      h(
        "p",
        { class: "losses", "data-testid": "wb-losses" },
        h("span", { class: "quiet" }, "result "),
        h("b", { "data-testid": "wb-loss-base" }, text(base)),
        " → ",
        h("b", { class: "new", "data-testid": "wb-loss-new" }, text(loss)),
      ),
      ...notes.map((note) => h("p", { class: "remark" }, note)),
      besideTable(parameters, "new", (node) => this.context.controller.show(node), "wb-value-table"),
      h("p", { class: "quiet" }, "Python did not run again: its branches, loops and .item() are as recorded. Your tensors are untouched."),
    ];
  }
}
