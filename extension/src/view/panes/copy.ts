// A button that copies a Python expression.

import type { Controller } from "../controller";
import { h } from "../dom";
import { icon } from "../icons";

export function copyButton(text: string, controller: Controller): HTMLElement {
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text);
      controller.say(`Copied ${text}`);
    } catch (error) {
      // Pages without a secure context have no clipboard, and the user may deny access.
      const why = error instanceof Error ? error.message : String(error);
      controller.say(`This page cannot copy (${why}). The expression is ${text}`, "error");
    }
  };
  return h("button", { class: "copy", title: `Copy ${text}`, "aria-label": `Copy ${text}`, "data-testid": "wb-copy", click: () => void copy() }, icon("copy"));
}
