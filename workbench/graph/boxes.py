"""Infer module boxes for a graph that no watch recorded, from the parameters that its ops use.

Ops run in the order of their rows, and module calls nest. So an op between two that belong to `blocks.0.attn` and `blocks.0.mlp` was run by
`blocks.0`, or by a part of it that has no parameters.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from ..recording.recording import Recording, Scope

_LOOKUPS = frozenset(("embedding", "embedding_bag", "getitem", "index_select", "gather"))  # produce the model's values from weights alone
_BORROWED = "NonDynamicallyQuantizableLinear"  # MultiheadAttention uses its weights without calling it


class _Part(NamedTuple):
    module: Any
    path: str


Chain = list[_Part]  # from the outermost to the innermost


class _Anchor(NamedTuple):
    """An op that takes parameters of one module."""

    row: int
    chain: Chain  # from the model to that module
    use: tuple[int, int]  # the parameter's row, and the row of the op that uses it directly

    @property
    def key(self) -> tuple[int, int]:
        """A parameter, and the owner that used it."""
        return self.use[0], id(self.chain[-1].module)


class _Call(NamedTuple):
    """A box: one call of a module."""

    part: _Part
    scope: int
    begin: int  # its first row
    after: list[int]  # rows between its last known op and the first op known to be outside it


def put_in_boxes(recording: Recording, modules: Iterable[Any], nn: Any) -> None:
    """Add scopes to a recording without any, for ops that use parameters of these modules and for the ops between them.

    `nn` is the namespace with the library's layers: `engine.nn` or `torch.nn`.
    """
    anchors, weights = _anchors(recording, dict(_owners(recording, modules, nn)))
    calls = _calls(recording, anchors, weights)
    _finish_calls(recording, calls, weights, nn)
    recording.boxed = bool(calls)
    for row in sorted(weights, reverse=True):  # results of weights alone go where they are used
        recording.scope[row] = recording.scope[weights[row][0]] if weights[row] else -1


def _owners(recording: Recording, modules: Iterable[Any], nn: Any) -> Iterator[tuple[int, list[Chain]]]:
    """The rows of parameters, each with the modules that hold it, in the order of registration."""
    found: dict[int, list[Chain]] = defaultdict(list)
    modules = list(modules)
    rows = {id(tensor): row for row, held in enumerate(recording.ref) if held is not None and (tensor := held()) is not None}
    inner = {id(part) for module in modules for part in module.modules() if part is not module}
    for model in [module for module in modules if id(module) not in inner]:
        chains: dict[str, Chain] = {"": [_Part(model, "")]}
        for path, module in model.named_modules():
            if path:
                uncalled = type(module).forward is nn.Module.forward or type(module).__name__ == _BORROWED  # such as ModuleList
                own = [] if uncalled else [_Part(module, path)]
                chains[path] = chains[path.rpartition(".")[0]] + own
            for parameter in module._parameters.values():
                if (row := rows.get(id(parameter))) is not None:
                    found[row].append(chains[path])
    yield from found.items()


def _anchors(r: Recording, owners: dict[int, list[Chain]]) -> tuple[list[_Anchor], dict[int, list[int]]]:
    """The ops that use a module's parameters; and those computed from weights alone, such as a transpose, with the rows that use them."""
    anchors: list[_Anchor] = []
    made: dict[int, tuple[Chain, tuple[int, int]]] = {}  # row computed from one module's weights alone -> that module's chain, and the use
    weights: dict[int, list[int]] = {}
    uses: dict[int, int] = defaultdict(int)
    for row in range(r.count):
        if r.kind[row] != "op":
            continue
        found, only = [], r.op_name(row) not in _LOOKUPS
        for source, _ in r.inputs(row):
            if source in owners:  # modules that share a weight use it in turn
                found.append((owners[source][uses[source] % len(owners[source])], (source, row)))
                uses[source] += 1
            elif source in made:
                found.append(made[source])
            only = only and (source in owners or source in weights or r.kind[source] == "constant")
            if source in weights:
                weights[source].append(row)
        whose = [chain for chain, _ in found]
        if only and found:
            weights[row] = []
            if r.shape[row] and all(chain is whose[0] for chain in whose):  # a scalar made of weights is a penalty, not part of the model
                made[row] = found[0]
        elif found:
            anchors.append(_Anchor(row, _shared(whose), found[0][1]))
    return [anchor for anchor in anchors if anchor.chain], weights


