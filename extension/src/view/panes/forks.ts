// Forks of the pass with a changed gradient, compared with the base.

import { h, put } from "../dom";
import type { ForkPart, Step } from "../protocol";
import { answered, type State } from "../store";
import { nameOf } from "../words";
import { besideTable, differenceText } from "./beside";
import { Editor, type Wish } from "./editor";
import type { PaneContext } from "./pane";
import { Asker, demand, Section } from "./section";

const CHIPS = ["g * 0", "g.clip(-1, 1)", "g / norm(g)", "-g", "g * 2"];

export class ForksSection {
  readonly section: Section;
  private readonly what = h("select", { "aria-label": "Which gradient", "data-testid": "wb-fork-what" });
  private readonly editor: Editor;
  private readonly name = h("input", { type: "text", placeholder: "name", size: 10, "aria-label": "Name of the fork", "data-testid": "wb-fork-name" });
  private readonly form = h("div", {});
  private readonly list = h("div", { class: "forks" });
  private readonly edits: Asker;
  private readonly forks: Asker;
  private options = "";
  private state: State | null = null;

  constructor(private readonly context: PaneContext) {
    const { controller } = context;
    this.edits = new Asker(controller);
    this.forks = new Asker(controller);
    this.editor = new Editor("g", CHIPS, "wb-fork", "Fork", (wish) => this.make(wish));
    this.name.addEventListener("keydown", (event) => event.stopPropagation());
    this.what.addEventListener("change", () => this.state && this.update(this.state));
    this.section = new Section("What if this gradient were…", "wb-forks", () => this.state && this.update(this.state));
    this.form.append(h("div", { class: "row" }, this.what, this.name), this.editor.element);
    this.section.body.append(this.form, this.list);
  }

  /** Which gradient of the step is edited: −1 for the upstream gradient, else the number of the input that receives it. */
  private get slot(): number {
    return Number(this.what.value || -1);
  }

  update(state: State): void {
    this.state = state;
    const { recording, pass } = state;
    const step = pass?.steps.get(pass.index);
    if (!recording || !pass || !this.section.open) return;
    this.form.hidden = !step;
    this.forks.ask({ type: "fork", do: "list", name: "", node: -1, place: 0, slot: -1, index: null, text: "" }, `${recording.name} ${pass.index}`);
    if (step) {
      this.offer(step, state);
      const what = this.slot < 0 ? "upstream" : "contribution";
      this.edits.ask({ type: "ask_edit", node: step.node, what, place: pass.index, slot: this.slot }, recording.name);
      const answer = answered(state, "editable");
      const mine = answer?.message.node === step.node && answer.message.what === what && answer.message.slot === this.slot ? answer : null;
      const place = { dark: this.context.isDark(), width: Math.max(120, this.context.width() - 30) };
      if (mine) this.editor.show(mine.message.edited, mine.message.missing, mine.buffers, place);
    }
    const message = answered(state, "forks")?.message;
    put(
      this.list,
      message?.note ? h("p", { class: "quiet" }, message.note) : null,
      ...(message?.forks ?? []).map((fork) => this.fork(fork, state)),
    );
  }

  private offer(step: Step, { recording }: State): void {
    const slots = step.contributions.map(({ input, target }) => ({ input, name: nameOf(recording!, target) }));
    const key = `${step.index} ${slots.map(({ name }) => name).join()}`;
    if (key === this.options) return;
    this.options = key;
    const inputs = slotsOf(step, recording!.edges);
    put(
      this.what,
      h("option", { value: -1 }, `g, arriving at ${nameOf(recording!, step.node)}`),
      ...slots.map(({ name }, at) => h("option", { value: inputs[at]! }, `g, handed to ${name}`)),
    );
    this.what.value = "-1";
  }

  private async make({ text, index }: Wish): Promise<string> {
    const { pass } = this.state!;
    const step = pass?.steps.get(pass.index);
    if (!step) return "Take a step first.";
    const name = this.name.value.trim();
    const refused = await this.send("make", { name, node: step.node, place: pass!.index, slot: this.slot, index, text });
    if (!refused) this.name.value = "";
    return refused;
  }

  private send(
    action: "make" | "delete" | "write" | "undo",
    more: { name: string; node?: number; place?: number; slot?: number; index?: number[] | null; text?: string },
  ): Promise<string> {
    const request = { node: -1, place: 0, slot: -1, index: null, text: "", ...more };
    return demand(this.context.controller, { type: "fork", do: action, ...request });
  }

  private fork(fork: ForkPart, state: State): HTMLElement {
    const { controller } = this.context;
    const act = (what: "delete" | "write" | "undo") => async () => {
      const refused = await this.send(what, { name: fork.name });
      if (refused) controller.say(refused, "error");
      else if (what !== "delete") controller.say(what === "write" ? `The gradients of ${fork.name} are in .grad now.` : ".grad is as it was before.");
    };
    const apart = fork.differences.filter((difference) => difference !== null && difference !== 0).length;
    return h(
      "div",
      { class: "fork", "data-testid": "wb-fork", "data-name": fork.name },
      h(
        "div",
        { class: "row" },
        h("b", {}, fork.name),
        h("code", {}, fork.edit),
        h("button", { class: "link", click: () => controller.show(fork.node) }, `at ${nameOf(state.recording!, fork.node)}`),
      ),
      h("p", { class: "quiet" }, `Forked at step ${fork.place}; ${apart} of ${fork.differences.length} steps differ from the base.`),
      fork.here && fork.here.difference !== null
        ? h("p", { "data-testid": "wb-fork-here" }, `This step: ${differenceText(fork.here.difference)}${fork.here.difference ? " apart from the base" : " as the base"}.`)
        : null,
      besideTable([...(fork.here && !fork.parameters.some(({ node }) => node === fork.here!.node) ? [fork.here] : []), ...fork.parameters], fork.name, (node) => controller.show(node), "wb-fork-table"),
      h(
        "div",
        { class: "row buttons" },
        fork.written
          ? h("button", { class: "framed", "data-testid": "wb-fork-undo", click: act("undo") }, "take it out of .grad")
          : h("button", { class: "framed", title: "Write the fork's gradients into .grad; it can be undone", "data-testid": "wb-fork-write", click: act("write") }, "make it real"),
        h("button", { class: "framed", "data-testid": "wb-fork-delete", click: act("delete") }, "delete"),
      ),
    );
  }
}

/** The op's input number for each contribution; an input taken twice has two. */
function slotsOf(step: Step, edges: { source: number[]; target: number[]; slot: number[] }): number[] {
  const left: { source: number; slot: number }[] = [];
  edges.target.forEach((target, row) => target === step.node && left.push({ source: edges.source[row]!, slot: edges.slot[row]! }));
  return step.contributions.map(({ target }, at) => {
    const found = left.findIndex(({ source }) => source === target);
    return found < 0 ? at : left.splice(found, 1)[0]!.slot;
  });
}
