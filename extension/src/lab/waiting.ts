// Shows a notification if a cell waits for a view that is no longer on the page, for example after a reload, with ways to continue.

import { Notification } from "@jupyterlab/apputils";
import { answered, type State } from "../view/store";
import type { Hub } from "./hub";

const GRACE = 2000; // milliseconds in which a view may still appear
const WAITS = {
  pass: "A cell in this notebook is waiting inside backward(), but its view is no longer on the page. Cells you run now will start after it ends.",
  loop: "A cell in this notebook is waiting in wb.loop(), but its view is no longer on the page. Cells you run now will start after it ends.",
};

/** Notifies the user of a waiting cell that no view on the page can continue. */
export function tellOfWaiting(hub: Hub, openSide: () => void): void {
  let [shown, late] = ["", undefined as ReturnType<typeof setTimeout> | undefined];
  let stop: (() => void) | undefined;
  const dismiss = () => {
    clearTimeout(late);
    late = undefined;
    if (shown) Notification.dismiss(shown);
    shown = "";
  };
  const tell = (kind: keyof typeof WAITS) => {
    late = undefined;
    const { core } = hub;
    if (!core || answered(core.store.state, "bytes")?.message.waits !== kind || isSeen(hub)) return;
    const goOn = () => core.controller.ask(kind === "pass" ? { type: "step", do: "last", to: -1, by: "op" } : { type: "train", do: "play" });
    const actions = [
      { label: "Show it", caption: "Open it in the side panel", callback: openSide },
      { label: "Let it run", caption: "Run the cell to its end without waiting", callback: () => void goOn() },
    ];
    shown = Notification.warning(WAITS[kind], { autoClose: false, actions });
  };
  const follow = (state: State) => {
    const waits = answered(state, "bytes")?.message.waits;
    if (!waits) return dismiss();
    if (shown && isSeen(hub)) return dismiss();
    if (!shown) late ??= setTimeout(() => tell(waits), GRACE);
  };
  hub.changed.connect(() => {
    stop?.();
    dismiss();
    stop = hub.core?.store.subscribe(follow);
  });
}

/** Whether a view is visible in the notebook or in a panel beside it. */
function isSeen(hub: Hub): boolean {
  const notebook = hub.tracker.currentWidget?.node;
  return [...document.querySelectorAll<HTMLElement>(".gradient-workbench")].some(
    (one) => (notebook?.contains(one) || !one.closest(".jp-NotebookPanel")) && one.getClientRects().length > 0,
  );
}
