"""Per-sample gradients of a parameter, from the gradients that reached the ops that use it in the backward pass.

An op's derivative is linear in the upstream gradient: with all samples but one set to zero it gives that sample's share, and the
shares sum to the gradient. If samples interact after the parameter was used, as in batch normalization, a sample's share is the
gradient that came back through its own outputs.
"""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import Any

import numpy

from engine.core import tape

from .. import inspector
from ..backward.stepper import Stepper
from ..inspector.numbers import norm, wide
from ..protocol import SampleGradients
from ..recording.recording import Recording

SAMPLES = 1024  # at most
PATIENCE = 5.0  # seconds
ROOM = 256 << 20  # bytes of gradients kept at a time
LARGEST = 10  # samples listed
CHAIN = 4  # ops between the parameter and the op that sees the batch, such as a transpose

Share = Callable[[int], Any]  # index of a sample -> its share of the gradient


class Apart(Exception):
    """Raised if the gradient cannot be split by samples; the message says why."""


def per_sample(recording: Recording, stepper: Stepper | None, row: int, re: int | None = None) -> SampleGradients:
    """Norms of all samples' shares and their cosines with the sum. Do not call while user code runs: it runs the engine's rules."""
    name = recording.called(row)
    try:
        if stepper is None:
            raise Apart(
                "The gradients that arrive at the layers are not known. "
                "Use wb.step(loss), or %%watch --steps on a cell that calls backward()."
            )
        shares, count, how = _shares(recording, stepper, row)
        norms, cosines, total = _measured(shares, count, recording.bytes[row])
    except Apart as error:
        return SampleGradients(re, recording.name, row, name, [], None, [], [], "", str(error))
    largest = sorted(range(count), key=lambda n: -norms[n] if norms[n] == norms[n] else -numpy.inf)[:LARGEST]
    return SampleGradients(re, recording.name, row, name, norms, total, cosines, largest, how, "")


def _shares(recording: Recording, stepper: Stepper, row: int) -> tuple[list[Share], int, str]:
    """For each op that uses the parameter, a function that returns a sample's share; the number of samples; and the method in words."""
    if recording.kind[row] not in ("parameter", "leaf"):
        raise Apart("Only the gradients of parameters and other leaves are sums over samples.")
    users = [t for s, t in zip(recording.source, recording.target, strict=False) if s == row]
    steps = {at: taken for at, taken in zip(stepper.plan, stepper.taken, strict=False) if taken is not None}
    if row not in steps:
        raise Apart("The backward pass has not reached it." if row in stepper.plan else "The backward pass does not reach it.")
    found, counts, exact = [], set(), True
    for user in dict.fromkeys(users):
        if user not in stepper.plan:
            continue  # the loss does not depend on it
        share, count, outer = _through(recording, steps, row, user)
        found.append(share)
        counts.add(count)
        exact = exact and outer
    if len(counts) != 1:
        raise Apart(f"The ops that use it see batches of different sizes: {', '.join(map(str, sorted(counts)))}.")
    count = counts.pop()
    if count > SAMPLES:
        raise Apart(f"The batch has {count:,} samples; at most {SAMPLES:,} are split.")
    names = ", ".join(dict.fromkeys(recording.op_name(user) for user in users))
    means = (
        "outer products of what came in and the gradient that arrived" if exact else "its rule, run with one sample's gradient at a time"
    )
    how = f"A sample is an index along axis 0 of the result of {names}; its share is computed exactly, by {means}."
    if any("batch_norm" in recording.op_name(at) for at in steps):
        how += " Batch normalization mixes samples: a share is the gradient through the sample's own outputs, from all losses."
    return found, count, how


def _through(recording: Recording, steps: dict, row: int, user: int) -> tuple[Share, int, bool]:
    """The share function of one op that uses the row, its number of samples, and whether it is an outer product.

    Ops that only rearrange the parameter, such as a transpose, are skipped to the op behind them.
    """
    chain: list[Any] = []
    at, source = user, row
    while _turns_about(recording, at, source) and len(chain) < CHAIN:
        following = [t for s, t in zip(recording.source, recording.target, strict=False) if s == at and t in steps]
        if len(following) != 1 or at not in steps:
            break
        chain.append(steps[at].node)
        at, source = following[0], at
    taken = steps.get(at)
    if taken is None:
        raise Apart("The backward pass has not come to the op that uses it.")
    if taken.upstream is None:
        raise Apart("The gradient that arrived was not kept: those of this pass take more than its budget.")
    upstream = taken.upstream
    if not hasattr(upstream, "ndim") or upstream.ndim == 0 or upstream.shape[0] < 1:
        raise Apart(f"{recording.op_name(at)} gives {inspector.shape_text(recording.shape[at])}, which has no axis of samples.")
    slots = [slot for s, slot in recording.inputs(at) if s == source]
    others = [s for s, slot in recording.inputs(at) if slot not in slots and recording.kind[s] != "constant" and recording.shape[s]]
    batched = [s for s in others if recording.shape[s][0] == upstream.shape[0] and recording.kind[s] not in ("parameter", "leaf")]
    if not batched:
        raise Apart(f"{recording.op_name(at)} combines it with no tensor that has an axis of {upstream.shape[0]} samples.")
    inner, outer = _outer(recording, taken.node, upstream, at, slots), True
    if inner is None:
        inner, outer = _by_rule(recording, taken.node, upstream, at, slots), False

    def share(n: int) -> Any:
        g = inner(n)
        for node in reversed(chain):
            g = next(x for x in node.op.pull(node, g) if x is not None)
        return g

    return share, upstream.shape[0], outer and not chain


