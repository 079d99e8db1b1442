// What the notebook around says: on which line its caret rests, and how its cells read now. The JupyterLab plugin tells it by events.

import type { Flag, LaterRun } from "./protocol";
import type { Recording } from "./store";

// Events: with TOLD on the document the plugin tells; a view's host says that it wants to be told, that it has heard from its kernel,
// that the side panel should open, and that the keys should go to the notebook again.
export const TOLD = "workbench-notebook";
export const ASKED = "workbench-hello";
export const HEARD = "workbench-heard";
export const OPEN = "workbench-open";
export const LEFT = "workbench-left";
export const SIDE_PANEL = "gradientWorkbench"; // in the page's data where there is a side panel

export interface Caret {
  cell_id: string;
  line: number; // 1-based
  text: string; // of the line
}

export interface NotebookNews {
  notebook: Element; // where it is on the page
  caret?: Caret | null; // null: it rests in no line of code
  cells?: ReadonlyMap<string, string>; // all code cells: id -> text
}

export function tellPage(host: Element, event: typeof ASKED | typeof HEARD | typeof OPEN | typeof LEFT): void {
  host.dispatchEvent(new CustomEvent(event, { bubbles: true, composed: true }));
}

/** Whether there is a side panel, and this host is not in it. */
export function besideSidePanel(host: Element): boolean {
  return SIDE_PANEL in document.documentElement.dataset && !host.closest(".gradient-workbench-panel");
}

/** Calls back with what is told of the notebook that `host` is in, or outside of all of them with what is told of the active one. */
export function followNotebook(host: Element, told: (news: NotebookNews) => void): () => void {
  const hear = (event: Event) => {
    const news = (event as CustomEvent<NotebookNews>).detail;
    const around = host.closest(".jp-NotebookPanel");
    if (!around || around === news.notebook) told(news);
  };
  document.addEventListener(TOLD, hear);
  tellPage(host, ASKED);
  return () => document.removeEventListener(TOLD, hear);
}

/** The nodes that a line made. In a cell that was edited above it, the line is found by its text. */
export function nodesAt({ nodes, sites }: Recording, caret: Caret): number[] {
  const text = caret.text.trim();
  const alike = sites.flatMap((site, at) => (site.cell_id === caret.cell_id && site.text === text ? [at] : []));
  const distance = (at: number) => Math.abs(sites[at]!.line - caret.line);
  const nearest = Math.min(...alike.map(distance));
  const wanted = new Set(alike.filter((at) => distance(at) === nearest));
  return wanted.size ? [...nodes.site.keys()].filter((node) => wanted.has(nodes.site[node]!)) : [];
}

/** A mark at each node whose line reads otherwise now, or whose cell has run again since. */
export function staleFlags({ nodes, sites }: Recording, runs: readonly LaterRun[], cells: ReadonlyMap<string, string> | null): Flag[] {
  const now = new Map(runs.map(({ cell_id, cell }) => [cell_id, cell]));
  const lines = new Map<string, Set<string>>();
  const linesOf = (id: string, text: string) => {
    if (!lines.has(id)) lines.set(id, new Set(text.split("\n").map((line) => line.trim())));
    return lines.get(id)!;
  };
  const reasons = sites.map((site) => {
    if (site.cell_id === null) return "";
    const text = cells?.get(site.cell_id);
    if (text !== undefined && site.text && !linesOf(site.cell_id, text).has(site.text)) {
      return `Stale: its line was changed after ${site.cell} had run; it was: ${site.text}`;
    }
    const later = now.get(site.cell_id);
    return later && later !== site.cell ? `Stale: ${site.cell} has run again since, as ${later}; this was made before` : "";
  });
  return nodes.site.flatMap((site, node) => {
    const words = reasons[site];
    return words ? [{ node, glyph: "~", words, tone: "warm" as const }] : [];
  });
}
