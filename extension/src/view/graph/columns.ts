// A large recording in arrays: groups as places, edges as slices, maps whose values are made when they are first asked for.

import type { Group } from "../protocol";

export const TOP = -1;

/**
 * The groups as places in arrays, each after the one around it; place 0 is the top. A large recording has tens of thousands, and every
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
      // one that holds itself by way of others stands at the top
      for (; next && !this.at.has(next.id) && !path.includes(next); next = this.groups.get(next.parent)) path.push(next);
      while (path.length) this.add(path.pop()!);
    }
  }

  /** The place of a further group. */
  add(group: Group): number {
    const up = this.of(group.parent);
    this.groups.set(group.id, group);
    this.at.set(group.id, this.ids.length);
    this.up.push(up);
    this.depth.push(this.depth[up]! + 1);
    this.kinds.push(group.kind);
    return this.ids.push(group.id) - 1;
  }

  /** The place of a group; of an unknown one the top. */
  of(group: number): number {
    return this.at.get(group) ?? 0;
  }

  /** Gives what stands at each place to the one around it, too. */
  rollUp(numbers: Float64Array, join = (a: number, b: number) => a + b): Float64Array {
    for (let at = numbers.length - 1; at > 0; at--) numbers[this.up[at]!] = join(numbers[this.up[at]!]!, numbers[at]!);
    return numbers;
  }

  parent(group: number): number {
    return this.ids[this.up[this.of(group)]!]!;
  }
}

/** For each of several things some numbers, as slices of one array. */
export class Slices {
  constructor(
    private readonly start: Int32Array,
    private readonly all: Int32Array,
  ) {}

  /** Each once. */
  of(one: number): readonly number[] {
    return [...new Set(this.slice(one))];
  }
  /** Some perhaps twice, but nothing is copied. */
  slice(one: number): Int32Array {
    return this.all.subarray(this.start[one]!, this.start[one + 1]!);
  }
  count(one: number): number {
    return this.start[one + 1]! - this.start[one]!;
  }
}

/** Which rows have each of `size` values, in order; rows of other values are left out. `give`: not the row but what stands there. */
export function grouped(size: number, values: ArrayLike<number>, give?: ArrayLike<number>): Slices {
  const start = new Int32Array(size + 1);
  const inside = (value: number) => value >= 0 && value < size;
  for (let row = 0; row < values.length; row++) if (inside(values[row]!)) start[values[row]! + 1]!++;
  for (let one = 0; one < size; one++) start[one + 1]! += start[one]!;
  const [next, all] = [start.slice(), new Int32Array(start[size]!)];
  for (let row = 0; row < values.length; row++) if (inside(values[row]!)) all[next[values[row]!]!++] = give ? give[row]! : row;
  return new Slices(start, all);
}

/** For each of `size` nodes the other ends of its edges, in their order. Edges come in order of targets, so most that come twice come in a row. */
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

/** The first of the rows with this value, or where they would be; values come in order, as the targets of edges do. */
export function firstRow(values: readonly number[], value: number): number {
  let [low, high] = [0, values.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (values[middle]! < value) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** A map whose values are made when they are first asked for. */
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
