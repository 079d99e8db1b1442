// Turns gestures into requests to the kernel and changes of the store. One step request is sent at a time; of later ones the last is kept.

import { ChannelError, type Channel, type Received, type Request } from "./channel";
import type { AskExport, Break, StepTo } from "./protocol";
import { fromKernel } from "./save";
import { unknown } from "./norms";
import { offeredOverlays, overlayOf } from "./graph/overlays";
import { START_LOOK, type Look } from "./panes/look";
import { answered, offered, type State, type Store } from "./store";

export type { Request };

const PLAY = 900; // milliseconds per step while playing at speed 1
const FINISHED = "The pass is finished.";
const NO_PASS = "There is no backward pass to step through. Use wb.step(loss) to get one.";
const OFFERED = "The code has run no backward pass. The button “Backward from …” above the graph runs one.";
const BEGINNING = "This is the start of the pass.";

/** A request, and what to do once it has been answered, or has failed. */
interface Wanted {
  request: Request;
  done(fine: boolean): void;
}

export class Controller {
  private speed = 1;
  readonly askers = new Set<(state: State) => Request | null>(); // the requests of each view's chosen pane
  private facesOf: unknown = null; // the nodes whose faces were requested; another iteration of a loop has other ones
  private facesAsked = new Set<number>();
  private wishedRank = -1; // -1: none
  private busy = false;
  private filling = false;
  private wish: Omit<StepTo, "type" | "v" | "id" | "then"> | null = null;
  private timer: ReturnType<typeof setTimeout> | undefined;
  private closed = false;
  look: Look = START_LOOK; // display settings of the shown tensor
  private lookedAt = ""; // the tensor that they apply to
  private inspectedAt = ""; // the last request, to avoid duplicates

  constructor(
    readonly store: Store,
    private readonly channel: Channel,
  ) {}

  start(): void {
    void this.ask({ type: "ready" });
  }

  close(): void {
    this.closed = true;
    clearTimeout(this.timer);
  }

  say(sentence: string, tone: "plain" | "error" = "plain"): void {
    this.store.dispatch({ do: "say", status: { sentence, tone } });
  }

  /** Sends a request. Resolves to true if there was an answer; a failure is shown as a message, unless `quietly`. */
  ask(request: Request, quietly = false): Promise<boolean> {
    return this.came(this.channel.send(request), quietly);
  }

  private async came(answer: Promise<Received>, quietly = false): Promise<boolean> {
    try {
      return (await answer).message.type !== "problem";
    } catch (error) {
      if (!(error instanceof ChannelError)) throw error;
      if (!this.closed && !quietly) this.say(error.message, "error");
      return false;
    }
  }

  async step(what: StepTo["do"], to = -1, by = this.store.state.by): Promise<void> {
    const { pass } = this.store.state;
    if (!pass && what !== "begin") return this.say(offered(this.store.state).length ? OFFERED : NO_PASS);
    if (pass && /^(next|into|out|run)$/.test(what) && pass.done && !(what === "run" && pass.mode === "paused") && !this.busy) return this.say(FINISHED);
    if (/^(previous|back)$/.test(what) && pass?.index === 0 && !this.busy) return this.say(BEGINNING);
    if ([FINISHED, BEGINNING].includes(this.store.state.status.sentence)) this.say(""); // no longer true
    if (this.busy) {
      this.wish = { do: what, to, by };
      return;
    }
    this.busy = true;
    const node = this.leadsTo(what, to, by);
    const then = this.wanted(node);
    const [step, ...rest] = this.channel.sendAll({ type: "step", do: what, to, by }, then.map(({ request }) => request));
    rest.forEach((answer, at) => void this.came(answer, true).then(then[at]!.done));
    const fine = await this.came(step!);
    this.busy = false;
    const next = this.wish;
    this.wish = null;
    if (!fine) this.pause();
    if (this.closed) return;
    this.askForNorms();
    if (fine && node === null && this.store.state.tab !== "value") this.inspectedAt = ""; // old after a step
    if (fine) this.inspect();
    if (next) void this.step(next.do, next.to, next.by);
    else if (this.store.state.playing) this.queue();
  }

  /** Requests the faces of these nodes that are not known yet; nothing while code runs. */
  askFaces(nodes: readonly number[]): void {
    const { recording, faces } = this.store.state;
    if (!recording || recording.live) return;
    if (this.facesOf !== recording.nodes) [this.facesOf, this.facesAsked] = [recording.nodes, new Set()];
    const unknown = nodes.filter((node) => !faces.has(node) && !this.facesAsked.has(node));
    unknown.forEach((node) => this.facesAsked.add(node));
    if (unknown.length) void this.ask({ type: "ask_faces", nodes: unknown });
  }

