// Collapsible sections of a pane, and their requests to the kernel: the latest wins, and none is sent twice in a row.

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

/** Sends one request at a time; of those made meanwhile, only the last is sent. */
export class Asker {
  private asked = "";
  private busy = false;
  private wish: Request | null = null;

  constructor(private readonly controller: Controller) {}

  /** Sends a request unless it equals the last one; `mark` distinguishes times at which the answer may differ. */
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

/** Sends a request. Returns "", or the message if it was refused, which is then not shown in the view's status. */
export async function demand(controller: Controller, request: Request): Promise<string> {
  if (await controller.ask(request)) return "";
  const { status } = controller.store.state;
  controller.say("");
  return status.sentence || "The kernel could not do it.";
}
