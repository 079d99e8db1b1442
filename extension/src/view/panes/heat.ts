// Heat maps of two axes of a tensor, side by side along a third, on one canvas; colors diverge around zero, NaN and infinities get glyphs.

import { readBuffer } from "../buffers";
import { h } from "../dom";
import type { Heat } from "../protocol";
import { numberText, plural } from "../words";
import { lazyTwin, table } from "./charts";
import { cellNumber, heatColour, heatInk, largest, NUMBER_WIDTH, NUMBERED } from "./colours";

const HIGHEST = 260; // height of one picture in pixels, at most
const GAP = 6;
const CAPTION = 14;
const LONGEST_LABEL = 64; // pixels
const LISTED = 24; // rows and columns in the table, at most

/** The end of the color scale: the largest magnitude, or a percentile of the magnitudes. */
export type Range = "max" | "99" | "95";

export interface HeatData {
  pictures: number;
  rows: number; // of each picture
  cols: number;
  values: ArrayLike<number>;
  marks: ArrayLike<number>; // bits: 1 for NaN, 2 for +Inf, 4 for −Inf in the cell
  extent: number; // the color scale ends at ± this
  pooled: boolean;
}

export function readHeat(heat: Heat, buffers: readonly DataView[], range: Range = "max"): HeatData {
  const values = readBuffer(heat.values, buffers);
  const marks = heat.marks ? readBuffer(heat.marks, buffers) : Uint8Array.from(values, markOf);
  const [pictures = 0, rows = 0, cols = 0] = heat.values.shape;
  return { pictures, rows, cols, values, marks, extent: extentOf(values, range), pooled: heat.marks !== null };
}

function markOf(value: number): number {
  return Number.isNaN(value) ? 1 : value === Infinity ? 2 : value === -Infinity ? 4 : 0;
}

/** The largest finite magnitude, or the given percentile of the finite magnitudes. */
export function extentOf(values: ArrayLike<number>, range: Range): number {
  if (range === "max") return largest(values);
  const sizes = Float64Array.from(values, Math.abs).filter(Number.isFinite);
  if (!sizes.length) return 0;
  sizes.sort();
  const found = sizes[Math.min(sizes.length - 1, Math.ceil((sizes.length * Number(range)) / 100) - 1)]!;
  return found || sizes.at(-1)!; // if nearly all are zero, the largest
}

/** "X" for NaN, "+I" and "−I" for infinities, "±I" for both. */
export function badGlyph(bits: number): string {
  if (bits & 1) return "X";
  if ((bits & 6) === 6) return "±I";
  return bits & 2 ? "+I" : bits & 4 ? "−I" : "";
}

/** A cell: its picture, row and column. */
export interface Place {
  picture: number;
  row: number;
  col: number;
}

/** The first and last index of the cell along each axis of the tensor. */
export function indexOf(heat: Heat, { picture, row, col }: Place): [number, number][] {
  const [facet, rows, cols] = heat.axes as [number, number, number];
  const span = (at: number, block: number, size: number): [number, number] => [at * block, Math.min(size, (at + 1) * block) - 1];
  return heat.index.map((at, axis) => {
    if (axis === facet) return [heat.first + picture, heat.first + picture];
    if (axis === rows) return span(row, heat.block[0]!, heat.rows);
    if (axis === cols) return span(col, heat.block[1]!, heat.cols);
    return [at, at];
  });
}

export function indexText(index: readonly [number, number][]): string {
  return `[${index.map(([first, last]) => (last > first ? `${first}–${last}` : first)).join(", ")}]`;
}

/** Describes the value of the cell. */
export function cellText(data: HeatData, pool: Heat["pool"], at: number): string {
  const mark = data.marks[at]!;
  const names = [mark & 1 ? "NaN" : "", mark & 2 ? "+Inf" : "", mark & 4 ? "−Inf" : ""].filter(Boolean).join(" and ");
  const value = numberText(data.values[at]);
  if (!data.pooled) return names || value;
  return `${pool === "mean" ? "mean" : "largest magnitude"} ${value}${names ? `, with ${names}` : ""}`;
}

/** The layout of the canvas. */
interface Plan {
  w: number; // of a cell
  h: number;
  across: number; // pictures in a row
  left: number;
  top: number;
  caption: number;
  width: number;
  height: number;
  numbers: boolean; // the cells are wide enough for numbers
}

