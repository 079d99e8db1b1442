// Small SVG charts with equivalent tables: the histogram and the health bar.

import { h, s } from "../dom";
import type { Histogram, Summary } from "../protocol";
import { countText, numberText } from "../words";

export function table(
  columns: readonly string[],
  rows: readonly (readonly (string | Node)[])[],
  numeric: readonly number[] = [],
): HTMLTableElement {
  const side = (at: number) => (numeric.includes(at) ? "number" : null);
  return h(
    "table",
    {},
    h("thead", {}, h("tr", {}, ...columns.map((name, at) => (name ? h("th", { scope: "col", class: side(at) }, name) : h("td", { class: side(at) }))))),
    h("tbody", {}, ...rows.map((row) => h("tr", {}, ...row.map((cell, at) => h("td", { class: side(at) }, cell))))),
  );
}

export function twin(...content: HTMLElement[]): HTMLDetailsElement {
  return h("details", { class: "twin" }, h("summary", {}, "As a table"), ...content);
}

/** Like `twin`, but creates its content when first opened. */
export function lazyTwin(content: () => HTMLElement): HTMLElement {
  const made = twin();
  made.addEventListener("toggle", () => made.open && made.childElementCount === 1 && made.append(content()));
  return made;
}

export function drawHistogram({ low, high, counts, sampled }: Histogram, exact: (() => void) | null): HTMLElement {
  const most = counts.reduce((a, b) => Math.max(a, b), 1);
  const [w, height] = [280, 72];
  const step = w / Math.max(1, counts.length);
  const edge = (at: number) => low + ((high - low) * at) / Math.max(1, counts.length);
  const bars = counts.map((count, at) => {
    const tall = count > 0 ? Math.max(1.5, (count / most) * height) : 0;
    return s(
      "rect",
      {
        x: (at * step + 0.5).toFixed(2),
        y: (height - tall).toFixed(2),
        width: Math.max(1, step - 1).toFixed(2),
        height: tall.toFixed(2),
      },
      s("title", {}, `${numberText(edge(at))} to ${numberText(edge(at + 1))}: ${count}`),
    );
  });
  const zero = low < 0 && high > 0 ? (-low / (high - low)) * w : null;
  const mark = sampled ? "~ " : "";
  const label = `${sampled ? "Sampled histogram" : "Histogram"} of ${counts.length} bins from ${numberText(low)} to ${numberText(high)}`;
  return h(
    "figure",
    { class: "histogram" },
    s(
      "svg",
      { viewBox: `0 0 ${w} ${height + 1}`, preserveAspectRatio: "none", role: "img", "aria-label": label },
      s("g", { class: "bars" }, ...bars),
      zero === null ? null : s("line", { class: "zero", x1: zero, x2: zero, y1: 0, y2: height }),
      s("line", { class: "axis", x1: 0, x2: w, y1: height + 0.5, y2: height + 0.5 }),
    ),
    h(
      "figcaption",
      {},
      h("span", {}, numberText(low)),
      h(
        "span",
        { class: "middle" },
        sampled ? "~ from a sample" : "histogram",
        sampled && exact ? h("button", { class: "link", click: exact }, "count all") : null,
      ),
      h("span", {}, numberText(high)),
    ),
    twin(
      table(
        ["from", "to", `${mark}count`],
        counts.map((count, at) => [numberText(edge(at)), numberText(edge(at + 1)), String(count)]),
        [0, 1, 2],
      ),
    ),
  );
}

const PARTS = [
  ["nan", "X", "NaN"],
  ["pos_inf", "+I", "+Inf"],
  ["neg_inf", "−I", "−Inf"],
  ["negative", "−", "negative"],
  ["zero", "0", "zero"],
  ["positive", "+", "positive"],
] as const;

/** Shares of NaN, infinite, negative, zero and positive elements, each identified by a glyph, never by color alone. */
export function drawHealth(summary: Summary): HTMLElement {
  const parts = PARTS.filter(([key]) => summary[key] > 0);
  if (!parts.length) return h("div", { class: "health" }, "no elements");
  const words = parts.map(([key, , name]) => `${countText(summary[key])} ${name}`).join(", ");
  return h(
    "div",
    { class: "health" },
    h(
      "div",
      { class: "bar", role: "img", "aria-label": words },
      ...parts.map(([key, glyph, name]) =>
        h(
          "span",
          { class: key, style: `flex-grow:${Math.max(2, (100 * summary[key]) / summary.size)}`, title: `${summary[key]} ${name}` },
          glyph,
        ),
      ),
    ),
    h(
      "div",
      { class: "shares" },
      ...parts.map(([key, glyph, name]) =>
        h("span", {}, h("b", { class: key }, glyph), ` ${name} ${percent(summary[key] / summary.size)}`),
      ),
    ),
  );
}

export function percent(share: number): string {
  const text = (share * 100).toFixed(share < 0.1 && share > 0 ? 1 : 0);
  return text === "0.0" ? "<0.1 %" : `${text} %`;
}