def _calls(r: Recording, anchors: list[_Anchor], weights: dict[int, list[int]]) -> list[_Call]:
    """Find the calls of modules and their ops. Ops between two anchors belong to the innermost call around both."""
    calls: list[_Call] = []
    stack: list[_Call] = []
    uses: dict[tuple[int, int], tuple[tuple[int, int], int]] = {}  # a parameter in a module -> its last use, and the anchor of that use
    inside: dict[int, set[tuple[int, int]]] = defaultdict(set)  # the parameters of a module and its parts
    for anchor in anchors:
        for part in anchor.chain:
            inside[id(part.module)].add(anchor.key)
    done = 0
    for at, (end, chain, use) in enumerate(anchors):
        around = len(_shared([[call.part for call in stack], chain]))
        key = anchors[at].key
        known, before = uses.get(key, (use, at))
        if known != use:  # reused weights: a new call of the outermost module that has run completely since
            since = anchors[before:at]
            common, ran = _shared([anchor.chain for anchor in since]), {anchor.key for anchor in since}
            whole = (depth for depth, part in enumerate(common) if inside[id(part.module)] <= ran)
            again = next(whole, max(len(common) - 1, 1))
            if again < around and stack[again].begin <= anchors[before].row:  # otherwise it has already been called again
                around = again
        uses[key] = use, at
        between = [row for row in range(done, end) if r.kind[row] == "op" and row not in weights]
        for call in stack[around:]:
            call.after.extend(between)
        del stack[around:]
        for row in between if stack else ():
            r.scope[row] = stack[-1].scope
        for part in chain[around:]:
            label = type(part.module).__name__
            r.scopes.append(Scope(stack[-1].scope if stack else -1, "module", part.path or label, label, id(part.module), None, 0))
            stack.append(_Call(part, len(r.scopes) - 1, end, []))
            calls.append(stack[-1])
        r.scope[end] = stack[-1].scope
        done = end + 1
    rest = [row for row in range(done, r.count) if r.kind[row] == "op" and row not in weights]
    for call in stack:
        call.after.extend(rest)
    return calls


def _shared(chains: list[Chain]) -> Chain:
    """The common prefix of all chains."""
    count = 0
    for parts in zip(*chains, strict=False):
        if any(part.module is not parts[0].module for part in parts):
            break
        count += 1
    return chains[0][:count]


def _finish_calls(r: Recording, calls: list[_Call], weights: dict[int, list[int]], nn: Any) -> None:
    """Add trailing ops that belong to a call, such as its activation or its residual sum."""
    alike: dict[type, list[tuple[_Call, list[int]]]] = defaultdict(list)
    for call in calls:
        module, tail = call.part.module, list(_tail(r, call, weights))
        if isinstance(module, nn.Sequential):
            _take(r, call, tail[: _ending(r, module, tail)])
        elif call.part.path and getattr(nn, type(module).__name__, None) is not type(module):
            alike[type(module)].append((call, tail))
    for same in alike.values():
        if len({id(call.part.module) for call, _ in same}) < 2:
            continue
        tails = [[r.op_name(row) for row in tail] for _, tail in same]
        many = next((at for at, ops in enumerate(zip(*tails, strict=False)) if len(set(ops)) > 1), min(map(len, tails)))
        for call, tail in same:  # all modules of that class are followed by these ops
            _take(r, call, tail[:many])


def _ending(r: Recording, module: Any, tail: list[int]) -> int:
    """The number of these ops that end a Sequential: those of its last layers without parameters."""
    last: list[str] = []
    for layer in reversed(list(module.children())):
        if any(True for _ in layer.parameters()):
            break
        last.insert(0, type(layer).__name__.lower())
    return next((at for at, name in enumerate(last) if at == len(tail) or r.op_name(tail[at]).replace("_", "") != name), len(last))


def _take(r: Recording, call: _Call, rows: list[int]) -> None:
    for row in rows:  # of nested calls, the inner one has the larger number
        r.scope[row] = max(r.scope[row], call.scope)


def _tail(r: Recording, call: _Call, weights: dict[int, list[int]]) -> Iterator[int]:
    """The rows after a call that use only what was computed in it or passed to it."""
    last = call.after[0] if call.after else r.count
    given = {source for row in range(call.begin, last) for source, _ in r.inputs(row)}
    for row in call.after:
        if any(
            r.kind[source] == "op" and source < call.begin and source not in given and source not in weights for source, _ in r.inputs(row)
        ):
            return
        yield row
