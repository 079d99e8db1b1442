// Reads the binary buffers of a message as arrays of numbers, and refuses what does not fit its description.

import type { Buffer } from "./protocol";

const KINDS = { float32: Float32Array, float64: Float64Array, int32: Int32Array, uint8: Uint8Array };

export type Numbers = Float32Array | Float64Array | Int32Array | Uint8Array;

/** Raises a RangeError with a sentence when the buffer is missing or has another size than its shape says. */
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
