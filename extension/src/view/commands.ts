// The commands of keys and buttons: step, walk, open and close groups, search.

import type { BreakpointList } from "./breakpoints";
import type { Controller } from "./controller";
import { describe } from "./graph/face";
import type { GraphPane } from "./graph/pane";
import type { Help } from "./help";
import { picture, type Format } from "./save";
import type { Presenter } from "./presenter";
import type { Store } from "./store";
import type { ToolbarEvents } from "./toolbar";
import { levelsOf } from "./graph/levels";
import { loopAt, shownText } from "./graph/loops";
import { pathsBetween, toInputs, toLoss, type Trace } from "./graph/trace";
import { ALL, TOP } from "./graph/tree";
import { alongEdge, firstInside, groupAround, keyOf, sibling } from "./graph/walk";

/** The parts of the view that commands act on. */
export interface Parts {
  pane: GraphPane;
  home(): HTMLElement; // default target of the keyboard focus: the graph, its table, or the details
  keys: Help;
  openSide(): void; // opens the page's side panel
  leave(): void; // returns the keyboard focus to the notebook
  search(): HTMLInputElement;
  breakpoints(): BreakpointList;
  presenter(): Presenter;
  turnPage(by: 1 | -1): void;
}

export class Commands implements ToolbarEvents {
  constructor(
    private readonly store: Store,
    private readonly controller: Controller,
    private readonly parts: Parts,
  ) {}

  toggle(group: number, open?: boolean): void {
    this.parts.pane.anchor = `g${group}`;
    this.store.dispatch({ do: "toggle", group, ...(open === undefined ? {} : { open }) });
    this.store.dispatch({ do: "focus", key: `g${group}` });
  }

  /** Opens all groups down to a level, and resets the camera. */
  level(to: number): void {
    this.store.dispatch({ do: "level", to });
    this.parts.pane.home();
  }
  levelBy(by: 1 | -1): void {
    const { recording, level } = this.store.state;
    if (!recording) return;
    const levels = levelsOf(recording.trees);
    const to = level < 0 ? (by < 0 ? 0 : levels.length - 1) : level + by;
    if (!levels[to]) return this.controller.say(by < 0 ? "This is the outermost level." : "This is the innermost level.");
    this.level(to);
    this.controller.say(`Level ${to + 1} of ${levels.length}: ${levels[to]!.name}.`);
  }

  /** Shows another part of a loop or fold, or with -1 all of them. */
  iterate(loop: number, to: number): void {
    const before = this.store.state.recording;
    this.parts.pane.anchor = `g${loop}`;
    this.store.dispatch({ do: "iterate", loop, to });
    const { recording } = this.store.state;
    if (recording?.tree.stacks.has(loop) && recording !== before) this.controller.say(shownText(recording.tree, loop));
  }
  iterateBy(by: 1 | -1): void {
    const loop = loopAt(this.store.state);
    const stack = loop === null ? undefined : this.store.state.recording?.tree.stacks.get(loop);
    if (loop === null || !stack) return this.controller.say("There is no loop here with hidden turns.");
    const to = (stack.at === ALL ? 0 : stack.at) + by;
    if (to < 0 || to >= stack.items.length) return this.controller.say(by < 0 ? "This is the first one." : "This is the last one.");
    this.iterate(loop, to);
    this.parts.pane.reveal(`g${stack.items[to]!}`); // the slider stays under the mouse; with keys the new part must be brought into view
  }
  /** Shows all iterations, or one of them again. */
  unroll(): void {
    const loop = loopAt(this.store.state);
    const stack = loop === null ? undefined : this.store.state.recording?.tree.stacks.get(loop);
    if (loop === null || !stack) return this.controller.say("There is no loop here with hidden turns.");
    this.iterate(loop, stack.at === ALL ? 0 : ALL);
  }

  private lit(trace: Trace): void {
    this.store.dispatch({ do: "trace", trace });
    this.controller.say(trace.sentence);
  }
  /** Highlights all paths between the selected node and this one. */
  connect(node: number): void {
    const { recording, selected } = this.store.state;
    if (!recording) return;
    if (selected < 0 || selected === node) return this.controller.select(node);
    this.store.dispatch({ do: "focus", key: `n${node}` });
    this.lit(pathsBetween(recording, selected, node));
  }
  connectFocused(): void {
    const { focus } = this.store.state;
    if (focus.startsWith("n") && this.store.state.selected >= 0) return this.connect(Number(focus.slice(1)));
    this.controller.say("Select one node (Enter), go to another (arrows), then press Shift Enter: all paths between them are lit.");
  }
  trace(to: "inputs" | "loss"): void {
    const { recording, selected, focus } = this.store.state;
    const node = focus.startsWith("n") ? Number(focus.slice(1)) : selected;
    if (!recording || node < 0) return this.controller.say("Select a node first.");
    this.lit(to === "inputs" ? toInputs(recording, node) : toLoss(recording, node));
  }

