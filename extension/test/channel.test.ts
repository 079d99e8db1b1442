// The channel: ids, answers, silence, stale and strange messages.
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { ChannelError, modelTransport, openChannel, type Received, type Transport } from "../src/view/channel";
import { VERSION } from "../src/view/protocol";
import { mlp } from "./page/recordings";

class Wire implements Transport {
  sent: { type: string; id: number; v: number }[] = [];
  arrive: (message: unknown, buffers?: readonly (DataView | ArrayBuffer)[]) => void = () => undefined;
  gone: () => void = () => undefined;
  listening = false;
  send(message: unknown): void {
    this.sent.push(message as Wire["sent"][number]);
  }
  listen(receive: (message: unknown, buffers: readonly (DataView | ArrayBuffer)[]) => void): () => void {
    this.listening = true;
    this.arrive = (message, buffers = []) => receive(message, buffers);
    return () => {
      this.listening = false;
      this.arrive = () => undefined;
    };
  }
  closed(gone: () => void): () => void {
    this.gone = gone;
    return () => undefined;
  }
}

const graph = (recording: string, start = 0) => ({ ...mlp().graphs(recording)[0]!, start });
const stepped = (re: number | null, recording: string) => ({
  type: "stepped",
  v: VERSION,
  re,
  recording,
  index: 1,
  total: 2,
  steps: [],
  done: false,
  sentence: "",
});

function open() {
  const wire = new Wire();
  const channel = openChannel(wire, 20_000);
  const messages: Received[] = [];
  const troubles: string[] = [];
  channel.subscribe({ message: (received) => messages.push(received), trouble: (sentence) => troubles.push(sentence) });
  return { wire, channel, messages, troubles };
}

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

