// The view: all visible parts in a shadow root, connected to the state and the controller.

import { Alert } from "./alert";
import { StepperBar } from "./bar";
import { Commands } from "./commands";
import type { Controller } from "./controller";
import type { Core } from "./core";
import { h, put, setAttribute, setText } from "./dom";
import { emptyWords } from "./empty";
import { finderOf } from "./focus";
import { failed, setFont } from "./graph/face";
import { bestScene, goodAt, isMany, MARGIN, readableAt, wholeView } from "./graph/fit";
import { GradientTrack, NO_GRADIENTS, type Gradients } from "./panes/gradients";
import { GraphPane } from "./graph/pane";
import { Help } from "./help";
import { pressKey } from "./keys";
import { besideSidePanel, followLevel, followNotebook, HEARD, keepLevel, LEFT, OPEN, tellPage } from "./notebook";
import { layout, type Scene } from "./graph/layout";
import { marksOf } from "./graph/marks";
import { MemoryPane } from "./panes/memory";
import { Presenter } from "./presenter";
import { RanksBar } from "./ranks";
import { Panel } from "./panes/panel";
import { splitter } from "./splitter";
import type { Recording, State, Store } from "./store";
import { fillTable } from "./graph/table";
import { STYLES } from "./styles";
import { followTheme, prefersStill } from "./theme";
import { Toolbar } from "./toolbar";
import { Tour } from "./tour";
import { TrainingBar } from "./training";
import { caretNode } from "./graph/loops";
import { keyOf } from "./graph/walk";

const HEIGHT = 460;
const TALLEST = 640; // largest height, if that shows the whole graph
const BAR = 90; // height of the stepper's bar, added to the graph's room
const STACKED = 640; // height when the details are below the graph
const NARROW = 560;
const LARGE = 20_000; // nodes
const AS_IT_RAN = "This is the program as it ran. Each box is an op with its result; the arrows lead to the ops that used it.";
const LOOK_INSIDE = "This is the program as it ran. Double-click a box to open it, or use these levels to open all boxes at once.";
const WALK = "Next takes one step of the backward pass; Previous undoes it.";
const BEGIN = "Click a box to see its numbers here. To step through the backward pass, run wb.step(loss) in a cell.";
const OFFER = "Click a box to see its numbers. This button runs the backward pass, to be stepped through; no .grad changes.";
const EXPLAINED = "The legend explains every color, badge, edge and key.";
let views = 0;

/** The parts of the view to show: both, or one if the other is elsewhere on the page. */
export type Parts = "all" | "graph" | "details";

export interface Setting {
  parts: Parts;
  height: string | null; // null: chosen by the content
  hints: boolean; // whether to show the hints for first-time users
}

export class View {
  readonly host: HTMLElement;
  private readonly store: Store;
  private readonly controller: Controller;
  private readonly pane: GraphPane;
  private readonly commands: Commands;
  private readonly panel: Panel;
  private readonly bar: StepperBar;
  private readonly ranks: RanksBar;
  private readonly training: TrainingBar;
  private readonly toolbar: Toolbar;
  private readonly keys = new Help();
  private readonly status = h("span", { class: "status quiet", role: "status", "data-testid": "wb-status" });
  private readonly alert = new Alert(() => this.controller.say(""));
  private readonly empty = h("div", { class: "empty" });
  private readonly below: MemoryPane | null;
  private readonly presenter: Presenter;
  private readonly tour: Tour | null; // for a view in a cell's output
  private readonly list = h("div", { class: "table", tabindex: 0, "data-testid": "wb-table", hidden: true });
  private readonly root: HTMLElement;
  private readonly stops: (() => void)[] = [];
  private width = 0;
  private given = ""; // the height set by the view
  private grown = 0; // the part of it added for the graph
  private grownFor = ""; // the recording it was added for
  private dark = false;
  private gradients: Gradients = NO_GRADIENTS;
  private readonly track = new GradientTrack();
  private later: ReturnType<typeof setTimeout> | undefined; // pending drawing of a large graph
  private fading: ReturnType<typeof setTimeout> | undefined;

