// Reads the binary buffers of a message as typed arrays, and rejects those that do not match their description.

import type { Buffer } from "./protocol";

const KINDS = { float32: Float32Array, float64: Float64Array, int32: Int32Array, uint8: Uint8Array };

export type Numbers = Float32Array | Float64Array | Int32Array | Uint8Array;

/** Throws a RangeError if the buffer is missing or its size does not match its shape. */
export function readBuffer(described: Buffer, buffers: readonly DataView[]): Numbers {
  const view = buffers[described.index];
  const Kind = KINDS[described.dtype];
  const count = described.shape.reduce((a, b) => a * b, 1);
  if (!view || !Kind || view.byteLength !== count * Kind.BYTES_PER_ELEMENT) {
    throw new RangeError(
      `A picture's numbers came incomplete: expected ${count} of ${described.dtype}, got ${view?.byteLength ?? 0} bytes.`,
    );
  }
  // A copy, because a view may start where its element type is not aligned.
  return new Kind(view.buffer.slice(view.byteOffset, view.byteOffset + view.byteLength) as ArrayBuffer);
}
