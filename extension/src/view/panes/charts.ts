// Small charts as SVG, each with a table that says the same: the histogram, the bar of health, the memory time line.

import { h, s } from "../dom";
import type { Histogram, Summary } from "../protocol";
import { bytesText, countText, numberText } from "../words";

export function table(
  columns: readonly string[],
  rows: readonly (readonly (string | Node)[])[],
  numeric: readonly number[] = [],
): HTMLTableElement {
  const side = (at: number) => (numeric.includes(at) ? "number" : null);
  return h(
    "table",
    {},
    h("thead", {}, h("tr", {}, ...columns.map((name, at) => h("th", { scope: "col", class: side(at) }, name)))),
    h("tbody", {}, ...rows.map((row) => h("tr", {}, ...row.map((cell, at) => h("td", { class: side(at) }, cell))))),
  );
}

export function twin(content: HTMLElement): HTMLElement {
  return h("details", { class: "twin" }, h("summary", {}, "As a table"), content);
}

/** The same, made when it is opened for the first time. */
export function lazyTwin(content: () => HTMLElement): HTMLElement {
  const made = h("details", { class: "twin" }, h("summary", {}, "As a table"));
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

/** Shares of NaN, infinities, negative, zero and positive elements; each with its glyph, never by colour alone. */
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

function percent(share: number): string {
  const text = (share * 100).toFixed(share < 0.1 && share > 0 ? 1 : 0);
  return text === "0.0" ? "<0.1 %" : `${text} %`;
}

/** Live bytes over events. Points are [event, bytes after it]. */
export function drawTimeline(points: ArrayLike<number>, peak: number): HTMLElement {
  const count = points.length >> 1;
  const [w, height] = [320, 96];
  const [first, last] = [points[0] ?? 0, points[(count - 1) * 2] ?? 1];
  const x = (event: number) => ((event - first) / Math.max(1, last - first)) * w;
  const y = (bytes: number) => height - (bytes / Math.max(1, peak)) * (height - 8);
  // At most two points a pixel: the least and the largest of each column.
  const columns = new Map<number, [number, number]>();
  for (let at = 0; at < count; at++) {
    const column = Math.round(x(points[2 * at]!));
    const bytes = points[2 * at + 1]!;
    const seen = columns.get(column);
    columns.set(column, seen ? [Math.min(seen[0], bytes), Math.max(seen[1], bytes)] : [bytes, bytes]);
  }
  const line = [...columns].flatMap(([at, [least, most]]) =>
    least === most ? [`${at} ${y(most).toFixed(1)}`] : [`${at} ${y(least).toFixed(1)}`, `${at} ${y(most).toFixed(1)}`],
  );
  const rows: string[][] = [];
  const stride = Math.max(1, Math.ceil(count / 100));
  for (let at = 0; at < count; at += stride) rows.push([String(points[2 * at]), bytesText(points[2 * at + 1]!)]);
  return h(
    "figure",
    { class: "timeline" },
    s(
      "svg",
      {
        viewBox: `0 0 ${w} ${height + 1}`,
        preserveAspectRatio: "none",
        role: "img",
        "aria-label": `Live bytes over ${count} events, peak ${bytesText(peak)}`,
      },
      line.length ? s("path", { class: "area", d: `M0 ${height}L${line.join("L")}L${w} ${height}Z` }) : null,
      line.length ? s("path", { class: "line", d: `M${line.join("L")}` }) : null,
      s("line", { class: "peak", x1: 0, x2: w, y1: y(peak), y2: y(peak) }),
      s("line", { class: "axis", x1: 0, x2: w, y1: height + 0.5, y2: height + 0.5 }),
    ),
    h(
      "figcaption",
      {},
      h("span", {}, `event ${first}`),
      h("span", { class: "middle" }, `dashed: peak ${bytesText(peak)}`),
      h("span", {}, `event ${last}`),
    ),
    twin(table(["event", stride > 1 ? `live after it (every ${stride}th)` : "live after it"], rows, [0, 1])),
  );
}
