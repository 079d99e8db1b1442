// Converts a formula tree to MathML elements. Only known tags become elements; everything else, such as user names, stays text.

import type { Formula } from "../protocol";

const MATHML = "http://www.w3.org/1998/Math/MathML";
const DEEPEST = 100;

const TOKENS = new Set(["mi", "mo", "mn", "mtext", "ms"]);
const LAYOUT = new Set([
  ...["math", "mrow", "mfrac", "msqrt", "mroot", "mstyle", "mpadded", "mphantom", "menclose", "mspace"],
  ...["msub", "msup", "msubsup", "munder", "mover", "munderover", "mtable", "mtr", "mtd"],
]);

/** Returns a `<math>` element for the tree. */
export function formula(tree: Formula, display: "block" | "inline" = "block"): Element {
  const math = document.createElementNS(MATHML, "math");
  math.setAttribute("display", display);
  const parts = tree[0] === "math" ? tree.slice(1) : [tree];
  for (const part of parts) math.append(element(part, 0));
  return math;
}

function element(tree: Formula | string, depth: number): Element {
  if (typeof tree === "string") return token("mtext", tree);
  const [tag, ...children] = tree;
  if (depth > DEEPEST) return token("mtext", "…");
  if (typeof tag === "string" && TOKENS.has(tag)) return token(tag, children.map(plain).join(""));
  // A stretchy bar needs a mathematical font; a border does not.
  const barred = tag === "mover" && plain(children[1]) === "¯" && plain(children[0]).length > 1;
  if (barred) {
    const made = element(["mrow", children[0]!], depth);
    made.setAttribute("class", "bar");
    return made;
  }
  const known = typeof tag === "string" && LAYOUT.has(tag) && tag !== "math";
  const made = document.createElementNS(MATHML, known ? tag : "mrow");
  if (tag === "mspace") made.setAttribute("width", "0.2em");
  for (const child of children) made.append(element(child, depth + 1));
  return made;
}

function token(tag: string, text: string): Element {
  const made = document.createElementNS(MATHML, tag);
  made.append(text);
  return made;
}

function plain(child: unknown): string {
  return Array.isArray(child) ? child.slice(1).map(plain).join("") : String(child);
}
