// The view: everything that is seen, in a shadow root, wired to one channel. Exports what anywidget and the JupyterLab panel call.

import { Alert } from "./alert";
import { StepperBar } from "./bar";
import { modelTransport, openChannel, type Channel, type Model, type Received } from "./channel";
import { Commands } from "./commands";
import { Controller } from "./controller";
import { h, put, setAttribute, setText } from "./dom";
import { failed, setFont } from "./graph/face";
import { bestScene, isMany } from "./graph/fit";
import { GradientTrack, NO_GRADIENTS, type Gradients } from "./panes/gradients";
import { GraphPane } from "./graph/pane";
import { Help } from "./help";
import { pressKey } from "./keys";
import { layout, type Scene } from "./graph/layout";
import { marksOf } from "./graph/marks";
import { Panel } from "./panes/panel";
import { splitter } from "./splitter";
import { answered, createStore, type Recording, type State, type Store } from "./store";
import { fillTable } from "./graph/table";
import { STYLES } from "./styles";
import { followTheme, prefersStill } from "./theme";
import { Toolbar } from "./toolbar";
import { TrainingBar } from "./training";
import { keyOf } from "./graph/walk";

const HEIGHT = 460;
const STACKED = 640; // height where the details stand below the graph
const NARROW = 560;
const PATIENCE = 20_000; // milliseconds until silence is called that
let views = 0;

class View {
  readonly host: HTMLElement;
  private readonly store: Store = createStore();
  private readonly controller: Controller;
  private readonly pane: GraphPane;
  private readonly commands: Commands;
  private readonly panel: Panel;
  private readonly bar: StepperBar;
  private readonly training: TrainingBar;
  private readonly toolbar: Toolbar;
  private readonly keys = new Help();
  private readonly status = h("span", { class: "status quiet", role: "status", "data-testid": "wb-status" });
  private readonly alert = new Alert(() => this.controller.say(""));
  private readonly empty = h("div", { class: "empty" });
  private readonly list = h("div", { class: "table", tabindex: 0, "data-testid": "wb-table", hidden: true });
  private readonly root: HTMLElement;
  private readonly stops: (() => void)[] = [];
  private width = 0;
  private dark = false;
  private gradients: Gradients = NO_GRADIENTS;
  private readonly track = new GradientTrack();
  private fading: ReturnType<typeof setTimeout> | undefined;

  constructor(
    el: HTMLElement,
    private readonly channel: Channel,
    private readonly height: string | null, // null: what suits the content
  ) {
    const prefix = `wb${++views}-`;
    this.controller = new Controller(this.store, channel);
    this.pane = new GraphPane(
      {
        select: (node) => this.controller.select(node),
        focus: (key) => this.store.dispatch({ do: "focus", key }),
        toggle: (group) => this.commands.toggle(group),
        iterate: (loop, to) => this.commands.iterate(loop, to),
        connect: (node) => this.commands.connect(node),
        breakpoint: (node) => this.commands.breakpoint(node),
        resized: () => this.turn(),
      },
      prefix,
    );
    const { pane, list, keys } = this;
    this.commands = new Commands(this.store, this.controller, {
      pane,
      list,
      keys,
      search: () => this.toolbar.input,
      breakpoints: () => this.bar.breakpoints,
    });
    this.panel = new Panel(this.controller, () => this.dark, prefix);
    this.bar = new StepperBar(this.controller, prefix);
    this.training = new TrainingBar(this.controller);
    this.toolbar = new Toolbar(this.commands, this.status);
    const stage = h("div", { class: "stage" }, this.pane.element, this.list, this.empty);
    const main = h(
      "div",
      { class: "main" },
      stage,
      splitter(() => this.panel.element),
      this.panel.element,
    );
    this.root = h(
      "div",
      { class: "root", "data-testid": "wb-root" },
      this.toolbar.element,
      this.training.element,
      this.bar.element,
      this.alert.element,
      main,
      this.keys.element,
    );
    // JupyterLab's own shortcuts must not take the keys while the focus is in here.
    this.host = h("div", { class: "gradient-workbench", "data-lm-suppress-shortcuts": "true" });
    this.showHeight();
    this.host.attachShadow({ mode: "open" }).append(h("style", {}, STYLES), this.root);
    this.root.addEventListener("keydown", (event) => pressKey(event, this.commands));
    el.append(this.host);
    setFont(getComputedStyle(this.root).fontFamily);
    this.stops.push(
      this.store.subscribe((state, before) => this.update(state, before)),
      channel.subscribe({
        message: (received) => this.receive(received),
        trouble: (sentence) => this.controller.say(sentence, "error"),
      }),
      followTheme((dark) => {
        this.dark = dark;
        setAttribute(this.host, "data-theme", dark ? "dark" : "light");
        this.pane.repaint();
        if (this.store.state.recording) this.panel.update(this.store.state, null, this.gradients);
      }),
      this.followSize(),
      this.followFonts(),
    );
    this.update(this.store.state, null);
    this.controller.start();
  }