  step(what: "next" | "previous" | "first" | "last" | "into" | "out" | "back"): void {
    this.controller.pause();
    void this.controller.step(what);
  }
  run(): void {
    this.controller.pause();
    this.controller.run();
  }
  halt(): void {
    this.controller.halt();
  }
  /** Sets or removes a breakpoint at a node; by default the focused one, else the selected one. */
  breakpoint(node = this.node()): void {
    if (node < 0) return this.controller.say("Select a node first, then set a breakpoint there.");
    void this.controller.breakpoint({ do: "toggle", number: node }).then((problem) => {
      if (problem) this.controller.say(problem, "error");
    });
  }
  condition(): void {
    const node = this.node();
    if (node >= 0 && node !== this.store.state.selected) this.controller.select(node);
    this.parts.breakpoints().open(true, node);
  }
  private node(): number {
    const { focus, selected } = this.store.state;
    return focus.startsWith("n") ? Number(focus.slice(1)) : selected;
  }
  play(): void {
    this.controller.play();
  }
  fit(): void {
    this.parts.pane.fit();
  }
  zoom(by: 1 | -1): void {
    this.parts.pane.zoom(by > 0 ? 1.25 : 0.8);
  }
  search(): void {
    this.parts.search().focus();
    this.parts.search().select();
  }
  direction(): void {
    this.store.dispatch({ do: "direction", to: this.parts.pane.scene?.direction === "down" ? "right" : "down" });
    this.parts.pane.home();
  }
  overlay(by: 1 | -1): void {
    this.controller.overlay(by);
  }
  setOverlay(to: string): void {
    this.controller.setOverlay(to);
  }
  text(): void {
    this.store.dispatch({ do: "text", on: !this.store.state.text });
    this.focus();
  }
  focus(): void {
    this.parts.home().focus({ preventScroll: true });
  }
  save(format: Format): void {
    if (!this.store.state.recording) return this.controller.say("There is nothing to save yet.");
    if (format !== "svg" && format !== "png") return void this.controller.save(format);
    const style = getComputedStyle(this.parts.pane.element);
    const direction = this.parts.pane.scene?.direction ?? "right";
    picture(format, this.store.state, direction, (name) => style.getPropertyValue(name).trim()).catch((error: Error) =>
      this.controller.say(error.message, "error"),
    );
  }
  present(): void {
    this.parts.presenter().toggle();
  }
  revealValues(all: boolean): void {
    this.parts.presenter().reveal(all);
  }
  page(by: 1 | -1): void {
    this.parts.turnPage(by);
  }
  student(): void {
    this.store.dispatch({ do: "student", on: !this.store.state.student });
    this.controller.tab(this.store.state.tab);
  }
  side(): void {
    void this.controller.toSidePanel(this.parts.openSide);
  }
  pin(): void {
    this.controller.pin();
  }
  help(): void {
    this.parts.keys.toggle();
  }
  /** Closes open parts in turn; if there are none, returns the focus to the notebook. */
  escape(): void {
    const { keys, home, leave } = this.parts;
    const resting = !keys.element.open && !this.store.state.trace && (home().getRootNode() as ShadowRoot).activeElement === home();
    keys.toggle(false);
    if (this.store.state.trace) this.store.dispatch({ do: "trace", trace: null });
    if (resting) leave();
    else this.focus();
  }

  walk(to: "inputs" | "consumers" | "before" | "after"): void {
    const { recording, open, focus } = this.store.state;
    if (!recording) return;
    const from = focus && focus.startsWith("n") ? keyOf(recording, open, Number(focus.slice(1))) : focus;
    const start = recording.root >= 0 ? keyOf(recording, open, recording.root) : firstInside(recording, TOP);
    const edge = to === "inputs" || to === "consumers";
    const key = !from
      ? start
      : edge
        ? alongEdge(recording, open, from, to === "inputs")
        : sibling(recording, from, to === "before" ? -1 : 1);
    if (!key)
      return this.controller.say(
        {
          inputs: "It has no inputs.",
          consumers: "Nothing consumes it.",
          before: "This is the first in its group.",
          after: "This is the last in its group.",
        }[to],
      );
    this.store.dispatch({ do: "focus", key });
    this.controller.say(describe(recording, key, key.startsWith("g") && open.has(Number(key.slice(1)))));
  }

  private focusedGroup(): number {
    const { focus, recording, open } = this.store.state;
    if (!recording || !focus) return TOP;
    const key = focus.startsWith("n") ? keyOf(recording, open, Number(focus.slice(1))) : focus;
    return key.startsWith("g") ? Number(key.slice(1)) : TOP;
  }

  enter(): void {
    const group = this.focusedGroup();
    const { recording, focus } = this.store.state;
    if (!recording || !focus) return;
    if (group === TOP) return this.controller.select(Number(focus.slice(1)));
    this.toggle(group, true);
    const inside = firstInside(recording, group);
    if (inside && this.store.state.open.has(group)) this.store.dispatch({ do: "focus", key: inside });
  }
  leave(): void {
    const { recording, focus } = this.store.state;
    if (!recording || !focus) return;
    const group = groupAround(recording, focus);
    if (group !== TOP) this.toggle(group, false);
  }
  expand(): void {
    const group = this.focusedGroup();
    if (group !== TOP) this.toggle(group, true);
  }
  collapse(): void {
    const group = this.focusedGroup();
    if (group !== TOP && this.store.state.open.has(group)) this.toggle(group, false);
    else this.leave();
  }
  expandAll(): void {
    this.parts.pane.anchor = this.store.state.focus;
    this.store.dispatch({ do: "open all", group: this.focusedGroup() });
  }

  query(text: string): void {
    this.store.dispatch({ do: "search", query: text });
  }

  nextHit(by: 1 | -1): void {
    this.store.dispatch({ do: "next hit", by });
    const { recording, search } = this.store.state;
    const hit = search.hits[search.at];
    if (!recording || hit === undefined) return;
    this.controller.select(hit);
    this.controller.say(describe(recording, `n${hit}`, false));
  }
}