  runTo(node: number): void {
    const { pass } = this.store.state;
    if (node < 0) return this.say("Select a node first, then run to it.");
    if (pass && !pass.plan.includes(node)) return this.say("The backward pass does not reach the selected node.");
    void this.step("node", node);
  }

  /** Runs to the next breakpoint; stops a run in progress. */
  run(): void {
    if (this.store.state.pass?.runs) return this.halt();
    void this.step("run");
  }

  halt(): void {
    this.pause();
    if (!this.store.state.pass?.runs) return this.say("Nothing runs to a breakpoint.");
    void this.ask({ type: "step", do: "stop", to: -1, by: "op" });
  }

  /** Changes the kernel's breakpoints. Resolves to the error message, or "" on success. */
  async breakpoint(change: Partial<Omit<Break, "type" | "v" | "id">> & Pick<Break, "do">): Promise<string> {
    const request = { type: "break", number: -1, where: "any", what: "", when: "", ...change } as const;
    try {
      const { message } = await this.channel.send(request);
      return message.type === "problem" ? message.sentence : "";
    } catch (error) {
      if (!(error instanceof ChannelError)) throw error;
      return error.message;
    }
  }

  /** Requests the norms of skipped steps, while any are missing and no other request is pending. */
  askForNorms(): void {
    const { pass } = this.store.state;
    const missing = pass && !this.busy && !this.filling ? unknown(pass) : null;
    if (!missing) return;
    this.filling = true;
    void this.ask({ type: "ask_norms", ...missing }).then((fine) => {
      this.filling = false;
      if (fine && !this.closed) this.askForNorms();
    });
  }

  /** The pass was moved by a running cell, the code or another view. */
  moved(): void {
    if (!this.busy) this.wanted(this.store.state.subject).forEach((one) => this.send(one));
  }

  play(): void {
    const { pass, playing } = this.store.state;
    if (playing) return this.pause();
    if (!pass) return void this.step("next");
    this.store.dispatch({ do: "playing", on: true });
    void this.step(pass.index >= pass.total ? "first" : "next");
  }

  /** Sets the number of steps in the time of one at speed 1. */
  setSpeed(speed: number): void {
    this.speed = speed;
    if (this.store.state.playing && !this.busy) this.queue();
  }

  pause(): void {
    clearTimeout(this.timer);
    if (this.store.state.playing) this.store.dispatch({ do: "playing", on: false });
  }

  private queue(): void {
    const { pass } = this.store.state;
    if (!pass || pass.index >= pass.total) return this.pause();
    clearTimeout(this.timer);
    this.timer = setTimeout(() => void this.step("next"), PLAY / this.speed);
  }

  /** Shows the graph of another process; the selection stays. While an answer is on its way, only the latest wish is kept. */
  async rank(to: number): Promise<void> {
    const waits = this.wishedRank >= 0;
    this.wishedRank = to;
    if (waits) return;
    while (this.wishedRank !== (answered(this.store.state, "ranks")?.message.rank ?? -1)) {
      if (!(await this.ask({ type: "ask_rank", rank: this.wishedRank }))) break;
    }
    this.wishedRank = -1;
    this.inspect(null, false, true);
  }

  select(node: number): void {
    this.store.dispatch({ do: "select", node });
    this.inspect();
  }

  /** Opens all closed groups around a node, and selects it. */
  show(node: number): void {
    this.store.dispatch({ do: "reveal", node });
    this.select(node);
  }

  tab(tab: string): void {
    this.store.dispatch({ do: "tab", to: tab });
    this.paneRequests().forEach((one) => this.send(one));
    this.inspect();
  }

  /** Shows this view's content in the side panel, and opens the panel. */
  async toSidePanel(open: () => void): Promise<void> {
    if (await this.ask({ type: "to_side_panel" })) open();
  }

  /** Saves a file written by the kernel. */
  async save(format: AskExport["format"]): Promise<void> {
    this.say("Asking the kernel for the file…");
    try {
      const said = await fromKernel(this.channel, format);
      if (said && !this.closed) this.say(said);
    } catch (error) {
      if (!(error instanceof ChannelError)) throw error;
      this.say(error.message, "error");
    }
  }

  private send({ request, done }: Wanted): void {
    void this.ask(request).then(done);
  }