  close(): void {
    clearTimeout(this.fading);
    this.controller.close();
    this.channel.close();
    this.stops.forEach((stop) => stop());
    this.pane.close();
    this.host.remove();
  }

  /** A message that cannot be shown says so instead of leaving half a picture without a word. */
  private receive(received: Received): void {
    try {
      this.store.dispatch({ do: "receive", received });
    } catch (error) {
      console.error(error);
      const why = error instanceof Error ? error.message : String(error);
      this.controller.say(`The kernel's “${received.message.type}” message could not be shown (${why}). Run the cell again.`, "error");
    }
  }

  /** Widgets are made before they are put on the page: only with a size is there a font, too. */
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
    });
    observer.observe(this.root);
    return () => observer.disconnect();
  }

  /** Text has other widths once the page's own fonts have come. */
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

  /** The pane has another size: the other direction may fit it better now. */
  private turn(): void {
    const { recording, direction, touched } = this.store.state;
    if (!recording || recording.live || direction !== "auto" || touched) return;
    if (bestScene(recording, this.store.state.open, this.pane.size).direction !== this.pane.scene?.direction) this.layAnew();
  }

  private update(state: State, before: State | null): void {
    const changed = (...keys: (keyof State)[]) => !before || keys.some((key) => state[key] !== before[key]);
    const focused = this.host.shadowRoot!.activeElement;
    if (changed("pass")) this.gradients = this.track.of(state.pass);
    if (before?.recording && before.recording.name !== state.recording?.name) this.controller.forget();
    if (changed("recording")) this.showMode(state.recording);
    if (changed("recording", "open", "direction")) this.showScene(state, before, prefersStill() || before?.pass !== state.pass);
    else if (changed("pass", "selected", "overlay", "search", "answers", "flags")) this.showMarks(state);
    if (changed("faces", "overlay", "recording") && state.recording) this.pane.dress(state.recording, state.faces, state.overlay === "saved");
    if (changed("trace", "selected", "recording", "open")) this.pane.trace(state);
    if (changed("focus", "recording", "open")) this.showFocus(state, before);
    if (changed("pass") && before && this.gradients.current >= 0 && state.recording) {
      this.pane.reveal(keyOf(state.recording, state.open, this.gradients.current));
    }
    if (before?.pass && state.pass && before.pass.index !== state.pass.index) this.controller.moved();
    if (changed("pass")) this.controller.askForNorms();
    this.toolbar.update(state);
    this.bar.update(state);
    this.training.update(state);
    this.panel.update(state, before, this.gradients);
    if (changed("text")) {
      this.pane.element.hidden = state.text;
      this.list.hidden = !state.text;
    }
    if (state.text && changed("text", "recording", "pass", "selected", "search")) this.showTable(state);
    this.empty.hidden = !!state.recording?.tree.size;
    if (!this.empty.hidden) put(this.empty, ...emptyWords(state));
    if (changed("status", "recording")) this.showStatus(state);
    // A button that is drawn anew takes the focus with it, and the keys would go to the notebook.
    if (focused && (!focused.isConnected || focused.closest("[hidden]"))) this.commands.focus();
  }

  /** One tensor is shown as a card as high as its content; everything else fills the height it was given. */
  private showMode(recording: Recording | null): void {
    const tensor = recording?.view === "tensor";
    this.root.classList.toggle("tensor", tensor);
    this.showHeight();
    if (tensor) this.controller.inspect();
    else if (recording) {
      this.controller.tab(this.store.state.tab);
      this.controller.askForNumbers();
    }
  }

  private showHeight(): void {
    const card = this.root.classList.contains("tensor") && this.height !== "100%";
    this.host.classList.toggle("card", card);
    const own = this.root.classList.contains("narrow") ? STACKED : HEIGHT;
    this.host.style.height = card ? "auto" : (this.height ?? `${own}px`);
  }

  /** A plain sentence goes after a while; an error stays until it is dismissed or something else is said. */
  private showStatus({ status }: State): void {
    clearTimeout(this.fading);
    const plain = status.tone === "plain" ? status.sentence : "";
    setText(this.status, plain);
    setAttribute(this.status, "title", plain || null);
    // With nothing else to see the sentence stands in the middle.
    this.alert.show(status.tone === "error" && this.empty.hidden ? status.sentence : "");
    if (status.sentence && status.tone === "plain") this.fading = setTimeout(() => this.controller.say(""), 8000);
  }

  private sceneOf(state: State, recording: Recording, before: State | null): Scene {
    const kept = recording.live && before?.recording?.name === recording.name ? this.pane.scene?.kept : undefined;
    // While code runs neither the direction nor a box changes its place.
    if (state.direction !== "auto") return layout(recording, state.open, state.direction, kept);
    if (kept) return layout(recording, state.open, kept.direction, kept);
    // Nor does the direction change under a user who opens and closes groups, while the graph is small.
    const now = state.touched && !isMany(recording, state.open) ? this.pane.scene?.direction : undefined;
    return now ? layout(recording, state.open, now) : bestScene(recording, state.open, this.pane.size);
  }

  private showScene(state: State, before: State | null, still = prefersStill()): void {
    const { recording } = state;
    if (!recording || recording.view === "tensor") return;
    const scene = this.sceneOf(state, recording, before);
    const animate = !still && !recording.live && before?.recording?.name === recording.name;
    this.pane.show(scene, recording, marksOf(state, this.gradients), animate);
    const fault = this.fault(state, before);
    if (fault >= 0) this.pane.reveal(keyOf(recording, state.open, fault));
    this.pane.element.dataset.boxes = String(scene.boxes.length);
    this.controller.askFaces(this.pane.nodesDrawn());
  }

  /** The op that failed, when it has just come to be known. */
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

