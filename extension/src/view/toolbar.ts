// The toolbar above the graph: title, search and view buttons.

import { h, put, setAttribute, setText } from "./dom";
import { icon, type Icon } from "./icons";
import type { KeyCommands } from "./keys";
import { offeredOverlays } from "./graph/overlays";
import { levelsOf } from "./graph/levels";
import { SaveMenu, type Format } from "./save";
import type { Search, State } from "./store";
import { TOP } from "./graph/tree";
import { countText, plural } from "./words";

export interface ToolbarEvents extends KeyCommands {
  query(text: string): void;
  nextHit(by: 1 | -1): void;
  setOverlay(to: string): void;
  level(to: number): void;
  side(): void;
  student(): void;
  save(format: Format): void;
}

export class Toolbar {
  readonly element: HTMLElement;
  readonly input = h("input", {
    type: "search",
    placeholder: "Search",
    "aria-label": "Search by name, op, shape, or /pattern/",
    title: "Search by name, op, shape, or /pattern/ ( / )",
    "data-testid": "wb-search",
    spellcheck: "false",
    autocomplete: "off",
  });
  private readonly hits = h("output", { class: "hits", "aria-live": "polite" });
  private readonly title = h("strong", { class: "title" });
  private readonly ops = h("span");
  private readonly more = h("span");
  private readonly facts = h("span", { class: "quiet count" }, this.ops, this.more);
  private readonly live = h("span", { class: "live", "data-testid": "wb-live", hidden: true }, "recording");
  readonly help: HTMLButtonElement;
  readonly levels = h("span", { class: "levels", role: "group", "aria-label": "Level of detail", "data-testid": "wb-levels" });
  private readonly overlay: HTMLSelectElement;
  private readonly text: HTMLButtonElement;
  private readonly student: HTMLButtonElement;
  readonly side: HTMLButtonElement; // hidden if there is no side panel

  constructor(private readonly events: ToolbarEvents, status: HTMLElement) {
    const button = (name: Icon, title: string, click: () => void, test: string, kind: string | null = null) =>
      h("button", { class: kind, title, "aria-label": title, "data-testid": test, click }, icon(name));
    this.overlay = h("select", { "aria-label": "What boxes and edges show", title: "What boxes and edges show (o)" });
    this.overlay.addEventListener("change", () => events.setOverlay(this.overlay.value));
    this.text = button("table", "As a table (t)", () => events.text(), "wb-text");
    const least = "Student level: the tabs Step and Value and a simple bar, nothing else";
    this.student = h("button", { title: least, "data-testid": "wb-student", click: () => events.student() }, "student");
    this.side = button("side", "Show in the side panel", () => events.side(), "wb-side");
    this.help = h("button", { title: "Legend and keys (?)", "aria-label": "Legend and keys (?)", "data-testid": "wb-help", click: () => events.help() }, "?");
    this.input.addEventListener("input", () => events.query(this.input.value));
    this.input.addEventListener("keydown", (event) => {
      if (event.key !== "Enter") return;
      event.preventDefault();
      events.nextHit(event.shiftKey ? -1 : 1);
    });
    this.element = h(
      "div",
      { class: "toolbar", role: "toolbar", "aria-label": "Graph tools" },
      this.live,
      this.title,
      this.facts,
      this.levels,
      status,
      h("label", { class: "search" }, this.input, this.hits),
      this.overlay,
      h(
        "span",
        { class: "buttons" },
        button("minus", "Zoom out (Shift Down)", () => events.zoom(-1), "wb-zoom-out", "zoom"),
        button("plus", "Zoom in (Shift Up)", () => events.zoom(1), "wb-zoom-in", "zoom"),
        button("fit", "Fit all into the window (Space)", () => events.fit(), "wb-fit"),
        button("turn", "Flip the direction (d)", () => events.direction(), "wb-direction"),
        this.text,
        this.side,
        new SaveMenu((format) => events.save(format)).element,
        this.student,
        button("present", "Presenter mode (Shift p)", () => events.present(), "wb-present", "present"),
        this.help,
      ),
    );
  }

  update({ recording, level, overlay, text, search, student }: State): void {
    this.showSearch(search);
    const title = recording && (recording.title || (recording.root >= 0 ? recording.nodes.name[recording.root] : ""));
    setText(this.title, title || "");
    this.title.hidden = !title;
    this.live.hidden = !recording?.live;
    this.showOverlays(recording, overlay);
    this.showLevels(recording, level);
    setAttribute(this.text, "aria-pressed", String(text));
    setAttribute(this.student, "aria-pressed", String(student));
    this.facts.hidden = !recording;
    if (!recording) return;
    const { dropped, left_out, tree } = recording;
    const [ops, shared] = [tree.totals.get(TOP)?.ops ?? 0, tree.shared.get(TOP) ?? 0];
    // For a group, its header shows this.
    const several = shared ? `, ${plural(shared, "shared tensor")}` : "";
    setText(this.ops, ops || recording.live || recording.view !== "model" ? plural(ops, "op") : "not run under a watch yet");
    setText(this.more, `${several}${tree.folded ? `, ${tree.folded} folded away` : ""}${dropped ? `, ${countText(dropped)} more not recorded` : ""}`);
    const away = tree.folded && "Reshapes, slices and casts are drawn as part of what they come from. The last level shows them.";
    setAttribute(this.facts, "title", [left_out, away].filter(Boolean).join(" ") || null);
  }

  private showLevels(recording: State["recording"], level: number): void {
    const levels = !recording || recording.live ? [] : levelsOf(recording.trees);
    const names = levels.length > 1 ? levels.map(({ name }) => name) : [];
    const shown = [...this.levels.children].map((one) => one.getAttribute("data-level"));
    if (names.join() !== shown.join()) {
      // If there are several levels of blocks, only the first one is labeled with the word.
      const short = (name: string) => name.replace(/^blocks (?!1$)/, "");
      const choice = (name: string, to: number) => h("button", { "data-level": name, "aria-label": name, click: () => this.events.level(to) }, short(name));
      put(this.levels, ...names.map(choice));
    }
    this.levels.hidden = !names.length;
    [...this.levels.children].forEach((one, at) => {
      const { name, boxes } = levels[at]!;
      setAttribute(one, "aria-pressed", String(at === level));
      setAttribute(one, "title", `Level ${at + 1} of ${levels.length}, ${name}: ${plural(boxes, "box", "boxes")} (keys: , out and . in)`);
    });
  }

  private showOverlays(recording: State["recording"], overlay: string): void {
    const offered = offeredOverlays(recording);
    if (this.overlay.options.length !== offered.length) put(this.overlay, ...offered.map(({ name, label }) => h("option", { value: name }, label)));
    const shown = offered.some(({ name }) => name === overlay) ? overlay : "none";
    if (this.overlay.value !== shown) this.overlay.value = shown;
  }

  private showSearch({ query, hits, at, problem }: Search): void {
    if (this.input.value !== query) this.input.value = query;
    const count = !hits.length ? "none" : at < 0 ? `${hits.length} found` : `${at + 1} of ${hits.length}`;
    setText(this.hits, problem ? "invalid" : query.trim() ? count : "");
    setAttribute(this.hits, "title", problem || null);
  }
}
