// Display settings for a tensor: the role of each axis, the index along the others, heat map or image, and the color range.

import { h, setText } from "../dom";
import type { Inspect, Inspected } from "../protocol";
import type { Range } from "./heat";

/** The display settings sent to the kernel. */
export type Look = Pick<Inspect, "facet" | "rows" | "cols" | "index" | "pool" | "image">;

export const START_LOOK: Look = { facet: -2, rows: -2, cols: -2, index: [], pool: "mean", image: "" };

const ROLES = ["facet", "rows", "cols"] as const;
const ROLE_NAMES = { facet: "side by side", rows: "rows", cols: "columns", index: "slider" } as const;
type Role = keyof typeof ROLE_NAMES;

/** The settings with `role` given to an axis; the axis that had it gets this axis's previous role. */
export function withRole(look: Look, axes: readonly number[], axis: number, role: Role): Look {
  const now = { facet: axes[0] ?? -1, rows: axes[1] ?? -1, cols: axes[2] ?? -1 };
  const old = ROLES.find((name) => now[name] === axis);
  if (role === (old ?? "index")) return look;
  const before = role === "index" ? -1 : now[role];
  if (old) now[old] = before;
  if (role !== "index") now[role] = axis;
  return { ...look, ...now };
}

function chooser<T extends string>(label: string, options: readonly (readonly [T, string])[], value: T, choose: (to: T) => void, test: string) {
  const select = h("select", { "aria-label": label, title: label, "data-testid": test });
  for (const [key, name] of options) select.append(h("option", { value: key }, name));
  select.value = value;
  select.addEventListener("change", () => choose(select.value as T));
  return select;
}

/**
 * One row per axis of a tensor with three or more: a selector for its role, and a slider if only part of the axis is shown. For images, a
 * slider for the first one.
 */
export function axisRows(message: Inspected, look: () => Look, change: (to: Look) => void): HTMLElement | null {
  const shape = message.summary?.shape ?? [];
  const { heat, image } = message;
  if (image) return image.count > image.pixels.shape[0]! ? imageRow(image.count, image.first, look, change) : null;
  if (!heat || shape.length < 3) return null;
  // Keeps changes made since this answer was requested.
  const wished = look().index.length === shape.length ? look().index : [];
  const index = heat.index.map((at, axis) => wished[axis] ?? at);
  if (heat.axes[0]! >= 0 && !wished.length) index[heat.axes[0]!] = heat.first;
  return h(
    "div",
    { class: "axes" },
    ...shape.map((size, axis) => {
      const at = heat.axes.indexOf(axis);
      const role: Role = at < 0 ? "index" : ROLES[at]!;
      const options = (Object.keys(ROLE_NAMES) as Role[]).map((name) => [name, ROLE_NAMES[name]] as const);
      const pick = (to: Role) => change({ ...withRole(look(), heat.axes, axis, to), index: [...index] });
      const slides = role === "index" || (role === "facet" && size > heat.values.shape[0]!);
      const slide = (to: number) => {
        index[axis] = to;
        change({ ...look(), index: [...index] });
      };
      return h(
        "div",
        { class: "axis" },
        h("span", { class: "quiet" }, `axis ${axis}`),
        chooser(`What axis ${axis} is`, options, role, pick, `wb-axis-${axis}`),
        slides ? slider(`Index along axis ${axis}`, index[axis]!, size, slide) : h("span", { class: "quiet" }, `of ${size}`),
      );
    }),
  );
}

function imageRow(count: number, first: number, look: () => Look, change: (to: Look) => void): HTMLElement {
  const slide = (to: number) => change({ ...look(), index: [to] });
  return h("div", { class: "axes" }, h("div", { class: "axis" }, h("span", { class: "quiet" }, "from image"), slider("First image", first, count, slide)));
}

/** Identifies what the rows are for: while it is unchanged the rows stay in place, so that a slider can be dragged on. */
export function axisKey({ node, what, summary, heat, image }: Inspected): string {
  return JSON.stringify([node, what, summary?.shape, heat?.axes, image?.layout, heat?.values.shape]);
}

export function slider(label: string, value: number, size: number, slide: (to: number) => void): HTMLElement {
  const output = h("output", {}, `${value} of ${size}`);
  const input = h("input", { type: "range", min: 0, max: size - 1, value, "aria-label": label });
  input.addEventListener("input", () => {
    setText(output, `${input.value} of ${size}`);
    slide(Number(input.value));
  });
  return h("span", { class: "slide" }, input, output);
}

const RANGES: readonly (readonly [Range, string])[] = [
  ["max", "colors to the largest"],
  ["99", "to the 99th percentile"],
  ["95", "to the 95th percentile"],
];
const POOLS = [
  ["mean", "mean of each block"],
  ["absmax", "largest of each block"],
] as const;

/** The switches above a picture: heat map or image, color range, and how cells pool elements. */
export function lookRow(message: Inspected, look: Look, range: Range, change: (to: Look) => void, setRange: (to: Range) => void): HTMLElement | null {
  const kinds = message.layouts.length
    ? chooser("Picture", [["", "heat map"], ...message.layouts.map((name) => [name, `image ${name}`] as const)], look.image, (image) => change({ ...look, image }), "wb-picture")
    : null;
  const { heat, image } = message;
  const ranges = heat ? chooser("Range of the colours", RANGES, range, setRange, "wb-range") : null;
  const pools = heat?.marks ? chooser("What a cell shows", POOLS, look.pool, (pool) => change({ ...look, pool }), "wb-pool") : null;
  if (!heat && !image) return null;
  return h("div", { class: "switches" }, kinds, ranges, pools);
}
