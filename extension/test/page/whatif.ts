// What-ifs of the kernel in the page: made-up numbers in the shapes that a real kernel sends.

import {
  VERSION,
  type AskEdit,
  type AskFanOut,
  type AskLocal,
  type AskPaths,
  type CheckRule,
  type ForkPart,
  type ForkPass,
  type LocalPart,
  type Picture,
  type Rerun,
  type ToKernel,
  type ToView,
} from "../../src/view/protocol";
import { summarise, type FakeKernel } from "./kernel";

type Asked = AskLocal | AskFanOut | AskPaths | CheckRule | ForkPass | AskEdit | Rerun;
const TYPES = new Set(["ask_local", "ask_fan_out", "ask_paths", "check_rule", "fork", "ask_edit", "rerun"]);

export function isWhatIf(request: ToKernel): request is Asked {
  return TYPES.has(request.type);
}

/** The buffers of one answer, as its pictures are made. */
class Pictures {
  readonly buffers: DataView[] = [];

  of(label: string, shape: number[], values: number[]): Picture {
    const cols = shape.at(-1) ?? 1;
    const rows = values.length / cols;
    this.buffers.push(new DataView(Float32Array.from(values).buffer));
    const cells = { index: this.buffers.length - 1, dtype: "float32" as const, shape: [rows, cols] };
    return { label, summary: summarise(shape, values), rows, cols, cells };
  }
}

export class WhatIfs {
  readonly forks: ForkPart[] = [];

  constructor(private readonly kernel: FakeKernel) {}

  answer(request: Asked): { message: ToView; buffers: DataView[] } {
    const { kernel } = this;
    const pictures = new Pictures();
    const { nodes, edges } = kernel.builder;
    const head = { v: VERSION, re: request.id, recording: kernel.recording };
    const of = (node: number, label: string) => pictures.of(label, nodes.shape[node]!, kernel.values(node, 3));
    const beside = (node: number, factor: number) => {
      const values = kernel.values(node, 7);
      const other = values.map((value) => value * factor);
      const [base, changed] = [summarise(nodes.shape[node]!, values), summarise(nodes.shape[node]!, other)];
      return { node, name: nodes.name[node] || `#${node}`, base, other: changed, difference: Math.abs(1 - factor) };
    };
    const leaves = kernel.plan.filter((node) => nodes.kind[node] !== "op");
    switch (request.type) {
      case "ask_local": {
        const parts: LocalPart[] = [];
        edges.target.forEach((target, row) => {
          const source = edges.source[row]!;
          if (target !== request.node || !nodes.grad[source]) return;
          const sum = { kind: "sum" as const, sentence: `(64, 10) summed over axis 0, because ${nodes.name[source]} was broadcast there`, axes: [0] };
          parts.push({
            ...{ slot: edges.slot[row]!, input: edges.slot[row] ? "other" : "input", target: source, kind: "row", structure: "banded" },
            ...{ sentence: "banded: each result depends on neighbours in the input", number: null, rows: 640, cols: 320, missing: "" },
            ...{ picture: of(source, "local"), chosen: request.chosen },
            equation: [
              { sign: "", picture: of(request.node, "upstream") },
              { sign: "=", picture: of(source, "contribution") },
            ],
            sub_steps: nodes.name[source]!.includes("bias") ? [{ ...sum, before: of(request.node, "before"), after: of(source, "after") }] : [],
          });
        });
        const { node, place } = request;
        const forward = [{ sign: "", picture: of(node, "input") }, { sign: "→", picture: of(node, "result") }];
        return { message: { type: "local", ...head, node, place, forward, shape: nodes.shape[node]!, parts, missing: "" }, buffers: pictures.buffers };
      }
      case "ask_fan_out": {
        const addends = edges.source.flatMap((source, row) => {
          const consumer = edges.target[row]!;
          const place = kernel.plan.indexOf(consumer) + 1;
          if (source !== request.node || !place) return [];
          return [{ consumer, name: nodes.name[consumer]!, place, state: "arrived" as const, picture: of(request.node, "") }];
        });
        const { node } = request;
        const message = { type: "fan_out" as const, ...head, node, index: kernel.at, addends, total: null, sentence: "the sum" };
        return { message, buffers: pictures.buffers };
      }
      case "ask_paths": {
        const { node } = request;
        const whole = kernel.plan.slice(0, kernel.plan.indexOf(node) + 1);
        const listed = [
          { nodes: whole, inputs: whole.map(() => -1), paths: "1", share: 1.25, norm: 2.5 },
          { nodes: [whole[0]!, node], inputs: [1, -1], paths: "1,024", share: -0.25, norm: 0.5 },
        ];
        const gradient = summarise(nodes.shape[node]!, kernel.values(node, 7));
        const rest = { rest: 0, rest_share: 0, note: "" };
        return { message: { type: "paths", ...head, node, sentence: "1,025 paths lead from the loss.", gradient, listed, ...rest }, buffers: [] };
      }
      case "check_rule": {
        const input = { input: "input", outcome: "agrees" as const, how: "all 12 elements", absolute: 2e-11, relative: 1e-11, why: "" };
        const sentence = "The rule agrees with central differences.";
        const { node } = request;
        return { message: { type: "checked", ...head, node, outcome: "agrees", sentence, tolerance: "", inputs: [input] }, buffers: [] };
      }
      case "fork": {
        const { node, place, text, index } = request;
        const found = this.forks.find(({ name }) => name === request.name);
        if (request.do === "make" && text.includes("import")) {
          const sentence = "“import os” is not an expression: expected something like g * 2.";
          return { message: { type: "problem", v: VERSION, re: request.id, sentence, node: -1 }, buffers: [] };
        }
        if (request.do === "make") {
          const name = request.name || `fork ${this.forks.length + 1}`;
          const differences = kernel.plan.map((_, at) => (at + 1 < place ? 0 : 0.5));
          const edit = `g${index ? `[${index.join(", ")}]` : ""} = ${text}`;
          this.forks.push({ name, node, place, edit, written: false, parameters: leaves.map((leaf) => beside(leaf, 0.5)), here: null, differences });
        } else if (found && request.do === "delete") this.forks.splice(this.forks.indexOf(found), 1);
        else if (found && request.do !== "list") this.forks[this.forks.indexOf(found)] = { ...found, written: request.do === "write" };
        return { message: { type: "forks", ...head, index: kernel.at, forks: [...this.forks], note: "" }, buffers: [] };
      }
      case "ask_edit": {
        const { node, what, slot } = request;
        const edited = { node, name: nodes.name[node]!, shape: nodes.shape[node]!, picture: of(node, nodes.name[node]!) };
        return { message: { type: "editable", ...head, node, what, slot, edited, missing: "" }, buffers: pictures.buffers };
      }
      case "rerun": {
        const changes = [`${nodes.name[request.node]}: x = ${request.text}`];
        const [base, loss] = [summarise([], [0.5]), summarise([], [0.25])];
        return { message: { type: "reran", ...head, changes, base, loss, parameters: leaves.map((leaf) => beside(leaf, 2)), notes: [] }, buffers: [] };
      }
    }
  }
}
