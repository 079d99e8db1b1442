// The compare tab: pinned tensors as columns, each with its difference from the base.

import type { Request } from "../controller";
import { h, put, type Child } from "../dom";
import type { AskCompare, Pinned } from "../protocol";
import { answered, changed, type Answer, type State } from "../store";
import { numberText } from "../words";
import { drawHealth, drawHistogram } from "./charts";
import { drawHeat } from "./heat";
import { type Pane, type PaneContext } from "./pane";
import { valuesText } from "./rules";

const COLUMN = 160; // least width of a column in pixels

export class ComparePane implements Pane {
  readonly tab = "compare";
  readonly title = "Compare";
  readonly element = h("div", { class: "pane compare", "data-testid": "wb-compare" });

  constructor(private readonly context: PaneContext) {}

  offered(state: State): boolean {
    return !!answered(state, "compared")?.message.pins.length;
  }

  asks(): Request {
    return { type: "ask_compare", do: "show", node: -1, what: "value", pin: -1 };
  }

  update(state: State, before: State | null): void {
    if (!changed(state, before, "answers", "recording", "room")) return;
    const answer = answered(state, "compared");
    if (answer?.message.pins.length) return put(this.element, ...this.content(answer));
    put(this.element, h("p", { class: "quiet" }, "Nothing is pinned. Select a node and press p to pin its value or its gradient."));
  }

  private change(what: AskCompare["do"], more: Partial<AskCompare> = {}): void {
    void this.context.controller.ask({ type: "ask_compare", node: -1, what: "value", pin: -1, ...more, do: what });
  }

  private content({ message, buffers }: Answer<"compared">): Child[] {
    const { pins, base } = message;
    const across = Math.max(1, Math.min(pins.length, Math.floor(this.context.width() / COLUMN)));
    const wide = Math.floor(this.context.width() / across) - 36;
    const with_ = pins.find(({ pin }) => pin === base);
    return [
      h(
        "div",
        { class: "row" },
        h("span", { class: "quiet" }, pins.length > 1 ? `compared with ${with_?.name ?? "the first"}` : "Pin another tensor (p) to compare it with this one."),
        h("button", { class: "link", click: () => this.change("clear") }, "unpin all"),
      ),
      h(
        "div",
        { class: "columns", style: `grid-template-columns: repeat(${across}, minmax(0, 1fr))` },
        ...pins.map((pin) => this.column(pin, pin.pin === base, pins.length > 1, buffers, wide)),
      ),
    ];
  }

  private column(pin: Pinned, isBase: boolean, many: boolean, buffers: readonly DataView[], wide: number): HTMLElement {
    const { controller } = this.context;
    const { difference, summary, histogram } = pin;
    const values = valuesText(summary);
    return h(
      "section",
      { class: isBase && many ? "pinned base" : "pinned", "data-testid": "wb-pinned" },
      h(
        "div",
        { class: "row" },
        h("h4", { "aria-level": 3 }, pin.node >= 0 ? h("button", { class: "link", click: () => controller.show(pin.node) }, pin.name) : pin.name),
        h("button", { class: "quiet", "aria-label": `Unpin ${pin.name}`, title: "Unpin", click: () => this.change("unpin", { pin: pin.pin }) }, "×"),
      ),
      h("div", { class: "quiet" }, `${pin.what}${pin.source ? ` of ${pin.source}` : ""}`),
      h("p", { class: "line" }, summary.text),
      values ? h("code", { class: "values" }, values) : null,
      drawHealth(summary),
      histogram && !values ? drawHistogram(histogram, null) : null,
      !many
        ? null
        : isBase
          ? h("p", { class: "quiet" }, "The others are compared with this one.")
          : h("button", { class: "link", click: () => this.change("base", { pin: pin.pin }) }, "compare the others with this"),
      pin.twin >= 0
        ? h("button", { class: "link", click: () => this.change("pin", { node: pin.twin, what: pin.what }) }, `pin ${pin.name} of this run too`)
        : null,
      pin.apart ? h("p", { class: "missing" }, pin.apart) : null,
      difference ? h("p", { class: difference.equal ? "equal" : "remark", "data-testid": "wb-difference" }, difference.words) : null,
      difference && !difference.equal
        ? h(
            "dl",
            { class: "numbers" },
            ...(
              [
                ["largest", difference.max_abs],
                ["mean", difference.mean_abs],
                ["relative", difference.relative],
                ["cosine", difference.cosine],
              ] as const
            ).map(([label, value]) => h("div", {}, h("dt", {}, label), h("dd", {}, numberText(value)))),
          )
        : null,
      difference?.heat ? h("h5", {}, "difference") : null,
      difference?.heat ? drawHeat(difference.heat, buffers, { width: wide, dark: this.context.isDark() }) : null,
      difference?.histogram && !values ? drawHistogram(difference.histogram, null) : null,
    );
  }
}
