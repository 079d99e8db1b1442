// Keeps the headers of open groups visible: if a group starts outside the window, its header moves to the window's edge.

import { setAttribute } from "../dom";
import { HEADER, titleWidth } from "./face";
import type { Box } from "./layout";
import { TOP } from "./tree";

const MOST = 0.4; // largest part of the window's height that headers may cover

export class Headers {
  private groups: readonly Box[] = [];
  private readonly moved = new Map<string, { header: SVGGElement; home: SVGGElement }>();

  /** Moved headers are placed in `layer`, above everything else. */
  constructor(private readonly layer: SVGGElement) {}

  /** Parents come before their children. */
  show(groups: readonly Box[]): void {
    for (const key of [...this.moved.keys()]) this.release(key);
    this.groups = groups;
  }

  /**
   * Moves each header to where its group enters `view` (in scene units; null: none is moved), but keeps its title inside the group and
   * below the headers of the groups around it. A header that is neither visible nor moved costs a few comparisons.
   */
  stick(drawn: ReadonlyMap<string, SVGGElement>, view: readonly [number, number, number, number] | null): void {
    const below = new Map<number, number>(); // lower edge of each group's header
    for (const key of [...this.moved.keys()]) if (drawn.get(key) !== this.moved.get(key)!.home) this.release(key); // no longer drawn
    for (const { key, id, parent, depth, face, x, y, w, h } of this.groups) {
      let [dx, dy] = [0, 0];
      const element = drawn.get(key);
      const seen = view && x < view[2] && y < view[3] && x + w > view[0] && y + h > view[1];
      if (seen) {
        const start = Math.max(view[1], parent === TOP ? -Infinity : (below.get(parent) ?? -Infinity));
        dx = Math.max(0, Math.min(view[0] - x, w - titleWidth(face)));
        if (start - view[1] <= MOST * (view[3] - view[1])) dy = Math.max(0, Math.min(start - y, h - HEADER));
        below.set(id, y + dy + HEADER);
      }
      if (element && (dx || dy)) this.pin(key, element, depth, x + dx, y + dy);
      else if (this.moved.has(key)) this.release(key);
    }
  }

  private pin(key: string, element: SVGGElement, depth: number, x: number, y: number): void {
    let header = this.moved.get(key)?.header;
    if (!header) {
      header = element.querySelector<SVGGElement>(":scope > .header")!;
      header.dataset.depth = String(depth);
      header.classList.add("pinned");
      // An inner header that leaves with its group goes beneath those around it.
      const outer = [...this.layer.children].find((other) => Number((other as SVGGElement).dataset.depth) < depth);
      this.layer.insertBefore(header, outer ?? null);
      this.moved.set(key, { header, home: element });
    }
    setAttribute(header, "transform", `translate(${x.toFixed(1)} ${y.toFixed(1)})`);
  }

  private release(key: string): void {
    const { header, home } = this.moved.get(key)!;
    this.moved.delete(key);
    header.classList.remove("pinned");
    setAttribute(header, "transform", null);
    home.append(header);
  }
}
