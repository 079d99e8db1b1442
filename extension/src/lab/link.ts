// The link between the panel and the active notebook's kernel: checks whether the workbench is loaded there, and opens a comm to it.

import type { ISessionContext } from "@jupyterlab/apputils";
import type { INotebookTracker } from "@jupyterlab/notebook";
import { type Kernel, KernelMessage } from "@jupyterlab/services";
import { Signal } from "@lumino/signaling";
import { CommModel } from "./model";

const TARGET = "workbench";
const IN_ORDER = 1000; // milliseconds until a kernel that has not answered is asked in another way

// A kernel logs an error if a comm is opened to an unknown target, so check first, in a way that leaves no trace in the notebook.
const IS_LOADED = `"${TARGET}" in __import__("comm").get_comm_manager().targets`;

export const NO_NOTEBOOK = "Open a notebook to see its graph here.";
export const NO_KERNEL = "The active notebook has no running kernel.";
export const NOT_PYTHON = "The active notebook's kernel does not run Python.";
export const WAITING = "Waiting for the kernel of the active notebook.";
export const RESTARTED = "The kernel has restarted, so what is shown here is from before. Run the notebook's cells again.";
export const DIED = "The kernel has died, so what is shown here is from before. Restart it and run the cells again.";
export const NOT_LOADED = "Run %load_ext workbench in this notebook to see its graph here.";

/** What to show: a live model, or a message that explains why there is none; `keeps`: a graph on the screen may be kept. */
export type Content = CommModel | { sentence: string; keeps?: boolean };

/** A JupyterLab comm; since 4.4 its messages go to a subshell, which is not part of the public interface. */
type Comm = Kernel.IComm & { subshellStarted?: Promise<void>; subshellId?: string | null };

export class KernelLink {
  readonly changed = new Signal<this, Content>(this);
  readonly ran = new Signal<this, void>(this); // a cell has started running
  private seen = false;
  private context: ISessionContext | null = null;
  private kernel: Kernel.IKernelConnection | null = null;
  private comm: Comm | null = null;
  private model: CommModel | null = null;
  private opened = false; // the comm was opened in the kernel
  private readonly loaded = new WeakSet<Kernel.IKernelConnection>(); // kernels known to have loaded the workbench
  private asking = false;
  private askAgain = false;

  constructor(private readonly tracker: INotebookTracker) {}

  start(): void {
    this.tracker.currentChanged.connect(this.follow, this);
    this.follow();
  }

  /** Sets whether a graph is visible. If not, a kernel gets no requests until its notebook mentions the workbench. */
  watch(seen: boolean): void {
    if (seen === this.seen) return;
    this.seen = seen;
    if (!seen || this.comm === null) this.onKernel(); // a comm that has carried a graph would receive all its changes, so it is closed
  }

  private follow(): void {
    const context = this.tracker.currentWidget?.sessionContext ?? null;
    if (context !== null && context === this.context) return;
    this.unfollow();
    if (context === null) {
      this.changed.emit({ sentence: NO_NOTEBOOK });
      return;
    }
    this.context = context;
    context.kernelChanged.connect(this.onKernel, this);
    context.statusChanged.connect(this.onStatus, this);
    context.iopubMessage.connect(this.onOutput, this);
    this.onKernel();
  }

  private unfollow(): void {
    this.context?.kernelChanged.disconnect(this.onKernel, this);
    this.context?.statusChanged.disconnect(this.onStatus, this);
    this.context?.iopubMessage.disconnect(this.onOutput, this);
    this.context = null;
    this.closeComm();
    this.kernel = null;
  }

  private onKernel(): void {
    this.closeComm();
    this.kernel = this.context?.session?.kernel ?? null;
    this.asking = this.askAgain = false;
    if (this.kernel === null) {
      this.changed.emit({ sentence: this.context === null ? NO_NOTEBOOK : NO_KERNEL });
    } else {
      this.changed.emit({ sentence: WAITING });
      const cells = this.tracker.currentWidget?.content.widgets ?? [];
      if (this.seen || this.loaded.has(this.kernel) || cells.some((cell) => speaks(cell.model.sharedModel.getSource()))) void this.connect(this.kernel);
    }
  }

  // A restarted kernel has not loaded the workbench; JupyterLab disposes of its comms.
  private onStatus(_: ISessionContext, status: Kernel.Status): void {
    const restarting = status === "restarting" || status === "autorestarting";
    if (!restarting && status !== "dead") return;
    if (this.kernel) this.loaded.delete(this.kernel);
    this.model?.lost(restarting ? RESTARTED : DIED);
    this.comm = this.model = null;
    this.changed.emit({ sentence: restarting ? NOT_LOADED : NO_KERNEL, keeps: true });
  }

  /** A view in this notebook's output has received a message from its kernel, so the workbench is loaded, whatever is running now. */
  heard(context: ISessionContext): void {
    const kernel = context.session?.kernel;
    if (!kernel) return;
    this.loaded.add(kernel);
    if (kernel === this.kernel && this.comm === null) void this.openComm(kernel);
  }

