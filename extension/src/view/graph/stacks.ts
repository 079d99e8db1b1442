// Shows one part of each loop or fold; the parts before and after it are hidden in placeholder groups.

import { Lazy, TOP } from "./columns";
import { ALL, FIRST_STACK, SUMS, type Hidden, type Member, type Stack, type Tree } from "./tree";
import type { Group } from "../protocol";
import type { Totals } from "../words";

const FEW = 2; // this many parts are all shown

/** The tree with one iteration of each loop and one of the similar siblings of each fold; `chosen` maps a holder to the item it shows. */
export function stacked(tree: Tree, chosen: ReadonlyMap<number, number>): Tree {
  const holderOf = (id: number) => (id < FIRST_STACK ? TOP : Math.floor((id - FIRST_STACK) / 2));
  const stacks: ReadonlyMap<number, Stack> = new Lazy<Stack>(
    function* () {
      for (const id of tree.groups.keys()) if (stacks.has(id)) yield id;
    },
    (holder) => stackOf(tree, holder, chosen),
  );
  const hiddenIn = (id: number): Hidden | undefined => stacks.get(holderOf(id))?.hidden.find((one) => one.id === id);
  const within = (holder: number, group: number): Hidden | undefined => {
    const stack = stacks.get(holder);
    if (!stack?.hidden.length) return undefined;
    const item = stack.rank.get(group) ?? -1;
    return stack.hidden.find(({ from, to }) => from <= item && item <= to);
  };
  const parts = ({ from, to }: Hidden, id: number) => stacks.get(holderOf(id))!.items.slice(from, to + 1);
  const keys = (own: ReadonlyMap<number, unknown>) => [...own.keys(), ...[...stacks.values()].flatMap((stack) => stack.hidden.map(({ id }) => id))];

  const groups = new Lazy<Group>(
    () => keys(tree.groups),
    (id) => {
      const hidden = hiddenIn(id);
      return hidden ? standIn(tree, holderOf(id), stacks.get(holderOf(id))!, hidden) : tree.groups.get(id);
    },
  );
  const totals = new Lazy<Totals>(
    () => keys(tree.totals),
    (id) => {
      const hidden = hiddenIn(id);
      if (!hidden) return tree.totals.get(id);
      const sum: Totals = { ops: 0, parameters: 0, bytes: 0, nodes: 0 };
      for (const part of parts(hidden, id)) for (const key of SUMS) sum[key] += tree.totals.get(part)![key];
      return sum;
    },
  );
  const children = new Lazy<Member[]>(
    () => keys(tree.children),
    (id) => {
      const hidden = hiddenIn(id);
      if (hidden) return tree.children.get(holderOf(id))!.filter((member) => member.group && within(holderOf(id), member.id) === hidden);
      const members = tree.children.get(id);
      if (!members || !stacks.get(id)?.hidden.length) return members;
      const seen = new Set<number>();
      return members.flatMap((member) => {
        const stack = member.group ? within(id, member.id) : undefined;
        if (!stack) return [member];
        if (seen.has(stack.id)) return [];
        seen.add(stack.id);
        return [{ ...member, id: stack.id }];
      });
    },
  );
  const parent = (group: number) => {
    if (group >= FIRST_STACK) return hiddenIn(group) ? holderOf(group) : TOP;
    const holder = tree.parent(group);
    return within(holder, group)?.id ?? holder;
  };
  return Object.assign(Object.create(tree) as Tree, { groups, children, totals, stacks, parent });
}

function stackOf(tree: Tree, holder: number, chosen: ReadonlyMap<number, number>): Stack | undefined {
  const group = tree.groups.get(holder);
  if (group?.kind !== "loop" && group?.kind !== "fold") return undefined;
  const items = (tree.children.get(holder) ?? []).filter((member) => member.group).map((member) => member.id);
  if (items.length <= FEW) return undefined;
  const at = Math.min(chosen.get(holder) ?? 0, items.length - 1);
  const beside = at === ALL ? [] : [{ from: 0, to: at - 1 }, { from: at + 1, to: items.length - 1 }];
  const hidden = beside.map((range, side): Hidden => ({ id: FIRST_STACK + 2 * holder + side, ...range })).filter(({ from, to }) => from <= to);
  return { items, rank: new Map(items.map((id, item) => [id, item])), at, hidden };
}

/** The placeholder group for hidden parts. */
function standIn(tree: Tree, holder: number, { items }: Stack, { id, from, to }: Hidden): Group {
  const [first, last] = [tree.groups.get(items[from]!)!, tree.groups.get(items[to]!)!];
  const own = { id, parent: holder, kind: "scope", count: to - from + 1 } as const;
  if (tree.groups.get(holder)!.kind === "loop") {
    const noun = /^(\w+) \d+$/.exec(first.label)?.[1] ?? "part";
    return { ...own, name: "", label: from === to ? first.label : `${noun}s ${from + 1}–${to + 1}` };
  }
  const same = tree.groups.get(holder)!.label.includes("same weights") ? ", same weights" : "";
  const name = from === to ? first.name : `${first.name} … ${last.name}`;
  return { ...own, name, label: `${to - from + 1} ${from ? "more" : "before"}${same}` };
}

/** A function from group to number, given numbers by place; the number of a placeholder combines those of its hidden parts. */
export function summed(tree: Tree, numbers: Float64Array, join = (a: number, b: number) => a + b): (group: number) => number {
  return (group) => {
    const stack = group < FIRST_STACK ? undefined : tree.stacks.get(tree.parent(group));
    const hidden = stack?.hidden.find(({ id }) => id === group);
    if (!stack || !hidden) return numbers[tree.places.of(group)]!;
    return stack.items
      .slice(hidden.from, hidden.to + 1)
      .map((part) => numbers[tree.places.of(part)]!)
      .reduce(join);
  };
}