describe("channel", () => {
  it("numbers requests and matches answers in any order", async () => {
    const { wire, channel } = open();
    wire.arrive(graph("a"));
    const first = channel.send({ type: "step", do: "next", to: -1, by: "op" });
    const second = channel.send({ type: "ask_memory" });
    expect(wire.sent).toEqual([
      { type: "step", do: "next", to: -1, by: "op", v: VERSION, id: 1 },
      { type: "ask_memory", v: VERSION, id: 2 },
    ]);
    wire.arrive({ type: "problem", v: VERSION, re: 2, sentence: "no", node: -1 });
    wire.arrive(stepped(1, "a"));
    expect((await second).message.type).toBe("problem");
    expect((await first).message.type).toBe("stepped");
  });

  it("sends a step with further requests in one message, and takes the answers apart", async () => {
    const { wire, channel, messages } = open();
    wire.arrive(graph("a"));
    const [step, heat] = channel.sendAll({ type: "step", do: "next", to: -1, by: "op" }, [{ type: "ask_memory" }]);
    expect(wire.sent).toEqual([
      { type: "step", do: "next", to: -1, by: "op", v: VERSION, id: 1, then: [{ type: "ask_memory", v: VERSION, id: 2 }] },
    ]);
    const problem = { type: "problem", v: VERSION, re: 2, sentence: "no", node: -1 };
    const buffers = [1, 2, 3].map((length) => new ArrayBuffer(length));
    wire.arrive({ type: "together", v: VERSION, messages: [stepped(1, "a"), problem], buffers: [1, 2] }, buffers);
    expect([(await step!).buffers.length, (await heat!).buffers.map((one) => one.byteLength)]).toEqual([1, [2, 3]]);
    expect(messages.map(({ message }) => message.type)).toEqual(["graph", "stepped", "problem"]);
  });

  it("turns 20 s of silence into a sentence, and still shows a late answer", async () => {
    const { wire, channel, messages } = open();
    wire.arrive(graph("a"));
    const failure = channel.send({ type: "step", do: "next", to: -1, by: "op" }).catch((error: unknown) => error);
    await vi.advanceTimersByTimeAsync(19_999);
    let settled = false;
    void failure.then(() => (settled = true));
    await vi.advanceTimersByTimeAsync(0);
    expect(settled).toBe(false);
    await vi.advanceTimersByTimeAsync(2);
    expect(await failure).toBeInstanceOf(ChannelError);
    expect(String(((await failure) as Error).message)).toMatch(/has not answered/);
    wire.arrive(stepped(1, "a"));
    expect(messages.at(-1)!.message.type).toBe("stepped");
  });

  it("asks again for what a view shows as long as there is no answer", async () => {
    const wire = new Wire();
    const channel = openChannel(wire, 20_000, 1, [1000, 5000]);
    const ready = channel.send({ type: "ready" });
    vi.advanceTimersByTime(1000);
    expect(wire.sent).toEqual(Array(2).fill({ type: "ready", v: VERSION, id: 1 }));
    wire.arrive(graph("a"));
    await ready;
    vi.advanceTimersByTime(4000);
    expect(wire.sent).toHaveLength(2);
    channel.close();
  });

  it("takes the first graph as the answer to ready", async () => {
    const { wire, channel } = open();
    const ready = channel.send({ type: "ready" });
    wire.arrive(graph("a"));
    expect((await ready).message.type).toBe("graph");
  });

  it("drops messages of another recording, but a graph from 0 starts a new one", () => {
    const { wire, messages } = open();
    wire.arrive(graph("a"));
    wire.arrive(stepped(null, "b"));
    wire.arrive(graph("b", 21));
    expect(messages).toHaveLength(1);
    wire.arrive(graph("b"));
    wire.arrive(stepped(null, "b"));
    wire.arrive(stepped(null, "a"));
    expect(messages.map(({ message }) => message.type)).toEqual(["graph", "graph", "stepped"]);
  });

  it("ends the wait for a stale answer without showing it", async () => {
    const { wire, channel, messages } = open();
    wire.arrive(graph("b"));
    const sent = channel.send({ type: "step", do: "next", to: -1, by: "op" });
    wire.arrive(stepped(1, "a"));
    await sent;
    expect(messages).toHaveLength(1);
  });

  it.each([
    [{ type: "graph", v: VERSION + 1 }, /version 2/],
    [{ type: "surprise", v: VERSION }, /“surprise”/],
    ["nonsense", /not a message/],
    [null, /not a message/],
    [{ v: VERSION }, /not a message/],
  ])("says what is wrong with %j", (message, expected) => {
    const { wire, messages, troubles } = open();
    wire.arrive(message);
    expect(messages).toEqual([]);
    expect(troubles).toHaveLength(1);
    expect(troubles[0]).toMatch(expected);
  });

  it("tells when the kernel is gone, and refuses further requests with a sentence", async () => {
    const { wire, channel, troubles } = open();
    const waiting = channel.send({ type: "ask_memory" }).catch((error: Error) => error.message);
    wire.gone();
    expect(await waiting).toMatch(/kernel that made this view has gone/);
    expect(troubles).toEqual([expect.stringMatching(/kernel that made this view has gone/)]);
    await expect(channel.send({ type: "ask_memory" })).rejects.toThrow(/kernel that made this view has gone/);
  });

  it("hears nothing after close", async () => {
    const { wire, channel, messages } = open();
    const waiting = channel.send({ type: "ask_memory" }).catch((error: unknown) => error);
    channel.close();
    expect(await waiting).toBeInstanceOf(ChannelError);
    expect(wire.listening).toBe(false);
    wire.arrive(graph("a"));
    expect(messages).toEqual([]);
    expect(vi.getTimerCount()).toBe(0);
  });

  it("reports a request that could not be sent", async () => {
    const { wire, channel } = open();
    wire.send = () => {
      throw new Error("comm is disposed");
    };
    await expect(channel.send({ type: "ask_memory" })).rejects.toThrow("could not be sent: comm is disposed. The kernel that made this view has gone; run the cell again.");
  });

  it("hands on ArrayBuffers and views alike", () => {
    const { wire, messages } = open();
    const bytes = new Uint8Array([9, 1, 2, 3]);
    wire.arrive(graph("a"), [bytes.buffer, new DataView(bytes.buffer, 1, 2)]);
    expect(messages[0]!.buffers.map((view) => [view.byteLength, view.getUint8(0)])).toEqual([
      [4, 9],
      [2, 1],
    ]);
  });

  it("listens to an anywidget model and lets go of it", () => {
    const handlers = new Map<string, unknown>();
    const model = {
      get: () => undefined,
      send: vi.fn(),
      on: (name: string, f: unknown) => void handlers.set(name, f),
      off: (name: string) => void handlers.delete(name),
    };
    const channel = openChannel(modelTransport(model));
    expect([...handlers.keys()]).toEqual(["msg:custom", "comm:close", "destroy", "comm_live_update"]);
    channel.send({ type: "ready" }).catch(() => undefined);
    expect(model.send).toHaveBeenCalledWith({ type: "ready", v: VERSION, id: 1 });
    channel.close();
    expect(handlers.size).toBe(0);
  });
});
