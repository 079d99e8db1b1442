// Draws boxes and wires as SVG and marks them, both for the screen and for the saved picture.

import { s, setAttribute, setText, type Child } from "../dom";
import { describe, failed, HEADER, fromAfar, headerWidth, SLIDER, type Pill, type Slider } from "./face";
import type { Box } from "./layout";
import type { Flag, Mark } from "./marks";
import type { Recording } from "../store";
import { ALL } from "./tree";
import type { Wire } from "./wires";
import { noteOf } from "../words";

export function drawBox(box: Box, recording: Recording, idPrefix = ""): SVGGElement {
  const isGroup = box.kind === "open" || box.kind === "closed";
  const element = s(
    "g",
    {
      id: `${idPrefix}${box.key}`,
      role: "treeitem",
      "aria-level": box.depth + 1,
      "aria-expanded": isGroup ? String(box.kind === "open") : null,
      "aria-label": describe(recording, box.key, box.kind === "open"),
      "data-testid": "wb-node",
      [isGroup ? "data-group" : "data-node"]: box.id,
      "data-key": box.key,
      transform: `translate(${box.x} ${box.y})`,
    },
    ...(isGroup ? groupParts(box) : nodeParts(box, recording, idPrefix)),
  );
  element.dataset.base = `wb-box ${box.kind}${isGroup ? "" : ` ${recording.nodes.kind[box.id]}`}`;
  element.setAttribute("class", element.dataset.base);
  return element;
}

function nodeParts(box: Box, recording: Recording, idPrefix: string): Child[] {
  const { w, h, face } = box;
  const note = noteOf(recording, box.id);
  const rx = box.kind === "source" ? Math.min(20, h / 2) : 8;
  return [
    note ? s("title", {}, note) : null,
    outline(recording.nodes.kind[box.id]!, w, h),
    s("rect", { class: "tint", width: w, height: h, rx }),
    titleText(box, 23),
    s("text", { class: "badge", x: w - face.inset, y: 22.5, "text-anchor": "end" }),
    s(
      "text",
      { class: "detail", x: face.line[0], y: face.line[1] },
      face.name ? s("tspan", { class: "name" }, face.name) : null,
      s("tspan", { class: "shape", dx: face.name ? 8 : 0 }, face.detail),
    ),
    face.pills.length ? s("g", { role: "group" }, ...face.pills.map((pill) => drawPill(pill, box, recording, idPrefix))) : null,
    recording.nodes.grad[box.id]
      ? s("circle", { class: "gutter", "data-break": box.id, cy: h / 2, r: 7, opacity: 0, "aria-hidden": "true" }, s("title", {}, "Breakpoint (b)"))
      : null,
    note ? noteMark(failed(recording, box.id), w) : null,
  ];
}

/**
 * The outline shows the kind of node: ops have corners, parameters are round, leaves round with a double line, inputs arrows, constants
 * square.
 */
export function outline(kind: string, w: number, h: number): SVGElement {
  const round = Math.min(20, h / 2);
  if (kind === "input") return s("path", { class: "card", width: w, height: h, d: `M5 0H${w - 11}L${w} ${h / 2}L${w - 11} ${h}H5Q0 ${h} 0 ${h - 5}V5Q0 0 5 0Z` });
  const ring = (cls: string, by: number) =>
    s("rect", {
      class: cls,
      ...(by ? { x: by, y: by } : {}),
      width: w - 2 * by,
      height: h - 2 * by,
      rx: kind === "op" ? 8 : kind === "constant" ? 2 : round - by,
    });
  // One element is the card; any other parts of the outline are inside it.
  return kind === "leaf" ? s("g", { class: "card double", width: w, height: h }, ring("", 0), ring("inner", 3)) : ring("card", 0);
}

/** When zoomed out only titles are shown, enlarged to stay readable as far as their box allows. */
function titleText(box: Box, y: number): SVGTextElement {
  const { kind, h, face } = box;
  const drop = kind === "open" ? 2 : Math.min(12, (h - 34) / 2 + 3);
  const { title, named } = fromAfar(box);
  const style = `--most:${title.toFixed(1)}px;--left:${10 - face.inset}px;--drop:${drop}px`;
  const beside = kind === "open" || kind === "closed" ? [face.name, face.also] : [];
  const parts = beside.map((text, at) => text && s("tspan", { class: at || !named ? "name also" : "name", dx: 8 }, text));
  return s("text", { class: "title", x: face.inset, y, style }, face.title, ...parts);
}

