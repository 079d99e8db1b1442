// The buttons' icons, drawn on a 16 x 16 grid.

import { s } from "./dom";

const PATHS = {
  first: "M4 3.5v9M11.5 3.5 7 8l4.5 4.5",
  previous: "M10.5 3.5 6 8l4.5 4.5",
  next: "M5.5 3.5 10 8l-4.5 4.5",
  last: "M12 3.5v9M4.5 3.5 9 8l-4.5 4.5",
  play: "M4.5 3v10l8-5z",
  reset: "M3 8a5 5 0 1 0 1.7-3.7M3 2.5v3.3h3.3",
  run: "M3 3.5v9M5.5 3.5 13 8l-7.5 4.5z",
  stop: "M4 4h8v8H4z",
  into: "M8 2v7M5 6.5 8 9.5l3-3M3 13h10",
  out: "M8 10V3M5 5.5 8 2.5l3 3M3 13h10",
  pause: "M5.2 3.5v9M10.8 3.5v9",
  target: "M8 1.5v3M8 11.5v3M1.5 8h3M11.5 8h3M8 4.5a3.5 3.5 0 1 0 0 7a3.5 3.5 0 1 0 0-7",
  fit: "M2.5 6V2.5H6M10 2.5h3.5V6M13.5 10v3.5H10M6 13.5H2.5V10",
  plus: "M8 3v10M3 8h10",
  minus: "M3 8h10",
  turn: "M3 4h7a3 3 0 0 1 3 3v6M10.5 10.5 13 13l2.5-2.5M3 4v0",
  table: "M2.5 3.5h11v9h-11zM2.5 6.5h11M2.5 9.5h11M6.5 3.5v9",
  save: "M8 2.5v7M5 7l3 3 3-3M3 12.5h10",
  overlay: "M8 2.5 14 6 8 9.5 2 6zM2 9.5 8 13l6-3.5",
  side: "M2 3h12v10H2zM9.5 3v10M11 5.5h1.5M11 8h1.5",
  present: "M2 3h12M3 3v7.5h10V3M8 10.5V13M5.5 14.5 8 12.5l2.5 2",
  copy: "M5.5 5.5h8v8h-8zM10.5 5.5v-3h-8v8h3",
} as const;

export type Icon = keyof typeof PATHS;

export function icon(name: Icon): SVGSVGElement {
  return s("svg", { class: "icon", viewBox: "0 0 16 16", "aria-hidden": "true" }, s("path", { d: PATHS[name] }));
}
