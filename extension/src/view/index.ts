// The entry points for anywidget, the JupyterLab panel and the replay: listen to a model, request its state, show it.

import { modelTransport, openChannel, type Model } from "./channel";
import { Core } from "./core";
import { h } from "./dom";
import { View, type Parts } from "./view";

const PATIENCE = 20_000; // milliseconds until a request times out
// JupyterLab sends a new widget's messages to the main shell, where they wait for the end of the running cell, until it has started a
// subshell for them. It does not tell a widget when.
const AGAIN = [1000, 5000];

export { Core, type Parts };

interface RenderProps {
  model: Model;
  el: HTMLElement;
  core?: Core; // result of `open(model)`; several views may share it
  parts?: Parts;
  hints?: boolean; // whether a first view explains itself
}

/** Starts listening to a model, without sending requests. */
function listen(model: Model, again: readonly number[] = []): Core {
  return new Core(openChannel(modelTransport(model), PATIENCE, 1 + Math.floor(Math.random() * 2 ** 40), again));
}

/** Starts listening to a model, and requests everything that a view shows. */
function open(model: Model): Core {
  const core = listen(model, AGAIN);
  core.start();
  return core;
}

/** Shows the view in `el`; returns a function that removes it. */
function render({ model, el, core, parts = "all", hints = true }: RenderProps): () => void {
  const above = model.get("_above");
  const sentence = typeof above === "string" && above ? h("div", { style: "padding: 4px 0 6px" }, above) : null;
  if (sentence) el.append(sentence);
  const height = model.get("height");
  const fills = el.style.height !== "";
  const text = typeof height === "number" ? `${height}px` : fills ? "100%" : null;
  const shown = core ?? open(model);
  const view = new View(el, shown, { parts, height: text, hints });
  return () => {
    view.close();
    sentence?.remove();
    if (!core) shown.close();
  };
}

export default { listen, open, render };
