// The golden logs of the kernel's tests, played to the view: what it asks and what it makes of the answers, on the very same data.
import { describe, expect, it } from "vitest";
import { openChannel, type Transport } from "../src/view/channel";
import { Controller } from "../src/view/controller";
import { layout } from "../src/view/graph/layout";
import { marksOf } from "../src/view/graph/marks";
import { gradients } from "../src/view/panes/gradients";
import { TO_VIEW, type StepTo, type ToKernel, type ToView } from "../src/view/protocol";
import { createStore } from "../src/view/store";
import { allGroups } from "./dag";

type Line = { to: "kernel"; message: ToKernel } | { to: "view"; message: ToView; buffers: string[] };

const FILES = import.meta.glob("../../tests/workbench/golden/*.jsonl", { query: "?raw", import: "default", eager: true });
const LOGS = Object.entries(FILES).map(([path, text]) => [path.replace(/^.*\/|\.jsonl$/g, ""), read(text)] as const);

function read(text: string): Line[] {
  return text
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line) as Line);
}

const sorted = (message: unknown) => Object.entries(message as object).sort(([a], [b]) => (a < b ? -1 : 1));
const bytes = (base64: string) => Uint8Array.from(atob(base64), (char) => char.charCodeAt(0)).buffer;

/** A kernel that reads from a log: it expects the log's next request, and gives the log's answers. */
class LogKernel implements Transport {
  readonly surprises: unknown[] = []; // what the view said that is not in the log
  private at = 0;
  private receive: (message: unknown, buffers: ArrayBuffer[]) => void = () => undefined;

  constructor(private readonly log: Line[]) {}

  /** The request that the log has next; null at its end. */
  get next(): ToKernel | null {
    const line = this.log[this.at];
    return line?.to === "kernel" ? line.message : null;
  }

  send(message: unknown): void {
    const { then: _then, ...alone } = message as StepTo; // what it wants to know besides is not in the log
    const { id } = alone;
    if (JSON.stringify(sorted(alone)) !== JSON.stringify(sorted({ ...this.next, id }))) this.surprises.push(message);
    const before = this.next!.id;
    this.at++;
    for (let line = this.log[this.at]; line?.to === "view"; line = this.log[++this.at]) {
      const told = "re" in line.message && line.message.re === before ? { ...line.message, re: id } : line.message;
      this.receive(told, line.buffers.map(bytes));
    }
  }

  listen(receive: (message: unknown, buffers: ArrayBuffer[]) => void): () => void {
    this.receive = receive as never;
    return () => undefined;
  }
}

describe.each(LOGS)("the log of %s", (_, log) => {
  it("has only messages that the view knows", () => {
    for (const line of log) if (line.to === "view") expect(TO_VIEW).toContain(line.message.type);
  });

  it("is what the view says and hears, from its opening to the end of the pass", async () => {
    const kernel = new LogKernel(log);
    const store = createStore();
    const troubles: string[] = [];
    const channel = openChannel(kernel, 1000);
    channel.subscribe({ message: (received) => store.dispatch({ do: "receive", received }), trouble: (sentence) => troubles.push(sentence) });
    const controller = new Controller(store, channel);
    const answers = new Map(log.flatMap((line) => (line.to === "view" && "re" in line.message && line.message.re !== null ? [[line.message.re, line.message] as const] : [])));
    controller.start();
    for (let request = kernel.next; request; request = kernel.next) {
      const answer = answers.get(request.id)!;
      const before = store.state.pass?.index ?? -1;
      if (request.type === "step") {
        const { do: wish, to, by } = request as StepTo;
        // at the end of the pass the view itself knows that there is no next step
        if (wish === "next" && before === store.state.pass!.total) await controller.ask({ type: "step", do: wish, to, by });
        else await controller.step(wish, to, by);
      } else {
        const { id: _id, v: _v, ...bare } = request;
        if (request.type === "inspect") store.dispatch({ do: "select", node: request.node });
        await controller.ask(bare);
      }
      const { state } = store;
      if (answer.type === "stepped") {
        expect(state.pass!.index).toBe(answer.index);
        expect(state.pass!.sentence).toBe(answer.sentence);
        const drawn = gradients(state.pass);
        expect(drawn.current).toBe(answer.index ? state.pass!.plan[answer.index - 1] : -1);
        expect(state.pass!.steps.size).toBeGreaterThanOrEqual(answer.index);
      } else if (answer.type === "inspected") expect(state.inspected!.message).toEqual({ ...answer, re: state.inspected!.message.re });
      else if (answer.type === "faces") expect(state.faces.size).toBe(answer.faces.length);
      else if (answer.type === "problem") expect(state.status).toEqual({ sentence: answer.sentence, tone: "error" });
      else if (answer.type === "metric" || answer.type === "norms") expect(state.status.tone).toBe("plain");
    }
    expect(kernel.surprises).toEqual([]);
    expect(troubles).toEqual([]);
    expect(store.state.pass!.done).toBe(true);
  });

  it("is laid out without a box over another, groups open and closed, both ways", () => {
    const store = createStore();
    for (const line of log) if (line.to === "view" && line.message.type === "graph") store.dispatch({ do: "receive", received: { message: line.message, buffers: [] } });
    const recording = store.state.recording!;
    const first = log.find((line) => line.to === "view" && line.message.type === "graph") as { message: { nodes: { op: string[]; kind: string[] } } };
    expect(recording.tree.size).toBe(first.message.nodes.op.length);
    for (const open of [store.state.open, allGroups(recording), new Set<number>()]) {
      for (const direction of ["down", "right"] as const) {
        const { boxes } = layout(recording, open, direction);
        const closed = boxes.filter(({ kind }) => kind !== "open");
        for (const [at, a] of closed.entries())
          for (const b of closed.slice(0, at)) expect(a.x + a.w <= b.x || b.x + b.w <= a.x || a.y + a.h <= b.y || b.y + b.h <= a.y).toBe(true);
      }
    }
    expect(() => marksOf(store.state, gradients(null))).not.toThrow();
  });
});

it("finds the logs", () => {
  expect(LOGS.length).toBe(5);
});