  constructor(
    el: HTMLElement,
    core: Core,
    private readonly setting: Setting,
  ) {
    const prefix = `wb${++views}-`;
    [this.store, this.controller] = [core.store, core.controller];
    this.pane = new GraphPane(
      {
        select: (node) => this.controller.select(node),
        focus: (key) => this.store.dispatch({ do: "focus", key }),
        toggle: (group) => this.commands.toggle(group),
        iterate: (loop, to) => this.commands.iterate(loop, to),
        connect: (node) => this.commands.connect(node),
        breakpoint: (node) => this.commands.breakpoint(node),
        overlay: () => this.store.state.overlay,
        resized: ({ w, h: high }, keep) => {
          this.store.dispatch({ do: "window", to: { w, h: high + this.spare() }, keep });
          if (keep) return;
          this.turn();
          if (this.pane.scene) this.growFor(this.pane.scene, this.store.state);
        },
      },
      prefix,
    );
    const { pane, keys } = this;
    const { parts } = setting;
    this.commands = new Commands(this.store, this.controller, {
      pane,
      keys,
      home: () => (parts === "details" ? this.panel.scroller : this.store.state.text ? this.list : pane.element),
      openSide: () => tellPage(this.host, OPEN),
      leave: () => tellPage(this.host, LEFT),
      search: () => this.toolbar.input,
      breakpoints: () => this.bar.breakpoints,
      presenter: () => this.presenter,
      turnPage: (by) => this.panel.turnPage(by),
    });
    this.panel = new Panel(this.controller, () => this.dark, prefix);
    this.bar = new StepperBar(this.controller, prefix);
    this.ranks = new RanksBar(this.controller);
    this.training = new TrainingBar(this.controller);
    this.toolbar = new Toolbar(this.commands, this.status);
    const stage = h("div", { class: "stage" }, this.pane.element, this.list, this.empty);
    this.below = parts === "graph" ? new MemoryPane({ controller: this.controller, isDark: () => this.dark, prefix, width: () => this.width }) : null;
    const side = [splitter(() => this.panel.element), this.panel.element];
    const main = h("div", { class: "main" }, ...{ all: [stage, ...side], graph: [stage], details: [this.panel.element, this.empty] }[parts]);
    const hints = [
      {
        words: () => (this.toolbar.levels.hidden ? AS_IT_RAN : LOOK_INSIDE),
        at: () => (this.toolbar.levels.hidden ? pane.element : this.toolbar.levels),
      },
      {
        words: () => (this.store.state.pass ? WALK : this.bar.element.hidden ? BEGIN : OFFER),
        at: () => (this.bar.element.hidden ? this.panel.element : this.bar.element),
      },
      { words: () => EXPLAINED, at: () => this.toolbar.help },
    ];
    const drawn = () => this.store.state.recording?.view === "graph" && !this.store.state.recording.live;
    this.tour = setting.hints && parts === "all" && setting.height !== "100%" ? new Tour(() => this.root, hints, drawn) : null;
    this.root = h(
      "div",
      { class: `root only-${parts}`, "data-testid": "wb-root" },
      parts === "details" ? null : this.toolbar.element,
      ...(parts === "graph" ? [] : [this.ranks.element, this.training.element, this.bar.element]),
      this.alert.element,
      main,
      this.below && h("div", { class: "below" }, this.below.element),
      this.keys.element,
      this.tour?.element ?? null,
    );
    // JupyterLab's shortcuts must not handle keys while the focus is in the view.
    this.host = h("div", { class: "gradient-workbench", "data-lm-suppress-shortcuts": "true" });
    this.presenter = new Presenter(this.host, this.root, this.controller, () => {
      this.pane.most = this.presenter.on ? 2 : 1; // for the last row of the room
      this.commands.fit();
    });
    this.showHeight();
    this.host.attachShadow({ mode: "open" }).append(h("style", {}, STYLES), this.root);
    this.root.addEventListener("keydown", (event) => pressKey(event, this.commands));
    el.append(this.host);
    this.toolbar.side.hidden = !besideSidePanel(this.host);
    setFont(getComputedStyle(this.root).fontFamily);
    this.stops.push(
      this.store.subscribe((state, before) => this.update(state, before)),
      followTheme((dark) => {
        this.dark = dark;
        setAttribute(this.host, "data-theme", dark ? "dark" : "light");
        this.pane.repaint();
        if (this.store.state.recording) this.panel.update(this.store.state, null, this.gradients);
      }),
      followNotebook(this.host, (news) => core.hear(news)),
      followLevel(this.host, (on) => this.store.dispatch({ do: "student", on })),
      this.followSize(),
      this.followFonts(),
    );
    this.update(this.store.state, null);
    core.catchUp();
  }