function planOf(data: HeatData, room: number, labels: readonly string[]): Plan {
  const { pictures, rows, cols } = data;
  const labelled = pictures === 1 && labels.length === cols && labels.length === rows;
  const margin = labelled ? Math.min(LONGEST_LABEL, 8 + 7 * Math.max(...labels.map((label) => label.length))) : 0;
  const caption = pictures > 1 ? CAPTION : 0;
  const wanted = Math.ceil(Math.sqrt((pictures * rows) / Math.max(1, cols))); // width and height are about equal
  const across = pictures === 1 ? 1 : Math.max(1, Math.min(pictures, Math.max(wanted, Math.min(4, pictures))));
  const wide = (room - margin - GAP * (across - 1)) / across;
  const side = Math.max(1, Math.min(36, Math.floor(wide / Math.max(1, cols)), Math.floor(HIGHEST / Math.max(1, rows))));
  const numbers = !data.pooled && pictures === 1 && Math.max(rows, cols) <= NUMBERED && wide / cols >= NUMBER_WIDTH;
  const stretched = (mine: number, other: number) => Math.max(side, Math.min(36, Math.floor((other * side) / 4 / Math.max(1, mine))));
  const fitting = pictures > 1 ? [side, side] : [stretched(cols, rows), stretched(rows, cols)];
  const [w, tall] = numbers ? [Math.min(56, Math.floor(wide / cols)), 28] : (fitting as [number, number]);
  const down = Math.ceil(pictures / across);
  return {
    ...{ w, h: tall, across, left: margin, top: margin, caption, numbers },
    width: margin + across * cols * w + (across - 1) * GAP,
    height: margin + down * (rows * tall + caption) + (down - 1) * GAP,
  };
}

function corner(plan: Plan, data: HeatData, picture: number): [number, number] {
  const [x, y] = [picture % plan.across, Math.floor(picture / plan.across)];
  return [plan.left + x * (data.cols * plan.w + GAP), plan.top + plan.caption + y * (data.rows * plan.h + plan.caption + GAP)];
}

function placeAt(plan: Plan, data: HeatData, x: number, y: number): Place | null {
  for (let picture = 0; picture < data.pictures; picture++) {
    const [left, top] = corner(plan, data, picture);
    const [row, col] = [Math.floor((y - top) / plan.h), Math.floor((x - left) / plan.w)];
    if (row >= 0 && col >= 0 && row < data.rows && col < data.cols) return { picture, row, col };
  }
  return null;
}

export interface HeatOptions {
  width: number;
  dark: boolean;
  range?: Range;
  labels?: readonly string[]; // tokens along rows and columns
  pick?: (index: number[]) => void; // called with the index of the first element of a clicked cell
  cursor?: Cursor; // keyboard cursor, kept when the picture is redrawn, for example with another slice
}

export interface Cursor {
  place: Place | null;
}

export function drawHeat(heat: Heat, buffers: readonly DataView[], options: HeatOptions): HTMLElement {
  const { width, dark, range = "max", labels = [], pick, cursor = { place: null } } = options;
  const data = readHeat(heat, buffers, range);
  const plan = planOf(data, width, labels);
  const canvas = h("canvas", {
    ...{ width: plan.width * 2, height: plan.height * 2, role: "img", "data-testid": "wb-heat" },
    "aria-label": describe(heat, data),
    style: `width:${plan.width}px;height:${plan.height}px`,
    tabindex: pick ? 0 : null,
    class: pick ? "picks" : null,
  });
  const home = data.pooled
    ? `Each cell pools ${heat.block[0]}×${heat.block[1]} of ${heat.rows}×${heat.cols} elements.`
    : `${heat.rows}×${heat.cols}${pick ? "; click a cell for its exact value" : ""}`;
  const readout = h("div", { class: "readout", "aria-live": "polite" }, home);
  const say = (place: Place | null) => {
    if (!place) return void (readout.textContent = home);
    const at = (place.picture * data.rows + place.row) * data.cols + place.col;
    const named = labels.length === data.cols && labels.length === data.rows ? `  ${labels[place.row]} → ${labels[place.col]}` : "";
    readout.textContent = `${indexText(indexOf(heat, place))}  ${cellText(data, heat.pool, at)}${named}`;
  };
  const move = (to: Place | null) => {
    cursor.place = to;
    paint(canvas, data, plan, dark, heat, labels, to);
    say(to);
  };
  move(cursor.place && liesIn(cursor.place, data) ? cursor.place : null);
  const found = (event: PointerEvent | MouseEvent) => {
    const scale = plan.width / canvas.clientWidth; // on a narrow page the picture is scaled down
    return placeAt(plan, data, event.offsetX * scale, event.offsetY * scale);
  };
  const choose = (place: Place | null) => place && pick?.(indexOf(heat, place).map(([first]) => first));
  canvas.addEventListener("pointermove", (event) => say(found(event)));
  canvas.addEventListener("pointerleave", () => say(cursor.place));
  canvas.addEventListener("click", (event) => {
    const place = found(event);
    if (!place || !pick) return;
    move(place);
    choose(place);
  });
  canvas.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key];
    if (event.altKey || event.ctrlKey || event.metaKey || (!step && event.key !== "Enter")) return;
    event.preventDefault();
    event.stopPropagation();
    if (!step) return void choose(cursor.place);
    move(cursor.place ? walked(cursor.place, step as [number, number], data) : { picture: 0, row: 0, col: 0 });
  });
  return h(
    "figure",
    { class: "heat" },
    canvas,
    h("figcaption", {}, legend(data.extent, dark), readout),
    noted(data, heat),
    lazyTwin(() => listed(heat, data)),
  );
}

