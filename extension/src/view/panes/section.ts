// A part of a pane that can be folded, and how such parts ask the kernel: the latest wish wins, and nothing is asked twice.

import type { Controller, Request } from "../controller";
import { h } from "../dom";

export class Section {
  readonly body = h("div", { class: "body" });
  readonly element: HTMLDetailsElement;
  readonly note = h("span", { class: "quiet note" });

  constructor(title: string, test: string, opened: () => void) {
    this.element = h("details", { class: "section", "data-testid": test }, h("summary", {}, h("h4", {}, title), this.note), this.body);
    this.element.addEventListener("toggle", () => this.open && opened());
  }

  get open(): boolean {
    return this.element.open;
  }
}

/** One question at a time; of those that come meanwhile the last. */
export class Asker {
  private asked = "";
  private busy = false;
  private wish: Request | null = null;

  constructor(private readonly controller: Controller) {}

  /** Asks, unless this very question was the last one; `mark` tells apart the times at which it may have another answer. */
  ask(request: Request, mark = ""): void {
    const key = JSON.stringify([request, mark]);
    if (key === this.asked) return;
    this.asked = key;
    if (this.busy) this.wish = request;
    else void this.send(request);
  }

  private async send(request: Request): Promise<void> {
    this.busy = true;
    const fine = await this.controller.ask(request);
    this.busy = false;
    if (!fine) this.asked = "";
    const next = this.wish;
    this.wish = null;
    if (next) void this.send(next);
  }
}

/** Asks, and gives the sentence of a refusal to whoever asked instead of the whole view; "" when there was an answer. */
export async function demand(controller: Controller, request: Request): Promise<string> {
  if (await controller.ask(request)) return "";
  const { status } = controller.store.state;
  controller.say("");
  return status.sentence || "The kernel could not do it.";
}
