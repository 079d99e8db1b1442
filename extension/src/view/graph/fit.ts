// Chooses the direction of a graph and the initial camera: the whole graph if it stays readable.

import { fitted, type Camera } from "./camera";
import { fromAfar, TITLE } from "./face";
import { layout, type Box, type Scene } from "./layout";
import type { Recording } from "../store";
import { countBoxes } from "./tree";

export interface Window {
  w: number;
  h: number;
}

const MANY = 40; // boxes: larger graphs always run top to bottom
const GOOD = 0.75; // a scale at which left to right is used without trying top to bottom
const CLOSE = 0.75; // the scale of a graph that does not fit
export const MARGIN = 4; // pixels around the whole graph
export const LEGIBLE = 11; // pixels a letter needs on screen
export const WORDS = LEGIBLE / TITLE; // from this scale on, all text on a box is readable

export function isMany(recording: Recording, open: ReadonlySet<number>): boolean {
  return countBoxes(recording.tree, open) > MANY;
}

/** Lays out left to right if that fits the window well, or no worse than top to bottom. */
export function bestScene(recording: Recording, open: ReadonlySet<number>, window: Window): Scene {
  if (isMany(recording, open)) return layout(recording, open, "down");
  const right = layout(recording, open, "right");
  const scale = wholeView(right, window).k;
  if (scale >= GOOD || !window.w) return right;
  const down = layout(recording, open, "down");
  return wholeView(down, window).k > scale ? down : right;
}

export function wholeView(scene: Scene, { w, h }: Window, most = 1): Camera {
  return fitted(scene.bounds, w, h, MARGIN, most);
}

/** The smallest scale at which every title is readable; titles grow when zoomed out, as far as their boxes have room. */
export function readableAt({ boxes }: Scene): number {
  return boxes.reduce((most, box) => Math.max(most, LEGIBLE / fromAfar(box).title), 0);
}

/** The smallest scale at which there is room for the names of groups beside their titles. */
export function namedAt({ boxes }: Scene): number {
  return boxes.reduce((most, box) => Math.max(most, LEGIBLE / (fromAfar(box).named || Infinity)), 0);
}

/** The smallest scale suitable for a first view: an architecture needs readable titles, a graph of every op all text on its boxes. */
export function goodAt(scene: Scene): number {
  return scene.plain ? readableAt(scene) : Math.max(readableAt(scene), WORDS);
}

/** The whole scene if it stays readable; else its start, or the surroundings of `aim`, at a readable size. */
export function firstView(scene: Scene, window: Window, aim?: Box): Camera {
  const whole = wholeView(scene, window);
  if (whole.k >= readableAt(scene) || !window.w) return whole;
  const [, , width, height] = scene.bounds;
  const down = scene.direction === "down";
  const k = Math.max(CLOSE, Math.min(1, down ? (window.w - 8) / width : (window.h - 8) / height));
  const at = aim ?? scene.boxes.find((box) => box.kind !== "open");
  return viewOf(scene, window, k, at ? at.x + at.w / 2 : 0, at ? at.y + at.h / 2 : 0);
}

/** Centers a point of the scene, but shows at most a margin beyond the scene's bounds. */
export function viewOf({ bounds, direction }: Scene, { w, h }: Window, k: number, x: number, y: number): Camera {
  const [, , width, height] = bounds;
  const down = direction === "down";
  const stand = (room: number, extent: number, middle: number, along: boolean) =>
    extent * k <= room && !along ? (room - extent * k) / 2 : Math.min(8, Math.max(room - extent * k - 8, room / 2 - middle * k));
  return { k, x: stand(w, width, x, !down), y: stand(h, height, y, down) };
}
