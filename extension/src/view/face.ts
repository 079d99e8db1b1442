// What stands on a box and how big it is: words, pills and sizes, without any drawing.

import { TOP, type Tree } from "./tree";
import type { Recording } from "./store";
import { shapeText, totalsText } from "./words";

export type TextStyle = "title" | "body" | "name";

const FONTS: Record<TextStyle, string> = { title: "600 15px", body: "13px", name: "italic 13px" };
const WIDE = /[MWmw@%—…×∇]/;
const NARROW = /[iljtf.,:;'|!()[\] ]/;

let family = "sans-serif";
let canvas: OffscreenCanvasRenderingContext2D | null = null;
const widths = new Map<string, number>();

/** Measure in this font from now on; without a canvas (tests, old browsers) a table of widths serves. */
export function setFont(name: string): void {
  if (name === family && canvas) return;
  family = name || "sans-serif";
  widths.clear();
  if (typeof OffscreenCanvas !== "undefined") canvas = new OffscreenCanvas(1, 1).getContext("2d");
}

export function textWidth(text: string, style: TextStyle): number {
  const key = style + text;
  const known = widths.get(key);
  if (known !== undefined) return known;
  let width = 0;
  if (canvas) {
    canvas.font = `${FONTS[style]} ${family}`;
    width = canvas.measureText(text).width;
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
  let [fits, fails] = [0, text.length];
  while (fails - fits > 1) {
    const middle = (fits + fails) >> 1;
    if (textWidth(`${text.slice(0, middle)}…`, style) <= room) fits = middle;
    else fails = middle;
  }
  return `${text.slice(0, fits)}…`;
}

export interface Pill {
  node: number; // -1: says how many more there are
  kind: string;
  name: string;
  shape: string;
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
  detail: string;
  pills: Pill[];
}

export const PAD = 12;
export const BASE = 54; // height of a box without pills
export const HEADER = 30; // of an open group
const BADGE_GAP = 14;
const WIDEST_BADGE = "∇ 4.88e−88"; // room for it is kept, so that stepping moves nothing
const PILL = 24;
const PILL_GAP = 6;
const WIDEST = 230;
const MOST_PILLS = 6;

/** "4×3", with the dtype where it is not float32. */
export function resultText(recording: Recording, node: number): string {
  const { shape, dtype } = recording.nodes;
  if (failed(recording, node)) return "no result";
  return shapeText(shape[node]!) + (dtype[node] === "float32" ? "" : ` ${dtype[node]}`);
}

export function nodeFace(recording: Recording, node: number): Face {
  const { nodes, tree } = recording;
  const isOp = nodes.kind[node] === "op";
  const name = clipText(nodes.name[node]!, isOp ? "name" : "title", 170);
  const shape = resultText(recording, node);
  const title = isOp ? clipText(nodes.op[node] || "?", "title", 170) : name || nodes.kind[node]!;
  const shown = isOp ? name : name ? nodes.kind[node]! : "";
  const badge = nodes.grad[node] ? BADGE_GAP + textWidth(WIDEST_BADGE, "body") : 0;
  const line = textWidth(shown, "name") + (shown ? 10 : 0) + textWidth(shape, "body");
  const pills = pillFaces(recording, tree.pills.get(node) ?? [], Math.max(WIDEST, line));
  const pillWidth = pills.reduce((most, pill) => Math.max(most, pill.x + pill.w - PAD), 0);
  const w = Math.ceil(Math.max(84, textWidth(title, "title") + badge, line, pillWidth) + 2 * PAD);
  const bottom = pills.reduce((most, pill) => Math.max(most, pill.y + pill.h + 9), BASE);
  return { w, h: bottom, title, name: shown, detail: shape, pills };
}

function pillFaces({ nodes }: Recording, ids: readonly number[], room: number): Pill[] {
  const shown = ids.slice(0, ids.length > MOST_PILLS ? MOST_PILLS - 1 : MOST_PILLS);
  const entries = shown.map((node) => ({
    node,
    kind: nodes.kind[node] as string,
    name: clipText(nodes.name[node]! || nodes.kind[node]!, "name", 130),
    shape: shapeText(nodes.shape[node]!),
  }));
  if (shown.length < ids.length) entries.push({ node: -1, kind: "more", name: `+${ids.length - shown.length} more`, shape: "" });
  let [x, y] = [PAD, BASE - 3];
  return entries.map((entry) => {
    const text = textWidth(entry.name, "name") + (entry.shape ? 6 + textWidth(entry.shape, "body") : 0);
    const w = Math.ceil(text + 18);
    if (x > PAD && x + w > PAD + room) [x, y] = [PAD, y + PILL + PILL_GAP];
    const pill = { ...entry, x, y, w, h: PILL };
    x += w + PILL_GAP;
    return pill;
  });
}

export function groupFace(recording: Recording, id: number): Face {
  const group = recording.tree.groups.get(id)!;
  const title = clipText(group.label || group.name || group.kind, "title", 220);
  const name = group.name && !group.label.includes(group.name) ? clipText(group.name, "name", 130) : "";
  const detail = totalsText(recording.tree.totals.get(id)!);
  const top = textWidth(title, "title") + (name ? 8 + textWidth(name, "name") : 0) + 34;
  const w = Math.ceil(Math.max(190, top, textWidth(detail, "body")) + 2 * PAD);
  return { w, h: BASE, title, name, detail, pills: [] };
}

/** Room that an open group's title needs. */
export function headerWidth(face: Face): number {
  return textWidth(face.title, "title") + textWidth(face.name, "name") + 70;
}

/** One box in words, for screen readers and tool tips. */
export function describe(recording: Recording, key: string, open: boolean): string {
  const id = Number(key.slice(1));
  const { nodes, tree } = recording;
  if (key.startsWith("g")) {
    const group = tree.groups.get(id);
    if (!group) return "";
    const name = group.name && !group.label.includes(group.name) ? ` ${group.name}` : "";
    return `${group.kind} ${group.label}${name}, ${totalsText(tree.totals.get(id)!)}, ${open ? "open" : "closed"}`;
  }
  const kind = nodes.kind[id] === "op" ? nodes.op[id] || "unnamed op" : nodes.kind[id]!;
  const parts = [nodes.name[id] ? `${kind} ${nodes.name[id]}` : kind];
  if (failed(recording, id)) parts.push("failed");
  else parts.push(nodes.shape[id]!.length ? `shape ${nodes.shape[id]!.join(" by ")}` : "scalar");
  if (nodes.dtype[id] !== "float32" && nodes.dtype[id] !== "") parts.push(nodes.dtype[id]!);
  if (tree.host[id]! >= 0) parts.push(`goes into ${nodes.op[tree.host[id]!]}`);
  if (nodes.note[id]) parts.push(nodes.note[id]!);
  return parts.join(", ");
}

export function homeOf(tree: Tree, key: string): number {
  const id = Number(key.slice(1));
  return key.startsWith("g") ? tree.parent(id) : (tree.home[id] ?? TOP);
}

/** A node whose op failed has no result, so no dtype; its note is the error's sentence. */
export function failed({ nodes }: Recording, node: number): boolean {
  return nodes.dtype[node] === "" && nodes.note[node] !== "";
}
