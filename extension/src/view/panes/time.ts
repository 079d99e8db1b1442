// The time tab: when each op and backward step ran, and the time taken by lines, ops and modules.

import { readBuffer } from "../buffers";
import type { Request } from "../controller";
import { h, put, type Child } from "../dom";
import type { Timing, TimeTotal } from "../protocol";
import { answered, changed, type Answer, type Recording, type State } from "../store";
import { countText, durationText, nameOf, plural } from "../words";
import { table } from "./charts";
import { timelineEvents, type Span } from "./lanes";
import { type Pane, type PaneContext, waiting } from "./pane";
import { siteLine } from "./rules";
import { Timeline } from "./timeline";

const FIRST = 12; // rows of a table before "Show all"
const SETTLED = 250; // milliseconds without a change of the window before more is requested

type By = "lines" | "by_op" | "by_module";
const KINDS: readonly (readonly [By, string])[] = [
  ["lines", "Lines"],
  ["by_op", "Ops"],
  ["by_module", "Modules"],
];

export class TimePane implements Pane {
  readonly tab = "time";
  readonly title = "Time";
  readonly stays = true;
  readonly element = h("div", { class: "pane time", "data-testid": "wb-time" });
  private readonly timeline: Timeline;
  private readonly selected = h("div", { class: "selected" });
  private readonly totals = h("div", { class: "totals" });
  private answer: Answer<"timing"> | undefined;
  private by: By = "lines";
  private all = false; // rows of the table
  private op = ""; // the highlighted op
  private recording = ""; // the recording whose time line is shown
  private settling: ReturnType<typeof setTimeout> | undefined;

  constructor(private readonly context: PaneContext) {
    this.timeline = new Timeline({
      select: (node) => this.context.controller.show(node),
      moved: (span) => this.wantMore(span),
    });
  }

  offered({ recording }: State): boolean {
    return recording?.view !== "tensor" && recording?.view !== "difference";
  }

  asks({ recording }: State): Request | null {
    return recording?.live ? null : { type: "ask_timing", begin: 0, end: -1 };
  }

  update(state: State, before: State | null): void {
    const answer = answered(state, "timing");
    if (answer === this.answer && before && !changed(state, before, "recording", "answers", "selected", "status", "room")) return;
    if (!state.recording) return;
    if (state.recording.live) {
      this.answer = undefined;
      return put(this.element, h("p", { class: "quiet" }, "The code is still running. Its times are shown when it has ended."));
    }
    if (!answer) return put(this.element, waiting(state));
    if (answer !== this.answer || !before || changed(state, before, "recording")) this.fill(answer, state.recording);
    this.timeline.draw(state.selected, this.context.isDark());
    put(this.selected, ...this.describeSelected(state));
  }

  private fill(answer: Answer<"timing">, recording: Recording): void {
    const { message, buffers } = answer;
    this.answer = answer;
    if (message.missing) return put(this.element, h("p", { class: "missing" }, message.missing));
    if (this.recording !== recording.name) [this.recording, this.op, this.all] = [recording.name, "", false];
    const [events, places, ops] = [message.events, message.places, message.ops].map((buffer) => readBuffer(buffer, buffers));
    const describe = (node: number) => (node >= 0 && node < recording.tree.size ? nameOf(recording, node) : "");
    this.timeline.show(recording.name, timelineEvents(events!, places!, ops!, message.names), message.seconds, describe);
    this.showTotals(message, recording);
    put(
      this.element,
      figures(message),
      this.timeline.element,
      message.left_out
        ? h(
            "p",
            { class: "quiet" },
            `${plural(message.left_out, "short event")}, ${durationText(message.left_out_seconds)} together, appear when you zoom in.`,
          )
        : null,
      this.selected,
      this.totals,
      message.cost ? h("p", { class: "quiet", "data-testid": "wb-time-cost" }, message.cost) : null,
    );
  }

  /** Requests omitted events and those beyond the received range, once the window has stopped moving. */
  private wantMore(span: Span): void {
    clearTimeout(this.settling);
    const { message } = this.answer!;
    const within = message.begin <= span.begin && span.end <= message.end;
    if (within && (!message.left_out || span.end - span.begin > 0.9 * (message.end - message.begin))) return;
    this.settling = setTimeout(() => void this.context.controller.ask({ type: "ask_timing", ...span }), SETTLED);
  }

