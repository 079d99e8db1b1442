// A table that compares two runs: base, other, and their difference.

import { h } from "../dom";
import type { Beside } from "../protocol";
import { normText, numberText } from "../words";
import { valuesText } from "./rules";

export function differenceText(difference: Beside["difference"]): string {
  if (difference === null) return "–";
  if (typeof difference === "string") return "∞";
  if (difference === 0) return "same";
  return difference < 0.001 ? numberText(difference, 2) : `${numberText(100 * difference, 3)} %`;
}

function cell(summary: Beside["base"]): HTMLElement {
  if (!summary) return h("td", { class: "number quiet" }, "none");
  const values = summary.size === 1 ? valuesText(summary) : null;
  return h("td", { class: "number", title: summary.text }, values ?? normText(summary, 3));
}

/** A table with one row per gradient: its norm, or the value of a scalar. A click on a name shows the node. */
export function besideTable(rows: readonly Beside[], other: string, show: (node: number) => void, test: string): HTMLElement {
  return h(
    "table",
    { class: "beside", "data-testid": test },
    h(
      "thead",
      {},
      h("tr", {}, ...["‖∇‖ of", "base", other, "apart"].map((name, at) => h("th", { scope: "col", class: at ? "number" : null }, name))),
    ),
    h(
      "tbody",
      {},
      ...rows.map((row) =>
        h(
          "tr",
          { "data-node": row.node, "data-difference": row.difference, class: row.difference ? "apart" : null },
          h("td", {}, h("button", { class: "link", click: () => show(row.node) }, row.name)),
          cell(row.base),
          cell(row.other),
          h("td", { class: "number" }, differenceText(row.difference)),
        ),
      ),
    ),
  );
}
