// Presenter mode: full screen, large, with high contrast, without parts a class does not need, and with values hidden until revealed.

import type { Controller } from "./controller";
import { setAttribute } from "./dom";
import { answered, type State } from "./store";

// In the order of revealing: the text beside the graph, the step's sentence, the graph.
const WORDS = [".secret", ".formula", ".gradient", ".values", ".line", ".numbers", ".heat", ".so-far", ".equation"].map((one) => `.panel ${one}`).join(", ");
const GRAPH = ".graph .badge, .graph .flow, .graph tspan.shape, .graph .thumb:not(.slider *)";
const NUMBER = /^[∇‖ ]*[−+-]?(\d|NaN|Inf)[\d.e−+-]*$/; // matches neither shapes nor "scalar"

export class Presenter {
  on = false;
  private readonly shown = new Set<string>(); // keys of revealed values
  private at = ""; // the current position; when it changes, the text is hidden again
  private readonly observer: MutationObserver | null;

  constructor(
    private readonly host: HTMLElement,
    private readonly root: HTMLElement,
    private readonly controller: Controller,
    private readonly fit: () => void,
  ) {
    this.observer = typeof MutationObserver === "undefined" ? null : new MutationObserver(() => this.veil());
    root.addEventListener("click", (event) => this.click(event), { capture: true });
    host.addEventListener("fullscreenchange", () => this.resized());
  }

  toggle(): void {
    this.on = !this.on;
    this.host.classList.toggle("presenting", this.on);
    this.root.classList.toggle("presenter", this.on);
    this.shown.clear();
    if (this.on) this.observer?.observe(this.root, { subtree: true, childList: true, characterData: true });
    else this.observer?.disconnect();
    this.veil();
    void this.fill();
    requestAnimationFrame(() => {
      this.host.scrollIntoView?.({ block: "nearest" }); // its height has changed
      this.fit();
    });
    this.controller.say(this.on ? "Presenter mode: v reveals the next value, Shift v all of them, Shift p ends it." : "Presenter mode has ended.");
  }

  /** Enters or leaves full screen. If the browser does not allow it, as in some frames, the view stays in the page. */
  private async fill(): Promise<void> {
    try {
      if (this.on) await this.host.requestFullscreen?.();
      else if (this.isFull()) await document.exitFullscreen();
    } catch (error) {
      if (!(error instanceof TypeError || error instanceof DOMException)) throw error;
      this.controller.say("The browser does not let the view fill the screen here.");
    }
  }

  private isFull(): boolean {
    return (this.host.getRootNode() as Document).fullscreenElement === this.host;
  }

  /** Leaving full screen with Escape also ends the mode. */
  private resized(): void {
    if (this.on && !this.isFull()) this.toggle();
    else requestAnimationFrame(this.fit);
  }

  /** Reveals the next hidden value, or all. */
  reveal(all: boolean): void {
    if (!this.on) return this.controller.say("Nothing is hidden. Shift p begins presenter mode.");
    const hidden = this.secrets().filter(([, key]) => !this.shown.has(key));
    if (!hidden.length) return this.controller.say("Everything is revealed.");
    for (const [, key] of all ? hidden : hidden.slice(0, 1)) this.shown.add(key);
    this.veil();
    const left = all ? 0 : hidden.length - 1;
    this.controller.say(left ? `${left} more hidden.` : "Everything is revealed.");
  }

  update(state: State): void {
    const at = JSON.stringify([state.recording?.name, state.tab, state.selected, state.pass?.index, answered(state, "lesson")?.message.at]);
    if (at === this.at) return;
    this.at = at;
    for (const key of this.shown) if (key.startsWith("text")) this.shown.delete(key);
    if (this.on) this.veil();
  }

  close(): void {
    this.observer?.disconnect();
  }

  private click(event: Event): void {
    const veiled = (event.composedPath()[0] as Element | undefined)?.closest?.(".veiled");
    const found = veiled && this.secrets().find(([element]) => element === veiled);
    if (!found) return;
    event.stopPropagation();
    event.preventDefault();
    this.shown.add(found[1]);
    this.veil();
  }

  /** The elements that can be hidden, with their keys. A number on the graph stays revealed until it changes. */
  private secrets(): [Element, string][] {
    if (!this.on) return [];
    const words = [...this.root.querySelectorAll(WORDS)].filter((one) => !one.parentElement!.closest(WORDS) && !one.closest("[hidden]"));
    const sentence = this.root.querySelector(".stepper .sentence");
    const texts = [...words, ...(sentence ? [sentence] : [])].filter((one) => one.textContent || one.childElementCount);
    const numbers = [...this.root.querySelectorAll(GRAPH)].filter((one) => NUMBER.test(one.textContent!.trim()) || one.matches(".thumb"));
    return [
      ...texts.map((one, at): [Element, string] => [one, `text ${at}`]),
      ...numbers.map((one): [Element, string] => [one, `${one.closest("[data-node]")?.getAttribute("data-node")} ${one.classList[0]} ${one.textContent}`]),
    ];
  }

  private veil(): void {
    const secrets = new Map(this.secrets());
    for (const one of this.root.querySelectorAll(".veiled")) if (!secrets.has(one)) this.cover(one, false);
    for (const [one, key] of secrets) this.cover(one, !this.shown.has(key));
    // A tooltip would reveal hidden values.
    for (const one of this.root.querySelectorAll(this.on ? "[title]" : "[data-title]")) {
      if (this.on && one.matches("button, select, input")) continue;
      one.setAttribute(this.on ? "data-title" : "title", one.getAttribute(this.on ? "title" : "data-title")!);
      one.removeAttribute(this.on ? "title" : "data-title");
    }
  }

  private cover(one: Element, on: boolean): void {
    one.classList.toggle("veiled", on);
    setAttribute(one, "aria-hidden", on ? "true" : null);
  }
}