  close(): void {
    clearTimeout(this.fading);
    clearTimeout(this.later);
    this.stops.forEach((stop) => stop());
    this.presenter.close();
    this.tour?.close();
    this.panel.close();
    this.pane.close();
    this.host.remove();
  }

  /** Watches the size. Widgets are created before they are on the page, and have a font only once they have a size. */
  private followSize(): () => void {
    if (typeof ResizeObserver === "undefined") return () => undefined;
    const observer = new ResizeObserver(([entry]) => {
      const { width } = entry!.contentRect;
      if (!width || width === this.width) return;
      this.width = width;
      this.root.classList.toggle("narrow", width < NARROW);
      this.showHeight();
      if (setFont(getComputedStyle(this.root).fontFamily)) this.layAnew();
      this.store.dispatch({ do: "room" });
      this.tour?.place();
    });
    observer.observe(this.root);
    return () => observer.disconnect();
  }

  /** Lays out again when the page's fonts have loaded, since they change text widths. */
  private followFonts(): () => void {
    const { fonts } = document;
    if (!fonts) return () => undefined;
    const loaded = () => setFont(getComputedStyle(this.root).fontFamily, true) && this.layAnew();
    fonts.addEventListener("loadingdone", loaded);
    return () => fonts.removeEventListener("loadingdone", loaded);
  }

  private layAnew(): void {
    if (this.store.state.recording) this.showScene(this.store.state, this.store.state, false);
  }

  /** The pane's size has changed, so the other direction may fit better. */
  private turn(): void {
    const { recording, direction, touched } = this.store.state;
    if (!recording || recording.live || direction !== "auto" || touched) return;
    if (bestScene(recording, this.store.state.open, this.store.state.window).direction !== this.pane.scene?.direction) this.layAnew();
  }

  private update(state: State, before: State | null): void {
    const changed = (...keys: (keyof State)[]) => !before || keys.some((key) => state[key] !== before[key]);
    const focused = this.host.shadowRoot!.activeElement as HTMLElement | null;
    const again = focused?.closest(".panel") ? finderOf(this.panel.element, focused) : null;
    if (changed("pass")) this.gradients = this.track.of(state.pass);
    if (changed("student")) {
      this.root.classList.toggle("student", state.student);
      if (before) keepLevel(this.host, state.student);
    }
    if (changed("recording")) this.showMode(state.recording);
    else if (!before?.pass !== !state.pass) this.showHeight();
    if (state.recording && !before?.recording) tellPage(this.host, HEARD);
    if (this.setting.parts !== "details") this.picture(state, before);
    if (this.setting.parts !== "graph") {
      this.bar.update(state);
      this.ranks.update(state);
      this.training.update(state);
      this.panel.update(state, before, this.gradients);
    }
    this.presenter.update(state);
    if (changed("recording")) this.tour?.offer();
    this.updateBelow(state, before);
    this.empty.hidden = !!state.recording?.tree.size;
    if (!this.empty.hidden) put(this.empty, ...emptyWords(state));
    if (changed("status", "recording")) this.showStatus(state);
    setAttribute(this.root, "aria-busy", state.recording || state.status.tone === "error" ? null : "true"); // until its graph arrives
    // Redrawing a button would lose the focus, and further keys would go to the notebook.
    if (!focused || (focused.isConnected && !focused.closest("[hidden]"))) return;
    const same = again?.();
    if (same) same.focus({ preventScroll: true });
    else this.commands.focus();
  }

