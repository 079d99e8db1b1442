// The memory tab: live and peak bytes, the time line, live arrays and why they are alive, shares by line, op and module, and predictions.

import type { Request } from "../controller";
import { h, put, type Child } from "../dom";
import type { Memory, Total } from "../protocol";
import { answered, changed, type Answer, type Recording, type State } from "../store";
import { bytesText, plural, siteText } from "../words";
import { machine, predictions, whyCard } from "./memory/cards";
import { MemoryChart, type By, type Drawn } from "./memory/chart";
import { holdingsTable, saversTable, sharesTable, type TableActions } from "./memory/tables";
import { type Pane, type PaneContext, waiting } from "./pane";

const PERIOD = 2000; // milliseconds between two readings of the machine's memory
const LOOKS = ["alive", "lines", "ops", "modules", "saved", "what if"] as const;
type Look = (typeof LOOKS)[number];

export class MemoryPane implements Pane {
  readonly tab = "memory";
  readonly title = "Memory";
  private readonly figures = h("div", { class: "figures" });
  private readonly machine = h("div", { class: "machine quiet", "data-testid": "wb-machine" });
  private readonly choices = h("div", { class: "row choices" });
  private readonly legend = h("div", { class: "categories" });
  private readonly chart: MemoryChart;
  private readonly looks = h("div", { class: "segments looks", role: "group", "aria-label": "Show" });
  private readonly body = h("div", { class: "body" });
  readonly element = h("div", { class: "pane memory", "data-testid": "wb-memory" });
  private readonly actions: TableActions;
  private readonly parts: HTMLElement[];
  private name = ""; // the recording this pane shows
  private by: By = "event";
  private stacked = false;
  private look: Look = "alive";
  private event = -1; // the chosen event; -1: now
  private closer = false; // the chart shows the last requested window instead of everything
  private why = -1; // the block that `ask_why` was sent for
  private chosen = 0; // index of the chosen prediction
  private asking: { first: number; last: number } | null = null;
  private wish: { first: number; last: number } | null = null;
  private timer: ReturnType<typeof setTimeout> | undefined;
  private watching = false;

  constructor(private readonly context: PaneContext) {
    this.chart = new MemoryChart({ window: (first, last) => this.window(first, last), moment: (event) => this.moment(event) });
    this.actions = {
      select: (node) => context.controller.show(node),
      why: (block) => {
        this.why = block;
        void this.ask({ type: "ask_why", block });
      },
    };
    this.parts = [this.figures, this.machine, this.choices, this.chart.element, this.legend, this.looks, this.body];
  }

  offered(state: State): boolean {
    return state.recording?.view !== "tensor";
  }

  asks(): Request {
    return { type: "ask_memory" };
  }

  update(state: State, before: State | null): void {
    const answer = answered(state, "memory");
    if (!before) this.watch();
    if (state.recording && state.recording.name !== this.name) this.forget(state.recording.name);
    if (!changed(state, before, "recording", "answers") && (answer || !changed(state, before, "status"))) return;
    if (!answer || !state.recording) return put(this.element, waiting(state));
    if (answer.message.missing) return put(this.element, h("p", {}, answer.message.missing));
    const bytes = answered(state, "bytes")?.message;
    // The machine's readings arrive every second or two; redrawing buttons then would lose a click in progress.
    if (this.element.firstChild === this.figures && bytes && before && onlyBytes(state, before)) return put(this.machine, ...machine(bytes));
    if (this.element.firstChild !== this.figures) put(this.element, ...this.parts);
    this.draw(state, answer, state.recording);
  }

  private forget(name: string): void {
    [this.name, this.event, this.closer, this.why, this.chosen] = [name, -1, false, -1, 0];
    if (this.look === "what if") this.look = "alive";
    this.asking = this.wish = null;
  }

  // -- asking ------------------------------------------------------------------------------------------------------------------

  private ask(request: Request): Promise<boolean> {
    return this.context.controller.ask(request);
  }

  /** Requests a window of the time line; while one is pending, only the latest request is kept. */
  private window(first: number, last: number): void {
    this.closer = true;
    if (this.asking) {
      this.wish = { first, last };
      return;
    }
    this.asking = { first, last };
    void this.ask({ type: "ask_window", first, last, by: this.by }).then(() => {
      const next = this.wish;
      this.asking = this.wish = null;
      if (next) this.window(next.first, next.last);
    });
  }