def _turns_about(recording: Recording, at: int, source: int) -> bool:
    """Whether the row is the op's only tensor and its result has as many elements: a transpose, a cast, a negation."""
    inputs = [s for s, _ in recording.inputs(at) if recording.kind[s] != "constant"]
    size = lambda row: int(numpy.prod(recording.shape[row], dtype=numpy.int64))  # noqa: E731
    return inputs == [source] and size(at) == size(source)


def _outer(recording: Recording, node: Any, upstream: Any, at: int, slots: list[int]) -> Share | None:
    """Shares for y = x Wᵀ + b: W gets the sum of g ⊗ x over samples and positions, b the sum of g. None for any other op."""
    if node.op.name != "linear" or slots not in ([1], [2]):
        return None
    if slots == [2]:
        return lambda n: upstream[n].reshape(-1, upstream.shape[-1]).sum(axis=0)
    source = next(s for s, slot in recording.inputs(at) if slot == 0)
    x = recording.value(source)
    if x is None or recording.overwritten(source) or x.shape[0] != upstream.shape[0]:
        return None
    return lambda n: upstream[n].reshape(-1, upstream.shape[-1]).T @ x[n].reshape(-1, x.shape[-1])


def _by_rule(recording: Recording, node: Any, upstream: Any, at: int, slots: list[int]) -> Share:
    if not isinstance(node.saved, tuple):
        node = _refilled(recording, node, at)

    def share(n: int) -> Any:
        alone = inspector.library(upstream).zeros_like(upstream)
        alone[n] = upstream[n]
        found = node.op.pull(node, alone)
        return sum(inspector.whole(found[slot]) for slot in slots)

    return share


def _refilled(recording: Recording, node: Any, at: int) -> Any:
    """A copy of a node freed by backward, with its saved tensors restored from the recording."""
    op = node.op
    inputs = {op.inputs[slot]: recording.value(s) for s, slot in recording.inputs(at) if slot < len(op.inputs)}
    inputs["out"] = recording.value(at)
    missing = [slot for slot in op.slots if inputs.get(slot) is None]
    if op.variadic or missing:
        what = ", ".join(missing) or "its operands"
        raise Apart(f"backward() has freed what {op.name} saved, and {what} is not in the recording. Use wb.step(loss) instead.")
    return tape.Node(op, node.inputs, node.attrs, tuple(inputs[slot] for slot in op.slots), node.shape, node.dtype)


def _measured(shares: list[Share], count: int, nbytes: int) -> tuple[list[float], list[float | None], float | None]:
    """Norms, cosines with the sum, and the norm of the sum; the shares are computed twice if they do not fit into memory together."""
    keep = nbytes * count <= ROOM
    kept: list[Any] = []
    total: Any = None
    begun = perf_counter()
    for n in range(count):
        one = _sum(shares, n)
        total = one.copy() if total is None else total + one
        if keep:
            kept.append(one)
        spent = perf_counter() - begun
        if n + 1 < count and spent / (n + 1) * count > PATIENCE and n >= 2:
            raise Apart(f"It would take about {spent / (n + 1) * count:.0f} seconds for {count} samples; use a smaller batch.")
    size = norm(total)
    norms, cosines = [], []
    for n in range(count):
        one = kept[n] if keep else _sum(shares, n)
        norms.append(norm(one))
        both = norms[-1] * size
        cosines.append(min(1.0, max(-1.0, float(numpy.vdot(total, one).real) / both)) if both and numpy.isfinite(both) else None)
    return norms, cosines, size if numpy.isfinite(size) else None


def _sum(shares: list[Share], n: int) -> Any:
    found = [wide(share(n)) for share in shares]
    return found[0] if len(found) == 1 else sum(found[1:], found[0])
