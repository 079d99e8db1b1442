// What anywidget, the JupyterLab panel and the replay call: listen to a model, ask it for everything, show it.

import { modelTransport, openChannel, type Model } from "./channel";
import { Core } from "./core";
import { View, type Parts } from "./view";

const PATIENCE = 20_000; // milliseconds until silence is called that

export { Core, type Parts };

interface RenderProps {
  model: Model;
  el: HTMLElement;
  core?: Core; // what `open(model)` gave: several views of it show the same
  parts?: Parts;
}

/** Begins to listen to a model, and asks it for nothing yet. */
function listen(model: Model): Core {
  return new Core(openChannel(modelTransport(model), PATIENCE, 1 + Math.floor(Math.random() * 2 ** 40)));
}

/** Begins to listen to a model, and asks it for everything that a view should show. */
function open(model: Model): Core {
  const core = listen(model);
  core.start();
  return core;
}

/** Shows the view in `el` until the returned function is called. */
function render({ model, el, core, parts = "all" }: RenderProps): () => void {
  const height = model.get("height");
  const fills = el.style.height !== "";
  const text = typeof height === "number" ? `${height}px` : fills ? "100%" : null;
  const shown = core ?? open(model);
  const view = new View(el, shown, { parts, height: text });
  return () => {
    view.close();
    if (!core) shown.close();
  };
}

export default { listen, open, render };