  private paneRequests(): Wanted[] {
    const wanted = [...this.askers].map((asks) => asks(this.store.state)).filter((request) => request !== null);
    const each = new Map(wanted.map((request) => [JSON.stringify(request), request])); // sends equal requests of several views once
    return [...each.values()].map((request) => ({ request, done: () => undefined }));
  }

  /** Requests what the open tab shows of its tensor, unless already requested; another tensor gets the default display settings. */
  inspect(look: Look | null = null, exact = false, again = false): void {
    this.inspection(this.store.state.subject, look, exact, again).forEach((one) => this.send(one));
  }

  private inspection(node: number, look: Look | null = null, exact = false, again = false): Wanted[] {
    const { tab, recording } = this.store.state;
    if (node < 0 || !recording || (tab !== "value" && tab !== "grad")) return [];
    const subject = JSON.stringify([recording.name, node, tab]);
    this.look = look ?? (subject === this.lookedAt ? this.look : START_LOOK);
    this.lookedAt = subject;
    const wanted = JSON.stringify([subject, this.look, exact]);
    if (wanted === this.inspectedAt && !again) return [];
    this.inspectedAt = wanted;
    const done = (fine: boolean) => {
      if (!fine && this.inspectedAt === wanted) this.inspectedAt = "";
    };
    return [{ request: { type: "inspect", node, what: tab, ...this.look, exact }, done }];
  }

  /** Pins a copy of the shown tensor for comparison, or the tensor of the same name in an earlier recording. */
  pin(what: "pin" | "pin earlier" = "pin"): void {
    const { subject: node, tab } = this.store.state;
    if (node < 0) return this.say("Select a node first, then pin its value or its gradient.");
    const request = { type: "ask_compare", do: what, node, what: tab === "grad" ? "grad" : "value", pin: -1 } as const;
    void this.ask(request).then((fine) => fine && this.say("Pinned. The Compare tab shows what is pinned side by side."));
  }

  /** The requests that go along with a step, which outdates the shown gradient and pane; `node`: whose tensor is shown after it. */
  private wanted(node: number | null): Wanted[] {
    const { tab, overlay } = this.store.state;
    if (tab !== "value") this.inspectedAt = "";
    const seen = node === null ? [] : this.inspection(node);
    return [...seen, ...this.paneRequests(), ...(overlayOf(overlay).moves ? this.numbers() : [])];
  }

  /** The node whose tensor is shown after a step; null if only the kernel knows. */
  private leadsTo(what: StepTo["do"], to: number, by: StepTo["by"]): number | null {
    const { pass, held, subject, selected } = this.store.state;
    if (!pass || held) return subject;
    const places: Partial<Record<StepTo["do"], number>> = { first: 0, last: pass.total, index: to };
    if (by === "op") Object.assign(places, { next: pass.index + 1, previous: pass.index - 1 });
    const place = places[what];
    return place === undefined ? null : (pass.plan[place - 1] ?? selected);
  }

  /** Resets the request state after the graph was replaced. */
  forget(): void {
    this.inspectedAt = "";
    this.wish = null;
    this.pause();
  }

  overlay(by: 1 | -1): void {
    const { recording, overlay } = this.store.state;
    const names = offeredOverlays(recording).map(({ name }) => name);
    this.setOverlay(names[(names.indexOf(overlay) + by + names.length) % names.length]!);
  }

  setOverlay(to: string): void {
    this.store.dispatch({ do: "overlay", to });
    this.say(overlayOf(to).sentence);
    this.askForNumbers();
  }

  /** Requests the local derivatives between scalars, and shows the reason if there are none. */
  private async askForSlopes(): Promise<void> {
    if (!(await this.ask({ type: "ask_slopes" }))) return;
    const missing = answered(this.store.state, "slopes")?.message.missing;
    if (missing) this.say(missing);
  }

  /** Requests the overlay's numbers if the kernel provides them, and shows the reason if there are none. */
  askForNumbers(): void {
    if (overlayOf(this.store.state.overlay).name === "slope") void this.askForSlopes();
    this.numbers().forEach((one) => this.send(one));
  }

  private numbers(): Wanted[] {
    const { metric } = overlayOf(this.store.state.overlay);
    if (metric === null || !this.store.state.recording || this.store.state.recording.live) return [];
    const done = () => {
      const answer = answered(this.store.state, "metric");
      if (!this.closed && answer?.message.metric === metric && answer.message.missing) this.say(answer.message.missing);
    };
    return [{ request: { type: "ask_metric", metric }, done }];
  }
}
