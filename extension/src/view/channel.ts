// The channel to the kernel: numbers requests, matches answers, drops stale messages, and reports a missing answer as an error.

import { TO_VIEW, VERSION, type ToKernel, type ToView } from "./protocol";
import { unpack } from "./unpack";

type Bare<M> = M extends ToKernel ? Omit<M, "id" | "v" | "then"> : never; // distributes over the kinds of request
export type Request = Bare<ToKernel>;

/** A message from the kernel with its binary buffers. */
export interface Received {
  message: ToView;
  buffers: DataView[];
  answers?: Request["type"]; // the type of this view's request, if the message answers one
  late?: boolean; // the answer to a request that has timed out
}

/** A binary buffer as received from the host. */
export type Bytes = ArrayBuffer | ArrayBufferView;

/** Carries messages: an anywidget model, or a plain comm of the JupyterLab panel. */
export interface Transport {
  send(message: unknown): void;
  /** Calls back for each message; returns a function that stops listening. */
  listen(receive: (message: unknown, buffers: readonly Bytes[]) => void): () => void;
  /** Calls back when the other side is gone for good, with the reason if it is known; returns a function that stops listening. */
  closed?(gone: (why?: string) => void): () => void;
}

export interface Channel {
  /** Resolves to the answer; rejects with a ChannelError whose message can be shown to the user. */
  send(request: Request): Promise<Received>;
  /** Sends a step and, in the same message, requests to answer after it. Returns a promise for each, as from `send`. */
  sendAll(step: Extract<Request, { type: "step" }>, then: readonly Request[]): Promise<Received>[];
  subscribe(listener: Listener): () => void;
  close(): void;
}

export interface Listener {
  message(received: Received): void;
  /** Reports a problem with a received message, as a sentence to show. `gone`: the other side is gone. */
  trouble(sentence: string, gone?: boolean): void;
}

export class ChannelError extends Error {}

const KNOWN = new Set(TO_VIEW);
export const SILENT = "The kernel has not answered yet. It may be busy with a cell, or gone; the answer is shown when it comes.";
export const GONE = "The kernel that made this view has gone; run the cell again.";

interface Waiting {
  type: Request["type"];
  resolve(received: Received): void;
  reject(reason: ChannelError): void;
  timers: ReturnType<typeof setTimeout>[];
}

/**
 * Opens a channel. `patience` is the time limit in milliseconds; `firstId` keeps the requests of several views on one transport apart;
 * `again` is when, in milliseconds, a `ready` without an answer is sent again.
 */
