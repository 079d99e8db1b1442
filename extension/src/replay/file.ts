// The data of a replay: the kernel's recorded answers, unpacked, with messages by number.

import type { ToView } from "../view/protocol";

/** Pairs of step and message number: the message is the answer from that step on; number -1: left out for lack of room. */
export type Stretches = readonly number[];

export interface Passage {
  start: number;
  total: number;
  plan: readonly number[];
  told: Readonly<Record<string, number>>; // each place where the pass can stop -> its "stepped" message
  ways: Readonly<Record<string, readonly number[] | string>>; // where a button leads from each place, or why it leads nowhere
  stops: Readonly<Record<string, string>>; // breakpoints, by place
}

/** All possible requests and answers while one of the passes is shown. */
export interface Scene {
  opening: readonly number[];
  pages: readonly (number | null)[]; // the step of each page of the lesson
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
  shown: number; // index of the scene to show first
  scenes: readonly (Scene | null)[]; // null: left out for lack of room
  messages: readonly (readonly number[])[]; // offset, length of the JSON, length of each buffer
}

const FORMAT = "gradient-workbench replay";
const VERSION = 2;

export class ReplayFile {
  constructor(
    readonly index: Index,
    private readonly bytes: Uint8Array<ArrayBuffer>,
  ) {}

  /** Decodes a message of the file; the caller may modify it. */
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

/** Reads the block that `workbench/exporting/pack.py` writes. Throws a RangeError if it is incomplete or has another format or version. */
export async function readReplay(packed: Uint8Array<ArrayBuffer>): Promise<ReplayFile> {
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
