// Formats numbers, sizes and nodes as text, for labels, tables and screen readers.

import type { Size } from "./norms";
import type { Nodes, Site } from "./protocol";

export function shapeText(shape: readonly number[]): string {
  return shape.length === 0 ? "scalar" : shape.length === 1 ? `(${shape[0]})` : shape.join("×");
}

/** Formats a count of parameters or elements: 3210 -> "3.2k". */
export function countText(count: number): string {
  for (const [unit, name] of [
    [1e12, "T"],
    [1e9, "G"],
    [1e6, "M"],
    [1e3, "k"],
  ] as const) {
    if (count >= unit) return `${trim((count / unit).toFixed(count / unit < 10 ? 1 : 0))}${name}`;
  }
  return String(count);
}

export function bytesText(bytes: number): string {
  for (const [unit, name] of [
    [1e12, "TB"],
    [1e9, "GB"],
    [1e6, "MB"],
    [1e3, "kB"],
  ] as const) {
    if (bytes >= unit) return `${trim((bytes / unit).toFixed(bytes / unit < 10 ? 1 : 0))} ${name}`;
  }
  return `${bytes} B`;
}

/** Formats a duration in seconds: 0.00123 -> "1.23 ms". */
export function durationText(seconds: number): string {
  for (const [unit, name] of [
    [1, "s"],
    [1e-3, "ms"],
    [1e-6, "µs"],
  ] as const) {
    if (seconds >= unit) return `${numberText(seconds / unit, 3)} ${name}`;
  }
  return `${numberText(seconds * 1e9, 3)} ns`;
}

function trim(text: string): string {
  return text.endsWith(".0") ? text.slice(0, -2) : text;
}

/** Formats a number with four significant digits (or `digits`) and a true minus sign; a dash if there is none. */
export function numberText(value: number | boolean | string | null | undefined, digits = 4): string {
  if (value === null || value === undefined) return "–";
  if (typeof value === "boolean") return value ? "True" : "False";
  if (typeof value === "string") return ({ nan: "NaN", inf: "+Inf", "-inf": "−Inf" } as Record<string, string>)[value] ?? value;
  if (!Number.isFinite(value)) return Number.isNaN(value) ? "NaN" : value > 0 ? "+Inf" : "−Inf";
  if (value === 0) return "0";
  const size = Math.abs(value);
  let text: string;
  if (size >= 1e5 || size < (digits < 4 ? 1e-2 : 1e-3)) {
    const [mantissa, exponent] = value.toExponential(Math.min(2, digits - 1)).split("e");
    text = `${trimZeros(mantissa!)}e${exponent!.replace("+", "")}`;
  } else {
    const short = value.toPrecision(digits);
    text = short.includes("e") ? value.toFixed(0) : trimZeros(short);
  }
  return text.replaceAll("-", "−");
}

function trimZeros(text: string): string {
  return text.includes(".") ? text.replace(/\.?0+$/, "") : text;
}

/** The norm of the summary; without one, "NaN" or "Inf" for such a tensor, else a dash. */
export function normText(summary: Size, digits = 4): string {
  if (summary.norm !== null) return numberText(summary.norm, digits);
  if (summary.nan > 0) return "NaN";
  if (summary.pos_inf + summary.neg_inf > 0) return "Inf";
  return "–";
}

/** The gradient on a box: a scalar's with its sign, else the norm. */
export function gradientText(summary: Size): string {
  const [only] = summary.shape.length === 0 ? (summary.values ?? []) : [];
  return only === undefined ? normText(summary, 3) : numberText(only, 3);
}

export function plural(count: number, noun: string, nouns = `${noun}s`): string {
  return `${count} ${count === 1 ? noun : nouns}`;
}

/** For example "In [3], line 2" or "train.py, line 41". */
export function siteText(site: Site): string {
  const where = site.cell ?? site.file;
  return where ? `${where}, line ${site.line}` : `line ${site.line}`;
}

export interface Totals {
  ops: number;
  parameters: number; // elements of all parameters
  bytes: number;
  nodes: number;
}

/** Describes what a closed group hides: "12 ops, 3.2k params, 40 kB", or "8 tensors, 1 kB" without ops. */
export function totalsText(totals: Totals): string {
  const noun = totals.ops || !totals.nodes ? "op" : "tensor";
  const count = noun === "op" ? totals.ops : totals.nodes;
  const parts = [`${countText(count)} ${noun}${count === 1 ? "" : "s"}`];
  if (totals.parameters > 0) parts.push(`${countText(totals.parameters)} params`);
  parts.push(bytesText(totals.bytes));
  return parts.join(", ");
}

/** The user's name for a node; else its op or kind, and the line that made it: "add, line 3". The kernel's messages use the same names. */
export function nameOf({ nodes, sites }: { nodes: Nodes; sites: readonly Site[] }, node: number): string {
  const what = nodes.kind[node] === "op" ? nodes.op[node] : nodes.kind[node];
  const line = sites[nodes.site[node]!]?.line;
  return nodes.name[node] || (line === undefined ? `${what} ${nodes.shape[node]!.join("×")}`.trim() : `${what}, line ${line}`);
}

/** A node's note, with the numbers of other nodes replaced by their names. */
export function noteOf(recording: { nodes: Nodes; sites: readonly Site[] }, node: number): string {
  const named = (number: string) => nameOf(recording, Number(number));
  return (recording.nodes.note[node] ?? "").replace(/(?:\w+ )?#(\d+)/g, (text, number: string) => {
    const word = text.includes(" ") ? text.slice(0, text.indexOf(" ") + 1) : "";
    return Number(number) >= recording.nodes.op.length ? text : /^(of|view) $/.test(word) ? word + named(number) : named(number);
  });
}
