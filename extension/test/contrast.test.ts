// Contrast of the view's own colours, from its style sheet, by the formula of WCAG 2.2: 4.5 to 1 for text, 3 to 1 for shapes that mean something.
import { describe, expect, it } from "vitest";
import CSS from "../src/view/view.css";

/** The colours of one theme: the light ones, and what the dark one says instead. */
function colours(dark: boolean): Map<string, string> {
  const blocks = [/:host \{([^}]*)\}/.exec(CSS)![1]!, ...(dark ? [/:host\(\[data-theme="dark"\]\) \{([^}]*)\}/.exec(CSS)![1]!] : [])];
  const found = new Map<string, string>();
  for (const block of blocks) {
    for (const [, name, value] of block.matchAll(/--wb-([\w-]+):\s*([^;]+);/g)) {
      const hex = /#[0-9a-f]{6}/i.exec(value!); // var(--jp-…, #ffffff) stands for its fallback
      if (hex) found.set(name!, hex[0]);
    }
  }
  return found;
}

/** Relative luminance, https://www.w3.org/TR/WCAG22/#dfn-relative-luminance */
function luminance(hex: string): number {
  const [r, g, b] = [1, 3, 5].map((at) => {
    const c = parseInt(hex.slice(at, at + 2), 16) / 255;
    return c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * r! + 0.7152 * g! + 0.0722 * b!;
}

function contrast(a: string, b: string): number {
  const [low, high] = [luminance(a), luminance(b)].sort((x, y) => x - y);
  return (high! + 0.05) / (low! + 0.05);
}

const JUPYTER = { light: "#ffffff", dark: "#111111" }; // --jp-layout-color0 of JupyterLab's themes
const BEHIND = ["bg", "card", "frame", "hover", "accent-soft", "warm-soft"];
const TEXT = ["text", "quiet", "accent", "warm", "error"];
const SHAPES = ["outline", "edge", "accent", "warm", "error"];

it("is 21 for black on white, and 4.54 for #767676", () => {
  expect(contrast("#000000", "#ffffff")).toBeCloseTo(21, 5);
  expect(contrast("#767676", "#ffffff")).toBeCloseTo(4.54, 2);
});

describe.each(["light", "dark"] as const)("the %s theme", (theme) => {
  const of = colours(theme === "dark");
  const behind = [...BEHIND.map((name) => [name, of.get(name)!] as const), ["JupyterLab's own", JUPYTER[theme]] as const];
  it.each(TEXT)("has text in %s that can be read on every ground", (name) => {
    for (const [ground, colour] of behind) {
      if ((name === "accent" && ground === "warm-soft") || ((name === "warm" || name === "error") && ground === "accent-soft")) continue; // never meet
      expect(contrast(of.get(name)!, colour), `${name} on ${ground}`).toBeGreaterThanOrEqual(4.5);
    }
  });
  it.each(SHAPES)("has shapes in %s that can be seen", (name) => {
    for (const ground of ["bg", "card", "frame"]) expect(contrast(of.get(name)!, of.get(ground)!), `${name} on ${ground}`).toBeGreaterThanOrEqual(3);
  });
});
