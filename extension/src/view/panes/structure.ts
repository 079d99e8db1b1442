// Icons for the structure of a Jacobian.

import { s } from "../dom";

const N = 6;
const PATTERNS: Record<string, (row: number, col: number) => boolean> = {
  identity: (r, c) => r === c,
  diagonal: (r, c) => r === c,
  permutation: (r, c) => [2, 0, 4, 1, 5, 3][r] === c,
  selection: (r, c) => [0, 2, 3, -1, -1, -1][r] === c,
  copy: (r, c) => r >> 1 === c,
  sums: (r, c) => r === c >> 1,
  blocks: (r, c) => r >> 1 === c >> 1,
  banded: (r, c) => Math.abs(r - c) < 2,
  triangular: (r, c) => c <= r,
  sparse: (r, c) => (r * 7 + c * 5) % 4 === 0,
  dense: () => true,
};

/** An icon of 6 by 6 cells; hidden from screen readers, since the text beside it says the same. */
export function structureIcon(structure: string): SVGSVGElement {
  const filled = PATTERNS[structure] ?? (() => false);
  const cells: SVGElement[] = [];
  for (let row = 0; row < N; row++) {
    for (let col = 0; col < N; col++)
      if (filled(row, col)) cells.push(s("rect", { x: col * 4 + 0.5, y: row * 4 + 0.5, width: 3, height: 3 }));
  }
  return s("svg", { class: "pattern", viewBox: "-1 -1 26 26", "aria-hidden": "true" }, s("rect", { class: "edge", x: 0, y: 0, width: 24, height: 24 }), ...cells);
}
