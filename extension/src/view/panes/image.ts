// A tensor as images: one canvas per image of the batch, scaled by whole pixels where possible, and the rule for brightness.

import { readBuffer } from "../buffers";
import { h } from "../dom";
import type { ImageGrid } from "../protocol";

const LARGEST = 280; // width of a single image in screen pixels, at most
const GAP = 6;

/** Converts pixels to the RGBA layout of a canvas. */
export function rgba(pixels: ArrayLike<number>, channels: number, from: number, count: number): Uint8ClampedArray<ArrayBuffer> {
  const made = new Uint8ClampedArray(count * 4);
  for (let at = 0; at < count; at++) {
    const first = from + at * channels;
    for (let channel = 0; channel < 3; channel++) made[4 * at + channel] = pixels[channels === 1 ? first : first + channel]!;
    made[4 * at + 3] = channels === 4 ? pixels[first + 3]! : 255;
  }
  return made;
}

export function drawImages(image: ImageGrid, buffers: readonly DataView[], width: number): HTMLElement {
  const pixels = readBuffer(image.pixels, buffers);
  const [count = 0, rows = 0, cols = 0, channels = 1] = image.pixels.shape;
  const across = Math.max(1, Math.ceil(Math.sqrt(count)));
  const room = across === 1 ? Math.min(width, LARGEST) : Math.floor((width - GAP * (across - 1)) / across);
  const side = Math.min(room, cols * Math.max(1, Math.floor(room / Math.max(1, cols)))); // an integer scale, if one fits
  const drawn = Array.from({ length: count }, (_, at) => {
    const label = image.count > 1 ? `Image ${image.first + at} of ${image.count}` : "Image";
    const canvas = h("canvas", {
      ...{ width: cols, height: rows, role: "img", class: "pixels", "aria-label": `${label}, ${image.height} by ${image.width} pixels` },
      style: `width:${side}px;height:${(side * rows) / Math.max(1, cols)}px`,
    });
    const context = canvas.getContext("2d");
    context?.putImageData(new ImageData(rgba(pixels, channels, at * rows * cols * channels, rows * cols), cols, rows), 0, 0);
    return image.count > 1 ? h("div", {}, h("div", { class: "quiet index" }, String(image.first + at)), canvas) : canvas;
  });
  return h(
    "figure",
    { class: "images", "data-testid": "wb-image" },
    h("div", { class: "grid", style: `grid-template-columns: repeat(${across}, max-content)` }, ...drawn),
    h("figcaption", {}, `${image.height}×${image.width} pixels, axes ${image.layout}. ${image.rule}`),
  );
}