  /** Updates the memory below the graph; requests it when the graph has changed or the pass has moved. */
  private updateBelow(state: State, before: State | null): void {
    const { below } = this;
    if (!below || !state.recording) return;
    const moved = state.recording !== before?.recording || state.pass?.index !== before?.pass?.index;
    if (moved && !state.recording.live) void this.controller.ask({ type: "ask_memory" });
    below.update(state, before?.recording ? before : null);
  }

  /** Draws a large new graph in a separate task, with the state at that time, so that the page can respond in between. */
  private picture(state: State, before: State | null): void {
    if (this.later) return;
    const large = state.recording && state.recording.tree.size > LARGE && state.recording.nodes !== before?.recording?.nodes;
    if (!large) return this.updatePicture(state, before);
    this.later = setTimeout(() => {
      this.later = undefined;
      this.updatePicture(this.store.state, before);
    });
  }

  private updatePicture(state: State, before: State | null): void {
    const changed = (...keys: (keyof State)[]) => !before || keys.some((key) => state[key] !== before[key]);
    const another = changed("recording", "open", "direction");
    if (changed("trace", "selected", "recording", "open")) this.pane.trace(state, another);
    if (another) this.showScene(state, before, prefersStill() || before?.pass !== state.pass);
    else if (changed("pass", "selected", "overlay", "search", "answers", "flags", "caret", "tangents")) this.showMarks(state);
    if (changed("faces", "overlay", "recording") && state.recording) this.pane.dress(state.recording, state.faces, state.overlay === "saved");
    if (changed("focus", "recording", "open")) this.showFocus(state, before);
    const [pass, old] = [state.pass, before?.pass];
    const walked = pass?.number === old?.number ? pass?.index !== old?.index : !pass?.done; // a pass received complete moves no camera
    if (changed("pass") && before && walked && this.gradients.current >= 0 && state.recording) {
      this.pane.reveal(keyOf(state.recording, state.open, this.gradients.current));
    }
    const made = caretNode(state.caret, state.pass);
    if (changed("caret") && made >= 0 && state.recording) this.pane.reveal(keyOf(state.recording, state.open, made));
    this.toolbar.update(state);
    if (changed("text")) {
      this.pane.element.hidden = state.text;
      this.list.hidden = !state.text;
    }
    if (state.text && changed("text", "recording", "pass", "selected", "search")) this.showTable(state);
  }

  /** A single tensor is a card as high as its content; everything else fills the given height. */
  private showMode(recording: Recording | null): void {
    const asks = recording?.view === "lesson" && !recording.tree.size; // a question without a graph is a card, too
    this.root.classList.toggle("tensor", recording?.view === "tensor" || asks);
    this.root.classList.toggle("asks", asks);
    this.showHeight();
  }

  private showHeight(): void {
    const { height } = this.setting;
    const card = this.root.classList.contains("tensor") && height !== "100%";
    this.host.classList.toggle("card", card);
    this.host.classList.toggle("sized", !card && height !== "100%");
    if (this.host.style.height !== this.given) return; // the user has resized it
    const own = this.usual() + this.grown;
    this.host.style.height = this.given = card ? "auto" : (height ?? `${own}px`);
  }

  private usual(): number {
    return (this.root.classList.contains("narrow") ? STACKED : HEIGHT) + (this.store.state.pass ? BAR : 0);
  }

  /** How much the view may still grow in height. */
  private spare(): number {
    const { height, parts } = this.setting;
    const own = this.host.style.height === this.given && height === null && parts === "all" && this.given !== "auto";
    return own && !this.root.classList.contains("narrow") ? TALLEST - HEIGHT - this.grown : 0;
  }

