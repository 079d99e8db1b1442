// A kernel comm in the shape of the model that the view expects (the same as anywidget's).

import type { Kernel, KernelMessage } from "@jupyterlab/services";
import type { JSONObject } from "@lumino/coreutils";

export type Listener = (content: unknown, buffers: DataView[]) => void;

export class CommModel {
  private readonly listeners = new Set<Listener>();

  constructor(private readonly comm: Kernel.IComm) {
    comm.onMsg = (message) => {
      const buffers = (message.buffers ?? []).map(asDataView);
      for (const listener of [...this.listeners]) listener(message.content.data, buffers);
    };
  }

  /** A widget's synchronised state; a panel has none. */
  get(_key: string): undefined {
    return undefined;
  }

  /** Messages to a comm that has been closed are dropped: the view is on its way out then. */
  send(content: unknown, _callbacks?: unknown, buffers?: (ArrayBuffer | ArrayBufferView<ArrayBuffer>)[]): void {
    if (!this.comm.isDisposed) this.comm.send(content as JSONObject, undefined, buffers);
  }

  on(event: string, listener: Listener): void {
    if (event === "msg:custom") this.listeners.add(listener);
  }

  off(_event?: string | null, listener?: Listener | null): void {
    if (listener) this.listeners.delete(listener);
    else this.listeners.clear();
  }
}

function asDataView(buffer: NonNullable<KernelMessage.IMessage["buffers"]>[number]): DataView {
  return buffer instanceof ArrayBuffer ? new DataView(buffer) : new DataView(buffer.buffer as ArrayBuffer, buffer.byteOffset, buffer.byteLength);
}
