// The small overview in a corner of the graph: all boxes on a canvas, and the window as a frame. Hidden while the whole graph is visible.

import type { Camera } from "./camera";
import { h } from "../dom";
import type { Scene } from "./layout";

const WIDTH = 132;
const HEIGHT = 104;
const ROOMY = 320; // it would cover too much of a narrower pane

export class Minimap {
  readonly element: HTMLElement;
  private readonly canvas = h("canvas", { width: WIDTH * 2, height: HEIGHT * 2 });
  private readonly frame = h("div", { class: "frame" });
  private scene: Scene | null = null;
  private scale = 1;
  private stale = false;
  private colours: [string, string] | null = null;
  private frameAsked = 0;

  constructor(private readonly go: (x: number, y: number) => void) {
    this.element = h("div", { class: "minimap", "aria-hidden": "true", hidden: true }, this.canvas, this.frame);
    const jump = (event: PointerEvent) => {
      event.stopPropagation();
      if (event.type === "pointermove" && event.buttons === 0) return;
      const box = this.element.getBoundingClientRect();
      this.go((event.clientX - box.left) / this.scale, (event.clientY - box.top) / this.scale);
    };
    this.element.addEventListener("pointerdown", jump);
    this.element.addEventListener("pointermove", jump);
    this.element.addEventListener("click", (event) => event.stopPropagation());
  }

  show(scene: Scene): void {
    this.scene = scene;
    const [, , w, height] = scene.bounds;
    this.scale = Math.min(WIDTH / Math.max(1, w), HEIGHT / Math.max(1, height));
    const [cw, ch] = [Math.max(8, w * this.scale), Math.max(8, height * this.scale)];
    Object.assign(this.element.style, { width: `${cw}px`, height: `${ch}px` });
    this.canvas.width = cw * 2;
    this.canvas.height = ch * 2;
    this.stale = true;
  }

  /** Reads the colors again and repaints. */
  repaint(): void {
    this.colours = null;
    this.stale = true;
    if (!this.element.hidden) this.later();
  }

  /** Paints in the next frame: reading colors right after the picture has changed would lay out the whole page twice. */
  private later(): void {
    this.frameAsked ||= requestAnimationFrame(() => {
      this.frameAsked = 0;
      this.paint();
    });
  }

  private paint(): void {
    if (!this.scene || typeof OffscreenCanvas === "undefined") return; // no canvas in tests
    this.stale = false;
    const context = this.canvas.getContext("2d")!;
    context.clearRect(0, 0, this.canvas.width, this.canvas.height);
    context.scale(2, 2);
    if (!this.colours) {
      const style = getComputedStyle(this.element);
      this.colours = ["--wb-frame", "--wb-faint"].map((name) => style.getPropertyValue(name)) as [string, string];
    }
    const [frame, solid] = this.colours;
    for (const box of this.scene.boxes) {
      context.fillStyle = box.kind === "open" ? frame : solid;
      context.globalAlpha = box.kind === "open" ? 0.6 : 1;
      const s = this.scale;
      context.fillRect(box.x * s, box.y * s, Math.max(1, box.w * s), Math.max(1, box.h * s));
    }
    context.setTransform(1, 0, 0, 1, 0, 0);
  }

  place({ x, y, k }: Camera, size: { w: number; h: number }): void {
    if (!this.scene) return;
    const [, , w, height] = this.scene.bounds;
    const outside = x < -8 || y < -8 || x + w * k > size.w + 8 || y + height * k > size.h + 8;
    this.element.hidden = !outside || size.w < ROOMY;
    if (this.element.hidden) return;
    if (this.stale) this.later();
    const s = this.scale;
    const [left, top] = [Math.max(0, (-x / k) * s), Math.max(0, (-y / k) * s)];
    const [right, bottom] = [Math.min(w * s, ((size.w - x) / k) * s), Math.min(height * s, ((size.h - y) / k) * s)];
    Object.assign(this.frame.style, {
      left: `${left}px`,
      top: `${top}px`,
      width: `${Math.max(0, right - left)}px`,
      height: `${Math.max(0, bottom - top)}px`,
    });
  }
}
