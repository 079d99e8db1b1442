// The data of a replay: what the kernel would have answered, unpacked, each message by its number.

import type { ToView } from "../view/protocol";

/** From which step on which message is the answer: step, number, step, number, ...; number -1: there was no room for it. */
export type Stretches = readonly number[];

export interface Passage {
  start: number;
  total: number;
  plan: readonly number[];
  told: Readonly<Record<string, number>>; // a place at which the pass can stand -> its "stepped" message
  ways: Readonly<Record<string, readonly number[] | string>>; // where a button leads from each place; or why it leads nowhere
  stops: Readonly<Record<string, string>>; // breakpoints, by place
}

/** All that can be asked while one of the passes is shown. */
export interface Scene {
  opening: readonly number[];
  pages: readonly (number | null)[]; // at which step each page of the lesson is
  pass: Passage | null;
  answers: Readonly<Record<string, Readonly<Record<string, Stretches>>>>;
}

interface Index {
  format: string;
  version: number;
  title: string;
  facts: readonly string[];
  recording: string;
  saved: string;
  budget: string;
  left: string;
  shown: number; // of the scenes
  scenes: readonly (Scene | null)[]; // null: there was no room for it
  messages: readonly (readonly number[])[]; // offset, length of the JSON, length of each buffer
}

const FORMAT = "gradient-workbench replay";
const VERSION = 2;

export class ReplayFile {
  constructor(
    readonly index: Index,
    private readonly bytes: Uint8Array<ArrayBuffer>,
  ) {}

  /** A message of the file, fresh, so that whoever gets it may change it. */
  message(number: number): { message: ToView; buffers: DataView[] } {
    const [offset, length, ...sizes] = this.index.messages[number]!;
    const message = JSON.parse(decoded(this.bytes.subarray(offset!, offset! + length!))) as ToView;
    let at = offset! + length!;
    const buffers = sizes.map((size) => {
      const view = new DataView(this.bytes.buffer, this.bytes.byteOffset + at, size);
      at += size;
      return view;
    });
    return { message, buffers };
  }
}

/** Reads the block that `workbench/exporting/pack.py` writes. RangeError with a sentence for what is none, or of another version. */
export async function readReplay(base64: string): Promise<ReplayFile> {
  const packed = Uint8Array.from(atob(base64.trim()), (char) => char.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  const bytes = new Uint8Array(await new Response(stream).arrayBuffer());
  if (bytes.length < 4) throw new RangeError("The data of this file are incomplete.");
  const end = bytes.length - 4;
  const length = new DataView(bytes.buffer).getUint32(end, true);
  const index = JSON.parse(decoded(bytes.subarray(end - length, end))) as Index;
  if (index.format !== FORMAT || index.version !== VERSION) {
    throw new RangeError(`This page plays ${FORMAT} ${VERSION}, and its data are ${index.format} ${index.version}.`);
  }
  return new ReplayFile(index, bytes);
}

function decoded(bytes: Uint8Array): string {
  return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
}
