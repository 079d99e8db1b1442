// The status bar item: current and peak memory of the recorded program in the active notebook's kernel.

import { Widget } from "@lumino/widgets";
import { answered } from "../view/store";
import { bytesText } from "../view/words";
import type { Hub } from "./hub";

const PERIOD = 1000; // milliseconds between two requests while a cell runs
const LABEL = "Memory of the recorded program: live now, and at its peak";

export class StatusItem extends Widget {
  private readonly button = document.createElement("button");
  private timer: ReturnType<typeof setInterval> | undefined;
  private stop: (() => void) | undefined;
  private asking = false;
  private ran = true; // something may have changed since the last answer

  constructor(
    private readonly hub: Hub,
    open: () => void,
  ) {
    super();
    this.id = "gradient-workbench-status";
    this.button.title = `${LABEL}. Click for more.`;
    this.button.className = "jp-StatusBar-TextItem";
    Object.assign(this.button.style, { border: "0", background: "none", cursor: "pointer", whiteSpace: "nowrap", fontFamily: "inherit" });
    this.button.addEventListener("click", open);
    this.node.append(this.button);
    hub.changed.connect(() => this.follow());
    hub.ran.connect(() => (this.ran = true));
    this.follow();
  }

  private follow(): void {
    clearInterval(this.timer);
    this.stop?.();
    const { core } = this.hub;
    this.hide();
    if (!core) return;
    this.ran = true;
    this.stop = core.store.subscribe((state) => {
      const bytes = answered(state, "bytes")?.message;
      if (!bytes?.newest) return;
      this.button.textContent = `∇ ${bytesText(bytes.live)}, peak ${bytesText(bytes.peak)}`;
      this.button.setAttribute("aria-label", `${LABEL}: ${bytesText(bytes.live)} and ${bytesText(bytes.peak)}`);
      if (this.isHidden) this.show();
    });
    this.timer = setInterval(() => void this.ask(), PERIOD);
    void this.ask();
  }

  /**
   * Requests the bytes unless the kernel is idle: an idle kernel has nothing new, and requests would keep it from being considered idle.
   */
  private async ask(): Promise<void> {
    const { core } = this.hub;
    const waits = !!core && !!answered(core.store.state, "bytes")?.message.waits;
    const runs = waits || this.hub.tracker.currentWidget?.sessionContext.session?.kernel?.status === "busy";
    if (!core || this.asking || document.hidden || !(runs || this.ran)) return;
    this.asking = true;
    this.ran = runs;
    await core.controller.ask({ type: "ask_bytes" }, true);
    this.asking = false;
  }
}