  // A cell has started that may load the workbench: ask after it.
  private onOutput(_: ISessionContext, message: KernelMessage.IMessage): void {
    if (!KernelMessage.isExecuteInputMsg(message)) return;
    this.ran.emit();
    if (this.comm !== null || this.kernel === null || !(this.seen || speaks(message.content.code))) return;
    if (this.asking) this.askAgain = true;
    else void this.connect(this.kernel);
  }

  private async connect(kernel: Kernel.IKernelConnection): Promise<void> {
    if (this.loaded.has(kernel)) return this.openComm(kernel);
    this.asking = true;
    let answer: string | null;
    do {
      this.askAgain = false;
      answer = await ask(kernel, (waits) => void this.overtake(kernel, waits));
      if (kernel !== this.kernel) return; // another notebook or kernel has become active meanwhile
    } while (answer !== null && this.askAgain);
    this.asking = false;
    if (this.comm !== null) return; // a view in the notebook has received a message meanwhile
    if (answer !== null) return void this.changed.emit({ sentence: answer, keeps: true });
    this.loaded.add(kernel);
    await this.openComm(kernel);
  }

  /**
   * Checks for a workbench that answers while a cell waits. A kernel answers in order, so a running cell delays the answer of `ask`. But if
   * the cell waits for a view, the workbench itself answers the later comm request before that.
   */
  private async overtake(kernel: Kernel.IKernelConnection, waits: () => boolean): Promise<void> {
    await new Promise((resume) => setTimeout(resume, IN_ORDER));
    if (!waits() || kernel !== this.kernel) return;
    try {
      await kernel.requestCommInfo({});
    } catch {
      return; // the kernel ended
    }
    if (!waits() || kernel !== this.kernel || this.comm !== null) return;
    this.loaded.add(kernel);
    await this.openComm(kernel);
  }

  private async openComm(kernel: Kernel.IKernelConnection): Promise<void> {
    const comm: Comm = kernel.createComm(TARGET);
    const model = (this.model = new CommModel(comm));
    comm.onClose = () => {
      if (this.comm !== comm) return;
      this.loaded.delete(kernel);
      this.comm = this.model = null;
      this.changed.emit({ sentence: NOT_LOADED });
    };
    this.comm = comm;
    this.opened = false;
    // Messages sent before the comm's subshell has started would wait for the running cell to end.
    if (kernel.supportsSubshells) await comm.subshellStarted?.catch(() => undefined); // without one, the main shell is used
    if (this.comm !== comm) {
      comm.dispose(); // not disposed elsewhere; disposing a comm twice would end the subshell that the next one shares with it
      return;
    }
    comm.open();
    this.opened = true;
    this.changed.emit(model);
  }

  private closeComm(): void {
    if (this.comm !== null && this.opened && this.kernel !== null) void close(this.comm, this.kernel);
    this.comm = this.model = null;
  }
}

/** Like `comm.close()`, which may end the comm's subshell before the kernel has read the closing message there. */
async function close(comm: Comm, kernel: Kernel.IKernelConnection): Promise<void> {
  if (comm.isDisposed || kernel.isDisposed) return;
  comm.onMsg = () => {};
  const message = KernelMessage.createMessage({
    msgType: "comm_close",
    channel: "shell",
    session: kernel.clientId,
    username: kernel.username,
    subshellId: comm.subshellId ?? undefined,
    content: { comm_id: comm.commId, data: {} },
  });
  try {
    await kernel.sendShellMessage(message, false, true).done;
  } catch {
    return; // the kernel ended or restarted meanwhile, and its comms with it
  }
  comm.dispose();
}

function speaks(code: string): boolean {
  return code.includes("workbench");
}

/**
 * Returns null if the workbench is loaded in the kernel, else the message for the empty panel. Calls `asked` once the request is sent, with
 * a function that tells whether it is still pending.
 */
async function ask(kernel: Kernel.IKernelConnection, asked: (waits: () => boolean) => void): Promise<string | null> {
  try {
    if ((await kernel.info).language_info.name !== "python") return NOT_PYTHON;
    for (;;) {
      const future = kernel.requestExecute({ code: "", silent: true, store_history: false, user_expressions: { loaded: IS_LOADED } });
      let waits = true;
      asked(() => waits);
      const { content } = await future.done;
      waits = false;
      if (content.status === "ok") return isTrue(content.user_expressions.loaded) ? null : NOT_LOADED;
      if (content.status === "error") return NOT_LOADED;
      // "aborted": an earlier cell raised an error, and the kernel dropped the requests queued after it
    }
  } catch {
    return NO_KERNEL; // the promises of a kernel that died or was shut down are rejected
  }
}

function isTrue(expression: unknown): boolean {
  const data = (expression as { data?: Record<string, unknown> } | undefined)?.data;
  return data?.["text/plain"] === "True";
}