  private describeSelected({ selected, recording }: State): Child[] {
    if (selected < 0 || !recording) return [];
    const { nodes, sites } = recording;
    const [forward, backward] = this.timeline.secondsOf(selected);
    const parts = [forward > 0 ? `forward ${durationText(forward)}` : "", backward > 0 ? `backward ${durationText(backward)}` : ""];
    return [
      h(
        "div",
        { class: "headline" },
        h("b", {}, nameOf(recording, selected)),
        h("span", { class: "quiet" }, parts.filter(Boolean).join(", ") || "not timed"),
      ),
      siteLine(sites[nodes.site[selected]!]),
    ];
  }

  private showTotals(message: Timing, recording: Recording): void {
    const kinds = KINDS.filter(([by]) => message[by].length);
    if (!kinds.some(([by]) => by === this.by)) this.by = kinds[0]?.[0] ?? "lines";
    const again = () => this.showTotals(message, recording);
    const choose = (by: By) => {
      [this.by, this.all] = [by, false];
      again();
    };
    const rows = message[this.by];
    const shown = this.all ? rows : rows.slice(0, FIRST);
    const focus = kinds.findIndex(([by]) => by === this.by);
    const held = this.totals.contains((this.totals.getRootNode() as ShadowRoot).activeElement);
    const segments = h(
      "div",
      { class: "segments", role: "group", "aria-label": "Sum the time by" },
      ...kinds.map(([by, name]) =>
        h("button", { "aria-pressed": String(by === this.by), "data-testid": `wb-time-${by}`, click: () => choose(by) }, name),
      ),
    );
    put(
      this.totals,
      h("div", { class: "row" }, h("h4", { "aria-level": 3 }, "Where the time went"), segments),
      this.tableOf(shown, message.forward + message.backward, recording, again),
      rows.length > shown.length
        ? h("button", { class: "link", click: () => ((this.all = true), again()) }, `Show all ${rows.length}`)
        : null,
    );
    if (held) segments.querySelectorAll("button")[focus]?.focus();
  }

  private tableOf(rows: readonly TimeTotal[], whole: number, recording: Recording, again: () => void): HTMLElement {
    const most = Math.max(...rows.map((row) => row.forward + row.backward), 1e-12);
    const names: Record<By, string> = { lines: "line", by_op: "op", by_module: "module and inside" };
    return table(
      [names[this.by], "time", "calls"],
      rows.map((row) => [this.nameOf(row, recording, again), timeCell(row, whole, most), row.calls ? countText(row.calls) : "–"]),
      [1, 2],
    );
  }

  private nameOf(row: TimeTotal, recording: Recording, again: () => void): Node {
    const site = recording.sites[row.site];
    if (this.by === "lines") return (site && siteLine(site)) || h("span", { class: "quiet" }, row.name);
    if (this.by === "by_op") {
      const point = () => {
        this.op = this.op === row.name ? "" : row.name;
        this.timeline.pointOut(this.op);
        again();
      };
      return h(
        "button",
        { class: "link", "aria-pressed": String(this.op === row.name), title: "Point it out in the time line", click: point },
        row.name,
      );
    }
    const label = h("div", { class: "quiet" }, row.label);
    if (!row.name || row.node < 0) return label;
    const go = () => this.context.controller.show(row.node);
    return h("div", {}, h("button", { class: "link", title: "To the op in it that took longest", click: go }, row.name), label);
  }
}

function figures({ seconds, forward, backward }: Timing): HTMLElement {
  const figure = (value: number, words: string) => h("div", {}, h("b", {}, durationText(value)), h("span", { class: "quiet" }, words));
  return h(
    "div",
    { class: "figures" },
    figure(forward, "in ops"),
    backward > 0 ? figure(backward, "in backward") : null,
    figure(Math.max(0, seconds - forward - backward), "between them"),
    figure(seconds, "in all"),
  );
}

/** The duration, its share of the whole, and its forward and backward parts. */
function timeCell({ forward, backward, inside }: TimeTotal, whole: number, most: number): HTMLElement {
  const width = (part: number) => `width:${((100 * part) / most).toFixed(1)}%`;
  const words = [
    forward > 0 ? `forward ${durationText(forward)}` : "",
    backward > 0 ? `backward ${durationText(backward)}` : "",
    inside > 0 ? `of it in modules inside ${durationText(inside)}` : "",
  ].filter(Boolean);
  return h(
    "div",
    { title: words.join(", ") },
    h("b", {}, durationText(forward + backward)),
    h("span", { class: "quiet" }, ` ${percent(whole > 0 ? (forward + backward) / whole : 0)}`),
    h(
      "div",
      { class: "split", role: "img", "aria-label": words.join(", ") },
      h("span", { class: "forward", style: width(forward) }),
      h("span", { class: "backward", style: width(backward) }),
    ),
  );
}

function percent(share: number): string {
  return share > 0 && share < 0.01 ? "<1 %" : `${Math.round(100 * share)} %`;
}
