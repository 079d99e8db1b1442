// Finds nodes by name, op, shape, or /regular expression/.

import type { Recording } from "../store";
import { shapeText } from "../words";

export interface Found {
  nodes: number[];
  problem: string; // why the search could not run; "" when it did
}

export function find(recording: Recording, query: string): Found {
  const wanted = query.trim();
  if (!wanted) return { nodes: [], problem: "" };
  let matches: (text: string) => boolean;
  const pattern = /^\/(.*?)\/?$/.exec(wanted);
  if (pattern && wanted.length > 1) {
    try {
      const expression = new RegExp(pattern[1]!, "i");
      matches = (text) => expression.test(text);
    } catch (error) {
      return { nodes: [], problem: error instanceof Error ? error.message : String(error) };
    }
  } else {
    // Shapes may be typed as 4x3, 4×3 or (4, 3).
    const plain = wanted.toLowerCase();
    const shape = /^\(?\s*\d+(\s*[x×,*]\s*\d+)*\s*,?\s*\)?$/.test(wanted) ? wanted.replace(/[()\s]/g, "").replace(/[x,*]/g, "×") : null;
    matches = (text) => text.toLowerCase().includes(plain) || (shape !== null && text === shape.replace(/×$/, ""));
  }
  const { nodes, tree } = recording;
  const found: number[] = [];
  for (let node = 0; node < tree.size; node++) {
    const shape = nodes.shape[node]!;
    if (matches(nodes.op[node]!) || matches(nodes.name[node]!) || matches(shape.join("×")) || matches(shapeText(shape))) found.push(node);
  }
  return { nodes: found, problem: "" };
}