export function openChannel(transport: Transport, patience = 20_000, firstId = 1, again: readonly number[] = []): Channel {
  const listeners = new Set<Listener>();
  const waiting = new Map<number, Waiting>();
  const overdue = new Set<number>();
  let nextId = firstId;
  let recording: string | null = null;
  let alive = true;
  let gone = GONE; // the reason, as a sentence

  const trouble = (sentence: string, ended = false) => listeners.forEach((listener) => listener.trouble(sentence, ended));

  function settle(id: number, received: Received): void {
    const entry = waiting.get(id);
    if (!entry) return;
    waiting.delete(id);
    entry.timers.forEach(clearTimeout);
    received.answers ??= entry.type;
    entry.resolve(received);
  }

  function receive(raw: unknown, rawBuffers: readonly Bytes[]): void {
    alive = true; // a widget's connection may return after a break
    if (!isRecord(raw) || typeof raw.type !== "string") return trouble("The kernel sent something that is not a message.");
    if (raw.type === "together" && Array.isArray(raw.messages) && Array.isArray(raw.buffers)) {
      let at = 0;
      for (const [number, one] of raw.messages.entries()) receive(one, rawBuffers.slice(at, (at += Number(raw.buffers[number]))));
      return;
    }
    if (raw.v !== VERSION) {
      return trouble(
        `The kernel speaks version ${String(raw.v)} of the protocol and this view speaks ${VERSION}. ` +
          "Reload the page, or install the same version of gradient-workbench on both sides.",
      );
    }
    if (!KNOWN.has(raw.type)) return trouble(`This view does not know messages of type “${raw.type}”; a newer gradient-workbench may.`);
    const buffers = rawBuffers.map(asView);
    let message: ToView;
    try {
      message = unpack(raw, buffers) as ToView;
    } catch (error) {
      if (!(error instanceof RangeError)) throw error;
      return trouble(error.message);
    }
    if (message.type === "graph" && message.start === 0) recording = message.recording;
    const received: Received = { message, buffers };
    // A stale answer still resolves its request, but is not passed to the listeners.
    if ("re" in message && message.re !== null) {
      received.late = overdue.delete(message.re);
      settle(message.re, received);
    }
    if ("recording" in message && message.recording !== recording) return;
    if (message.type === "graph" || message.type === "problem") {
      for (const [id, entry] of waiting) if (entry.type === "ready") settle(id, received);
    }
    listeners.forEach((listener) => listener.message(received));
  }

  const stop = transport.listen(receive);
  const stopClosed = transport.closed?.((why) => {
    if (!alive) return;
    gone = why ?? GONE;
    end(gone);
    trouble(gone, true);
  });

  function end(sentence: string): void {
    alive = false;
    for (const entry of waiting.values()) {
      entry.timers.forEach(clearTimeout);
      entry.reject(new ChannelError(sentence));
    }
    waiting.clear();
  }

  function wait({ id, type }: ToKernel): Promise<Received> {
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => {
        waiting.delete(id);
        overdue.add(id);
        reject(new ChannelError(SILENT));
      }, patience);
      waiting.set(id, { type, resolve, reject, timers: [timer] });
    });
  }

  /** Sends the first request with the others in it. */
  function post(...requests: readonly Request[]): Promise<Received>[] {
    if (!alive) return requests.map(() => Promise.reject(new ChannelError(gone)));
    const numbered = requests.map((request) => ({ ...request, v: VERSION, id: nextId++ }) as ToKernel);
    const answers = numbered.map(wait);
    transmit(numbered);
    if (requests[0]!.type === "ready") {
      for (const after of again) waiting.get(numbered[0]!.id)?.timers.push(setTimeout(() => transmit(numbered), after));
    }
    return answers;
  }

  function transmit(requests: readonly ToKernel[]): void {
    const [first, ...then] = requests;
    try {
      transport.send(then.length ? { ...first, then } : first);
    } catch (error) {
      const failed = new ChannelError(`The request could not be sent: ${error instanceof Error ? error.message : String(error)}. ${GONE}`);
      for (const { id } of requests) {
        waiting.get(id)!.timers.forEach(clearTimeout);
        waiting.get(id)!.reject(failed);
        waiting.delete(id);
      }
    }
  }

  return {
    send: (request) => post(request)[0]!,
    sendAll: (step, then) => post(step, ...then),
    subscribe(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    close() {
      stop();
      stopClosed?.();
      listeners.clear();
      end("The view was closed.");
    },
  };
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function asView(buffer: Bytes): DataView {
  return buffer instanceof ArrayBuffer ? new DataView(buffer) : new DataView(buffer.buffer, buffer.byteOffset, buffer.byteLength);
}

export type Handler = (message: unknown, buffers?: readonly Bytes[]) => void;

/** The model that anywidget passes to `render`. */
export interface Model {
  get(key: string): unknown;
  send(message: unknown): void;
  on(event: string, callback: Handler): void;
  off(event: string, callback: Handler): void;
}

// The last one is the event that a widget manager triggers on its models when the kernel restarts.
const CLOSING = ["comm:close", "destroy", "comm_live_update"] as const;

/** A transport over an anywidget model's custom messages. */
export function modelTransport(model: Model): Transport {
  return {
    send: (message) => model.send(message),
    listen(receive) {
      const handler: Handler = (message, buffers = []) => {
        if (!(isRecord(message) && "bundle" in message)) receive(message, buffers); // bundles are for the widget's loader
      };
      model.on("msg:custom", handler);
      return () => model.off("msg:custom", handler);
    },
    closed(gone) {
      const closed: Handler = (why) => gone(typeof why === "string" ? why : undefined);
      for (const event of CLOSING) model.on(event, closed);
      return () => CLOSING.forEach((event) => model.off(event, closed));
    },
  };
}
