// Gradients known after k steps of a backward pass, gathered from steps 1 to k, whether sent in full or as norms only.

import type { Size, StepSizes } from "../norms";
import type { Step } from "../protocol";
import type { Pass } from "../store";

export interface Gradients {
  /** A node's gradient so far: its latest total, or its upstream gradient once its step has run. */
  total: ReadonlyMap<number, Size>;
  /** For each node, the contribution of each consumer. */
  from: ReadonlyMap<number, ReadonlyMap<number, Size>>;
  done: ReadonlySet<number>;
  /** The node of the last step; -1 before the first. */
  current: number;
  step: Step | null;
  largest: number; // norm
}

export const NO_GRADIENTS: Gradients = { total: new Map(), from: new Map(), done: new Set(), current: -1, step: null, largest: 0 };

export function gradients(pass: Pass | null): Gradients {
  return new GradientTrack().of(pass);
}

type Undo = () => void;

/** Tracks a pass forwards and backwards, at the cost of the steps in between. The maps it returns are updated in place by later calls. */
export class GradientTrack {
  private readonly total = new Map<number, Size>();
  private readonly from = new Map<number, Map<number, Size>>();
  private readonly done = new Set<number>();
  private plan: readonly number[] = [];
  private number = -1;
  private taken: { undo: Undo; known: boolean }[] = []; // index 0 is step 1

  of(pass: Pass | null): Gradients {
    if (!pass || pass.plan !== this.plan || pass.number !== this.number) this.reset(pass);
    if (!pass) return NO_GRADIENTS;
    // the first step whose data arrived only after it was passed
    const late = this.taken.findIndex(({ known }, at) => !known && sizesAt(pass, at + 1) !== null);
    this.back(Math.min(late < 0 ? Infinity : late, pass.index));
    while (this.taken.length < pass.index) this.take(pass, this.taken.length + 1);
    if (!pass.index) return NO_GRADIENTS;
    const step = pass.steps.get(pass.index) ?? null;
    const current = step?.node ?? pass.plan[pass.index - 1] ?? -1;
    let largest = 0;
    for (const { norm } of this.total.values()) if (norm !== null && norm > largest) largest = norm;
    return { total: this.total, from: this.from, done: this.done, current, step, largest };
  }

  private reset(pass: Pass | null): void {
    for (const known of [this.total, this.from, this.done]) known.clear();
    [this.plan, this.number, this.taken] = [pass?.plan ?? [], pass?.number ?? -1, []];
  }

  private back(to: number): void {
    while (this.taken.length > to) this.taken.pop()!.undo();
  }

  private take(pass: Pass, index: number): void {
    const sizes = sizesAt(pass, index);
    const node = pass.steps.get(index)?.node ?? pass.plan[index - 1];
    const undo: Undo[] = [];
    if (node !== undefined && !this.done.has(node)) {
      this.done.add(node);
      undo.push(() => this.done.delete(node));
    }
    if (sizes && node !== undefined) {
      if (sizes.upstream) undo.push(set(this.total, node, sizes.upstream));
      for (const { target, gradient, total } of sizes.contributions) {
        undo.push(set(this.total, target, total));
        let given = this.from.get(target);
        if (!given) this.from.set(target, (given = new Map()));
        undo.push(set(given, node, gradient));
      }
    }
    this.taken.push({ known: sizes !== null, undo: () => undo.reverse().forEach((one) => one()) });
  }
}

function set(map: Map<number, Size>, key: number, value: Size): Undo {
  const before = map.get(key);
  map.set(key, value);
  return () => (before === undefined ? map.delete(key) : map.set(key, before));
}

function sizesAt(pass: Pass, index: number): StepSizes | null {
  return pass.steps.get(index) ?? pass.norms.get(index) ?? null;
}

/** A stroke width of 1.5 to 5 px, logarithmic over six orders of magnitude below the largest norm. */
export function widthOfNorm(norm: number | null, largest: number): number {
  if (norm === null || largest <= 0) return 5; // NaN or Inf must not vanish
  if (norm <= 0) return 1.5;
  const decades = Math.max(-6, Math.log10(norm / largest));
  return Math.round((1.5 + 3.5 * (1 + decades / 6)) * 10) / 10;
}
