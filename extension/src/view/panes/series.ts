// A tensor over time: norm, spread, and the histograms of all steps or iterations as columns of one picture.

import { readBuffer, type Numbers } from "../buffers";
import { h, s } from "../dom";
import type { Series, TensorSeries } from "../protocol";
import { numberText } from "../words";
import { lazyTwin, table } from "./charts";

const [WIDE, HIGH] = [300, 54];
const BANDS = 48; // rows in the picture of histograms

export interface SeriesData {
  at: Numbers;
  mean: Numbers;
  std: Numbers;
  min: Numbers;
  max: Numbers;
  norm: Numbers;
  bad: Numbers;
  low: Numbers;
  high: Numbers;
  counts: Numbers;
  ratio: Numbers | null;
}

export function readSeries(series: Series, buffers: readonly DataView[]): SeriesData {
  const { what: _, ratio, ...columns } = series;
  const read = Object.fromEntries(Object.entries(columns).map(([name, buffer]) => [name, readBuffer(buffer, buffers)]));
  return { ...read, ratio: ratio && readBuffer(ratio, buffers) } as unknown as SeriesData;
}

/** Shares of every step's elements in bands of one common range: band b of column i is at [i * bands + b], and b counts from below. */
export function common({ low, high, counts }: SeriesData, bands: number): { low: number; high: number; shares: Float64Array } {
  const finite = [...low, ...high].filter(Number.isFinite);
  const [least, most] = finite.length ? [Math.min(...finite), Math.max(...finite)] : [0, 1];
  const bins = low.length ? counts.length / low.length : 0;
  const shares = new Float64Array(low.length * bands);
  const band = (most - least || 1) / bands;
  for (let column = 0; column < low.length; column++) {
    const width = (high[column]! - low[column]!) / bins;
    let total = 0;
    for (let bin = 0; bin < bins; bin++) total += counts[column * bins + bin]!;
    if (!total || !Number.isFinite(width)) continue;
    for (let bin = 0; bin < bins; bin++) {
      const count = counts[column * bins + bin]!;
      if (!count) continue;
      const [from, to] = [low[column]! + bin * width, low[column]! + (bin + 1) * width];
      const [first, last] = [Math.floor((from - least) / band), Math.min(bands - 1, Math.floor((to - least) / band))];
      for (let b = Math.max(0, first); b <= Math.max(first, last) && b < bands; b++) {
        const overlap = Math.min(to, least + (b + 1) * band) - Math.max(from, least + b * band);
        shares[column * bands + b]! += (count / total) * (width > 0 ? Math.max(0, overlap) / width : 1);
      }
    }
  }
  return { low: least, high: most, shares };
}

export function drawAllSeries(message: TensorSeries, buffers: readonly DataView[], dark: boolean): HTMLElement {
  if (message.missing) return h("p", { class: "quiet" }, message.missing);
  return h(
    "div",
    { class: "series", "data-testid": "wb-series" },
    h("p", { class: "quiet" }, message.note),
    ...message.series.map((one) => drawSeries(one, buffers, message.unit, dark)),
  );
}

function drawSeries(series: Series, buffers: readonly DataView[], unit: string, dark: boolean): HTMLElement {
  const data = readSeries(series, buffers);
  const last = data.at.length - 1;
  const ends = `${unit} ${data.at[0]} to ${data.at[last]}`;
  const bad = [...data.bad].findIndex((count) => count > 0);
  return h(
    "section",
    {},
    h("h5", {}, series.what, h("span", { class: "quiet" }, ` ${ends}`)),
    bad >= 0 ? h("p", { class: "remark" }, `NaN or Inf from ${unit} ${data.at[bad]} on (${data.bad[bad]} elements there).`) : null,
    h("div", { class: "lines" }, line("norm", data.at, data.norm), data.ratio ? line("|update| / |weight|", data.at, data.ratio) : line("std", data.at, data.std)),
    histograms(data, unit, dark),
    lazyTwin(() => {
      const stride = Math.max(1, Math.ceil(data.at.length / 100));
      const rows = [...data.at].map((at, row) => [at, data.norm[row], data.mean[row], data.std[row], data.min[row], data.max[row], ...(data.ratio ? [data.ratio[row]] : [])]);
      const columns = [unit, "norm", "mean", "std", "min", "max", ...(data.ratio ? ["update / weight"] : [])];
      const told = rows.filter((_, row) => row % stride === 0 || row === last).map((row) => row.map((value, at) => (at ? numberText(value) : String(value))));
      return h("div", { class: "wide", tabindex: 0, role: "group", "aria-label": "Table" }, table(columns, told, columns.map((_, at) => at)));
    }),
  );
}

