// The module that each widget carries instead of the whole view: it requests the view from the kernel, once per page, and renders it.

const views = (globalThis[Symbol.for("gradient-workbench")] ??= new Map()); // name of a bundle -> its module, or the promise of it
const PATIENCE = 3000; // milliseconds
const AGAIN = "The kernel that made this view has gone; run the cell again.";
const WAITS = "Waiting for the kernel, which may be busy with a cell.";

function ask(model) {
  return new Promise((resolve, reject) => {
    const heard = (message, buffers) => {
      if (message?.bundle !== model.get("_bundle")) return;
      model.off("msg:custom", heard);
      const url = URL.createObjectURL(new Blob([buffers[0]], { type: "text/javascript" }));
      import(url).then(resolve, reject).finally(() => URL.revokeObjectURL(url));
    };
    model.on("msg:custom", heard);
    model.send({ bundle: model.get("_bundle") });
  });
}

/** The view's module. The widget that requested it first may be closed before the answer arrives, so others request it after a while. */
function viewOf(model) {
  const name = model.get("_bundle");
  const known = views.get(name);
  if (known?.module) return Promise.resolve(known.module);
  const asked = (known?.asked ?? ask(model)).then((module) => {
    views.set(name, { module });
    return module;
  });
  if (!known) views.set(name, { asked });
  const later = new Promise((resolve) => setTimeout(resolve, PATIENCE)).then(() => views.get(name)?.module ?? ask(model));
  return Promise.race([asked, later]);
}

/** Returns a function that restores the focus inside `host` after it was detached, unless the user has focused something else. */
function keepFocus(host) {
  let lost = null;
  host.addEventListener("focusout", (event) => {
    const left = event.composedPath()[0];
    queueMicrotask(() => (lost = host.isConnected ? null : left)); // the event is sent before the element is detached
  });
  return () => document.activeElement?.contains(host) && lost?.focus({ preventScroll: true });
}

export default () => {
  let view = null; // promise of the module
  let core = null; // shared by all outputs that show this widget
  const shown = new Set(); // { el, host, seen, focus, close } of each output
  return {
    initialize({ model }) {
      view = viewOf(model).then((module) => {
        core = module.default.open(model);
        return module.default;
      });
      view.catch(() => undefined); // reported where it is rendered
      return () => core?.close();
    },
    async render({ model, el }) {
      // JupyterLab renders an output again when its data changes, as at the end of a cell. The view is then moved to the new element, and
      // keeps its camera, typed text and focus. The old element was on the page and has been detached from its parent.
      const old = [...shown].find((one) => one.seen && !one.el.parentNode);
      const own = old ?? { el, host: document.createElement("div"), seen: false, focus: null, close: null };
      own.el = el;
      el.append(own.host);
      requestAnimationFrame(() => {
        own.seen = own.host.isConnected;
        if (old) own.focus();
      });
      const leave = () => {
        if (own.el !== el) return; // moved on
        shown.delete(own);
        own.close?.();
      };
      if (old) return leave;
      shown.add(own);
      own.focus = keepFocus(own.host);
      const words = document.createElement("p");
      words.setAttribute("role", "status");
      words.textContent = WAITS;
      own.host.append(words);
      own.host.ariaBusy = "true";
      const fail = (why) => {
        words.textContent = why;
        own.host.ariaBusy = null;
      };
      const gone = () => fail(AGAIN);
      const events = ["comm:close", "destroy", "comm_live_update"];
      for (const event of events) model.on(event, gone);
      view.then(
        (module) => {
          for (const event of events) model.off(event, gone);
          words.remove();
          own.host.ariaBusy = null;
          if (shown.has(own)) own.close = module.render({ model, el: own.host, core });
        },
        (error) => fail(`The view could not be loaded: ${error.message}`),
      );
      return leave;
    },
  };
};
