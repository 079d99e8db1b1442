// One tensor in full, the value or gradient of the selected node or of the step: health, distribution, picture, tokens, formula, memory
// layout, time.

import type { Controller } from "../controller";
import { h, put, putAround, type Child } from "../dom";
import { resultText } from "../graph/face";
import type { Inspected, Summary } from "../protocol";
import { answered, changed, type Pass, type Recording, type State } from "../store";
import { nameOf, noteOf, numberText } from "../words";
import { givers } from "./addends";
import { drawHealth, drawHistogram } from "./charts";
import { copyButton } from "./copy";
import { type Cursor, drawHeat, type Range } from "./heat";
import { drawImages } from "./image";
import { axisKey, axisRows, lookRow } from "./look";
import { type Pane, type PaneContext, waiting } from "./pane";
import { drawPlacement } from "./placement";
import { depthSwitch, fitFormulas, ruleRows, siteLine, valuesText } from "./rules";
import { drawAllSeries } from "./series";
import { drawTokens } from "./tokens";

const MOST_GIVERS = 6;
const WIDE = 434; // from this width on, a tensor's heat map is beside its numbers, as in view.css

export class TensorPane implements Pane {
  private readonly head = h("div", { class: "head" });
  private readonly brief = h("div", { class: "brief" });
  private readonly look = h("div", { class: "look" }); // the picture and its switches
  private readonly more = h("div", { class: "more" });
  private readonly facts = h("dl", { class: "facts" });
  private readonly memory = h("div");
  private readonly time = h("div");
  private readonly placement = h("details", { class: "section", "data-testid": "wb-memory-layout" }, h("summary", {}, "Layout in memory"), this.memory);
  private readonly series = h("details", { class: "section", "data-testid": "wb-over-time" }, h("summary", {}, "Over time"), this.time);
  private readonly parts = [this.brief, this.more, this.look, this.facts];
  // Stacked when beside the graph; in two columns when a tensor has the whole width.
  readonly element = h(
    "div",
    { class: "pane inspector" },
    this.head,
    h("div", { class: "side words" }, this.brief, this.more),
    h("div", { class: "side picture" }, this.look, this.facts),
    h("div", { class: "sections" }, this.placement, this.series),
  );
  private readonly controller: Controller;
  private shown = ""; // what the current sliders are for
  private sliders: HTMLElement | null = null;
  private cursor: Cursor = { place: null }; // in the heat map, while the tensor is the same
  private range: Range = "max";
  private timeOf = ""; // the last request for values over time
  private placed = false; // the layout was shown once; after that only the reader opens and closes it

  constructor(
    private readonly context: PaneContext,
    readonly tab: "value" | "grad",
    readonly title: string,
  ) {
    this.controller = context.controller;
    this.series.addEventListener("toggle", () => this.askForTime());
  }

  offered(): boolean {
    return true;
  }

  update(state: State, before: State | null): void {
    if (!before || changed(state, before, "subject", "recording", "pass")) this.askForTime();
    if (changed(state, before, "answers", "subject", "tab")) this.showTime(state);
    const waits = !answerOf(state) && changed(state, before, "status");
    if (!waits && !changed(state, before, "inspected", "subject", "held", "tab", "depth", "recording", "room")) {
      if (changed(state, before, "answers")) this.showElement(state);
      return;
    }
    this.inspect(state);
    fitFormulas(this.element);
  }

  private inspect(state: State): void {
    const { recording, subject, pass } = state;
    const answer = answerOf(state);
    this.placement.hidden = !answer?.message.storage;
    this.series.hidden = !recording || subject < 0 || recording.view === "program" || recording.nodes.kind[subject] === "constant";
    if (!recording || subject < 0) {
      put(this.head, ...this.hints(recording, pass).map((hint) => h("p", { class: "quiet" }, hint)));
      this.parts.forEach((part) => put(part));
      return;
    }
    const { nodes } = recording;
    const kind = nodes.kind[subject] === "op" ? nodes.op[subject] : nodes.kind[subject];
    put(
      this.head,
      h(
        "div",
        { class: "headline" },
        h("h3", {}, nameOf(recording, subject)),
        answer?.message.accessor ? copyButton(answer.message.accessor, this.controller) : null,
        h("span", { class: "quiet" }, `${kind} · ${resultText(recording, subject)}`),
        answer && !answer.message.missing ? this.pins(answer.message) : null,
        pass ? this.holder(state) : null,
      ),
      siteLine(recording.sites[nodes.site[subject]!]),
      nodes.note[subject] ? h("p", { class: "remark" }, noteOf(recording, subject)) : null,
      this.tab === "grad" && pass ? this.given(recording, pass, subject) : null,
    );
    if (answer) return this.answer(answer.message, answer.buffers, state);
    this.parts.forEach((part) => put(part));
    put(this.brief, waiting(state));
  }

