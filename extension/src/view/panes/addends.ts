// Shows the gradient of a node with several consumers as a sum: contributions that have arrived, and those still to come.

import { firstRow } from "../graph/columns";
import type { Controller } from "../controller";
import { h, type Child } from "../dom";
import type { FanOut, Summary } from "../protocol";
import type { Pass, Recording } from "../store";
import { nameOf, normText } from "../words";
import { figure, type StripOptions } from "./strip";

export interface Addend {
  consumer: number;
  place: number; // its step
  state: "arrived" | "to come";
  gradient: Summary | null;
}

const places = new WeakMap<readonly number[], Map<number, number[]>>(); // the steps of each node in a plan

function placesOf(plan: readonly number[]): Map<number, number[]> {
  let found = places.get(plan);
  if (!found) {
    found = new Map();
    for (const [at, node] of plan.entries()) found.set(node, [...(found.get(node) ?? []), at + 1]);
    places.set(plan, found);
  }
  return found;
}

/** The steps so far, in order, that contributed to a node's gradient. */
export function givers({ tree }: Recording, pass: Pass, node: number): { consumer: number; place: number }[] {
  const steps = placesOf(pass.plan);
  const found = tree.consumers.of(node).flatMap((consumer) => (steps.get(consumer) ?? []).map((place) => ({ consumer, place })));
  return found.filter(({ place }) => place <= pass.index).sort((a, b) => a.place - b.place);
}

/** Each consumer's contribution to a node, in the order of the pass, as far as the view has received them. */
export function addendsOf({ edges, tree }: Recording, pass: Pass, node: number): Addend[] {
  const found: Addend[] = [];
  const steps = placesOf(pass.plan);
  for (const consumer of tree.consumers.of(node)) {
    let count = 0;
    for (let row = firstRow(edges.target, consumer); edges.target[row] === consumer; row++) count += Number(edges.source[row] === node);
    for (const place of consumer === node ? [] : (steps.get(consumer) ?? [])) {
      const given = pass.steps.get(place)?.contributions.filter(({ target }) => target === node) ?? [];
      const done = place <= pass.index;
      for (let n = 0; n < (done ? given.length : count); n++) {
        const gradient = done ? given[n]!.gradient : null;
        found.push({ consumer, place, state: gradient ? "arrived" : "to come", gradient });
      }
    }
  }
  return found.sort((a, b) => a.place - b.place);
}

function link(controller: Controller, recording: Recording, consumer: number): HTMLElement {
  const name = nameOf(recording, consumer);
  return h("button", { class: "link", title: "Show this node in the graph", click: () => controller.show(consumer) }, name);
}

/** For example "= mul 2 + add 1, still to come from exp", where names are links and numbers are norms; null for fewer than two addends. */
export function sumLine(controller: Controller, recording: Recording, addends: readonly Addend[]): HTMLElement | null {
  const arrived = addends.filter(({ state }) => state === "arrived");
  const coming = addends.filter(({ state }) => state === "to come");
  if (arrived.length + coming.length < 2) return null;
  const parts: Child[] = [];
  arrived.forEach(({ consumer, gradient }, at) =>
    parts.push(at ? " + " : "= ", h("span", { class: "addend" }, link(controller, recording, consumer), ` ${normText(gradient!, 3)}`)),
  );
  if (coming.length) parts.push(h("span", { class: "coming" }, arrived.length ? ", still to come from " : "still to come from "));
  coming.forEach(({ consumer }, at) => parts.push(at ? ", " : null, link(controller, recording, consumer)));
  return h("p", { class: "sum", "data-testid": "wb-sum" }, ...parts);
}

/** Each contribution with its values, as a sum; for the node of the current step. Null for fewer than two. */
export function sumPictures(controller: Controller, recording: Recording, message: FanOut, options: StripOptions): HTMLElement | null {
  if (message.addends.length < 2) return null;
  const parts = message.addends.map((addend, at) =>
    h(
      "div",
      { class: `addend ${addend.state.replace(" ", "-")}`, "data-testid": "wb-addend", "data-state": addend.state },
      h("span", { class: "sign" }, at ? "+" : "g ="),
      h(
        "div",
        {},
        addend.consumer >= 0 ? link(controller, recording, addend.consumer) : addend.name,
        addend.picture
          ? figure({ ...addend.picture, label: "" }, { ...options, height: 30 })
          : h("span", { class: "quiet" }, addend.state === "to come" ? " still to come" : addend.state === "none" ? " gave none" : " not kept"),
      ),
    ),
  );
  return h("div", { class: "fan-out", "data-testid": "wb-fan-out" }, ...parts);
}
