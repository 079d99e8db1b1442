// One tensor in full, the selected node's value or its gradient: health, distribution, heat map, formula, facts.

import type { Controller } from "../controller";
import { h, put, putAround } from "../dom";
import { resultText } from "../graph/face";
import type { Inspected, Summary } from "../protocol";
import { changed, type State } from "../store";
import { nameOf, numberText } from "../words";
import { drawHealth, drawHistogram } from "./charts";
import { drawHeat } from "./heat";
import { type Pane, type PaneContext, waiting } from "./pane";
import { depthSwitch, fitFormulas, ruleRows, siteLine, valuesText } from "./rules";

const WIDE = 434; // from here on the heat map of a tensor stands beside its numbers, as view.css says

export class TensorPane implements Pane {
  private readonly head = h("div", { class: "head" });
  private readonly brief = h("div", { class: "brief" });
  private readonly look = h("div", { class: "look" }); // the heat map and its sliders
  private readonly more = h("div", { class: "more" });
  private readonly facts = h("dl", { class: "facts" });
  private readonly parts = [this.brief, this.more, this.look, this.facts];
  // Below one another beside the graph; in two columns where a tensor has all the room.
  readonly element = h(
    "div",
    { class: "pane inspector" },
    this.head,
    h("div", { class: "side words" }, this.brief, this.more),
    h("div", { class: "side picture" }, this.look, this.facts),
  );
  private readonly controller: Controller;
  private shown = ""; // the tensor whose sliders are on the screen
  private sliders: HTMLElement | null = null;

  constructor(
    private readonly context: PaneContext,
    readonly tab: "value" | "grad",
    readonly title: string,
  ) {
    this.controller = context.controller;
  }

  offered(): boolean {
    return true;
  }

  update(state: State, before: State | null): void {
    const waits = !answerOf(state) && changed(state, before, "status");
    if (!waits && !changed(state, before, "inspected", "selected", "tab", "depth", "recording", "room")) return;
    this.inspect(state);
    fitFormulas(this.element);
  }

  private inspect(state: State): void {
    const { recording, selected, pass } = state;
    if (!recording || selected < 0) {
      const hint = `Click a node to see its tensor.${pass ? "" : " wb.step(loss) steps through backward."}`;
      put(this.head, h("p", { class: "quiet" }, hint));
      this.parts.forEach((part) => put(part));
      return;
    }
    const { nodes } = recording;
    const kind = nodes.kind[selected] === "op" ? nodes.op[selected] : nodes.kind[selected];
    put(
      this.head,
      h(
        "div",
        { class: "headline" },
        h("h3", {}, nameOf(recording, selected)),
        h("span", { class: "quiet" }, `${kind} · ${resultText(recording, selected)}`),
      ),
      siteLine(recording.sites[nodes.site[selected]!]),
      nodes.note[selected] ? h("p", { class: "remark" }, nodes.note[selected]!) : null,
    );
    const answer = answerOf(state);
    if (answer) return this.answer(answer.message, answer.buffers, state);
    this.parts.forEach((part) => put(part));
    put(this.brief, waiting(state));
  }

  private answer(message: Inspected, buffers: DataView[], state: State): void {
    const { summary, histogram, heat, facts, forward, missing } = message;
    const exact = () => this.controller.inspect(message.slice, true);
    const choose = (to: State["depth"]) => this.controller.store.dispatch({ do: "depth", to });
    const values = summary && valuesText(summary);
    put(
      this.brief,
      missing ? h("p", { class: "missing", "data-testid": "wb-missing" }, missing) : null,
      summary ? h("p", { class: "line", "data-testid": "wb-summary" }, summary.text) : null,
      values ? h("code", { class: "values", "data-testid": "wb-values" }, values) : null,
      summary ? drawHealth(summary) : null,
      summary && !values ? numbers(summary) : null,
    );
    // Where every value is written out, a picture of them says no more.
    putAround(this.look, this.sliders, heat && !values ? [this.sliderRow(message), this.heat(message, buffers, state)] : []);
    put(
      this.more,
      histogram && !values ? drawHistogram(histogram, exact) : null,
      forward ? h("div", { class: "row" }, h("h4", {}, "Made by"), depthSwitch(state.depth, choose)) : null,
      forward ? ruleRows(forward, state.depth) : null,
    );
    put(this.facts, ...facts.flatMap(({ label, text }) => [h("dt", {}, label), h("dd", {}, text)]));
  }

  private heat(message: Inspected, buffers: DataView[], state: State): HTMLElement {
    const room = this.context.width();
    const wide = state.recording?.view === "tensor" && room > WIDE;
    try {
      return drawHeat(message.heat!, buffers, Math.max(160, wide ? Math.min(460, room * 0.45) : room), this.context.isDark());
    } catch (error) {
      if (!(error instanceof RangeError)) throw error;
      return h("p", { class: "missing" }, error.message);
    }
  }

  /** A slider for each axis that the heat map does not show; kept while the tensor stays, so that a drag goes on. */
  private sliderRow({ node, what, summary, slice }: Inspected): HTMLElement | null {
    const leading = summary?.shape.slice(0, -2) ?? [];
    if (!leading.length) return null;
    const key = `${node} ${what} ${leading.join()}`;
    if (this.shown === key && this.sliders) return this.sliders;
    this.shown = key;
    const now = leading.map((_, axis) => slice[axis] ?? 0);
    this.sliders = h(
      "div",
      { class: "sliders" },
      ...leading.map((size, axis) => {
        const output = h("output", {}, `${now[axis]} of ${size}`);
        const input = h("input", { type: "range", min: 0, max: size - 1, value: now[axis]!, "aria-label": `Index along axis ${axis}` });
        input.addEventListener("input", () => {
          now[axis] = Number(input.value);
          output.textContent = `${now[axis]} of ${size}`;
          this.controller.inspect([...now]);
        });
        return h("label", {}, `axis ${axis}`, input, output);
      }),
    );
    return this.sliders;
  }
}

/** What the kernel said of the selected node, for the open tab. */
function answerOf({ inspected, selected, tab }: State): State["inspected"] {
  return inspected?.message.node === selected && inspected.message.what === tab ? inspected : null;
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
