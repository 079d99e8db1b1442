// Adapts a kernel comm to the model interface that the view expects, which is anywidget's.

import type { Kernel } from "@jupyterlab/services";
import type { JSONObject } from "@lumino/coreutils";
import type { Handler, Model } from "../view/channel";

export class CommModel implements Model {
  private readonly handlers = new Map<string, Set<Handler>>();

  constructor(private readonly comm: Kernel.IComm) {
    comm.onMsg = ({ content, buffers }) => this.tell("msg:custom", content.data, buffers);
  }

  /** Reports that the kernel at the other end is gone, with the reason. */
  lost(sentence: string): void {
    this.tell("comm:close", sentence);
  }

  private tell(event: string, ...what: [] | Parameters<Handler>): void {
    for (const handler of [...(this.handlers.get(event) ?? [])]) (handler as (...what: unknown[]) => void)(...what);
  }

  /** A widget's synchronized state, which a panel does not have. */
  get(): undefined {
    return undefined;
  }

  /** Messages to a closed comm are dropped, since the view is being closed then. */
  send(message: unknown): void {
    if (!this.comm.isDisposed) this.comm.send(message as JSONObject);
  }

  on(event: string, handler: Handler): void {
    this.handlers.set(event, (this.handlers.get(event) ?? new Set()).add(handler));
  }

  off(event: string, handler: Handler): void {
    this.handlers.get(event)?.delete(handler);
  }
}
