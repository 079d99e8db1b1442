// The stepper's bar: choice of pass, buttons, step size, scrubber, breakpoints and the current step's sentence.

import { BreakpointList } from "./breakpoints";
import type { Controller } from "./controller";
import { h, put, setAttribute, setText } from "./dom";
import { icon, type Icon } from "./icons";
import type { StepTo } from "./protocol";
import { answered, offered, type State } from "./store";
import { nameOf, plural } from "./words";

const BY: readonly [StepTo["by"], string][] = [
  ["op", "op"],
  ["module", "module"],
  ["parameter", "parameter"],
  ["iteration", "loop turn"],
];
const SPEEDS = [0.5, 1, 2, 4, 8, 16];
const NAMES = ["first", "previous", "play", "next", "last", "into", "out", "run", "target", "list"] as const;

export class StepperBar {
  readonly element: HTMLElement;
  readonly breakpoints: BreakpointList;
  private readonly buttons: Record<(typeof NAMES)[number], HTMLButtonElement>;
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
  private readonly by = h("select", { title: "How far the next and the previous step go", "data-testid": "wb-by" });
  private readonly speed = h("select", { "aria-label": "How fast to play", title: "How fast to play", "data-testid": "wb-speed" });
  private readonly pass = h("select", { "aria-label": "Which backward pass", title: "Which backward pass", "data-testid": "wb-pass" });
  private readonly count = h("span");
  private readonly stopped = h("strong", { class: "stopped", "data-testid": "wb-stopped", hidden: true });
  private readonly words = h("span", { "data-testid": "wb-sentence" });
  private readonly sentence = h("div", { class: "sentence", "aria-live": "polite" }, this.stopped, this.words);
  private readonly begin = h("button", {
    title: "Run the backward pass from here and step through it. Hooks run; no .grad changes, and the graph stays for your own backward().",
    "data-testid": "wb-begin",
    click: () => void this.start(),
  });
  private readonly root = h("select", { "aria-label": "Backward from which tensor", "data-testid": "wb-begin-at" });
  private readonly offer = h(
    "div",
    { class: "offer", "data-testid": "wb-offer", hidden: true },
    this.begin,
    this.root,
    h("span", { class: "quiet" }, "Runs the backward pass, to be stepped through. No .grad changes."),
  );
  private readonly controls: HTMLElement;
  private offered = "";
  private passes: readonly string[] = [];

  constructor(
    private readonly controller: Controller,
    prefix: string,
  ) {
    const button = (name: Icon, test: string, title: string, click: () => void, words = "", after = false) => {
      const parts = [icon(name), words ? h("span", {}, words) : null];
      return h("button", { title, "aria-label": words || title, "data-testid": test, click }, ...(after ? parts.reverse() : parts));
    };
    const to = (what: StepTo["do"]) => () => void controller.step(what);
    this.buttons = {
      first: button("first", "wb-first", "Back to the start (Home)", to("first")),
      previous: button("previous", "wb-prev", "Previous step (Left, Shift F10)", to("previous"), "Previous"),
      play: button("play", "wb-play", "Play step after step (k)", () => controller.play(), "Play"),
      next: button("next", "wb-next", "Next step (Right, F10)", to("next"), "Next", true),
      last: button("last", "wb-last", "To the end (End)", to("last")),
      into: button("into", "wb-into", "Into the module: one op (F11)", to("into")),
      out: button("out", "wb-out", "Out of the module (Shift F11)", to("out")),
      run: button("run", "wb-run", "On to the next breakpoint (F9)", () => controller.run()),
      target: button(
        "target",
        "wb-run-to",
        "Run to the selected node",
        () => controller.runTo(controller.store.state.selected),
        "run to node",
      ),
      list: h(
        "button",
        { class: "list", title: "Breakpoints (Shift b)", "data-testid": "wb-breaks", click: () => this.breakpoints.open(!this.breakpoints.isOpen) },
        h("span", { class: "dot", "aria-hidden": "true" }, "●"),
        this.count,
      ),
    };
    this.buttons.target.className = "wide";
    this.breakpoints = new BreakpointList(controller, `${prefix}ops`, () => this.buttons.list.focus());
    for (const speed of SPEEDS) this.speed.append(h("option", { value: speed, selected: speed === 1 }, `${speed}×`));
    this.speed.addEventListener("change", () => controller.setSpeed(Number(this.speed.value)));
    for (const [value, words] of BY) this.by.append(h("option", { value }, words));
    this.by.addEventListener("change", () => controller.store.dispatch({ do: "by", to: this.by.value as StepTo["by"] }));
    this.pass.addEventListener("change", () => void controller.step("pass", Number(this.pass.value)));
    this.scrub.addEventListener("input", () => void controller.step("index", Number(this.scrub.value)));
    const { first, previous, play, next, last, into, out, run, target, list } = this.buttons;
    this.controls = h(
      "div",
      { class: "controls" },
      this.pass,
      h("div", { class: "buttons" }, first, previous, next, last),
      h("div", { class: "buttons play" }, play, this.speed),
      h("div", { class: "buttons" }, into, out, run),
      h("label", { class: "by" }, "by", this.by),
      h("div", { class: "stops" }, list, target),
      h("div", { class: "position" }, this.scrub, this.paused, this.label), // last: where the bar is too narrow, it is a row of its own
    );
    this.element = h(
      "section",
      { class: "stepper", "aria-label": "Backward pass", hidden: true },
      this.offer,
      this.controls,
      this.breakpoints.element,
      this.sentence,
    );
  }