function noteMark(error: boolean, w: number): SVGGElement {
  return s(
    "g",
    { class: error ? "note error" : "note", transform: `translate(${w - 3} 3)`, "aria-hidden": "true" },
    s("circle", { r: 9 }),
    s("text", { "text-anchor": "middle", y: 4.5 }, error ? "!" : "i"),
  );
}

function drawPill(pill: Pill, box: Box, recording: Recording, idPrefix: string): SVGGElement {
  const known = pill.node >= 0;
  const element = s(
    "g",
    {
      transform: `translate(${pill.x} ${pill.y})`,
      ...(known
        ? {
            // a weight used several times is drawn at each use, but only one copy has the id
            id: recording.tree.host[pill.node] === box.id ? `${idPrefix}n${pill.node}` : null,
            role: "treeitem",
            "aria-level": box.depth + 2,
            "aria-label": describe(recording, `n${pill.node}`, false),
            "data-testid": "wb-node",
            "data-node": pill.node,
            "data-key": `n${pill.node}`,
          }
        : {}),
    },
    outline(pill.kind, pill.w, pill.h),
    s(
      "text",
      { x: 9, y: 16.5 },
      s("tspan", { class: "name" }, pill.name),
      pill.shape ? s("tspan", { class: "shape", dx: 6 }, pill.shape) : null,
    ),
    pill.badge ? s("text", { class: "badge", x: pill.w - 9, y: 16.5, "text-anchor": "end" }) : null,
  );
  element.dataset.base = `wb-pill ${pill.kind}`;
  element.setAttribute("class", element.dataset.base);
  return element;
}

function groupParts(box: Box): Child[] {
  const { w, h, face } = box;
  const open = box.kind === "open";
  const title = titleText(box, open ? 22 : 23);
  const toggle = s(
    "g",
    { class: "toggle", "data-toggle": box.id, transform: `translate(20 ${open ? 17 : 18})`, "aria-hidden": "true" },
    s("title", {}, open ? "Close this group" : `Open: ${face.detail}`),
    s("circle", { r: 10 }),
    s("path", { d: open ? "M-4.5 0H4.5" : "M-4.5 0H4.5M0 -4.5V4.5" }),
  );
  if (open) {
    const ground = s("rect", { class: "ground", x: 4, y: 2, width: headerWidth(face) - 8, height: HEADER - 2, rx: 8 });
    const slider = face.slider ? drawSlider(box.id, face.slider) : null;
    return [
      s("rect", { class: "card frame", width: w, height: h, rx: 12 }),
      s("g", { class: "header", "data-header": box.id }, ground, title, toggle, slider),
    ];
  }
  return [
    ...[6, 3].map((by) => s("rect", { class: "stack", x: by, y: by, width: w, height: h, rx: 10 })),
    s("rect", { class: "card", width: w, height: h, rx: 10 }),
    s("rect", { class: "tint", width: w, height: h, rx: 10 }),
    title,
    s("text", { class: "detail", x: face.line[0], y: face.line[1] }, s("tspan", { class: "shape" }, face.detail)),
    s("text", { class: "badge", x: w - 14, y: 22.5, "text-anchor": "end" }),
    toggle,
  ];
}

/** The control that selects the iteration of a loop to show; while all are shown, a button that shows one again. */
function drawSlider(group: number, { at, last, x, words }: Slider): SVGGElement {
  const button = (left: number, w: number, to: number, path: string, title: string) =>
    s(
      "g",
      { class: "choice", "data-iterate": `${group} ${to}`, transform: `translate(${left} 8)` },
      s("title", {}, title),
      s("rect", { width: w, height: 19, rx: 9.5 }),
      path.startsWith("M") ? s("path", { d: path }) : s("text", { x: w / 2, y: 14, "text-anchor": "middle" }, path),
    );
  if (at === ALL) return s("g", { class: "slider", transform: `translate(${x} 0)` }, button(0, 64, 0, "show one", words));
  const thumb = 24 + (SLIDER * at) / last;
  return s(
    "g",
    {
      class: "slider",
      transform: `translate(${x} 0)`,
      role: "slider",
      "aria-label": words,
      "aria-valuemin": 1,
      "aria-valuemax": last + 1,
      "aria-valuenow": at + 1,
      "data-testid": "wb-loop",
    },
    s("title", {}, words),
    button(0, 19, Math.max(0, at - 1), "M11.5 5L7 9.5L11.5 14", "The one before ( [ )"),
    s("path", { class: "track", d: `M24 17.5H${24 + SLIDER}` }),
    s("circle", { class: "thumb", cx: thumb, cy: 17.5, r: 6.5 }),
    s("rect", { class: "grip", "data-slider": group, "data-last": last, x: 24, y: 6, width: SLIDER, height: 23 }),
    button(29 + SLIDER, 19, Math.min(last, at + 1), "M7.5 5L12 9.5L7.5 14", "The next one ( ] )"),
    s("text", { class: "detail", x: 55 + SLIDER, y: 22 }, s("tspan", { class: "shape" }, `${at + 1} of ${last + 1}`)),
    button(132 + SLIDER, 34, ALL, "all", "Show every one (u)"),
  );
}

