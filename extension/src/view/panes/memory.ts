// The memory tab: live and peak bytes, the time line, and every live array with the reason why it is alive.

import { readBuffer } from "../buffers";
import type { Request } from "../controller";
import { h, put, type Child } from "../dom";
import type { Holding } from "../protocol";
import { answered, changed, type Answer, type Recording, type State } from "../store";
import { bytesText, nameOf, plural, shapeText, siteText } from "../words";
import { drawTimeline, table } from "./charts";
import { type Pane, type PaneContext, waiting } from "./pane";

export class MemoryPane implements Pane {
  readonly tab = "memory";
  readonly title = "Memory";
  readonly element = h("div", { class: "pane memory", "data-testid": "wb-memory" });

  constructor(private readonly context: PaneContext) {}

  offered(state: State): boolean {
    return state.recording?.view !== "tensor";
  }

  asks(): Request {
    return { type: "ask_memory" };
  }

  update(state: State, before: State | null): void {
    const answer = answered(state, "memory");
    if (!changed(state, before, "recording", "answers") && (answer || !changed(state, before, "status"))) return;
    const show = (node: number) => this.context.controller.show(node);
    put(this.element, ...(answer && state.recording ? content(answer, state.recording, show) : [waiting(state)]));
  }
}

function content({ message, buffers }: Answer<"memory">, recording: Recording, select: (node: number) => void): Child[] {
  const peakAt = message.peak_node >= 0 && message.peak_node < recording.tree.size;
  return [
    h(
      "div",
      { class: "figures" },
      h("div", {}, h("b", {}, bytesText(message.live)), h("span", { class: "quiet" }, "live now")),
      h("div", {}, h("b", {}, bytesText(message.peak)), h("span", { class: "quiet" }, "peak")),
      peakAt
        ? h(
            "div",
            {},
            h("button", { class: "link", click: () => select(message.peak_node) }, nameOf(recording, message.peak_node)),
            h("span", { class: "quiet" }, "at the peak"),
          )
        : null,
    ),
    timeline((message.timeline.shape[0] ?? 0) > 0, () => drawTimeline(readBuffer(message.timeline, buffers), message.peak)),
    message.by_category.length
      ? h(
          "dl",
          { class: "numbers" },
          ...message.by_category.map(({ label, text }) => h("div", {}, h("dt", {}, label), h("dd", {}, text))),
        )
      : null,
    h("h4", {}, `${plural(message.holdings.length, "live array")}, largest first`),
    holdings(message.holdings, recording, select),
  ];
}

function timeline(filled: boolean, draw: () => HTMLElement): Child {
  if (!filled) return null;
  try {
    return draw();
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
    return h("p", { class: "missing" }, error.message);
  }
}

function holdings(rows: readonly Holding[], recording: Recording, select: (node: number) => void): HTMLElement {
  const where = (row: number) => recording.sites[row] && siteText(recording.sites[row]);
  const made = table(
    ["array", "bytes", "why it is alive"],
    rows.map((row) => [
      h(
        "div",
        {},
        row.node >= 0 ? h("button", { class: "link", click: () => select(row.node) }, row.name || nameOf(recording, row.node)) : row.name || "–",
        h("div", { class: "quiet" }, `${shapeText(row.shape)} ${row.dtype}`),
      ),
      bytesText(row.bytes),
      h("div", {}, row.why, h("div", { class: "quiet" }, [row.category, where(row.site)].filter(Boolean).join(" · "))),
    ]),
    [1],
  );
  [...made.tBodies[0]!.rows].forEach((element, at) => {
    const { node } = rows[at]!;
    if (node < 0) return;
    element.classList.add("clickable");
    element.dataset.node = String(node);
    element.addEventListener("click", () => select(node));
  });
  return made;
}
