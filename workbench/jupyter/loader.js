// What a widget carries instead of the whole view: it asks the kernel for the view, once for each page, and shows it.

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

/** The module of the view. Whoever asked for it first may be gone before the answer comes: after a while a widget asks for itself. */
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

export default () => {
  let view = null; // promise of the module
  let core = null; // all outputs that show this widget show the same
  return {
    initialize({ model }) {
      view = viewOf(model).then((module) => {
        core = module.default.open(model);
        return module.default;
      });
      view.catch(() => undefined); // said where it is shown
      return () => core?.close();
    },
    async render({ model, el }) {
      const words = document.createElement("p");
      words.setAttribute("role", "status");
      words.textContent = WAITS;
      el.append(words);
      const gone = () => (words.textContent = AGAIN);
      const events = ["comm:close", "destroy", "comm_live_update"];
      for (const event of events) model.on(event, gone);
      let close = null;
      let left = false;
      view.then(
        (shown) => {
          for (const event of events) model.off(event, gone);
          words.remove();
          if (!left) close = shown.render({ model, el, core });
        },
        (error) => (words.textContent = `The view could not be loaded: ${error.message}`),
      );
      return () => {
        left = true;
        close?.();
      };
    },
  };
};
