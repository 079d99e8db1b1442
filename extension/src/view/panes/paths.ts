// The share of a gradient contributed by each path from the loss; paths can be highlighted in the graph.

import { h, put } from "../dom";
import type { PathPart, Paths } from "../protocol";
import { answered, type Recording, type State } from "../store";
import { nameOf, numberText } from "../words";
import { type PaneContext, waiting } from "./pane";
import { Asker, Section } from "./section";

export class PathsSection {
  readonly section: Section;
  private readonly asker: Asker;
  private readonly chosen = h("select", { "aria-label": "Gradient of", "data-testid": "wb-paths-of" });
  private readonly list = h("div", { class: "paths" });
  private options = "";
  private pinned = -1;
  private state: State | null = null;

  constructor(private readonly context: PaneContext) {
    this.asker = new Asker(context.controller);
    this.section = new Section("Paths from the loss", "wb-paths", () => this.state && this.update(this.state));
    this.chosen.addEventListener("change", () => this.state && this.update(this.state));
    this.section.body.append(h("label", { class: "row" }, "of the gradient of", this.chosen), this.list);
  }

  update(state: State): void {
    this.state = state;
    const { recording, pass } = state;
    if (!recording || !pass || !this.section.open) return;
    this.offer(recording, state);
    const node = Number(this.chosen.value);
    if (node < 0) return;
    this.asker.ask({ type: "ask_paths", node, most: 12 }, recording.name);
    const message = answered(state, "paths")?.message;
    if (message?.node !== node) return put(this.list, waiting(state));
    put(this.list, ...this.shown(message, recording));
  }

  /** Offers the current node, the selected one, and all that get a .grad. */
  private offer(recording: Recording, { pass, selected }: State): void {
    const leaves = pass!.plan.filter((node) => recording.nodes.kind[node] !== "op");
    const current = pass!.plan[pass!.index - 1] ?? -1;
    const nodes = [...new Set([current, ...(pass!.plan.includes(selected) ? [selected] : []), ...leaves])].filter((node) => node >= 0);
    const key = nodes.map((node) => nameOf(recording, node)).join("\n");
    if (key === this.options) return;
    this.options = key;
    const before = this.chosen.value;
    put(this.chosen, ...nodes.map((node) => h("option", { value: node }, nameOf(recording, node))));
    const wanted = nodes.map(String).includes(before) ? before : String(leaves[0] ?? nodes[0]);
    this.chosen.value = wanted;
  }

  private shown(message: Paths, recording: Recording): HTMLElement[] {
    const most = Math.max(...message.listed.map(({ share }) => Math.abs(share ?? 0)), 1e-9);
    return [
      h("p", { "data-testid": "wb-paths-said" }, message.sentence),
      h("ol", { class: "listed" }, ...message.listed.map((path, at) => this.path(path, at, most, recording))),
      ...(message.rest ? [h("p", { class: "quiet" }, `and ${message.rest} more parts, ${percent(message.rest_share)} together`)] : []),
      ...(message.note ? [h("p", { class: "quiet" }, message.note)] : []),
    ];
  }

  private path(path: PathPart, at: number, most: number, recording: Recording): HTMLElement {
    const { store } = this.context.controller;
    const names = path.nodes.map((node, at) => nameOf(recording, node) + (path.inputs[at]! < 0 ? "" : ` (input ${path.inputs[at]! + 1})`));
    const words = `${path.paths === "1" ? "" : `${path.paths} paths that end `}${names.join(" → ")}`;
    const light = () => {
      const sentence = `${percent(path.share)} of the gradient came through ${words}.`;
      store.dispatch({ do: "trace", trace: { nodes: new Set(path.nodes), ends: [path.nodes[0]!, path.nodes.at(-1)!], sentence } });
    };
    const dark = () => {
      if (this.pinned < 0) store.dispatch({ do: "trace", trace: null });
    };
    const button = h(
      "button",
      { class: "path", "aria-pressed": String(this.pinned === at), title: words, "data-testid": "wb-path", "data-share": path.share },
      h("b", {}, percent(path.share)),
      h("span", { class: "track" }, h("i", { class: (path.share ?? 0) < 0 ? "against" : "", style: `width:${(100 * Math.abs(path.share ?? 0)) / most}%` })),
      h("span", { class: "quiet" }, `‖·‖ ${numberText(path.norm, 3)}`),
      h("span", { class: "words" }, shortened(names, path.paths)),
    );
    button.addEventListener("pointerenter", light);
    button.addEventListener("focus", light);
    button.addEventListener("pointerleave", dark);
    button.addEventListener("blur", dark);
    button.addEventListener("click", () => {
      this.pinned = this.pinned === at ? -1 : at;
      for (const [row, other] of [...this.list.querySelectorAll(".path")].entries()) other.setAttribute("aria-pressed", String(row === this.pinned));
      if (this.pinned < 0) return dark();
      light();
      this.context.controller.say(`${percent(path.share)} of the gradient came through ${words}.`);
    });
    return h("li", {}, button);
  }
}

function shortened(names: readonly string[], paths: string): string {
  const few = names.length > 12 ? [...names.slice(0, 5), "…", ...names.slice(-5)] : names;
  return (paths === "1" ? "" : `${paths} paths: … `) + few.join(" → ");
}

export function percent(share: number | null): string {
  if (share === null) return "–";
  const text = (100 * share).toFixed(Math.abs(share) < 0.0995 ? 1 : 0);
  return `${text.replace("-", "−")} %`;
}
