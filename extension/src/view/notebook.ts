// News from the surrounding notebook, which the JupyterLab plugin sends as events: the line of the caret, the text of the cells, and a
// restored connection to the kernel.

import type { CellRun, Flag } from "./protocol";
import type { Recording } from "./store";

// Event names. The plugin dispatches TOLD on the document. A view's host dispatches ASKED to request news, HEARD after a message from its
// kernel, OPEN to open the side panel, and LEFT to return the focus to the notebook.
export const TOLD = "workbench-notebook";
export const ASKED = "workbench-hello";
export const HEARD = "workbench-heard";
export const OPEN = "workbench-open";
export const LEFT = "workbench-left";
export const SIDE_PANEL = "gradientWorkbench"; // set on the page's root element if there is a side panel

export interface Caret {
  cell_id: string;
  line: number; // 1-based
  text: string; // text of the line
}

export interface NotebookNews {
  notebook: Element; // its element on the page
  caret?: Caret | null; // null: not in a line of code
  cells?: ReadonlyMap<string, string>; // all code cells: id -> text
  reconnected?: boolean; // the connection to the kernel was restored; messages may have been lost
}

export function tellPage(host: Element, event: typeof ASKED | typeof HEARD | typeof OPEN | typeof LEFT): void {
  host.dispatchEvent(new CustomEvent(event, { bubbles: true, composed: true }));
}

// A view's host dispatches LEVEL after a change, and LEVEL_KEPT to request the level stored in the notebook.
export const LEVEL = "workbench-level";
export const LEVEL_KEPT = "workbench-level-kept";

/** Announces the chosen level; the notebook's other views adopt it. */
export function keepLevel(host: Element, student: boolean): void {
  host.dispatchEvent(new CustomEvent(LEVEL, { detail: { student }, bubbles: true, composed: true }));
}

/** Calls back with the level stored in the notebook and with later changes by its other views; returns a function that stops. */
export function followLevel(host: Element, told: (student: boolean) => void): () => void {
  const hear = (event: Event) => {
    const [around, from] = [host, event.target as Element].map((one) => one.closest(".jp-NotebookPanel"));
    if (event.target !== host && (!around || !from || around === from)) told((event as CustomEvent<{ student: boolean }>).detail.student);
  };
  document.addEventListener(LEVEL, hear);
  const ask = onceOnPage(host, () =>
    host.dispatchEvent(new CustomEvent(LEVEL_KEPT, { detail: { give: told }, bubbles: true, composed: true })),
  );
  return () => {
    document.removeEventListener(LEVEL, hear);
    ask.cancel();
  };
}

/** Runs `act` once the host is on the page: a view may be built earlier, and its events do not reach the page until then. */
function onceOnPage(host: Element, act: () => void): { cancel(): void } {
  let frame = 0;
  const look = () => {
    if (host.isConnected) act();
    else frame = requestAnimationFrame(look);
  };
  look();
  return { cancel: () => cancelAnimationFrame(frame) };
}

/** Whether the page has a side panel and this host is outside it. */
export function besideSidePanel(host: Element): boolean {
  return SIDE_PANEL in document.documentElement.dataset && !host.closest(".gradient-workbench-panel");
}

/** Calls back with news of the notebook that contains `host`, or of the active notebook if none does; returns a function that stops. */
export function followNotebook(host: Element, told: (news: NotebookNews) => void): () => void {
  const hear = (event: Event) => {
    const news = (event as CustomEvent<NotebookNews>).detail;
    const around = host.closest(".jp-NotebookPanel");
    if (!around || around === news.notebook) told(news);
  };
  document.addEventListener(TOLD, hear);
  const ask = onceOnPage(host, () => tellPage(host, ASKED));
  return () => {
    document.removeEventListener(TOLD, hear);
    ask.cancel();
  };
}

/** The nodes made by a line. If the cell was edited above it, the line is found by its text. */
export function nodesAt({ nodes, sites }: Recording, caret: Caret): number[] {
  const text = caret.text.trim();
  const alike = sites.flatMap((site, at) => (site.cell_id === caret.cell_id && site.text === text ? [at] : []));
  const distance = (at: number) => Math.abs(sites[at]!.line - caret.line);
  const nearest = Math.min(...alike.map(distance));
  const wanted = new Set(alike.filter((at) => distance(at) === nearest));
  return wanted.size ? [...nodes.site.keys()].filter((node) => wanted.has(nodes.site[node]!)) : [];
}

/** A flag at each node whose line or cell has changed, or whose cell has run again since, and another at each node computed from these. */
export function staleFlags({ nodes, edges, sites }: Recording, runs: readonly CellRun[], cells: ReadonlyMap<string, string> | null): Flag[] {
  const ran = new Map(runs.map((run) => [`${run.cell_id} ${run.cell}`, run]));
  const now = new Map([...(cells ?? [])].map(([id, text]) => [id, { lines: new Set(linesOf(text)), sum: checksum(text) }]));
  const reasons = sites.map(({ cell_id, cell, text }) => {
    if (cell_id === null) return "";
    const read = now.get(cell_id);
    if (read && text && !read.lines.has(text)) return `Stale: its line was changed after ${cell} had run; it was: ${text}`;
    const run = ran.get(`${cell_id} ${cell}`);
    if (!run) return "";
    if (run.now !== cell) return `Stale: ${cell} has run again since, as ${run.now}; this was made before`;
    return read && run.text >= 0 && run.text !== read.sum ? `Stale: another line of its cell was changed after ${cell} had run` : "";
  });
  const own = nodes.site.map((site) => reasons[site] ?? "");
  const from = own.map(() => -1); // a stale input, or -1
  edges.target.forEach((target, at) => {
    const source = edges.source[at]!;
    if (from[target] === -1 && (own[source] || from[source] !== -1)) from[target] = source;
  });
  return own.flatMap((words, node): Flag[] => {
    if (words) return [{ node, glyph: "~", words, tone: "warm" }];
    const source = from[node]!;
    const input = source < 0 ? "" : nodes.name[source] || nodes.op[source] || `#${source}`;
    return input ? [{ node, glyph: "≈", words: `Made from ${input}, which is stale, or was made from what is`, tone: "accent" }] : [];
  });
}

function linesOf(text: string): string[] {
  return text.split("\n").map((line) => line.trim());
}

/** CRC-32 of a cell's text without comments and empty lines, as the kernel computes it. */
export function checksum(text: string): number {
  const told = linesOf(text).filter((line) => line && !line.startsWith("#"));
  let crc = -1; // initial value of CRC-32
  for (const byte of new TextEncoder().encode(told.join("\n"))) {
    crc ^= byte;
    for (let bit = 0; bit < 8; bit++) crc = (crc >>> 1) ^ (crc & 1 ? 0xedb88320 : 0);
  }
  return ~crc >>> 0;
}
