// Random recordings from a seed, for the property tests.

import { random } from "./page/kernel";
import { Builder } from "./page/recordings";
import { START, reduce, type Recording } from "../src/view/store";
import type { Graph } from "../src/view/protocol";

/** A DAG with nested groups. Groups are not contiguous in time, so that the graph between them has cycles. */
export function randomDag(seed: number, size = 40, groups = 6): Builder {
  const next = random(seed * 7919 + 1);
  const pick = (below: number) => Math.floor(next() * below);
  const b = new Builder(`dag ${seed}`);
  for (let g = 0; g < groups; g++) b.group(next() < 0.3 ? "loop" : "module", `m${g}`, `Module ${g}`, next() < 0.4 ? -1 : pick(g + 1) - 1);
  for (let n = 0; n < size; n++) {
    const group = pick(groups + 1) - 1;
    const kind = n < 3 || next() < 0.2 ? (["parameter", "leaf", "constant", "input"] as const)[pick(4)]! : "op";
    const inputs: number[] = [];
    if (kind === "op") {
      const count = 1 + pick(3);
      for (let i = 0; i < count; i++) inputs.push(next() < 0.7 ? Math.max(0, n - 1 - pick(5)) : pick(n));
    }
    b.node(kind, kind === "op" ? ["add", "matmul", "scaled_dot_product_attention"][pick(3)]! : "", [1 + pick(9), 1 + pick(9)], inputs, {
      group,
      name: next() < 0.5 ? `name_${"x".repeat(pick(30))}${n}` : "",
    });
  }
  b.root = size - 1;
  return b;
}

export function recordingOf(builder: Builder): Recording {
  return builder.graphs("r1").reduce((state, message) => reduce(state, { do: "receive", received: { message, buffers: [] } }), START)
    .recording!;
}

export function received(message: Graph): { do: "receive"; received: { message: Graph; buffers: DataView[] } } {
  return { do: "receive", received: { message, buffers: [] } };
}

export function allGroups(recording: Recording): Set<number> {
  return new Set(recording.tree.groups.keys());
}
