// Gradient sizes of steps that were not sent in full, for boxes and edges.

import { readBuffer } from "./buffers";
import type { Norms, Summary } from "./protocol";
import type { Pass } from "./store";

/** The known properties of a gradient that was sent as one number. */
export type Size = Pick<Summary, "norm" | "shape" | "values" | "nan" | "pos_inf" | "neg_inf">;

export interface StepSizes {
  upstream: Size | null; // null: no gradient arrived
  contributions: readonly { target: number; gradient: Size; total: Size }[];
}

const ASKED = 400; // steps per request, about 15 ms of kernel time

/** The steps of a message, by index. */
export function sizesOf(message: Norms, buffers: DataView[]): Map<number, StepSizes> {
  const [came, upstream, step, target, scalar, gradient, total] = [
    ...[message.came, message.upstream, message.step, message.target, message.scalar, message.gradient, message.total],
  ].map((buffer) => readBuffer(buffer, buffers));
  const steps = new Map<number, StepSizes & { contributions: { target: number; gradient: Size; total: Size }[] }>();
  for (let i = 0; i < came!.length; i++) {
    steps.set(message.first + i, { upstream: came![i] ? sizeOf(upstream![i]!, came![i] === 2) : null, contributions: [] });
  }
  for (let i = 0; i < step!.length; i++) {
    const one = scalar![i] === 1;
    const contribution = { target: target![i]!, gradient: sizeOf(gradient![i]!, one), total: sizeOf(total![i]!, one) };
    steps.get(step![i]!)!.contributions.push(contribution);
  }
  return steps;
}

function sizeOf(value: number, scalar: boolean): Size {
  const finite = Number.isFinite(value);
  return {
    norm: finite ? Math.abs(value) : null,
    shape: scalar ? [] : [0],
    values: scalar && finite ? [value] : null,
    nan: Number.isNaN(value) ? 1 : 0,
    pos_inf: value === Infinity ? 1 : 0,
    neg_inf: value === -Infinity ? 1 : 0,
  };
}

/** The last range of at most ASKED steps up to the current one about which nothing is known; null if there is none. */
export function unknown(pass: Pass): { first: number; last: number } | null {
  const known = (index: number) => pass.steps.has(index) || pass.norms.has(index);
  let last = pass.index;
  while (last > 0 && known(last)) last--;
  if (!last) return null;
  let first = last;
  while (first > 1 && last - first + 1 < ASKED && !known(first - 1)) first--;
  return { first, last };
}
