// A gradient on one line.

import { h } from "../dom";
import type { Summary } from "../protocol";
import { normText, shapeText } from "../words";
import { valuesText } from "./rules";

/** Norm and shape, and values if there are few. */
export function pillOf(summary: Summary): HTMLElement {
  const values = valuesText(summary);
  return h(
    "span",
    { class: "gradient", title: summary.text },
    h("b", {}, `‖∇‖ ${normText(summary)}`),
    h("span", { class: "quiet" }, shapeText(summary.shape)),
    values ? h("code", {}, values) : null,
  );
}

/** The norm in full precision, for `data-norm`. */
export function normOf(summary: Summary): string {
  return String(summary.norm);
}
