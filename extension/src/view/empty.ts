// The message in a view with nothing to draw: what it waits for, and what to do.

import { h } from "./dom";
import { answered, type State } from "./store";

export function emptyWords(state: State): HTMLElement[] {
  const { recording, status } = state;
  if (answered(state, "training")?.message.state === "waits")
    return [
      h("p", {}, "The loop waits before its first turn."),
      h("p", { class: "quiet" }, "Play it, or go through it turn by turn; each turn's graph can be looked at here."),
    ];
  if (recording?.live) return [h("p", {}, "Recording. The graph appears with the first op.")];
  if (recording)
    return [
      h("p", {}, "Nothing was recorded."),
      h("p", { class: "quiet" }, "Ops on tensors make the graph; start a cell with %%watch to record it, or call wb.show(loss)."),
    ];
  if (status.tone === "error") return [h("p", {}, status.sentence)];
  return [
    h("p", {}, "Waiting for the kernel."),
    h("p", { class: "quiet" }, "If nothing comes, run the cell again: a view lives only as long as its kernel."),
  ];
}
