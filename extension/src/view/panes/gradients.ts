// What is known about gradients after k steps of a backward pass: the union of steps 1..k, from the steps that were sent.

import type { Step, Summary } from "../protocol";
import type { Pass } from "../store";

export interface Gradients {
  /** A node's gradient so far: its latest total, or what arrived at it when its own step ran. */
  total: ReadonlyMap<number, Summary>;
  /** For each node, what each consumer handed to it. */
  from: ReadonlyMap<number, ReadonlyMap<number, Summary>>;
  done: ReadonlySet<number>;
  /** The node whose step was the last one; -1 before the first. */
  current: number;
  step: Step | null;
  largest: number; // norm
}

export const NO_GRADIENTS: Gradients = { total: new Map(), from: new Map(), done: new Set(), current: -1, step: null, largest: 0 };

export function gradients(pass: Pass | null): Gradients {
  if (!pass || pass.index === 0) return NO_GRADIENTS;
  const total = new Map<number, Summary>();
  const from = new Map<number, Map<number, Summary>>();
  const done = new Set<number>();
  for (let index = 1; index <= pass.index; index++) {
    const step = pass.steps.get(index);
    const node = step?.node ?? pass.plan[index - 1];
    if (node !== undefined) done.add(node);
    if (!step) continue;
    total.set(step.node, step.upstream);
    for (const contribution of step.contributions) {
      total.set(contribution.target, contribution.total);
      const given = from.get(contribution.target) ?? new Map<number, Summary>();
      given.set(step.node, contribution.gradient);
      from.set(contribution.target, given);
    }
  }
  const step = pass.steps.get(pass.index) ?? null;
  const current = step?.node ?? pass.plan[pass.index - 1] ?? -1;
  let largest = 0;
  for (const summary of total.values()) largest = Math.max(largest, summary.norm ?? 0);
  return { total, from, done, current, step, largest };
}

/** A stroke width of 1.5 to 5 px: logarithmic over six orders of magnitude below the largest norm. */
export function widthOfNorm(norm: number | null, largest: number): number {
  if (norm === null || largest <= 0) return 5; // NaN or Inf must not vanish
  if (norm <= 0) return 1.5;
  const decades = Math.max(-6, Math.log10(norm / largest));
  return Math.round((1.5 + 3.5 * (1 + decades / 6)) * 10) / 10;
}