function liesIn({ picture, row, col }: Place, data: HeatData): boolean {
  return picture < data.pictures && row < data.rows && col < data.cols;
}

function walked({ picture, row, col }: Place, [down, right]: [number, number], data: HeatData): Place {
  const within = (at: number, size: number) => Math.max(0, Math.min(size - 1, at));
  const to = { picture, row: within(row + down, data.rows), col: within(col + right, data.cols) };
  // The next picture starts at the side of this one.
  const next = within(picture + right, data.pictures);
  if (col + right !== to.col && next !== picture) return { picture: next, row, col: right > 0 ? 0 : data.cols - 1 };
  return to;
}

function describe(heat: Heat, data: HeatData): string {
  const many = data.pictures > 1 ? `${data.pictures} heat maps of ${heat.rows} by ${heat.cols} elements` : `Heat map of ${heat.rows} by ${heat.cols} elements`;
  return `${many}, from ${numberText(-data.extent)} to ${numberText(data.extent)}`;
}

/** Notes what colors cannot show: NaN and infinities, cells beyond the range, and pictures left out. */
function noted(data: HeatData, heat: Heat): HTMLElement | null {
  const counts = [1, 2, 4].map((bit) => Array.prototype.filter.call(data.marks, (mark: number) => mark & bit).length);
  const beyond = Array.prototype.filter.call(data.values, (value: number) => Number.isFinite(value) && Math.abs(value) > data.extent).length;
  const noun = data.pooled ? "cell" : "element";
  const parts = [
    ...(["NaN (X)", "+Inf (+I)", "−Inf (−I)"] as const).map((name, at) => (counts[at] ? `${plural(counts[at]!, noun)} with ${name}` : "")),
    beyond ? `${plural(beyond, noun)} beyond the range, marked + or −` : "",
    heat.facets > data.pictures ? `${data.pictures} of ${heat.facets} are shown, from ${heat.first} on` : "",
  ].filter(Boolean);
  return parts.length ? h("p", { class: "quiet noted" }, `${parts.join("; ")}.`) : null;
}

function listed(heat: Heat, data: HeatData): HTMLElement {
  const [rows, cols] = [Math.min(LISTED, data.rows), Math.min(LISTED, data.cols)];
  const parts = Array.from({ length: Math.min(data.pictures, 4) }, (_, picture) => {
    const head = Array.from({ length: cols }, (_, col) => String(col * heat.block[1]!));
    const body = Array.from({ length: rows }, (_, row) => [
      String(row * heat.block[0]!),
      ...Array.from({ length: cols }, (_, col) => {
        const at = (picture * data.rows + row) * data.cols + col;
        return badGlyph(data.marks[at]!) || numberText(data.values[at]);
      }),
    ]);
    const title = data.pictures > 1 ? h("h5", {}, `index ${heat.first + picture} along axis ${heat.axes[0]}`) : null;
    return h("div", {}, title, table(["", ...head], body, [0, ...head.map((_, at) => at + 1)]));
  });
  const cut = rows < data.rows || cols < data.cols || parts.length < data.pictures;
  return h("div", { class: "wide", tabindex: 0, role: "group", "aria-label": "Table" }, ...parts, cut ? h("p", { class: "quiet" }, "The first cells; the rest is in the picture.") : null);
}

