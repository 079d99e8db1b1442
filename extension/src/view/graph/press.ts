// Dispatches clicks on the graph's boxes, pills, headers and sliders.

import type { Window } from "./fit";

export interface GraphEvents {
  select(node: number): void;
  focus(key: string): void;
  toggle(group: number): void;
  /** Show another part of a loop or fold, or all of them. */
  iterate(loop: number, to: number): void;
  /** A second node was chosen: trace what lies between it and the selected one. */
  connect(node: number): void;
  breakpoint(node: number): void;
  /** The name of the current overlay. */
  overlay(): string;
  /** The pane's size has changed; `keep`: the user has moved the camera. */
  resized(to: Window, keep: boolean): void;
}

export function listenPresses(element: HTMLElement, svg: SVGSVGElement, events: GraphEvents): void {
  svg.addEventListener("pointerdown", (event) => slides(svg, events, event));
  // A double click refers to the target of its first click, which may have moved the camera.
  let meant = element as Element;
  element.addEventListener("click", (event) => {
    if (event.detail <= 1) meant = event.target as Element;
    clicked(element, events, event);
  });
  element.addEventListener("dblclick", () => doubleClicked(events, meant));
}

/** A press on a loop's slider: the item follows the pointer until it is released, and the graph is not dragged. */
function slides(svg: SVGSVGElement, events: GraphEvents, event: PointerEvent): void {
  const grip = (event.target as Element).closest<SVGElement>("[data-slider]");
  if (!grip || event.button) return;
  event.stopPropagation();
  const { left, width } = grip.getBoundingClientRect();
  const [loop, last] = [Number(grip.dataset.slider), Number(grip.dataset.last)];
  const go = ({ clientX }: PointerEvent) => events.iterate(loop, Math.round((Math.min(1, Math.max(0, (clientX - left) / width)) || 0) * last));
  const end = () => {
    svg.removeEventListener("pointermove", go);
    svg.removeEventListener("pointerup", end);
    svg.removeEventListener("pointercancel", end);
  };
  svg.setPointerCapture(event.pointerId);
  svg.addEventListener("pointermove", go);
  svg.addEventListener("pointerup", end);
  svg.addEventListener("pointercancel", end);
  go(event);
}

function clicked(element: HTMLElement, events: GraphEvents, event: MouseEvent): void {
  const target = event.target as Element;
  element.focus({ preventScroll: true });
  const toggle = target.closest<SVGElement>("[data-toggle]");
  if (toggle) return events.toggle(Number(toggle.dataset.toggle));
  const gutter = target.closest<SVGElement>("[data-break]");
  if (gutter) return events.breakpoint(Number(gutter.dataset.break));
  const choice = target.closest<SVGElement>("[data-iterate]");
  if (choice) return events.iterate(...(choice.dataset.iterate!.split(" ").map(Number) as [number, number]));
  if (target.closest("[data-slider]")) return;
  const node = target.closest<SVGElement>("[data-node]");
  if (node && event.shiftKey) return events.connect(Number(node.dataset.node));
  if (node) return events.select(Number(node.dataset.node));
  const group = groupAt(target);
  if (group) events.focus(`g${group}`);
}

function doubleClicked(events: GraphEvents, target: Element): void {
  if (target.closest("[data-toggle], [data-node], [data-iterate], [data-slider]")) return;
  const group = groupAt(target);
  if (group) events.toggle(Number(group));
}

/** The id of the group whose box or header contains the target. */
function groupAt(target: Element): string | undefined {
  const { group, header } = target.closest<SVGElement>("[data-group], [data-header]")?.dataset ?? {};
  return group ?? header;
}