  /** Makes the view higher if that shows a level whole and readable. */
  private growFor(scene: Scene, { recording, level, touched, window }: State): void {
    if (level < 0 || !this.pane.size.w) return;
    // It does not shrink again: a scroll bar that appears with the height and takes some width would make it flicker.
    const kept = recording?.name === this.grownFor && !touched ? this.grown : 0;
    this.grownFor = recording?.name ?? "";
    const least = window.h - (this.spare() + this.grown); // height of the pane in a view of the usual height
    const most = wholeView(scene, window).k;
    const needed = [goodAt(scene), readableAt(scene)].find((k) => k <= most) ?? 0;
    const enough = wholeView(scene, { w: window.w, h: least }).k >= needed;
    const grown = enough ? kept : Math.max(kept, Math.ceil(scene.bounds[3] * needed + 2 * MARGIN) - least);
    if (grown === this.grown || this.spare() + this.grown === 0) return;
    this.grown = grown;
    this.showHeight();
  }

  /** A plain message disappears after a while; an error stays until it is dismissed or replaced. */
  private showStatus({ status }: State): void {
    clearTimeout(this.fading);
    const plain = status.tone === "plain" ? status.sentence : "";
    setText(this.status, plain);
    setAttribute(this.status, "title", plain || null);
    // If nothing else is visible, the error is shown in the middle instead.
    this.alert.show(status.tone === "error" && this.empty.hidden ? status.sentence : "");
    if (status.sentence && status.tone === "plain") this.fading = setTimeout(() => this.controller.say(""), 8000);
  }

  private sceneOf(state: State, recording: Recording, before: State | null): Scene {
    const kept = recording.live && before?.recording?.name === recording.name ? this.pane.scene?.kept : undefined;
    // While code runs, the direction and the boxes' places are fixed.
    if (state.direction !== "auto") return layout(recording, state.open, state.direction, kept);
    if (kept) return layout(recording, state.open, kept.direction, kept);
    // The direction is also kept while the user opens and closes groups of a small graph.
    const now = state.touched && !isMany(recording, state.open) ? this.pane.scene?.direction : undefined;
    return now ? layout(recording, state.open, now) : bestScene(recording, state.open, state.window);
  }

  private showScene(state: State, before: State | null, still = prefersStill()): void {
    const { recording } = state;
    if (!recording || recording.view === "tensor") return;
    const scene = this.sceneOf(state, recording, before);
    const animate = !still && !recording.live && before?.recording?.name === recording.name;
    this.growFor(scene, state);
    this.pane.show(scene, recording, marksOf(state, this.gradients), animate);
    const fault = this.fault(state, before);
    if (fault >= 0) this.pane.reveal(keyOf(recording, state.open, fault));
    this.pane.element.dataset.boxes = String(scene.boxes.length);
    this.controller.askFaces(this.pane.nodesDrawn());
  }

  /** The op that failed, if that is new; else -1. */
  private fault({ recording }: State, before: State | null): number {
    if (!recording || before?.recording?.nodes === recording.nodes) return -1;
    return recording.nodes.note.findIndex((note, node) => note !== "" && failed(recording, node));
  }

  private showMarks(state: State): void {
    if (state.recording) this.pane.mark(marksOf(state, this.gradients));
  }

  private showFocus(state: State, before: State | null): void {
    const { recording, focus } = state;
    if (!recording) return;
    const id = Number(focus.slice(1));
    const known = focus !== "" && (focus.startsWith("g") ? recording.tree.groups.has(id) : id < recording.tree.size);
    const key = known ? (focus.startsWith("n") ? keyOf(recording, state.open, id) : focus) : "";
    this.pane.focus(key);
    if (key && before && state.focus !== before.focus) this.pane.reveal(key);
  }

  private showTable(state: State): void {
    fillTable(this.list, state, this.gradients, (node) => this.controller.select(node));
  }
}