function paint(
  canvas: HTMLCanvasElement,
  data: HeatData,
  plan: Plan,
  dark: boolean,
  heat: Heat,
  labels: readonly string[],
  cursor: Place | null,
): void {
  const context = canvas.getContext("2d");
  if (!context) return;
  context.setTransform(2, 0, 0, 2, 0, 0);
  context.clearRect(0, 0, plan.width, plan.height);
  const ink = dark ? "#a7b1be" : "#56606e";
  for (let picture = 0; picture < data.pictures; picture++) {
    const [left, top] = corner(plan, data, picture);
    if (plan.caption) {
      context.font = "11px sans-serif";
      context.textAlign = "left";
      context.textBaseline = "alphabetic";
      context.fillStyle = ink;
      context.fillText(String(heat.first + picture), left, top - 3);
    }
    cells(context, data, plan, dark, picture, left, top);
  }
  if (plan.left) axisLabels(context, data, plan, labels, ink);
  if (!cursor) return;
  const [left, top] = corner(plan, data, cursor.picture);
  context.strokeStyle = dark ? "#ffffff" : "#000000";
  context.lineWidth = 2;
  context.strokeRect(left + cursor.col * plan.w, top + cursor.row * plan.h, Math.max(4, plan.w), Math.max(4, plan.h));
}

function cells(context: CanvasRenderingContext2D, data: HeatData, plan: Plan, dark: boolean, picture: number, left: number, top: number): void {
  const least = Math.min(plan.w, plan.h);
  context.textAlign = "center";
  context.textBaseline = "middle";
  const bold = `700 ${Math.max(6, Math.min(14, least * 0.6))}px sans-serif`;
  for (let row = 0; row < data.rows; row++) {
    for (let col = 0; col < data.cols; col++) {
      const at = (picture * data.rows + row) * data.cols + col;
      const value = data.values[at]!;
      const mark = data.marks[at]!;
      const [x, y] = [left + col * plan.w, top + row * plan.h];
      const colour = mark & 1 ? NaN : mark ? Infinity : value;
      context.fillStyle = heatColour(colour, data.extent, dark);
      context.fillRect(x, y, plan.w, plan.h);
      const glyph = mark ? badGlyph(mark) : Math.abs(value) > data.extent ? (value > 0 ? "+" : "−") : "";
      if (least < 7 || (!glyph && !plan.numbers)) continue;
      context.font = glyph ? bold : "11px sans-serif";
      context.fillStyle = heatInk(colour, data.extent, dark);
      context.fillText(glyph || cellNumber(value), x + plan.w / 2, y + plan.h / 2);
    }
  }
  if (least < 14) return;
  context.strokeStyle = dark ? "rgb(255 255 255 / 8%)" : "rgb(0 0 0 / 8%)";
  context.lineWidth = 1;
  context.beginPath();
  const [right, bottom] = [left + data.cols * plan.w, top + data.rows * plan.h];
  for (let col = 1; col < data.cols; col++) (context.moveTo(left + col * plan.w, top), context.lineTo(left + col * plan.w, bottom));
  for (let row = 1; row < data.rows; row++) (context.moveTo(left, top + row * plan.h), context.lineTo(right, top + row * plan.h));
  context.stroke();
}

function axisLabels(context: CanvasRenderingContext2D, data: HeatData, plan: Plan, labels: readonly string[], ink: string): void {
  if (Math.min(plan.w, plan.h) < 9) return;
  context.font = "11px sans-serif";
  context.fillStyle = ink;
  context.textBaseline = "middle";
  context.textAlign = "right";
  const room = plan.left - 6;
  for (let row = 0; row < data.rows; row++) context.fillText(labels[row]!, plan.left - 4, plan.top + (row + 0.5) * plan.h, room);
  context.textAlign = "left";
  for (let col = 0; col < data.cols; col++) {
    context.save();
    context.translate(plan.left + (col + 0.5) * plan.w, plan.top - 4);
    context.rotate(-Math.PI / 2);
    context.fillText(labels[col]!, 0, 0, room);
    context.restore();
  }
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
