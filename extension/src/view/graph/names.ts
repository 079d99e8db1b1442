// Names when zoomed far out: where titles would be too small to read, the titles of boxes and groups with enough room are drawn over them.

import { s } from "../dom";
import { textWidth, TITLE } from "./face";
import { LEGIBLE } from "./fit";
import type { Box, Scene } from "./layout";
import { TOP } from "./tree";

const AROUND = 6; // pixels of padding around a name

/** The boxes whose names are drawn at a scale: the innermost ones with enough room, provided that several of a group have it. */
export function named({ boxes }: Scene, k: number): Box[] {
  const inside = new Map<number, Box[]>();
  for (const box of boxes) {
    const list = inside.get(box.parent);
    if (list) list.push(box);
    else inside.set(box.parent, [box]);
  }
  const fits = ({ w, h, face }: Box) => w * k >= (textWidth(face.title, "title") * LEGIBLE) / TITLE + AROUND && h * k >= LEGIBLE + 1;
  const visit = (group: number): Box[] =>
    (inside.get(group) ?? []).flatMap((box) => {
      const inner = box.kind === "open" ? visit(box.id) : [];
      if (inner.length > 1 || !fits(box)) return inner;
      return [box];
    });
  return visit(TOP);
}

export function drawNames(scene: Scene, k: number): SVGElement[] {
  const style = `font-size:${LEGIBLE / k}px;stroke-width:${3 / k}px`;
  return named(scene, k).map(({ x, y, w, h, face }) =>
    s("text", { x: x + w / 2, y: y + h / 2, style, "text-anchor": "middle", "dominant-baseline": "central" }, face.title),
  );
}
