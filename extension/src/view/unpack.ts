// Unpacks long columns that the kernel sent as binary buffers beside the JSON (workbench/protocol/pack.py).

const READERS: Record<string, (bytes: ArrayBuffer) => ArrayLike<number>> = {
  int32: (bytes) => new Int32Array(bytes),
  table: (bytes) => new Int32Array(bytes),
  float64: (bytes) => new Float64Array(bytes),
  bool: (bytes) => new Uint8Array(bytes),
};

interface Packed {
  $packed: string;
  at: number;
  table: unknown[];
  columns: Record<string, unknown>;
}

/** Returns the value with all packed columns as plain arrays. Throws a RangeError if a buffer is missing. */
export function unpack(value: unknown, buffers: readonly DataView[]): unknown {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return value;
  const { $packed: kind } = value as Packed;
  if (kind === "rows") return rows((value as Packed).columns, buffers);
  if (typeof kind === "string" && kind in READERS) return column(value as Packed, buffers);
  return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, unpack(inner, buffers)]));
}

function column({ $packed: kind, at, table }: Packed, buffers: readonly DataView[]): unknown[] {
  const view = buffers[at];
  if (!view) throw new RangeError(`A column of the kernel's message came incomplete: buffer ${at} of ${buffers.length} is missing.`);
  // A copy, because a view may start where its element type is not aligned.
  const numbers = READERS[kind]!(view.buffer.slice(view.byteOffset, view.byteOffset + view.byteLength) as ArrayBuffer);
  // Array.from uses an iterator, which takes ten times as long.
  const plain = new Array<unknown>(numbers.length);
  for (let row = 0; row < plain.length; row++) plain[row] = kind === "table" ? table[numbers[row]!] : kind === "bool" ? numbers[row] !== 0 : numbers[row];
  return plain;
}

function rows(columns: Record<string, unknown>, buffers: readonly DataView[]): unknown[] {
  const lists = Object.entries(columns).map(([key, inner]) => [key, unpack(inner, buffers) as unknown[]] as const);
  const made: Record<string, unknown>[] = [];
  for (let row = 0; row < (lists[0]?.[1].length ?? 0); row++) {
    const one: Record<string, unknown> = {};
    for (const [key, list] of lists) one[key] = list[row];
    made.push(one);
  }
  return made;
}
