// A kernel comm in the shape of the model that the view expects (the same as anywidget's).

import type { Kernel } from "@jupyterlab/services";
import type { JSONObject } from "@lumino/coreutils";
import type { Handler, Model } from "../view/channel";

export class CommModel implements Model {
  private readonly handlers = new Set<Handler>();

  constructor(private readonly comm: Kernel.IComm) {
    comm.onMsg = ({ content, buffers }) => {
      for (const handler of [...this.handlers]) handler(content.data, buffers);
    };
  }

  /** A widget's synchronised state; a panel has none. */
  get(): undefined {
    return undefined;
  }

  /** Messages to a comm that has been closed are dropped: the view is on its way out then. */
  send(message: unknown): void {
    if (!this.comm.isDisposed) this.comm.send(message as JSONObject);
  }

  on(event: string, handler: Handler): void {
    if (event === "msg:custom") this.handlers.add(handler);
  }

  off(event: string, handler: Handler): void {
    if (event === "msg:custom") this.handlers.delete(handler);
  }
}
