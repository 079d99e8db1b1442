// The layout of a tensor in memory, as a picture, and the tensors that share the memory.

import { h, s } from "../dom";
import type { MemoryLayout } from "../protocol";
import { shapeText } from "../words";
import { lazyTwin, percent, table } from "./charts";

const CELL = 22;
const ACROSS = 12;

/** Draws a small memory element by element, numbered in the tensor's order, and a larger one as a strip of pieces. */
export function drawPlacement(layout: MemoryLayout, show: (node: number) => void): HTMLElement {
  const { order, shares, sharers, words } = layout;
  return h(
    "div",
    { class: "placement", "data-testid": "wb-placement" },
    order.length ? grid(order) : shares.length ? strip(shares) : null,
    order.length ? lazyTwin(() => table(["place", "element"], order.map((at, place) => [String(place), at < 0 ? "not its own" : String(at)]), [0])) : null,
    shares.length && !order.length ? lazyTwin(() => table(["piece", "share of it"], shares.map((share, at) => [String(at), percent(share)]), [0, 1])) : null,
    h("p", {}, words),
    sharers.length
      ? h(
          "ul",
          {},
          ...sharers.map(({ node, name, shape, how }) => {
            const called = name || (node >= 0 ? `#${node}` : "a tensor");
            return h(
              "li",
              {},
              node >= 0 ? h("button", { class: "link", click: () => show(node) }, called) : h("b", {}, called),
              h("span", { class: "quiet" }, ` ${shapeText(shape)}, ${how}`),
            );
          }),
        )
      : h("p", { class: "quiet" }, "Nothing else that is known shares this memory."),
  );
}

function grid(order: readonly number[]): SVGElement {
  const across = Math.min(ACROSS, order.length);
  const down = Math.ceil(order.length / across);
  const mine = order.filter((at) => at >= 0).length;
  return s(
    "svg",
    {
      ...{ class: "memory-grid", viewBox: `0 0 ${across * CELL + 1} ${down * CELL + 1}`, width: across * CELL + 1, height: down * CELL + 1 },
      ...{ role: "img", "aria-label": `A memory of ${order.length} places; ${mine} belong to this tensor, numbered in its own order` },
    },
    ...order.map((at, place) => {
      const [x, y] = [(place % across) * CELL + 0.5, Math.floor(place / across) * CELL + 0.5];
      return s(
        "g",
        { class: at >= 0 ? "mine" : "other" },
        s("rect", { x, y, width: CELL, height: CELL }, s("title", {}, at >= 0 ? `place ${place}: element ${at}` : `place ${place}: not its own`)),
        at >= 0 ? s("text", { x: x + CELL / 2, y: y + CELL / 2 + 4 }, String(at)) : null,
      );
    }),
  );
}

function strip(shares: readonly number[]): SVGElement {
  const wide = 320 / shares.length;
  const touched = shares.filter((share) => share > 0).length;
  return s(
    "svg",
    { class: "memory-strip", viewBox: "0 0 320 20", preserveAspectRatio: "none", role: "img", "aria-label": `It is in ${touched} of ${shares.length} equal pieces of the memory` },
    ...shares.map((share, at) => s("rect", { x: at * wide, y: 0, width: wide, height: 20, "fill-opacity": share > 0 ? Math.max(0.15, share) : 0 })),
    s("rect", { class: "frame", x: 0, y: 0, width: 320, height: 20 }),
  );
}
