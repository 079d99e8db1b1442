// Exports the whole graph, with its marks, as a stand-alone SVG whose colors do not depend on the page's style sheet.

import { s } from "../dom";
import { drawBox, drawWire, markBox, markWire } from "./draw";
import { gradients } from "../panes/gradients";
import { layout } from "./layout";
import { marksOf } from "./marks";
import sceneCss from "./scene.css";
import { START, type Direction, type State } from "../store";

/** Looks up a color by its name in scene.css; for "" the light theme's color is used. */
export type Palette = (name: string) => string;

export const LIGHT: Record<string, string> = {
  "--wb-bg": "#ffffff",
  "--wb-card": "#ffffff",
  "--wb-text": "#1c2430",
  "--wb-quiet": "#56606e",
  "--wb-line": "#b4bdc9",
  "--wb-outline": "#7f8c9e",
  "--wb-edge": "#76869b",
  "--wb-frame": "#f2f5f9",
  "--wb-faint": "#b6c0ce",
  "--wb-accent": "#1d5fbf",
  "--wb-accent-soft": "#e7effb",
  "--wb-warm": "#b8470b",
  "--wb-warm-soft": "#fdeee3",
  "--wb-error": "#b3162c",
  "--wb-font": "system-ui, sans-serif",
};

/** The whole graph in its current state as SVG text. Throws an Error if there is no recording. */
export function toSvg(state: State, direction: Direction, palette: Palette = () => ""): string {
  const { recording } = state;
  if (!recording) throw new Error("There is no graph to save yet.");
  const scene = layout(recording, state.open, direction);
  const marks = marksOf({ ...state, search: START.search }, gradients(state.pass));
  const css = sceneCss.replace(/var\((--wb-[a-z-]+)\)/g, (_, name: string) => palette(name) || LIGHT[name] || "currentColor");
  const [x, y, w, h] = scene.bounds;
  const under = s("g");
  const wires = s("g");
  const over = s("g");
  for (const wire of scene.wires) {
    const element = drawWire(wire);
    markWire(element, marks.wire(wire), false);
    wires.append(element);
  }
  for (const box of scene.boxes) {
    const element = drawBox(box, recording);
    markBox(element, marks.box(box.key), false);
    for (const pill of element.querySelectorAll<SVGGElement>(".wb-pill[data-key]")) markBox(pill, marks.box(pill.dataset.key!, box.id), false);
    (box.kind === "open" ? under : over).append(element);
  }
  const background = s("rect", { x, y, width: w, height: h, fill: palette("--wb-bg") || LIGHT["--wb-bg"]! });
  const title = s("title", {}, recording.title || "Computation graph");
  const svg = s(
    "svg",
    { viewBox: `${x} ${y} ${w} ${h}`, width: w, height: h, role: "img" },
    title,
    s("style", {}, css),
    background,
    wires,
    under,
    over,
  );
  return new XMLSerializer().serializeToString(svg);
}
