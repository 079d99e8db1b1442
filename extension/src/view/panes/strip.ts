// A tensor as a small heat map, and several of them as an equation.

import { readBuffer } from "../buffers";
import { h } from "../dom";
import type { Picture, Term } from "../protocol";
import { normText, numberText, shapeText } from "../words";
import { cellNumber, heatColour, heatInk, largest, NUMBER_WIDTH, NUMBERED } from "./colours";
import { valuesText } from "./rules";

export interface StripOptions {
  buffers: readonly DataView[];
  dark: boolean;
  width: number; // maximum, in pixels
  height?: number;
  /** Called with the flat index of the clicked element; only if each cell is one element. */
  choose?: (flat: number) => void;
  chosen?: number;
}

/** The heat map alone; null if there is nothing to draw. */
export function strip(picture: Picture, options: StripOptions): HTMLElement | null {
  const { cells, rows, cols, label, summary } = picture;
  if (!cells) return null;
  const { dark, width, height = 56, choose, chosen = -1 } = options;
  const values = readBuffer(cells, options.buffers);
  const [r = 1, c = 1] = cells.shape;
  const [cell, tall] = cellOf(r, c, width, height);
  const canvas = h("canvas", {
    width: c * cell * 2,
    height: r * tall * 2,
    role: "img",
    "aria-label": `${label}: ${summary.text}`,
    style: `width:${c * cell}px;height:${r * tall}px`,
  });
  const extent = largest(values);
  const context = canvas.getContext("2d");
  values.forEach((value, at) => {
    if (!context) return;
    const [x, y] = [(at % c) * cell * 2, Math.floor(at / c) * tall * 2];
    context.fillStyle = heatColour(value, extent, dark);
    context.fillRect(x, y, cell * 2, tall * 2);
    if (at !== chosen) return;
    context.strokeStyle = dark ? "#ffffff" : "#000000";
    context.lineWidth = 3;
    context.strokeRect(x + 1.5, y + 1.5, cell * 2 - 3, tall * 2 - 3);
  });
  const exact = r === rows && c === cols;
  const at = (event: MouseEvent) =>
    Math.min(r - 1, Math.max(0, Math.floor((event.offsetY / canvas.clientHeight) * r))) * c +
    Math.min(c - 1, Math.max(0, Math.floor((event.offsetX / canvas.clientWidth) * c)));
  canvas.addEventListener("pointermove", (event) => {
    const place = at(event);
    const where = exact ? `[${indexOf(place, summary.shape).join(", ")}]` : "mean of a block";
    canvas.title = `${where} ${numberText(values[place])}`;
  });
  if (choose && exact) {
    canvas.classList.add("clickable");
    canvas.addEventListener("click", (event) => choose(at(event)));
  }
  return canvas;
}

function cellOf(rows: number, cols: number, width: number, height: number): [number, number] {
  const cell = Math.max(1, Math.min(18, Math.floor(width / cols)));
  const tall = Math.max(1, Math.min(18, Math.floor(height / rows)));
  // Cells are square if there is room; a vector is drawn as a visible band, and each side is at least a quarter of the other.
  const side = Math.min(cell, tall);
  const least = (mine: number, other: number, pixels: number) => Math.max(side, Math.ceil(Math.max(pixels, (other * side) / 4) / mine));
  return [Math.min(cell, least(cols, rows, 24)), Math.min(tall, least(rows, cols, 14))];
}

/** A small matrix as numbers on the heat map's colors; null if it is too large or there is no room. */
function numbered({ cells, rows, cols, label, summary }: Picture, { buffers, dark, width, height = 56 }: StripOptions): HTMLElement | null {
  const fits = rows <= NUMBERED && cols <= NUMBERED && cols * NUMBER_WIDTH <= width && rows * 20 <= height;
  if (!cells || !fits || summary.dtype.startsWith("complex")) return null;
  const values = [...readBuffer(cells, buffers)];
  const extent = largest(values);
  const cell = (value: number) => h("td", { title: numberText(value), style: `background:${heatColour(value, extent, dark)};color:${heatInk(value, extent, dark)}` }, cellNumber(value));
  const line = (row: number) => h("tr", {}, ...values.slice(row * cols, (row + 1) * cols).map(cell));
  return h("table", { class: "numbered", "data-testid": "wb-cells", "aria-label": `${label}: ${summary.text}` }, h("tbody", {}, ...Array.from({ length: rows }, (_, row) => line(row))));
}

/** The index along each axis of an element given by its flat index. */
export function indexOf(flat: number, shape: readonly number[]): number[] {
  const index: number[] = [];
  for (let axis = shape.length - 1; axis >= 0; axis--) {
    index.unshift(flat % shape[axis]!);
    flat = Math.floor(flat / shape[axis]!);
  }
  return index;
}

/** The flat index of an element; -1 if the index is out of range. */
export function flatOf(index: readonly number[], shape: readonly number[]): number {
  if (index.length !== shape.length || index.some((n, axis) => !Number.isInteger(n) || n < 0 || n >= shape[axis]!)) return -1;
  return index.reduce((flat, n, axis) => flat * shape[axis]! + n, 0);
}

/** The heat map, or the values if there are few, with label, shape and norm below. */
export function figure(picture: Picture, options: StripOptions): HTMLElement {
  const { label, summary } = picture;
  const values = valuesText(summary);
  return h(
    "figure",
    { class: "strip" },
    values ? h("code", {}, values) : ((!options.choose && numbered(picture, options)) || strip(picture, options)),
    h("figcaption", {}, h("span", {}, label), h("span", { class: "quiet" }, ` ${shapeText(summary.shape)} · ‖·‖ ${normText(summary, 3)}`)),
  );
}

const READABLE = 130; // pixels for a picture in an equation, at least, if the panel has room

/** upstream ∘ local = contribution: small matrices as numbers, larger ones as heat maps, wrapped to several lines in a narrow panel. */
export function equation(terms: readonly Term[], options: StripOptions): HTMLElement {
  const share = Math.max(READABLE, Math.floor(options.width / terms.length) - 24);
  const room = (picture: Picture) => (Math.max(picture.rows, picture.cols) <= NUMBERED ? options.width - 20 : Math.min(share, options.width - 20));
  return h(
    "div",
    { class: "equation", "data-testid": "wb-equation" },
    ...terms.map(({ sign, picture }) =>
      h("div", { class: "term" }, sign ? h("span", { class: "sign" }, sign) : null, figure(picture, { ...options, width: room(picture), height: READABLE })),
    ),
  );
}
