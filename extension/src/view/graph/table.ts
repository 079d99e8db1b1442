// The graph as a table of its nodes, the text alternative to the picture.

import { table } from "../panes/charts";
import { h, put } from "../dom";
import { resultText } from "./face";
import type { Gradients } from "../panes/gradients";
import type { State } from "../store";
import { nameOf, normText, siteText } from "../words";

const MOST = 1500;

export function fillTable(
  element: HTMLElement,
  state: State,
  gradients: Gradients,
  select: (node: number) => void,
): void {
  const { recording, search } = state;
  if (!recording) return put(element);
  const { nodes, tree, sites } = recording;
  const hits = search.query.trim() ? search.hits : null;
  const all = hits ?? Array.from({ length: tree.size }, (_, node) => node);
  const shown = all.slice(0, MOST);
  const path = (node: number) => {
    const names: string[] = [];
    for (let at = tree.home[node]!; at >= 0; at = tree.parent(at)) {
      const group = tree.groups.get(at)!;
      names.unshift(group.name || group.label);
    }
    return names.join(" / ");
  };
  const made = table(
    ["#", "op", "name", "shape", "inputs", "‖∇‖", "group", "code"],
    shown.map((node) => {
      const gradient = gradients.total.get(node);
      const site = sites[nodes.site[node]!];
      return [
        String(node),
        h("button", { class: "link", click: () => select(node) }, nodes.kind[node] === "op" ? nodes.op[node] || "op" : nodes.kind[node]!),
        nodes.name[node]!,
        resultText(recording, node),
        tree.inputs.of(node).map((input) => nameOf(recording, input)).join(", "),
        gradient ? normText(gradient) : "",
        path(node),
        h("span", { title: site?.text ?? "" }, site ? siteText(site) : ""),
      ];
    }),
    [0, 5],
  );
  [...made.tBodies[0]!.rows].forEach((row, at) => {
    if (shown[at] === state.selected) row.classList.add("selected");
    if (shown[at] === gradients.current) row.classList.add("current");
  });
  const words =
    shown.length < all.length
      ? `The first ${shown.length} of ${all.length} nodes; a search narrows them.`
      : `${all.length} nodes${hits ? " found" : ""}.`;
  put(element, h("p", { class: "quiet" }, words), made);
}