  private moment(event: number): void {
    [this.event, this.look, this.why] = [event, "alive", -1];
    void this.ask({ type: "ask_moment", event });
  }

  /** Reads the machine's memory periodically while the pane is visible. */
  private watch(): void {
    if (this.watching) return;
    this.watching = true;
    const look = async () => {
      const fine = await this.context.controller.ask({ type: "ask_bytes" }, true);
      this.timer = setTimeout(() => {
        if (fine && this.element.isConnected && !this.element.hidden && !document.hidden) return void look();
        this.watching = false;
      }, PERIOD);
    };
    clearTimeout(this.timer);
    void look();
  }

  // -- drawing -----------------------------------------------------------------------------------------------------------------

  private draw(state: State, { message, buffers }: Answer<"memory">, recording: Recording): void {
    const bytes = answered(state, "bytes")?.message;
    const moment = answered(state, "moment")?.message;
    const window = answered(state, "window");
    const whole: Drawn = { line: message.line, buffers };
    const near: Drawn | null = this.closer && window ? { line: window.message.line, buffers: window.buffers } : null;
    const shown = near && near.line.last <= message.line.count && near.line.last - near.line.first < message.line.count ? near : whole;
    if (this.event >= message.line.count) this.event = -1;
    put(
      this.figures,
      figure(message.live, "live now", () => this.now(state, recording), "wb-memory-now"),
      figure(message.peak, "peak", message.line.count ? () => this.moment(message.line.peak_event) : null, "wb-peak", "jump to the peak"),
      this.event >= 0 && moment?.event === this.event ? figure(moment.live, `after event ${this.event}`, null) : null,
      ...message.devices.map((one) => figure(one.now, `on ${one.device}, at most ${bytesText(one.peak)}`, null)),
    );
    put(this.machine, ...(bytes ? machine(bytes) : []));
    put(this.choices, ...this.switches(message, state, recording));
    try {
      this.chart.draw(shown, whole, message.totals, this.by, this.stacked, this.event, bytes?.gpus[0]?.held ?? 0);
    } catch (error) {
      if (!(error instanceof RangeError)) throw error;
      put(this.chart.element, h("p", { class: "missing" }, error.message));
    }
    this.chart.element.hidden = message.line.count === 0;
    put(this.legend, totals(message.totals, message.alone));
    put(
      this.looks,
      ...LOOKS.filter((look) => look !== "modules" || message.modules.length).map((look) =>
        h("button", { "aria-pressed": String(look === this.look), "data-testid": `wb-memory-${look.replace(" ", "-")}`, click: () => this.turn(look, state, recording) }, look),
      ),
    );
    put(this.body, ...this.content(state, message, recording));
  }

  private switches(message: Memory, state: State, recording: Recording): Child[] {
    const redraw = () => this.redraw(state, recording);
    const axis = (by: By, label: string) =>
      h(
        "button",
        {
          "aria-pressed": String(this.by === by),
          "data-testid": `wb-memory-by-${by}`,
          click: () => {
            this.by = by;
            if (this.closer) {
              const line = answered(state, "window")?.message.line;
              if (line) return this.window(line.first, line.last);
            }
            redraw();
          },
        },
        label,
      );
    return [
      h(
        "button",
        {
          class: "toggle-bands",
          "aria-pressed": String(this.stacked),
          "data-testid": "wb-memory-bands",
          click: () => {
            this.stacked = !this.stacked;
            redraw();
          },
        },
        "By category",
      ),
      message.line.seconds ? h("div", { class: "segments", role: "group", "aria-label": "Axis" }, axis("event", "events"), axis("time", "time")) : null,
    ];
  }

  private redraw(state: State, recording: Recording): void {
    const latest = this.context.controller.store.state;
    const answer = answered(latest, "memory") ?? answered(state, "memory");
    if (answer) this.draw(latest, answer, latest.recording ?? recording);
  }

  private now(state: State, recording: Recording): void {
    [this.event, this.look, this.why] = [-1, "alive", -1];
    this.redraw(state, recording);
  }

  private turn(look: Look, state: State, recording: Recording): void {
    this.look = look;
    if (look === "what if") void this.ask({ type: "ask_predictions", node: state.selected });
    this.redraw(state, recording);
  }