export function markBox(element: SVGGElement, mark: Mark, focused: boolean): void {
  setAttribute(element, "class", [element.dataset.base, mark.classes, focused ? "focused" : ""].filter(Boolean).join(" "));
  setAttribute(element, "data-grad-norm", mark.norm);
  setAttribute(element, "aria-selected", mark.classes.split(" ").includes("selected") ? "true" : "false");
  setAttribute(element, "aria-current", mark.classes.split(" ").includes("caret") ? "location" : null);
  const badge = element.querySelector<SVGTextElement>(":scope > .badge");
  if (badge) {
    setText(badge, mark.badge);
    badge.classList.toggle("warm", mark.warm);
  }
  const tint = element.querySelector<SVGRectElement>(":scope > .tint");
  if (tint) tint.style.fillOpacity = mark.tint ? (mark.tint * 0.4).toFixed(2) : "";
  markFlags(element, mark.flags);
}

const FLAG = 19; // distance between glyphs

/** Draws glyphs in a row on the upper edge, from the right; redraws them only when they have changed. */
function markFlags(element: SVGGElement, flags: readonly Flag[]): void {
  const wanted = flags.map(({ glyph, words, tone }) => `${glyph} ${tone} ${words}`).join("\n");
  if ((element.dataset.flags ?? "") === wanted) return;
  element.dataset.flags = wanted;
  element.querySelector(":scope > .flags")?.remove();
  const card = element.querySelector(":scope > .card");
  if (!flags.length || !card) return;
  const right = Number(card.getAttribute("width")) - 3 - (element.querySelector(":scope > .note") ? FLAG : 0);
  const glyphs = flags.map(({ glyph, words, tone }, at) =>
    s(
      "g",
      { class: `flag ${tone}`, transform: `translate(${right - at * FLAG} 3)`, "data-glyph": glyph },
      s("title", {}, words),
      s("circle", { r: 8.5 }),
      s("text", { "text-anchor": "middle", y: 4.5 }, glyph),
    ),
  );
  element.append(s("g", { class: "flags" }, ...glyphs));
}

export function drawWire(wire: Wire): SVGGElement {
  return s(
    "g",
    { class: wire.back ? "wb-wire back" : "wb-wire", "aria-hidden": "true", "data-source": wire.source },
    s("path", { class: "line", d: wire.path }),
    wire.arrow ? s("path", { class: "head", d: wire.arrow }) : null,
    wire.tail ? s("path", { class: "tail", d: wire.tail }) : null,
  );
}

/** The position of a number about the edge itself: beside its head, where wires from one source have separated. */
export function besideHead({ arrow, label }: Wire): Wire["label"] {
  const [x, y] = (arrow.match(/-?[\d.]+/g) ?? []).map(Number);
  return x === undefined || y === undefined ? label : [x + 9, y - 5];
}

/** Writes the label at the start of the wire; "" removes it. */
export function labelWire(element: SVGGElement, { label }: Wire, text: string): void {
  const there = element.querySelector(":scope > text");
  if (!label || !text) return there?.remove();
  if (there) {
    setText(there, text);
    setAttribute(there, "x", label[0]);
    setAttribute(there, "y", label[1]);
  }
  else element.append(s("text", { class: "flow", x: label[0], y: label[1] }, text));
}

/** Marks a wire: lit if a gradient has passed along it, `flows` if one does so in the current step. */
export function markWire(element: SVGGElement, { lit, flows, width }: { lit: boolean; flows: boolean; width: number }, near: boolean): void {
  element.classList.toggle("lit", lit);
  element.classList.toggle("flows", flows);
  element.classList.toggle("near", near);
  setAttribute(element.firstElementChild!, "stroke-width", lit ? width : null);
}
