// A rule at three depths, symbols, shapes and numbers: one row is shown, chosen by a switch for all rules.

import { h, setAttribute } from "../dom";
import { formula } from "./formula";
import type { Rules, Site, Summary } from "../protocol";
import type { Depth } from "../store";
import { numberText, siteText } from "../words";

export const UNWRITTEN = "too many elements to write out, or a value that was not kept";
export const DEPTHS: readonly Depth[] = ["symbols", "shapes", "numbers"];

/** All three rows, of which only the chosen one is visible. `instead` replaces numbers that cannot be written out. */
export function ruleRows(rules: Rules, depth: Depth, instead: Node | null = null): HTMLElement {
  return h(
    "div",
    { class: "rule" },
    ...DEPTHS.map((name) => {
      const tree = rules[name];
      return h(
        "div",
        { class: "formula", "data-testid": `wb-rule-${name}`, hidden: name !== depth },
        tree ? formula(tree) : (instead ?? h("span", { class: "quiet" }, UNWRITTEN)),
      );
    }),
  );
}

const USUAL = 17; // pixels, as in view.css
const SMALLEST = 13;

/** Shrinks formulas that are wider than their container, since they do not wrap; those that still do not fit become scrollable. */
export function fitFormulas(inside: Element): void {
  const shown = [...inside.querySelectorAll<HTMLElement>(".formula:not([hidden])")];
  for (const place of shown) place.style.removeProperty("--size");
  const sizes = shown.map((place) => (place.scrollWidth > place.clientWidth ? (USUAL * place.clientWidth) / place.scrollWidth : USUAL));
  shown.forEach((place, at) => {
    if (sizes[at]! < USUAL) place.style.setProperty("--size", `${Math.max(SMALLEST, sizes[at]!)}px`);
    setAttribute(place, "tabindex", sizes[at]! < SMALLEST ? 0 : null);
  });
}

export function depthSwitch(depth: Depth, choose: (depth: Depth) => void): HTMLElement {
  return h(
    "div",
    { class: "segments", role: "group", "aria-label": "Show rules with" },
    ...DEPTHS.map((name) =>
      h("button", { "aria-pressed": String(name === depth), "data-testid": `wb-depth-${name}`, click: () => choose(name) }, name),
    ),
  );
}

/** The line of code; a click asks the host to show it. Null without a site. */
export function siteLine(site: Site | undefined): HTMLElement | null {
  if (!site) return null;
  const where = siteText(site);
  const button = h(
    "button",
    { class: "site", title: `Show ${where}`, "data-testid": "wb-site" },
    h("span", { class: "where" }, where),
    h("code", {}, site.text),
  );
  button.addEventListener("click", () =>
    button.dispatchEvent(new CustomEvent("workbench-reveal", { detail: site, bubbles: true, composed: true })),
  );
  return button;
}

/** All values, if the kernel sent them (at most 6); else null. */
export function valuesText(summary: Summary): string | null {
  if (!summary.values?.length) return null;
  const words = summary.values.map((value) => numberText(value));
  return summary.shape.length === 0 ? words[0]! : nested(words, summary.shape);
}

function nested(words: string[], shape: readonly number[]): string {
  if (shape.length <= 1) return `[${words.join(", ")}]`;
  const stride = words.length / shape[0]!;
  return `[${Array.from({ length: shape[0]! }, (_, at) => nested(words.slice(at * stride, (at + 1) * stride), shape.slice(1))).join(", ")}]`;
}
