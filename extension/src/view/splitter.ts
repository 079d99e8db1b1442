// The handle between graph and panel, moved by dragging or with the arrow keys.

import { h, setAttribute } from "./dom";

export function splitter(panel: () => HTMLElement): HTMLElement {
  const bar = h("div", {
    class: "splitter",
    role: "separator",
    tabindex: 0,
    "aria-label": "Width of the details",
    "aria-orientation": "vertical",
    "aria-valuemin": 0,
    "aria-valuemax": 100,
    "aria-valuenow": 35,
  });
  const narrow = () => bar.closest(".narrow") !== null;
  const resize = (by: number) => {
    const element = panel();
    if (narrow()) element.style.flexBasis = `${Math.max(80, element.clientHeight + by)}px`;
    else element.style.flexBasis = `${Math.max(300, element.clientWidth + by)}px`;
    const [own, all] = narrow() ? [element.clientHeight, bar.parentElement!.clientHeight] : [element.clientWidth, bar.parentElement!.clientWidth];
    setAttribute(bar, "aria-valuenow", all ? Math.round((100 * own) / all) : null);
  };
  bar.addEventListener("pointerdown", (event) => {
    bar.setPointerCapture(event.pointerId);
    event.preventDefault();
  });
  bar.addEventListener("pointermove", (event) => {
    if (bar.hasPointerCapture(event.pointerId)) resize(narrow() ? -event.movementY : -event.movementX);
  });
  bar.addEventListener("keydown", (event) => {
    const by = { ArrowLeft: 20, ArrowUp: 20, ArrowRight: -20, ArrowDown: -20 }[event.key];
    if (by === undefined) return;
    event.preventDefault();
    event.stopPropagation();
    resize(by);
  });
  return bar;
}