  /** What to do while no node is selected. */
  private hints(recording: Recording | null, pass: Pass | null): string[] {
    if (pass) return ["Click a node, or take a step, to see its tensor."];
    if (recording?.view !== "program") return ["Click a node to see its tensor. wb.step(loss) steps through backward."];
    if (this.tab === "grad") return ["Click a parameter to see its gradient. Instructions have none: the backward pass is a part of the program."];
    return [
      recording.left_out,
      "Open a box to see what XLA has fused. Click an instruction to see the op and the line that it comes from, its work and its time.",
      "A program keeps no values. Run the step under %%watch to see them: it then runs op by op.",
    ];
  }

  /** The steps that contributed to the gradient, each with a link to its rule. */
  private given(recording: Recording, pass: Pass, node: number): HTMLElement | null {
    const found = givers(recording, pass, node);
    if (!found.length) return null;
    const link = ({ consumer, place }: { consumer: number; place: number }, at: number) => {
      const go = () => {
        this.controller.tab("step");
        void this.controller.step("index", place);
      };
      const title = "Go to this step: its rule, with the numbers";
      return [at ? ", " : null, h("button", { class: "link", title, click: go }, `step ${place}, ${nameOf(recording, consumer)}`)];
    };
    return h("p", { class: "line", "data-testid": "wb-given" }, "Came from ", ...found.slice(0, MOST_GIVERS).flatMap(link), found.length > MOST_GIVERS ? ` and ${found.length - MOST_GIVERS} more` : null);
  }

  /** The button that selects whether the pane follows the steps of the pass. */
  private holder({ held }: State): HTMLElement {
    const title = held ? "Show the tensor of each step again" : "Keep showing this tensor while the pass moves";
    const click = () => {
      this.controller.store.dispatch({ do: "hold", on: !held });
      this.controller.inspect();
    };
    return h("button", { class: "link", title, "aria-pressed": String(held), "data-testid": "wb-hold", click }, held ? "follow the step" : "hold");
  }

  private pins({ earlier }: Inspected): HTMLElement {
    return h(
      "span",
      { class: "pins" },
      h("button", { class: "link", title: "Keep a copy to compare with (p)", "data-testid": "wb-pin", click: () => this.controller.pin() }, "pin"),
      earlier
        ? h("button", { class: "link", title: `Pin the tensor of this name in ${earlier}`, click: () => this.controller.pin("pin earlier") }, `pin ${earlier}'s`)
        : null,
    );
  }

  private answer(message: Inspected, buffers: DataView[], state: State): void {
    const { summary, histogram, facts, forward, missing, tokens, note, storage } = message;
    const exact = () => this.controller.inspect(this.controller.look, true);
    const choose = (to: State["depth"]) => this.controller.store.dispatch({ do: "depth", to });
    const values = summary && valuesText(summary);
    put(
      this.brief,
      missing ? h("p", { class: state.recording?.view === "program" ? "quiet" : "missing", "data-testid": "wb-missing" }, missing) : null,
      summary ? h("p", { class: "line", "data-testid": "wb-summary" }, summary.text) : null,
      values ? h("code", { class: "values", "data-testid": "wb-values" }, values) : null,
      tokens ? drawTokens(tokens) : null,
      note ? h("p", { class: "quiet" }, note) : null,
      summary ? drawHealth(summary) : null,
      summary && !values ? numbers(summary) : null,
    );
    // If every value is written out, a picture adds nothing.
    putAround(this.look, this.sliders, summary && !values ? this.picture(message, buffers, state) : []);
    this.showElement(state);
    put(
      this.more,
      histogram && !values ? drawHistogram(histogram, exact) : null,
      forward ? h("div", { class: "row" }, h("h4", {}, "Made by"), depthSwitch(state.depth, choose)) : null,
      forward ? ruleRows(forward, state.depth) : null,
    );
    put(this.facts, ...facts.flatMap(({ label, text }) => [h("dt", {}, label), h("dd", {}, text)]));
    if (!storage) return;
    put(this.memory, drawPlacement(storage, (node) => this.controller.show(node)));
    // The card of a view opens its memory layout, to show what it is a view of.
    if (state.recording?.view === "tensor" && !this.placed && storage.elements > (summary?.size ?? 0)) this.placement.open = true;
    this.placed = true;
  }

