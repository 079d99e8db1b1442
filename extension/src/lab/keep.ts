// Stores answers to questions in the notebook: in the metadata of the cell that asks, or of the notebook if it is outside all cells.

import type { INotebookTracker, NotebookPanel } from "@jupyterlab/notebook";
import { LEVEL, LEVEL_KEPT } from "../view/notebook";

const KEY = "gradient_workbench";

interface Metadata {
  getMetadata(key: string): unknown;
  setMetadata(key: string, value: unknown): void;
}

/** Stores what views send, and returns it on request. */
export function keepAnswers(tracker: INotebookTracker): void {
  document.addEventListener("workbench-keep", (event) => {
    const { key, value } = (event as CustomEvent<{ key: string; value: unknown }>).detail;
    const places = placesOf(tracker, event.target);
    const place = around(event.target) ? places[0] : (places.find((one) => Object.hasOwn(answersIn(one), key)) ?? places[0]);
    const kept = answersIn(place);
    // Writing marks the notebook as changed, so unchanged values are not written.
    if (place && JSON.stringify(kept[key]) !== JSON.stringify(value)) keep(place, { answers: { ...kept, [key]: value } });
  });
  document.addEventListener("workbench-kept", (event) => {
    const { key, give } = (event as CustomEvent<{ key: string; give(value: unknown): void }>).detail;
    const place = placesOf(tracker, event.target).find((one) => Object.hasOwn(answersIn(one), key));
    if (place) give(answersIn(place)[key]);
  });
}

/** Stores the level of the views in the notebook's metadata. */
export function keepLevels(tracker: INotebookTracker): void {
  document.addEventListener(LEVEL, (event) => {
    const place = notebookOf(tracker, event.target)?.content.model as Metadata | null | undefined;
    const level = (event as CustomEvent<{ student: boolean }>).detail.student ? "student" : "full";
    if (place && levelIn(place) !== level) keep(place, { level });
  });
  document.addEventListener(LEVEL_KEPT, (event) => {
    const place = notebookOf(tracker, event.target)?.content.model as Metadata | null | undefined;
    if (place && levelIn(place) === "student") (event as CustomEvent<{ give(student: boolean): void }>).detail.give(true);
  });
}

function levelIn(place: Metadata): unknown {
  return (place.getMetadata(KEY) as { level?: unknown } | undefined)?.level ?? "full";
}

function keep(place: Metadata, more: Record<string, unknown>): void {
  const kept = place.getMetadata(KEY);
  place.setMetadata(KEY, { ...(typeof kept === "object" ? kept : {}), ...more });
}

function around(from: EventTarget | null): boolean {
  return from instanceof Element && from.closest(".jp-Cell") !== null;
}

function answersIn(place: Metadata | undefined): Record<string, unknown> {
  const kept = place?.getMetadata(KEY) as { answers?: Record<string, unknown> } | undefined;
  return typeof kept?.answers === "object" && kept.answers !== null ? kept.answers : {};
}

function notebookOf(tracker: INotebookTracker, from: EventTarget | null): NotebookPanel | null {
  return (from instanceof Node && tracker.find((one) => one.node.contains(from))) || tracker.currentWidget;
}

/** The enclosing cell, the notebook, then all its cells; a panel beside the notebook is in no cell. */
function placesOf(tracker: INotebookTracker, from: EventTarget | null): Metadata[] {
  const panel = notebookOf(tracker, from);
  const model = panel?.content.model;
  if (!panel || !model) return [];
  const cells = panel.content.widgets;
  const own = from instanceof Node ? cells.filter((cell) => cell.node.contains(from)) : [];
  return [...own.map((cell) => cell.model), model, ...cells.map((cell) => cell.model)] as Metadata[];
}
