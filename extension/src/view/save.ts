// The menu that saves the view as a file: pictures are drawn here, all other formats are written by the kernel.

import { readBuffer } from "./buffers";
import type { Channel } from "./channel";
import { h, setAttribute } from "./dom";
import { toSvg, type Palette } from "./graph/picture";
import { icon } from "./icons";
import type { AskExport } from "./protocol";
import type { Direction, State } from "./store";

export type Format = "svg" | "png" | AskExport["format"];

const FORMATS: readonly (readonly [Format, string, string])[] = [
  ["svg", "Picture as drawn", "SVG"],
  ["png", "Picture, twice as large", "PNG"],
  ["html", "Replay for a browser", "HTML"],
  ["json", "Graph as data", "JSON"],
  ["dot", "Graph for Graphviz", "DOT"],
  ["mmd", "Graph for Mermaid", "MMD"],
];
const SCALE = 2; // PNG pixels per picture pixel
const MOST = 16_000; // largest side in pixels, and
const AREA = 100_000_000; // largest area, that every browser can draw

export class SaveMenu {
  private readonly button: HTMLButtonElement;
  private readonly items: HTMLElement;
  readonly element: HTMLElement;

  constructor(save: (format: Format) => void) {
    const title = "Save as a file";
    this.button = h(
      "button",
      { title, "aria-label": title, "aria-haspopup": "menu", "aria-expanded": "false", "data-testid": "wb-save", click: () => this.open(this.items.hidden === true) },
      icon("save"),
    );
    this.items = h(
      "div",
      { class: "menu", role: "menu", "aria-label": title, hidden: true },
      ...FORMATS.map(([format, words, ending]) => {
        const click = () => {
          this.open(false);
          save(format);
        };
        const item = h("button", { role: "menuitem", tabindex: -1, "data-testid": `wb-save-${format}`, click }, h("span", {}, words));
        item.append(h("span", { class: "quiet" }, ending));
        return item;
      }),
    );
    this.element = h("span", { class: "save" }, this.button, this.items);
    this.element.addEventListener("keydown", (event) => this.key(event));
    this.element.addEventListener("focusout", ({ relatedTarget }) => {
      if (!this.element.contains(relatedTarget as Node | null)) this.open(false, false);
    });
  }

  private open(show: boolean, back = true): void {
    if (this.items.hidden === !show) return;
    this.items.hidden = !show;
    setAttribute(this.button, "aria-expanded", String(show));
    if (show) (this.items.firstElementChild as HTMLElement).focus();
    else if (back) this.button.focus();
  }

  private key(event: KeyboardEvent): void {
    if (this.items.hidden) return;
    const all = [...this.items.children] as HTMLElement[];
    const at = all.indexOf((this.element.getRootNode() as ShadowRoot).activeElement as HTMLElement);
    const to: Record<string, number> = { ArrowDown: (at + 1) % all.length, ArrowUp: (at + all.length - 1) % all.length, Home: 0, End: all.length - 1 };
    if (event.key in to) all[to[event.key]!]!.focus();
    else if (event.key === "Escape") this.open(false);
    else if (event.key !== "Enter" && event.key !== " ") return;
    else return event.stopPropagation(); // handled by the button
    event.preventDefault();
    event.stopPropagation();
  }
}

/** Saves the current graph as SVG or PNG. */
export async function picture(format: "svg" | "png", state: State, direction: Direction, palette: Palette): Promise<void> {
  const svg = new Blob([toSvg(state, direction, palette)], { type: "image/svg+xml" });
  const name = (state.recording?.title || "graph").replace(/[^\p{L}\p{N}._-]+/gu, "_");
  download(format === "svg" ? svg : await raster(svg), `${name}.${format}`);
}

/**
 * Saves a file written by the kernel. Resolves to a sentence that names it and what was left out, or "" if the kernel refused and said why.
 */
export async function fromKernel(channel: Pick<Channel, "send">, format: AskExport["format"]): Promise<string> {
  const { message, buffers } = await channel.send({ type: "ask_export", format });
  if (message.type !== "exported") return "";
  const bytes = readBuffer(message.content, buffers) as Uint8Array<ArrayBuffer>;
  download(new Blob([bytes], { type: message.media }), message.name);
  return `Saved ${message.name}.${message.note && ` ${message.note}`}`;
}

async function raster(svg: Blob): Promise<Blob> {
  const url = URL.createObjectURL(svg);
  try {
    const image = new Image();
    image.src = url;
    await image.decode();
    const [w, h] = [image.naturalWidth, image.naturalHeight];
    const scale = Math.min(SCALE, MOST / Math.max(w, h), Math.sqrt(AREA / (w * h)));
    const canvas = document.createElement("canvas");
    [canvas.width, canvas.height] = [Math.round(w * scale), Math.round(h * scale)];
    canvas.getContext("2d")!.drawImage(image, 0, 0, canvas.width, canvas.height);
    return await new Promise<Blob>((resolve, reject) =>
      canvas.toBlob((blob) => (blob ? resolve(blob) : reject(new Error("The browser could not make a PNG of this size."))), "image/png"),
    );
  } finally {
    URL.revokeObjectURL(url);
  }
}

/** Downloads a file. */
function download(content: Blob, name: string): void {
  const url = URL.createObjectURL(content);
  const link = document.createElement("a");
  link.href = url;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 300_000); // a busy browser may start the download long after the click
}
