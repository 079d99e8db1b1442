// Keyboard bindings, in one table that the help overlay shows too.

export interface KeyCommands {
  step(what: "next" | "previous" | "first" | "last" | "into" | "out" | "back"): void;
  play(): void;
  run(): void;
  halt(): void;
  breakpoint(): void;
  condition(): void;
  walk(to: "inputs" | "consumers" | "before" | "after"): void;
  enter(): void;
  leave(): void;
  expand(): void;
  collapse(): void;
  expandAll(): void;
  levelBy(by: 1 | -1): void;
  iterateBy(by: 1 | -1): void;
  unroll(): void;
  trace(to: "inputs" | "loss"): void;
  connectFocused(): void;
  fit(): void;
  zoom(by: 1 | -1): void;
  search(): void;
  direction(): void;
  text(): void;
  overlay(by: 1 | -1): void;
  pin(): void;
  page(by: 1 | -1): void;
  present(): void;
  revealValues(all: boolean): void;
  help(): void;
  escape(): void;
}

interface Binding {
  keys: string[]; // as named by `combo`
  shown: string;
  does: string;
  run(commands: KeyCommands): void;
}

export const BINDINGS: readonly Binding[] = [
  { keys: ["ArrowRight"], shown: "→", does: "next step of the backward pass", run: (c) => c.step("next") },
  { keys: ["ArrowLeft"], shown: "←", does: "previous step", run: (c) => c.step("previous") },
  { keys: ["Home"], shown: "Home", does: "back to the start of the pass", run: (c) => c.step("first") },
  { keys: ["End"], shown: "End", does: "to the end of the pass", run: (c) => c.step("last") },
  { keys: ["k"], shown: "k", does: "play, pause", run: (c) => c.play() },
  { keys: ["F10"], shown: "F10", does: "next step, as → does", run: (c) => c.step("next") },
  { keys: ["Shift+F10"], shown: "Shift F10", does: "previous step", run: (c) => c.step("previous") },
  { keys: ["F11"], shown: "F11", does: "into the module: one op", run: (c) => c.step("into") },
  { keys: ["Shift+F11"], shown: "Shift F11", does: "out of the module", run: (c) => c.step("out") },
  { keys: ["F9"], shown: "F9", does: "on to the next breakpoint", run: (c) => c.run() },
  { keys: ["Alt+F9"], shown: "Alt F9", does: "back to the breakpoint before", run: (c) => c.step("back") },
  { keys: ["Shift+F9"], shown: "Shift F9", does: "stop a run to a breakpoint", run: (c) => c.halt() },
  { keys: ["b"], shown: "b", does: "a breakpoint at the node, or none", run: (c) => c.breakpoint() },
  { keys: ["Shift+B"], shown: "Shift b", does: "breakpoints, and conditions", run: (c) => c.condition() },
  { keys: ["ArrowUp"], shown: "↑", does: "to the inputs of the focused node", run: (c) => c.walk("inputs") },
  { keys: ["ArrowDown"], shown: "↓", does: "to its consumers", run: (c) => c.walk("consumers") },
  { keys: ["Alt+ArrowLeft"], shown: "Alt ←", does: "to the sibling before", run: (c) => c.walk("before") },
  { keys: ["Alt+ArrowRight"], shown: "Alt →", does: "to the sibling after", run: (c) => c.walk("after") },
  { keys: ["Enter"], shown: "Enter", does: "select the node, or open the group and go inside", run: (c) => c.enter() },
  { keys: ["Backspace"], shown: "Backspace", does: "close the group around", run: (c) => c.leave() },
  { keys: ["+", "="], shown: "+", does: "open the focused group", run: (c) => c.expand() },
  { keys: ["-"], shown: "−", does: "close it", run: (c) => c.collapse() },
  { keys: ["*"], shown: "*", does: "open the group and all in it", run: (c) => c.expandAll() },
  { keys: [","], shown: ",", does: "one level out: fewer, larger blocks", run: (c) => c.levelBy(-1) },
  { keys: ["."], shown: ".", does: "one level in: more detail", run: (c) => c.levelBy(1) },
  { keys: ["["], shown: "[", does: "the turn before, of the loop around", run: (c) => c.iterateBy(-1) },
  { keys: ["]"], shown: "]", does: "the next turn", run: (c) => c.iterateBy(1) },
  { keys: ["u"], shown: "u", does: "show every turn, or one again", run: (c) => c.unroll() },
  { keys: ["i"], shown: "i", does: "light all that the focused node was computed from", run: (c) => c.trace("inputs") },
  { keys: ["l"], shown: "l", does: "light its paths to the loss", run: (c) => c.trace("loss") },
  {
    keys: ["Shift+Enter"],
    shown: "Shift Enter",
    does: "light all paths between the selected and the focused node",
    run: (c) => c.connectFocused(),
  },
  { keys: [" "], shown: "Space", does: "fit all into the window", run: (c) => c.fit() },
  { keys: ["Shift+ArrowUp"], shown: "Shift ↑", does: "zoom in", run: (c) => c.zoom(1) },
  { keys: ["Shift+ArrowDown"], shown: "Shift ↓", does: "zoom out", run: (c) => c.zoom(-1) },
  { keys: ["/", "Ctrl+f"], shown: "/ or Ctrl F", does: "search by name, op, shape or /pattern/", run: (c) => c.search() },
  { keys: ["d"], shown: "d", does: "flip the direction", run: (c) => c.direction() },
  { keys: ["o"], shown: "o", does: "next overlay: gradients, bytes, time, magnitudes, …", run: (c) => c.overlay(1) },
  { keys: ["Shift+O"], shown: "Shift o", does: "overlay before", run: (c) => c.overlay(-1) },
  { keys: ["t"], shown: "t", does: "the graph as a table, and back", run: (c) => c.text() },
  { keys: ["p"], shown: "p", does: "pin the shown tensor, to compare it", run: (c) => c.pin() },
  { keys: ["n"], shown: "n", does: "next page of the lesson", run: (c) => c.page(1) },
  { keys: ["Shift+N"], shown: "Shift n", does: "page before", run: (c) => c.page(-1) },
  { keys: ["Shift+P"], shown: "Shift p", does: "presenter mode: the whole screen, with values hidden", run: (c) => c.present() },
  { keys: ["v"], shown: "v", does: "reveal the next hidden value", run: (c) => c.revealValues(false) },
  { keys: ["Shift+V"], shown: "Shift v", does: "reveal all hidden values", run: (c) => c.revealValues(true) },
  { keys: ["?"], shown: "?", does: "this legend and these keys", run: (c) => c.help() },
  { keys: ["Escape"], shown: "Esc", does: "close this, leave the search; then back to the notebook", run: (c) => c.escape() },
];

