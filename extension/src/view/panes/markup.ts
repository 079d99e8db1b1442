// Converts a lesson's text, which the kernel parsed from Markdown, to elements. Only known tags become elements; all else stays text.

import { h, type Child } from "../dom";
import type { Formula } from "../protocol";
import { formula } from "./formula";

const TAGS = { h: "h4", p: "p", ul: "ul", ol: "ol", li: "li", b: "strong", i: "em", code: "code" } as const;
const DEEPEST = 20;

export function markup(blocks: readonly Formula[]): Child[] {
  return blocks.map((block) => element(block, 0));
}

function element(tree: Formula | string, depth: number): Child {
  if (typeof tree === "string" || depth > DEEPEST) return typeof tree === "string" ? tree : "…";
  const [tag, ...children] = tree;
  if (tag === "math") return Array.isArray(children[0]) ? (formula(children[0], "inline") as Node) : "";
  if (tag === "pre") return h("pre", {}, h("code", {}, String(children[0] ?? "")));
  const known = Object.hasOwn(TAGS, tag) ? TAGS[tag as keyof typeof TAGS] : "span";
  return h(known, {}, ...children.map((child) => element(child, depth + 1)));
}
