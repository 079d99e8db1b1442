// Edits a tensor: clickable elements, an index and an expression.

import { h, put, setAttribute } from "../dom";
import type { Edited } from "../protocol";
import { figure, flatOf, indexOf } from "./strip";
import { shapeText } from "../words";

export interface Wish {
  text: string;
  index: number[] | null;
}

/** A one-line form, chips with common expressions, and the heat map to choose an element in. */
export class Editor {
  readonly element = h("form", { class: "editor" });
  private readonly text: HTMLInputElement;
  private readonly index: HTMLInputElement;
  private readonly picture = h("div", { class: "cells" });
  private readonly refusal = h("p", { class: "missing", role: "alert", hidden: true });
  private edited: Edited | null = null;
  private buffers: readonly DataView[] = [];
  private place: { dark: boolean; width: number } = { dark: false, width: 240 };

  constructor(
    name: string,
    chips: readonly string[],
    test: string,
    action: string,
    private readonly done: (wish: Wish) => Promise<string>,
  ) {
    this.text = h("input", {
      type: "text",
      value: chips[0]!,
      spellcheck: "false",
      autocomplete: "off",
      "aria-label": `Expression in ${name}`,
      "data-testid": `${test}-text`,
    });
    this.index = h("input", {
      type: "text",
      placeholder: "all",
      autocomplete: "off",
      "aria-label": "Index of one element, such as 0, 2; empty for all",
      "data-testid": `${test}-index`,
      size: 8,
    });
    this.index.addEventListener("input", () => this.draw());
    const chip = (text: string) => h("button", { type: "button", class: "chip", click: () => this.put(text) }, text);
    const go = h("button", { type: "submit", class: "framed", "data-testid": `${test}-go` }, action);
    this.element.append(
      this.picture,
      h("div", { class: "row line" }, h("code", {}, `${name}[`), this.index, h("code", {}, "] ="), this.text, go),
      h("div", { class: "chips" }, ...chips.map(chip)),
      this.refusal,
    );
    this.element.addEventListener("submit", (event) => {
      event.preventDefault();
      void this.submit();
    });
    // Keys typed here must not trigger commands of the view.
    this.element.addEventListener("keydown", (event) => event.key !== "Escape" && event.stopPropagation());
  }

  private put(text: string): void {
    this.text.value = text;
    this.text.focus();
  }

  /** Shows the tensor that can be edited; if null, only an expression can be typed, and `words` says why. */
  show(edited: Edited | null, words: string, buffers: readonly DataView[], place: { dark: boolean; width: number }): void {
    if (edited?.node !== this.edited?.node || edited?.name !== this.edited?.name) this.index.value = "";
    this.edited = edited;
    this.buffers = buffers;
    this.place = place;
    if (edited) this.draw();
    else put(this.picture, words ? h("p", { class: "quiet" }, words) : null);
  }

  private draw(): void {
    const { edited } = this;
    if (!edited) return;
    const scalar = edited.shape.length === 0;
    this.index.hidden = scalar;
    const at = this.wished();
    setAttribute(this.index, "aria-invalid", at !== null && flatOf(at, edited.shape) < 0 ? "true" : null);
    const choose = (flat: number) => {
      this.index.value = indexOf(flat, edited.shape).join(", ");
      this.draw();
      this.text.select();
      this.text.focus({ preventScroll: true });
    };
    const chosen = at ? flatOf(at, edited.shape) : -1;
    const { label, summary } = edited.picture;
    // Small tensors are shown as clickable cells too.
    const picture = { ...edited.picture, summary: { ...summary, values: edited.shape.length ? null : summary.values } };
    put(
      this.picture,
      figure({ ...picture, label }, { buffers: this.buffers, ...this.place, height: 110, choose, chosen }),
      edited.shape.length ? h("p", { class: "quiet" }, `Click a cell of ${shapeText(edited.shape)}, or change all elements at once.`) : null,
    );
  }

  private wished(): number[] | null {
    const text = this.index.value.trim();
    if (!text || this.index.hidden) return null;
    return text
      .replace(/^[[(]|[\])]$/g, "")
      .split(",")
      .filter((part) => part.trim())
      .map(Number);
  }

  private async submit(): Promise<void> {
    const index = this.wished();
    if (index && this.edited && flatOf(index, this.edited.shape) < 0) {
      return this.refuse(`There is no element [${this.index.value}] in a tensor of shape ${shapeText(this.edited.shape)}.`);
    }
    this.refuse(await this.done({ text: this.text.value, index }));
  }

  private refuse(sentence: string): void {
    this.refusal.textContent = sentence;
    this.refusal.hidden = !sentence;
  }
}