function line(name: string, at: Numbers, values: Numbers): HTMLElement {
  const finite = [...values].filter(Number.isFinite);
  if (!finite.length) return h("div", {}, h("div", { class: "quiet" }, name), "–");
  const [least, most] = [Math.min(...finite), Math.max(...finite)];
  const first = at[0]!;
  const span = at[at.length - 1]! - first || 1;
  const [w, high] = [140, 34];
  let pen = "M";
  const path: string[] = [];
  for (let i = 0; i < values.length; i++) {
    if (!Number.isFinite(values[i])) {
      pen = "M"; // a gap at NaN and infinities
      continue;
    }
    path.push(`${pen}${(((at[i]! - first) / span) * w).toFixed(1)} ${(high - 2 - ((values[i]! - least) / (most - least || 1)) * (high - 4)).toFixed(1)}`);
    pen = "L";
  }
  const label = `${name} from ${numberText(finite[0])} to ${numberText(finite.at(-1))}, between ${numberText(least)} and ${numberText(most)}`;
  return h(
    "div",
    { title: label },
    h("div", { class: "quiet" }, name),
    s("svg", { viewBox: `0 0 ${w} ${high}`, preserveAspectRatio: "none", role: "img", "aria-label": label }, s("path", { d: path.join("") })),
    h("div", { class: "ends" }, h("span", {}, numberText(finite[0])), h("span", {}, numberText(finite.at(-1)))),
  );
}

function histograms(data: SeriesData, unit: string, dark: boolean): HTMLElement {
  const { low, high, shares } = common(data, BANDS);
  const columns = data.at.length;
  const scale = Math.max(1, Math.ceil(WIDE / columns));
  const canvas = h("canvas", {
    ...{ width: columns * scale, height: BANDS, role: "img", class: "pixels" },
    "aria-label": `Distribution over ${columns} ${unit}s, values from ${numberText(low)} to ${numberText(high)}`,
    style: `width:100%;height:${HIGH * 2}px`,
  });
  const home = "stronger: more of the elements";
  const readout = h("span", { class: "middle" }, home);
  const context = canvas.getContext("2d");
  for (let column = 0; context && column < columns; column++) {
    let most = 0;
    for (let b = 0; b < BANDS; b++) most = Math.max(most, shares[column * BANDS + b]!);
    for (let b = 0; b < BANDS; b++) {
      const share = most ? shares[column * BANDS + b]! / most : 0;
      if (!share) continue;
      context.fillStyle = dark ? `rgb(130 180 255 / ${0.12 + 0.88 * share})` : `rgb(29 95 191 / ${0.1 + 0.9 * share})`;
      context.fillRect(column * scale, BANDS - 1 - b, scale, 1);
    }
  }
  canvas.addEventListener("pointermove", (event) => {
    const column = Math.min(columns - 1, Math.max(0, Math.floor((event.offsetX / canvas.clientWidth) * columns)));
    readout.textContent = `${unit} ${data.at[column]}: ${numberText(data.min[column])} to ${numberText(data.max[column])}, mean ${numberText(data.mean[column])}`;
  });
  canvas.addEventListener("pointerleave", () => (readout.textContent = home));
  return h(
    "figure",
    { class: "ridge" },
    h("div", { class: "quiet ends" }, h("span", {}, numberText(high)), h("span", {}, "histogram of each")),
    canvas,
    h("figcaption", {}, h("span", {}, numberText(low)), readout),
  );
}