  update(state: State): void {
    const { pass, selected, by } = state;
    this.showOffer(state);
    this.element.hidden = !pass && this.offer.hidden;
    this.controls.hidden = this.sentence.hidden = !pass;
    if (!pass) return;
    const { index, total, stopped, runs } = pass;
    setAttribute(this.scrub, "max", total);
    if (this.scrub.value !== String(index)) this.scrub.value = String(index);
    const word = index === 0 ? `Start of ${total} steps` : `Step ${index} of ${total}`;
    setAttribute(this.scrub, "aria-valuetext", word);
    this.scrub.style.setProperty("--done", total ? `${(100 * index) / total}%` : "0%");
    setText(this.label, word);
    const counted = countedSteps(state);
    setAttribute(this.label, "title", counted);
    this.paused.hidden = pass.mode !== "paused" || pass.done;
    setText(this.paused, runs ? "cell runs to a breakpoint" : "cell waits");
    if (this.by.value !== by) this.by.value = by;
    this.showPasses(pass.passes, pass.number);
    const step = pass.steps.get(index);
    setText(this.stopped, stopped);
    this.stopped.hidden = stopped === "" || pass.failed || pass.trouble !== "";
    setText(this.words, (!pass.failed && pass.trouble) || pass.sentence || step?.sentence || `${counted}. Press Next to run the first.`);
    this.sentence.classList.toggle("error", pass.failed || pass.trouble !== "");
    this.showBreakpoints(state);
    this.showPlaying(state.playing);
    // Not `disabled`: a button that disables itself during a click loses the focus.
    for (const name of ["first", "previous"] as const) setAttribute(this.buttons[name], "aria-disabled", index === 0 ? "true" : null);
    for (const name of ["next", "last", "into", "out"] as const) setAttribute(this.buttons[name], "aria-disabled", pass.done ? "true" : null);
    setAttribute(this.buttons.run, "aria-disabled", pass.done && pass.mode !== "paused" ? "true" : null);
    relabel(this.buttons.run, runs ? "stop" : "run", runs ? "Stop here (Shift F9)" : "On to the next breakpoint (F9)");
    setAttribute(this.buttons.target, "aria-disabled", selected < 0 ? "true" : null);
    setAttribute(this.element, "data-index", index);
  }

  private showOffer(state: State): void {
    const roots = offered(state);
    this.offer.hidden = !roots.length;
    const names = roots.map((root) => nameOf(state.recording!, root));
    const told = `${roots} ${names}`;
    if (this.offered === told) return;
    this.offered = told;
    this.root.hidden = roots.length < 2;
    put(this.root, ...roots.map((root, at) => h("option", { value: root }, names[at]!)));
    setText(this.begin, roots.length === 1 ? `Backward from ${names[0]}` : "Backward from");
  }

  /** Starts a pass. PyTorch then runs all of it, which may take a while. */
  private async start(): Promise<void> {
    if (this.begin.getAttribute("aria-disabled")) return;
    setAttribute(this.begin, "aria-disabled", "true");
    await this.controller.step("begin", Number(this.root.value));
    setAttribute(this.begin, "aria-disabled", null);
  }

  private showPasses(passes: readonly string[], number: number): void {
    this.pass.hidden = passes.length < 2;
    if (this.passes !== passes) {
      this.passes = passes;
      put(this.pass, ...passes.map((name, at) => h("option", { value: at }, `pass ${at + 1} of ${passes.length}: ${name}`)));
    }
    if (this.pass.value !== String(number)) this.pass.value = String(number);
  }

  private showBreakpoints(state: State): void {
    const list = answered(state, "breakpoints")?.message.breakpoints ?? [];
    const working = list.filter(({ on }) => on).length;
    setText(this.count, String(working));
    setAttribute(this.buttons.list, "aria-label", `${working} breakpoint${working === 1 ? "" : "s"} (Shift b)`);
    setAttribute(this.buttons.list, "aria-expanded", String(this.breakpoints.isOpen));
    this.buttons.list.classList.toggle("some", working > 0);
    this.breakpoints.update(state);
  }

  private showPlaying(playing: boolean): void {
    relabel(this.buttons.play, playing ? "pause" : "play", playing ? "Pause here (k)" : "Play step after step (k)", playing ? "Pause" : "Play");
  }
}

/** The number of steps by kind, which explains why a graph of 6 ops can have 8 steps. */
function countedSteps({ pass, recording }: State): string {
  const leaves = pass!.plan.filter((node) => node >= 0 && recording?.nodes.kind[node] !== "op").length;
  const stored = leaves ? ` and ${plural(leaves, "tensor")} that ${leaves === 1 ? "gets its" : "get their"} .grad` : "";
  return `${plural(pass!.total, "step")}: ${plural(pass!.total - leaves, "op")}${stored}`;
}

function relabel(button: HTMLButtonElement, name: Icon, title: string, words = ""): void {
  if (button.title === title) return;
  put(button, icon(name), ...(words ? [h("span", {}, words)] : []));
  setAttribute(button, "title", title);
  setAttribute(button, "aria-label", words || title);
}