function emptyWords(state: State): HTMLElement[] {
  const { recording, status } = state;
  if (answered(state, "training")?.message.state === "waits")
    return [
      h("p", {}, "The loop waits before its first turn."),
      h("p", { class: "quiet" }, "Play it, or go through it turn by turn; each turn's graph can be looked at here."),
    ];
  if (recording?.live) return [h("p", {}, "Recording. The graph appears with the first op.")];
  if (recording)
    return [
      h("p", {}, "Nothing was recorded."),
      h("p", { class: "quiet" }, "Ops on engine tensors make the graph; start a cell with %%watch to record it."),
    ];
  if (status.tone === "error") return [h("p", {}, status.sentence)];
  return [
    h("p", {}, "Waiting for the kernel."),
    h("p", { class: "quiet" }, "If nothing comes, run the cell again: a view lives only as long as its kernel."),
  ];
}

interface RenderProps {
  model: Model;
  el: HTMLElement;
}

/** Shows the view in `el` until the returned function is called. */
function render({ model, el }: RenderProps): () => void {
  const height = model.get("height");
  const fills = el.style.height !== "";
  const text = typeof height === "number" ? `${height}px` : fills ? "100%" : null;
  const view = new View(el, openChannel(modelTransport(model), PATIENCE, 1 + Math.floor(Math.random() * 2 ** 40)), text);
  return () => view.close();
}

export default { render };