  /** Switches, a row for each axis, the heat map or images, and the clicked element. */
  private picture(message: Inspected, buffers: DataView[], state: State): Child[] {
    const { controller } = this;
    const change = (to: typeof controller.look) => controller.inspect(to);
    const ranged = (to: Range) => {
      this.range = to;
      this.answer(message, buffers, controller.store.state);
    };
    const key = axisKey(message);
    if (this.shown !== key || !this.sliders) {
      if (this.shown !== key) this.cursor = { place: null };
      this.shown = key;
      this.sliders = axisRows(message, () => controller.look, change);
    }
    return [lookRow(message, controller.look, this.range, change, ranged), this.sliders, this.drawing(message, buffers, state), h("div", { class: "element" })];
  }

  private drawing({ heat, image, node, what, labels }: Inspected, buffers: DataView[], state: State): HTMLElement | null {
    const room = this.context.width();
    const wide = state.recording?.view === "tensor" && room > WIDE;
    const width = Math.max(160, wide ? Math.min(460, room * 0.45) : room);
    const pick = (index: number[]) => void this.controller.ask({ type: "ask_element", node, what, index });
    try {
      if (image) return drawImages(image, buffers, width);
      return heat && drawHeat(heat, buffers, { width, dark: this.context.isDark(), range: this.range, labels, pick, cursor: this.cursor });
    } catch (error) {
      if (!(error instanceof RangeError)) throw error;
      return h("p", { class: "missing" }, error.message);
    }
  }

  /** The exact value of the clicked element, with its expression. */
  private showElement(state: State): void {
    const place = this.look.querySelector(".element");
    const told = answered(state, "element")?.message;
    if (!place) return;
    if (!told || told.node !== state.subject || told.what !== this.tab) return put(place);
    const path = told.path || `[${told.index.join(", ")}]`;
    put(
      place,
      h("code", { "data-testid": "wb-element" }, `${path} = ${told.text}`),
      told.path ? copyButton(told.path, this.controller) : null,
    );
  }

  private askForTime(): void {
    const { subject, recording, tab, pass } = this.controller.store.state;
    if (!this.series.open || !recording || subject < 0 || tab !== this.tab) return;
    const wanted = JSON.stringify([recording.name, subject, tab, tab === "grad" ? pass?.index : null]);
    if (wanted === this.timeOf) return;
    this.timeOf = wanted;
    void this.controller.ask({ type: "ask_series", node: subject, what: this.tab }).then((fine) => {
      if (!fine && this.timeOf === wanted) this.timeOf = "";
    });
  }

  private showTime(state: State): void {
    const answer = answered(state, "tensor_series");
    const mine = answer?.message.node === state.subject && answer.message.what === this.tab;
    put(this.time, mine ? drawAllSeries(answer.message, answer.buffers, this.context.isDark()) : this.series.open ? waiting(state) : null);
  }
}

/** The kernel's answer about the tensor, for the open tab; else null. */
function answerOf({ inspected, subject, tab }: State): State["inspected"] {
  return inspected?.message.node === subject && inspected.message.what === tab ? inspected : null;
}

function numbers(summary: Summary): HTMLElement {
  const entries = [
    ["min", summary.min],
    ["max", summary.max],
    ["mean", summary.mean],
    ["std", summary.std],
    ["norm", summary.norm],
  ] as const;
  return h(
    "dl",
    { class: "numbers" },
    ...entries.map(([label, value]) => h("div", {}, h("dt", {}, label), h("dd", {}, numberText(value)))),
  );
}
