// Shared by all views on one channel to the kernel: the state, the controller, and the requests sent when the state changes.

import { SILENT, type Channel, type Received } from "./channel";
import { Controller } from "./controller";
import { nodesAt, staleFlags, type NotebookNews } from "./notebook";
import { answered, createStore, START, type Action, type State, type Store } from "./store";

export class Core {
  readonly store: Store = createStore(START, (...trouble) => this.recover(...trouble));
  readonly controller: Controller;
  private readonly stops: (() => void)[];
  private cells: NotebookNews["cells"] = undefined;
  private caret: NotebookNews["caret"] = null;
  private started = false;

  constructor(private readonly channel: Channel) {
    this.controller = new Controller(this.store, channel);
    this.stops = [
      this.store.subscribe((state, before) => this.follow(state, before)),
      channel.subscribe({
        message: (received) => this.receive(received),
        trouble: (sentence, gone) => {
          if (gone) this.store.dispatch({ do: "gone" });
          this.controller.say(sentence, "error");
        },
      }),
    ];
  }

  /** Requests everything to show, once. Until then only explicit requests are sent. */
  start(): void {
    if (this.started) return;
    this.started = true;
    this.controller.start();
  }

  close(): void {
    this.controller.close();
    this.channel.close();
    this.stops.forEach((stop) => stop());
  }

  private receive(received: Received): void {
    try {
      this.store.dispatch({ do: "receive", received });
      if (received.late && this.store.state.status.sentence === SILENT) this.controller.say("");
    } catch (error) {
      console.error(error); // already shown on the screen
    }
  }

  /** Shows an error instead of a partly updated view, and returns to the previous state. */
  private recover(error: unknown, action: Action, before: State): void {
    if (action.do === "return") return;
    const what = action.do === "receive" ? `The kernel's “${action.received.message.type}” message` : "This";
    const why = error instanceof Error ? error.message : String(error);
    const status = { sentence: `${what} could not be shown (${why}). Run the cell again.`, tone: "error" } as const;
    try {
      this.store.dispatch({ do: "return", to: { ...before, status } });
    } catch {
      this.store.dispatch({ do: "return", to: { ...START, status } }); // the previous state cannot be shown either
    }
  }

  private follow(state: State, before: State): void {
    const { controller } = this;
    if (before.recording && before.recording.name !== state.recording?.name) controller.forget();
    if (state.recording && state.recording !== before.recording) this.catchUp(state);
    if (state.recording !== before.recording && !state.recording?.live) this.light();
    if (before.pass && state.pass && before.pass.index !== state.pass.index) controller.moved();
    if (state.pass !== before.pass) controller.askForNorms();
    if (state.recording !== before.recording || answered(state, "cell_runs") !== answered(before, "cell_runs")) this.flagStale();
  }

  /** Handles news from the notebook: the caret has moved, cells were edited, or messages may have been lost. */
  hear({ caret, cells, reconnected }: NotebookNews): void {
    if (reconnected && this.started) this.controller.start();
    if (cells) this.cells = cells;
    if (cells) this.flagStale();
    if (caret === undefined) return;
    this.caret = caret;
    this.light();
  }

  /** Highlights the nodes made by the line under the caret, also in a graph that arrives later. */
  private light(): void {
    const { recording, caret: old } = this.store.state;
    if (!recording) return;
    const nodes = new Set(this.caret ? nodesAt(recording, this.caret) : []);
    if (nodes.size !== old.size || [...nodes].some((node) => !old.has(node))) this.store.dispatch({ do: "caret", nodes });
  }

  private flagStale(): void {
    const { recording, flags } = this.store.state;
    if (!recording || recording.live) return;
    const stale = staleFlags(recording, answered(this.store.state, "cell_runs")?.message.runs ?? [], this.cells ?? null);
    const told = (some: typeof stale | undefined) => JSON.stringify(some ?? []);
    if (told(stale) !== told(flags.get("stale") as typeof stale | undefined)) this.store.dispatch({ do: "flag", origin: "stale", flags: stale });
  }

  /** Requests what the views need, after a new graph or for a new view. */
  catchUp({ recording, tab } = this.store.state): void {
    if (!recording) return;
    if (recording.view === "tensor") return this.controller.inspect();
    this.controller.tab(tab);
    this.controller.askForNumbers();
  }
}
