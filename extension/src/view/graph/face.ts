// Text, pills and size of each box, computed without drawing.

import { isLine } from "./lines";
import { shownText } from "./loops";
import type { Group } from "../protocol";
import type { Direction, Recording } from "../store";
import { FIRST_STACK, isSummary } from "./tree";
import { noteOf, plural, shapeText, totalsText } from "../words";

export type TextStyle = "title" | "body" | "name";

export const TITLE = 15; // pixels
export const MOST_GROWTH = 1.9; // of a title, when zoomed out
const FONTS: Record<TextStyle, string> = { title: `600 ${TITLE}px`, body: "13px", name: "italic 13px" };
const PATH = /^\w+(\.\w+)+$/; // a parameter's path; its end identifies it
const WIDE = /[MWmw@%—…×∇]/;
const NARROW = /[iljtf.,:;'|!()[\] ]/;

const SAFE = 1.02; // text is drawn at other scales than it is measured at, which snaps glyphs to other pixels

let family = "";
let canvas: OffscreenCanvasRenderingContext2D | null = null;
const widths = new Map<string, number>();

/**
 * Selects the font family for measuring; `anew` measures again, once the font's files have loaded. Returns whether widths may have changed.
 * An element that is not on the page yet has no family. Without a canvas (tests, old browsers) a table of widths is used.
 */
export function setFont(name: string, anew = false): boolean {
  if (!name || typeof OffscreenCanvas === "undefined" || (name === family && !anew)) return false;
  family = name;
  widths.clear();
  canvas ??= new OffscreenCanvas(1, 1).getContext("2d");
  return canvas !== null;
}

export function textWidth(text: string, style: TextStyle): number {
  const key = style + text;
  const known = widths.get(key);
  if (known !== undefined) return known;
  let width = 0;
  if (canvas) {
    canvas.font = `${FONTS[style]} ${family}`;
    width = canvas.measureText(text).width * SAFE;
  } else {
    const size = style === "title" ? 15.5 : 13;
    for (const letter of text)
      width += size * (WIDE.test(letter) ? 0.88 : NARROW.test(letter) ? 0.36 : /[A-Z]/.test(letter) ? 0.7 : 0.58);
  }
  if (widths.size > 20_000) widths.clear();
  widths.set(key, width);
  return width;
}

export function clipText(text: string, style: TextStyle, room: number): string {
  if (textWidth(text, style) <= room) return text;
  const short = PATH.test(text) ? (kept: number) => `…${text.slice(text.length - kept)}` : (kept: number) => `${text.slice(0, kept)}…`;
  let [fits, fails] = [0, text.length];
  while (fails - fits > 1) {
    const middle = (fits + fails) >> 1;
    if (textWidth(short(middle), style) <= room) fits = middle;
    else fails = middle;
  }
  return short(fits);
}

export interface Pill {
  node: number; // -1: the pill that counts those left out
  kind: string;
  name: string;
  shape: string;
  badge: boolean; // has room for its gradient
  x: number;
  y: number;
  w: number;
  h: number;
}

export interface Face {
  w: number;
  h: number;
  title: string;
  name: string;
  also: string; // for a group: text after its name
  detail: string;
  inset: number; // where the title starts
  line: [number, number]; // where name and detail start
  pills: Pill[];
  slider?: Slider; // of a loop or fold that shows only some of its parts
}

export interface Slider {
  at: number; // ALL: every part is shown
  last: number;
  x: number; // position in the header of the open group
  words: string; // description of what is shown and hidden
}

export const SLIDER = 96; // length of the track
const SLIDER_ROOM = SLIDER + 186;
const PAD = 12;
const ROUND = 18; // padding of a box with round ends
const BASE = 54; // height of a box with two lines
const ROW = 34; // height of a box with one line
export const HEADER = 30; // height of an open group's header
const BADGE_GAP = 14;
const WIDEST_BADGE = "∇ 4.88e−88"; // space is reserved for it, so that stepping moves nothing
const WIDEST_GRADIENT = "∇ −8.8e−88";
const WIDEST_VALUE = "−8.88e−88";
const PILL = 24;
const PILL_GAP = 6;
const WIDEST = 230; // of a row of pills
const WIDEST_ROW = 300; // of a line that contains pills too
const MOST_PILLS = 6;
const TITLE_LINE = 23;
const GROWN = 1.5; // when zoomed out, a title may grow by this factor
const LEAST_GROWTH = 1.2; // the name is left out if the title could grow by less than this

/** Shape, dtype and device, for example "4×3 cuda:0"; float32 and the CPU are left out. */
export function resultText(recording: Recording, node: number): string {
  const { shape, dtype, device } = recording.nodes;
  if (failed(recording, node)) return "no result";
  return [shapeText(shape[node]!), dtype[node] === "float32" ? "" : dtype[node], device[node]].filter(Boolean).join(" ");
}

/**
 * The face of a node: two lines of text if the layout runs left to right, which keeps boxes narrow; one if top to bottom, which keeps them
 * low.
 */
export function nodeFace(recording: Recording, node: number, direction: Direction): Face {
  const { nodes, tree } = recording;
  const isOp = nodes.kind[node] === "op";
  const own = nodes.name[node]!;
  const detail = resultText(recording, node);
  const title = clipText(isOp ? nodes.op[node] || "?" : own || nodes.kind[node]!, "title", 170);
  const name = isOp ? clipText(own || wrapText(recording, node), "name", 170) : own ? nodes.kind[node]! : "";
  const inset = tree.host[node]! < 0 && !isOp ? ROUND : PAD;
  const badge = recording.badges === "all" || (recording.badges && nodes.grad[node]) ? BADGE_GAP + textWidth(WIDEST_BADGE, "body") : 0;
  const words = (name ? textWidth(name, "name") + 8 : 0) + roomOf(recording, node, detail);
  const head = textWidth(title, "title");
  const ids = tree.pills.get(node) ?? [];
  if (direction === "right") {
    const pills = pillFaces(recording, ids, PAD, BASE - 3, Math.max(WIDEST, words));
    const w = Math.ceil(Math.max(72, GROWN * head, head + badge, words, extent(pills, inset)) + 2 * inset);
    return { w, h: bottom(pills, BASE), title, name, also: "", detail, inset, line: [inset, 42], pills };
  }
  const line = Math.ceil(inset + head + 10);
  const inRow = pillFaces(recording, ids, Math.ceil(line + words + 10), (ROW - PILL) / 2, Infinity);
  // While the code runs, a pill may still leave, and that must not widen a box.
  const fits = !recording.live && extent(inRow, inset) <= WIDEST_ROW;
  const pills = fits ? inRow : pillFaces(recording, ids, PAD, ROW - 1, Math.max(WIDEST_ROW, line + words));
  const row = line - inset + words;
  const w = Math.ceil(Math.max(72, GROWN * head, (fits ? Math.max(row, extent(pills, inset)) : row) + badge, extent(pills, inset)) + 2 * inset);
  return { w, h: fits ? ROW : bottom(pills, ROW), title, name, also: "", detail, inset, line: [line, TITLE_LINE], pills };
}

/** The width of a result's shape, or of the scalar value that will replace it. */
function roomOf({ nodes }: Recording, node: number, shape: string): number {
  const scalar = nodes.shape[node]!.length === 0 && nodes.dtype[node] !== "";
  return Math.max(textWidth(shape, "body"), scalar ? textWidth(WIDEST_VALUE, "body") : 0);
}

function extent(pills: readonly Pill[], inset: number): number {
  return pills.reduce((most, pill) => Math.max(most, pill.x + pill.w - inset), 0);
}

function bottom(pills: readonly Pill[], least: number): number {
  return pills.reduce((most, pill) => Math.max(most, pill.y + pill.h + 9), least);
}

function pillFaces(recording: Recording, ids: readonly number[], left: number, top: number, room: number): Pill[] {
  const { nodes } = recording;
  const shown = ids.slice(0, ids.length > MOST_PILLS ? MOST_PILLS - 1 : MOST_PILLS);
  const entries = shown.map((node) => ({
    node,
    kind: nodes.kind[node] as string,
    name: clipText(nodes.name[node]! || nodes.kind[node]!, "name", 130),
    // A number's name is its value.
    badge: recording.badges !== "" && nodes.grad[node]! && !nodes.shape[node]!.length,
    shape: nodes.kind[node] === "constant" && nodes.name[node] && !nodes.shape[node]!.length ? "" : shapeText(nodes.shape[node]!),
  }));
  if (shown.length < ids.length) entries.push({ node: -1, kind: "more", name: `+${ids.length - shown.length} more`, shape: "", badge: false });
  let [x, y] = [left, top];
  return entries.map((entry) => {
    const text = textWidth(entry.name, "name") + (entry.shape ? 6 + roomOf(recording, entry.node, entry.shape) : 0);
    const w = Math.ceil(text + 18 + (entry.badge ? BADGE_GAP + textWidth(WIDEST_GRADIENT, "body") : 0));
    if (x > left && x + w > left + room) [x, y] = [left, y + PILL + PILL_GAP];
    const pill = { ...entry, x, y, w, h: PILL };
    x += w + PILL_GAP;
    return pill;
  });
}

/** The modules and functions that contain only this op and are therefore not drawn around it. */
export function wrapText({ nodes, tree }: Recording, node: number): string {
  const groups = (tree.wraps.get(node) ?? []).map((id) => tree.groups.get(id)!);
  const words = groups.map(({ kind, name, label }) => (kind === "function" || label.includes(name) ? label : `${label} ${name}`));
  return words.filter((text) => text !== nodes.op[node]).join(" · ");
}

/** A group's name, or "" if its label contains it. */
function ownName({ name, label }: Group): string {
  return label.includes(name) ? "" : name;
}

const CONTAINERS = new Set(["Sequential", "ModuleList", "ModuleDict"]);

export function groupFace(recording: Recording, id: number): Face {
  const group = recording.tree.groups.get(id)!;
  const other = ownName(group);
  // For a mere container, its name in the model says more than its class.
  const words = other && CONTAINERS.has(group.label) ? [other, group.label] : [group.label || group.name || group.kind, other];
  const title = clipText(words[0]!, "title", isLine(id) ? 300 : 220);
  const name = clipText(words[1]!, "name", 170);
  const shared = recording.tree.shared.get(id);
  const also = shared ? plural(shared, "shared tensor") : "";
  const slim = isSummary(id); // the title says everything
  const detail = slim ? "" : totalsText(recording.tree.totals.get(id)!);
  const head = headWidth({ title, name, also });
  const w = Math.ceil(Math.max(slim ? 72 : 190, GROWN * textWidth(title, "title"), head + 94, textWidth(detail, "body")) + 2 * PAD);
  const stack = recording.tree.stacks.get(id);
  const x = 36 + head + 14;
  const slider = stack && { at: stack.at, last: stack.items.length - 1, x: Math.ceil(x), words: shownText(recording.tree, id) };
  return { w, h: slim ? ROW : BASE, title, name, also, detail, inset: 36, line: [14, 42], pills: [], ...(slider ? { slider } : {}) };
}

/** Width of title and name on one line. */
function headWidth({ title, name, also }: Pick<Face, "title" | "name" | "also">): number {
  return textWidth(title, "title") + [name, also].reduce((sum, text) => sum + (text ? 8 + textWidth(text, "name") : 0), 0);
}

/** Width of an open group's title and of the button that closes it. */
export function titleWidth(face: Face): number {
  return headWidth(face) + 70;
}

/** The title's width with the slider. */
export function headerWidth(face: Face): number {
  return titleWidth(face) + (face.slider ? SLIDER_ROOM : 0);
}

/**
 * When zoomed out only titles are shown: the size the title can grow to, in scene units; and the same with its name, or 0 if that does not
 * fit.
 */
export function fromAfar({ kind, w, face }: { kind: string; w: number; face: Face }): { title: number; named: number } {
  const room = (name: string) => (w - 20) / Math.max(1, headWidth({ title: face.title, name, also: "" }));
  const most = kind === "open" ? 1.7 : MOST_GROWTH;
  const named = kind === "open" || kind === "closed" ? Math.min(most, room(face.name)) : 0;
  return { title: TITLE * Math.max(1, Math.min(most, room(""))), named: face.name && named >= LEAST_GROWTH ? TITLE * named : 0 };
}

/** Describes a box in words, for screen readers and tooltips. */
export function describe(recording: Recording, key: string, open: boolean): string {
  const id = Number(key.slice(1));
  const { nodes, tree } = recording;
  if (key.startsWith("g")) {
    const group = tree.groups.get(id);
    if (!group) return "";
    const name = ownName(group) && ` ${ownName(group)}`;
    return `${id >= FIRST_STACK ? "hidden" : group.kind} ${group.label}${name}, ${totalsText(tree.totals.get(id)!)}, ${open ? "open" : "closed"}`;
  }
  const kind = nodes.kind[id] === "op" ? nodes.op[id] || "unnamed op" : nodes.kind[id]!;
  const parts = [nodes.name[id] ? `${kind} ${nodes.name[id]}` : kind];
  if (failed(recording, id)) parts.push("failed");
  else parts.push(nodes.shape[id]!.length ? `shape ${nodes.shape[id]!.join(" by ")}` : "scalar");
  if (nodes.dtype[id] !== "float32" && nodes.dtype[id] !== "") parts.push(nodes.dtype[id]!);
  if (nodes.device[id]) parts.push(`on ${nodes.device[id]}`);
  const around = wrapText(recording, id);
  if (around) parts.push(`in ${around}`);
  if (tree.host[id]! >= 0) {
    const others = tree.consumers.of(id).length - 1;
    parts.push(`goes into ${nodes.op[tree.host[id]!]}${others ? ` and ${plural(others, "more op")}` : ""}`);
  }
  if (nodes.note[id]) parts.push(noteOf(recording, id));
  return parts.join(", ");
}

/** Whether the node's op failed: it then has no result and so no dtype, and its note is the error message. */
export function failed({ nodes }: Recording, node: number): boolean {
  return nodes.dtype[node] === "" && nodes.note[node] !== "";
}
