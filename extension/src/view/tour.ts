// Three hints for first-time users, shown once per browser, in the first view that becomes visible.

import { h, setAttribute, setText } from "./dom";

const SEEN = "gradient-workbench-hints"; // key in the browser's storage
const SHOWN = 0.6; // part of the view that must be visible
const GAP = 10; // pixels between a hint and its target

export interface Hint {
  words(): string;
  at(): HTMLElement | null; // null: not on the page now
}

export class Tour {
  readonly element: HTMLElement;
  private readonly words = h("p");
  private readonly count = h("span", { class: "quiet" });
  private readonly next = h("button", { "data-testid": "wb-hint-next", click: () => this.turn() });
  private readonly skip = h("button", { class: "link", "data-testid": "wb-hint-skip", click: () => this.end() }, "Skip");
  private readonly watch: IntersectionObserver | null;
  private at = -1;

  /** `ready` returns whether there is something to explain yet. */
  constructor(
    private readonly root: () => HTMLElement,
    private readonly hints: readonly Hint[],
    ready: () => boolean,
  ) {
    this.element = h(
      "div",
      { class: "hint", role: "note", "aria-label": "Hint", "data-testid": "wb-hint", hidden: true },
      this.words,
      h("div", { class: "row" }, this.count, this.skip, this.next),
    );
    const begin = ([entry]: IntersectionObserverEntry[]) => {
      if (!entry || entry.intersectionRatio < SHOWN || this.at >= 0 || !ready()) return;
      this.watch?.disconnect();
      if (!isNew()) return;
      remember();
      this.turn();
    };
    this.watch = typeof IntersectionObserver === "undefined" ? null : new IntersectionObserver(begin, { threshold: SHOWN });
  }

  /** Called when there is something to explain, or more than before. */
  offer(): void {
    if (!this.watch || this.at >= 0 || !isNew()) return;
    this.watch.disconnect(); // observing again reports the visible part again
    this.watch.observe(this.root());
  }

  /** Places the hint; called when the view's size has changed. */
  place(): void {
    const hint = this.hints[this.at];
    const about = hint?.at();
    if (!hint || !about) return;
    const [all, one] = [this.root().getBoundingClientRect(), about.getBoundingClientRect()];
    const { offsetWidth: w, offsetHeight: high } = this.element;
    const middle = one.left + one.width / 2 - all.left;
    const left = Math.max(GAP, Math.min(all.width - w - GAP, middle - w / 2));
    const below = one.bottom - all.top + GAP;
    const inside = below + high > all.height; // the target reaches down to the border
    this.element.style.left = `${left}px`;
    this.element.style.top = `${inside ? one.top - all.top + GAP : below}px`;
    this.element.style.setProperty("--tip", `${Math.max(14, Math.min(w - 14, middle - left))}px`);
    this.element.classList.toggle("inside", inside);
  }

  close(): void {
    this.watch?.disconnect();
  }

  private turn(): void {
    do this.at += 1;
    while (this.hints[this.at] && !this.hints[this.at]!.at());
    const hint = this.hints[this.at];
    if (!hint) return this.end();
    const last = this.at === this.hints.length - 1;
    setText(this.words, hint.words());
    this.skip.hidden = last;
    setText(this.count, `${this.at + 1} of ${this.hints.length}`);
    setText(this.next, last ? "Done" : "Next hint");
    setAttribute(this.next, "aria-label", last ? "Done" : "Next hint");
    this.element.hidden = false;
    this.place();
  }

  private end(): void {
    this.element.hidden = true;
    this.at = this.hints.length;
  }
}

/** Whether this browser has never shown the hints. False if it has no storage, since the hints would otherwise be shown every time. */
function isNew(): boolean {
  try {
    return localStorage.getItem(SEEN) === null;
  } catch (error) {
    if (error instanceof DOMException) return false;
    throw error;
  }
}

function remember(): void {
  localStorage.setItem(SEEN, "yes");
}
