// The tables of the memory pane: live arrays and why they are alive, shares by line, op or module, and saved arrays; bytes as bars.

import { h, type Child } from "../../dom";
import type { Holding, Saver, Share } from "../../protocol";
import type { Recording } from "../../store";
import { bytesText, nameOf, plural, shapeText, siteText } from "../../words";
import { table } from "../charts";

export interface TableActions {
  select(node: number): void;
  why(block: number): void;
}

/** A number of bytes with a bar for its share of the largest. */
function bar(bytes: number, most: number, kind = ""): HTMLElement {
  const share = most > 0 ? (100 * bytes) / most : 0;
  return h("div", { class: "bytes" }, h("span", {}, bytesText(bytes)), h("span", { class: kind ? `bar of-${kind}` : "bar", style: `width:${share.toFixed(1)}%` }));
}

/** The line of code; a click shows it in its cell. */
function code(recording: Recording, site: number): Child {
  const found = recording.sites[site];
  if (!found) return null;
  const where = siteText(found);
  const button = h("button", { class: "link", title: found.text, "data-testid": "wb-memory-site" }, where);
  button.addEventListener("click", (event) => {
    event.stopPropagation();
    button.dispatchEvent(new CustomEvent("workbench-reveal", { detail: found, bubbles: true, composed: true }));
  });
  return button;
}

function joined(...parts: Child[]): Child[] {
  const kept = parts.filter((part) => part !== null && part !== undefined && part !== false && part !== "");
  return kept.flatMap((part, at) => (at ? [" · ", part] : [part]));
}

export function holdingsTable(rows: readonly Holding[], recording: Recording, actions: TableActions): HTMLElement {
  const most = rows.reduce((a, row) => Math.max(a, row.bytes), 0);
  const made = table(
    ["memory", "bytes", "why it is alive"],
    rows.map((row) => [
      h(
        "div",
        {},
        row.node >= 0
          ? h("button", { class: "link", click: () => actions.select(row.node) }, row.name || nameOf(recording, row.node))
          : row.name || "–",
        row.dtype ? h("div", { class: "quiet" }, `${shapeText(row.shape)} ${row.dtype}`) : "",
      ),
      bar(row.bytes, most, row.category),
      h(
        "div",
        {},
        row.why,
        h("div", { class: "quiet" }, ...joined(h("span", { class: `swatch of-${row.category}` }, row.category), code(recording, row.site))),
        row.freed >= 0
          ? h("div", { class: "quiet" }, ...joined(`freed ${row.freed_text}, event ${row.freed}`, code(recording, row.freed_site)))
          : h("button", { class: "link", "data-testid": "wb-why", click: () => actions.why(row.block) }, "Why is it still alive?"),
      ),
    ]),
    [1],
  );
  clickable(made, rows, actions);
  return made;
}

/** A click on a row, except on its buttons, selects its node. */
function clickable(made: HTMLTableElement, rows: readonly { node: number }[], actions: TableActions): void {
  [...made.tBodies[0]!.rows].forEach((element, at) => {
    const { node } = rows[at]!;
    if (node < 0) return;
    element.classList.add("clickable");
    element.dataset.node = String(node);
    element.addEventListener("click", (event) => {
      if (!(event.target as Element).closest("button")) actions.select(node);
    });
  });
}

export function sharesTable(what: string, rows: readonly Share[], recording: Recording, actions: TableActions): HTMLElement {
  const most = rows.reduce((a, row) => Math.max(a, row.peak), 0);
  const made = table(
    [what, "at the peak", "in all"],
    rows.map((row) => {
      const site = recording.sites[row.site];
      const label = site ? h("div", {}, code(recording, row.site), h("code", { class: "text" }, site.text)) : row.label;
      return [
        h("div", {}, label, h("div", { class: "quiet" }, plural(row.blocks, "array"))),
        bar(row.peak, most),
        h("div", {}, bytesText(row.made), row.saved ? h("div", { class: "quiet" }, `${bytesText(row.saved)} saved`) : null),
      ];
    }),
    [1, 2],
  );
  clickable(made, rows, actions);
  return made;
}

export function saversTable(rows: readonly Saver[], recording: Recording, actions: TableActions): HTMLElement {
  const most = rows.reduce((a, row) => Math.max(a, row.bytes), 0);
  const made = table(
    ["node", "keeps", "for its backward step"],
    rows.map((row) => [
      h(
        "div",
        {},
        h("button", { class: "link", click: () => actions.select(row.node) }, nameOf(recording, row.node)),
        h("div", { class: "quiet" }, ...joined(recording.nodes.op[row.node] ?? "", code(recording, recording.nodes.site[row.node] ?? -1))),
      ),
      bar(row.bytes, most, "saved"),
      h("div", {}, row.what, h("div", { class: "quiet" }, row.held ? "still kept" : "freed")),
    ]),
    [1],
  );
  clickable(made, rows, actions);
  return made;
}