  private content(state: State, message: Memory, recording: Recording): Child[] {
    const { actions } = this;
    switch (this.look) {
      case "alive":
        return this.alive(state, message, recording);
      case "lines":
        return [sharesTable("line", message.lines, recording, actions)];
      case "ops":
        return [sharesTable("op", message.ops, recording, actions)];
      case "modules":
        return [sharesTable("module", message.modules, recording, actions)];
      case "saved": {
        const rest = message.saving - message.savers.length;
        const sentence = message.saving
          ? `${plural(message.saving, "node")} of the tape ${message.saving === 1 ? "has" : "have"} kept arrays for backward${rest > 0 ? "; the largest" : ""}:`
          : "No node of the tape has kept anything for backward.";
        return [h("p", { class: "quiet" }, sentence), message.savers.length ? saversTable(message.savers, recording, actions) : null];
      }
      case "what if": {
        const found = answered(state, "predictions")?.message;
        if (!found) return [waiting(state)];
        const choose = (at: number) => {
          this.chosen = at;
          this.redraw(state, recording);
        };
        return predictions(found, this.chosen, choose, actions.select);
      }
    }
  }

  private alive(state: State, message: Memory, recording: Recording): Child[] {
    const why = answered(state, "why")?.message;
    const close = () => {
      this.why = -1;
      this.redraw(state, recording);
    };
    const card = why && why.block === this.why ? whyCard(why, close) : null;
    const back = h("button", { class: "link", click: () => this.now(state, recording) }, "back to now");
    if (this.event < 0) {
      const rest = message.held - message.holdings.length;
      const head = `${plural(message.held, "live array")}, largest first${rest > 0 ? `; ${rest} small ones are not listed` : ""}`;
      return [card, h("h4", { "aria-level": 3 }, head), holdingsTable(message.holdings, recording, this.actions)];
    }
    const moment = answered(state, "moment")?.message;
    if (moment?.event !== this.event) return [waiting(state)];
    const site = recording.sites[moment.site];
    const where = site ? `, ${siteText(site)}` : "";
    const rest = moment.held - moment.holdings.length;
    return [
      card,
      h(
        "div",
        { class: "moment", role: "status", "data-testid": "wb-moment" },
        h("b", {}, moment.event === message.line.peak_event ? "The peak: " : `Event ${moment.event}: `),
        `${moment.text}${where}. ${bytesText(moment.live)} in ${plural(moment.held, "array")} ${moment.held === 1 ? "was" : "were"} alive. `,
        back,
      ),
      holdingsTable(moment.holdings, recording, this.actions),
      rest > 0 ? h("p", { class: "quiet" }, `${rest} smaller arrays, ${bytesText(moment.rest)}, are not listed.`) : null,
    ];
  }
}

/** Whether only the process's bytes have changed, and not the GPU's pool size that the chart shows. */
function onlyBytes(state: State, before: State): boolean {
  const [now, then] = [state, before].map((one) => answered(one, "bytes")?.message.gpus[0]?.held);
  const same = [...state.answers].every(([type, answer]) => type === "bytes" || before.answers.get(type) === answer);
  return same && now === then && state.recording === before.recording;
}

function figure(bytes: number, label: string, click: (() => void) | null, id = "", hint = ""): HTMLElement {
  const value = h("b", {}, bytesText(bytes));
  if (!click) return h("div", {}, value, h("span", { class: "quiet" }, label));
  return h("div", {}, value, h("button", { class: "link", "data-testid": id || null, title: hint || null, click }, hint || label));
}

/** The legend as a table: bytes of each category now and at the peak. */
function totals(rows: readonly Total[], alone: number): HTMLElement {
  const some = rows.filter(({ now, peak }) => now || peak);
  return h(
    "table",
    { class: "totals", "data-testid": "wb-memory-totals" },
    h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "category"), h("th", { scope: "col", class: "number" }, "now"), h("th", { scope: "col", class: "number" }, "at the peak"))),
    h(
      "tbody",
      {},
      ...some.map(({ category, now, peak }) =>
        h("tr", {}, h("td", {}, h("span", { class: `swatch of-${category}` }, category)), h("td", { class: "number" }, bytesText(now)), h("td", { class: "number" }, bytesText(peak))),
      ),
      alone ? h("tr", {}, h("td", { class: "quiet", title: "Arrays that are no longer needed, kept for viewing. wb.release() frees them." }, "kept by the recording"), h("td", { class: "number quiet" }, bytesText(alone)), h("td")) : null,
    ),
  );
}
