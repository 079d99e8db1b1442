// Compact storage for large recordings: groups as places in arrays, edges as slices, and maps whose values are computed on first access.

import type { Group } from "../protocol";

export const TOP = -1;

/**
 * The groups as places in arrays, each after its parent; place 0 is the top. A large recording has tens of thousands of groups, and every
 * node climbs through some.
 */
export class Places {
  readonly groups = new Map<number, Group>();
  readonly ids: number[] = [TOP];
  readonly kinds: string[] = [""];
  readonly up: number[] = [0];
  readonly depth: number[] = [0];
  private readonly at = new Map<number, number>([[TOP, 0]]);

  constructor(list: readonly Group[]) {
    for (const group of list) this.groups.set(group.id, group);
    const path: Group[] = [];
    for (const group of list) {
      let next: Group | undefined = group;
      // a group in a cycle of parents goes to the top level
      for (; next && !this.at.has(next.id) && !path.includes(next); next = this.groups.get(next.parent)) path.push(next);
      while (path.length) this.add(path.pop()!);
    }
  }

  /** Adds a group and returns its place. */
  add(group: Group): number {
    const up = this.of(group.parent);
    this.groups.set(group.id, group);
    this.at.set(group.id, this.ids.length);
    this.up.push(up);
    this.depth.push(this.depth[up]! + 1);
    this.kinds.push(group.kind);
    return this.ids.push(group.id) - 1;
  }

  /** The place of a group; 0, the top, if the group is unknown. */
  of(group: number): number {
    return this.at.get(group) ?? 0;
  }

  /** Adds the number at each place to its parent's, innermost first; `join` combines two numbers. */
  rollUp(numbers: Float64Array, join = (a: number, b: number) => a + b): Float64Array {
    for (let at = numbers.length - 1; at > 0; at--) numbers[this.up[at]!] = join(numbers[this.up[at]!]!, numbers[at]!);
    return numbers;
  }

  parent(group: number): number {
    return this.ids[this.up[this.of(group)]!]!;
  }
}

/** A list of numbers for each of several items, stored as slices of one array. */
export class Slices {
  constructor(
    private readonly start: Int32Array,
    private readonly all: Int32Array,
  ) {}

  /** Without duplicates. */
  of(one: number): readonly number[] {
    return [...new Set(this.slice(one))];
  }
  /** May contain duplicates, but copies nothing. */
  slice(one: number): Int32Array {
    return this.all.subarray(this.start[one]!, this.start[one + 1]!);
  }
  count(one: number): number {
    return this.start[one + 1]! - this.start[one]!;
  }
}

/**
 * For each value below `size`, the rows that have it, in order; other rows are left out. With `give`, returns give[row] instead of the row.
 */
export function grouped(size: number, values: ArrayLike<number>, give?: ArrayLike<number>): Slices {
  const start = new Int32Array(size + 1);
  const inside = (value: number) => value >= 0 && value < size;
  for (let row = 0; row < values.length; row++) if (inside(values[row]!)) start[values[row]! + 1]!++;
  for (let one = 0; one < size; one++) start[one + 1]! += start[one]!;
  const [next, all] = [start.slice(), new Int32Array(start[size]!)];
  for (let row = 0; row < values.length; row++) if (inside(values[row]!)) all[next[values[row]!]!++] = give ? give[row]! : row;
  return new Slices(start, all);
}

/**
 * For each of `size` nodes, the other ends of its edges, in order. Edges are sorted by target, so most duplicates are adjacent and are
 * dropped.
 */
export function endsOf(size: number, near: ArrayLike<number>, far: ArrayLike<number>): Slices {
  const last = new Int32Array(size).fill(-1);
  const once = new Int32Array(near.length);
  for (let row = 0; row < near.length; row++) {
    const here = near[row]!;
    const there = far[row]!;
    const known = here >= 0 && here < size && there >= 0 && there < size && last[here] !== there;
    once[row] = known ? here : -1;
    if (known) last[here] = there;
  }
  return grouped(size, once, far);
}

/** The first row with this value, or where it would be inserted; the values are sorted, as the targets of edges are. */
export function firstRow(values: readonly number[], value: number): number {
  let [low, high] = [0, values.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (values[middle]! < value) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** A map whose values are computed on first access. */
export class Lazy<V> implements ReadonlyMap<number, V> {
  private readonly known = new Map<number, V | undefined>();

  constructor(
    private readonly all: () => Iterable<number>,
    private readonly make: (key: number) => V | undefined,
  ) {}

  get(key: number): V | undefined {
    let value = this.known.get(key);
    if (value === undefined && !this.known.has(key)) this.known.set(key, (value = this.make(key)));
    return value;
  }
  has(key: number): boolean {
    return this.get(key) !== undefined;
  }
  get size(): number {
    return [...this.keys()].length;
  }
  *keys(): MapIterator<number> {
    yield* this.all();
  }
  *values(): MapIterator<V> {
    for (const key of this.all()) yield this.get(key)!;
  }
  *entries(): MapIterator<[number, V]> {
    for (const key of this.all()) yield [key, this.get(key)!];
  }
  [Symbol.iterator](): MapIterator<[number, V]> {
    return this.entries();
  }
  forEach(each: (value: V, key: number, map: ReadonlyMap<number, V>) => void): void {
    for (const [key, value] of this.entries()) each(value, key, this);
  }
}
