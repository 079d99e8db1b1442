// The heat map of a 2-D slice on a canvas: diverging around zero, with glyphs where NaN or Inf are.

import { readBuffer } from "../buffers";
import { h } from "../dom";
import type { Heat } from "../protocol";
import { numberText } from "../words";

const HIGHEST = 260; // pixels

interface Cell {
  w: number;
  h: number;
}

type Colour = readonly [number, number, number];

// Blue, through the neutral middle, to orange: told apart by colour-blind readers, and dark enough at both ends.
const NEGATIVE: Colour = [33, 102, 172];
const POSITIVE: Colour = [200, 80, 10];

export interface HeatData {
  rows: number; // cells drawn
  cols: number;
  mean: ArrayLike<number>;
  absmax: ArrayLike<number>;
  bad: ArrayLike<number>;
  extent: number; // the largest finite |mean|
  pooled: boolean;
}

export function readHeat(heat: Heat, buffers: readonly DataView[]): HeatData {
  const [mean, absmax, bad] = [readBuffer(heat.mean, buffers), readBuffer(heat.absmax, buffers), readBuffer(heat.bad, buffers)];
  const [rows = 0, cols = 0] = heat.mean.shape;
  let extent = 0;
  for (const value of mean) if (Number.isFinite(value)) extent = Math.max(extent, Math.abs(value));
  return { rows, cols, mean, absmax, bad, extent, pooled: rows < heat.rows || cols < heat.cols };
}

/** "X" for NaN, "+I" and "−I" for infinities, "±I" for both. */
export function badGlyph(bits: number): string {
  if (bits & 1) return "X";
  if ((bits & 6) === 6) return "±I";
  return bits & 2 ? "+I" : bits & 4 ? "−I" : "";
}

export function heatColour(value: number, extent: number, dark: boolean): string {
  const middle: Colour = dark ? [38, 40, 46] : [247, 247, 247];
  const share = extent > 0 ? Math.max(-1, Math.min(1, value / extent)) : 0;
  const end = share < 0 ? NEGATIVE : POSITIVE;
  const bright = dark ? 1.25 : 1;
  const mix = (at: 0 | 1 | 2) => Math.min(255, Math.round(middle[at] + (end[at] * bright - middle[at]) * Math.abs(share) ** 0.8));
  return `rgb(${mix(0)} ${mix(1)} ${mix(2)})`;
}

export function drawHeat(heat: Heat, buffers: readonly DataView[], width: number, dark: boolean): HTMLElement {
  const data = readHeat(heat, buffers);
  const cell = cellSize(data, width);
  const [w, height] = [data.cols * cell.w, data.rows * cell.h];
  const label = `Heat map of ${heat.rows} by ${heat.cols} elements, from ${numberText(-data.extent)} to ${numberText(data.extent)}`;
  const canvas = h("canvas", {
    width: w * 2,
    height: height * 2,
    role: "img",
    "aria-label": label,
    style: `width:${w}px;height:${height}px`,
  });
  const readout = h(
    "div",
    { class: "readout" },
    data.pooled ? `each cell pools a block of the ${heat.rows}×${heat.cols} elements` : `${heat.rows}×${heat.cols}`,
  );
  const home = readout.textContent!;
  paint(canvas, data, cell, dark);
  canvas.addEventListener("pointermove", (event) => {
    const col = Math.floor((event.offsetX / canvas.clientWidth) * data.cols); // a narrow page shows the picture smaller
    const row = Math.floor((event.offsetY / canvas.clientHeight) * data.rows);
    if (row < 0 || col < 0 || row >= data.rows || col >= data.cols) return;
    const at = row * data.cols + col;
    const glyph = badGlyph(data.bad[at]!);
    const rows = span(row, data.rows, heat.rows);
    const cols = span(col, data.cols, heat.cols);
    const value = data.pooled ? `mean ${numberText(data.mean[at])}, largest ${numberText(data.absmax[at])}` : numberText(data.mean[at]);
    readout.textContent = `[${rows}, ${cols}]  ${glyph === "X" ? "NaN" : glyph ? glyph.replace("I", "Inf") : value}`;
  });
  canvas.addEventListener("pointerleave", () => (readout.textContent = home));
  return h("figure", { class: "heat" }, canvas, h("figcaption", {}, legend(data.extent, dark), readout));
}

/** Square, but for pictures that would be thinner than 1 to 4. */
function cellSize({ rows, cols }: HeatData, width: number): Cell {
  const side = Math.max(1, Math.min(36, Math.floor(width / Math.max(1, cols)), Math.floor(HIGHEST / Math.max(1, rows))));
  const stretched = (mine: number, other: number) => Math.max(side, Math.min(36, Math.floor((other * side) / 4 / Math.max(1, mine))));
  return { w: stretched(cols, rows), h: stretched(rows, cols) };
}

function span(index: number, cells: number, whole: number): string {
  const [first, last] = [Math.floor((index * whole) / cells), Math.ceil(((index + 1) * whole) / cells) - 1];
  return last > first ? `${first}–${last}` : String(first);
}

function paint(canvas: HTMLCanvasElement, data: HeatData, cell: Cell, dark: boolean): void {
  const context = canvas.getContext("2d");
  if (!context) return;
  context.scale(2, 2);
  context.textAlign = "center";
  context.textBaseline = "middle";
  const least = Math.min(cell.w, cell.h);
  context.font = `700 ${Math.max(6, Math.min(14, least * 0.6))}px sans-serif`;
  for (let row = 0; row < data.rows; row++) {
    for (let col = 0; col < data.cols; col++) {
      const at = row * data.cols + col;
      const value = data.mean[at]!;
      context.fillStyle = heatColour(Number.isFinite(value) ? value : 0, data.extent, dark);
      context.fillRect(col * cell.w, row * cell.h, cell.w, cell.h);
      const bad = data.bad[at]!;
      if (!bad) continue;
      context.fillStyle = bad & 1 ? "#d6006c" : "#7a00b8";
      context.fillRect(col * cell.w, row * cell.h, cell.w, cell.h);
      context.fillStyle = "#ffffff";
      if (least >= 7) context.fillText(badGlyph(bad), (col + 0.5) * cell.w, (row + 0.5) * cell.h);
    }
  }
  if (least < 14) return;
  context.strokeStyle = dark ? "rgb(255 255 255 / 8%)" : "rgb(0 0 0 / 8%)";
  context.beginPath();
  for (let col = 1; col < data.cols; col++) (context.moveTo(col * cell.w, 0), context.lineTo(col * cell.w, data.rows * cell.h));
  for (let row = 1; row < data.rows; row++) (context.moveTo(0, row * cell.h), context.lineTo(data.cols * cell.w, row * cell.h));
  context.stroke();
}

function legend(extent: number, dark: boolean): HTMLElement {
  const stops = [-1, -0.5, 0, 0.5, 1].map((at) => heatColour(at, 1, dark)).join(", ");
  return h(
    "div",
    { class: "legend" },
    numberText(-extent),
    h("span", { class: "ramp", style: `background: linear-gradient(to right, ${stops})` }),
    numberText(extent),
  );
}