const TABLE = new Map(BINDINGS.flatMap((binding) => binding.keys.map((key) => [key, binding] as const)));

const SCROLL = new Set(["ArrowUp", "ArrowDown", "Home", "End", " "]);

/**
 * Names a key, for example "Shift+ArrowUp", "Shift+B", "Ctrl+f" (Cmd counts as Ctrl) or "?". Shift is included only for letters and named
 * keys.
 */
export function combo(event: Pick<KeyboardEvent, "key" | "ctrlKey" | "metaKey" | "altKey" | "shiftKey">): string {
  const named = event.key.length > 1;
  const letter = /^\p{L}$/u.test(event.key);
  const key = !letter ? event.key : event.shiftKey ? event.key.toUpperCase() : event.key.toLowerCase();
  const shift = event.shiftKey && (named || letter) ? "Shift+" : "";
  return `${event.ctrlKey || event.metaKey ? "Ctrl+" : ""}${event.altKey ? "Alt+" : ""}${shift}${key}`;
}

/** Runs the command bound to a key, except for keys that inputs and buttons use themselves. */
export function pressKey(event: KeyboardEvent, commands: KeyCommands): void {
  if (event.defaultPrevented) return;
  const target = event.composedPath()[0];
  const name = combo(event);
  if (target instanceof HTMLInputElement || target instanceof HTMLSelectElement || target instanceof HTMLTextAreaElement) {
    const own = target instanceof HTMLInputElement && target.type === "range" ? /^(Arrow|Home|End|Page)/.test(event.key) : true;
    if (own && name !== "Escape" && name !== "Ctrl+f" && !/F\d+$/.test(name)) return;
  }
  const presses = target instanceof HTMLButtonElement || (target instanceof HTMLElement && target.tagName === "SUMMARY");
  if (presses && (name === "Enter" || name === " ")) return;
  // Scrollable areas, such as the table and the details, keep their scrolling keys.
  if (SCROLL.has(name) && target instanceof Element && target.closest(".table, .scroller, .help")) return;
  const binding = TABLE.get(name);
  if (!binding) return;
  event.preventDefault();
  event.stopPropagation();
  binding.run(commands);
}
