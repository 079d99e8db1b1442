"""Check one op's rule against central differences of its own forward, in float64.

For a gradient G of the result and a direction v of the input: d/dh Re⟨G, f(x + h v)⟩ = Re⟨x̄, v⟩, where x̄ is the rule's result for G. This
holds for real and complex tensors, since PyTorch's gradient of a complex tensor is the direction of steepest ascent.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy

from engine.core.tensor import Tensor

from ..inspector import host, number_text
from ..recording.recompute import Cannot, attributes, call_again, unwatched
from ..recording.recording import Recording
from .one import Nodes, One, called, recorded_inputs

STEP = 6e-6  # about the cube root of float64's rounding error, which balances truncation and cancellation
RTOL, ATOL = 1e-5, 1e-7
COARSE = (2e-3, 1e-2, 1e-4)  # step and tolerances if the op itself computes in float32 or less
FEW = 256  # up to this many elements, each is perturbed by itself
DIRECTIONS = 4  # number of random directions above that
# These ops read one triangle and assume a symmetric matrix, so only symmetric perturbations are valid.
SYMMETRIC = frozenset(("cholesky", "eigh", "eigvalsh"))


@dataclass
class Entry:
    """One comparison: along an element of the input (`index`), or along a random direction (`index` None)."""

    index: tuple[int, ...] | None
    rule: float
    difference: float  # the central difference
    part: str = "real"  # for a complex element, the perturbed part

    @property
    def error(self) -> float:
        return abs(self.rule - self.difference)


@dataclass
class InputCheck:
    """The result for one input. If `passed` is None, the check was inconclusive, for the reason in `why`."""

    slot: int
    name: str
    passed: bool | None
    why: str
    absolute: float = 0.0  # the largest error
    relative: float = 0.0  # absolute / largest derivative
    compared: int = 0
    exact: bool = True  # each element was perturbed by itself
    worst: list[Entry] = None  # type: ignore[assignment]  # the largest errors, at most 5


@dataclass
class RuleCheck:
    """The result of `wb.whatif.check_rule`: a derivative rule compared with finite differences.

    Attributes:
        recording: the recording of the op.
        row: the row of its result.
        inputs: the comparison for each input, with its largest errors.
        tolerance: the tolerance in words.
        passed: True if every input passed, False if one failed, None if none failed but some were inconclusive.
        sentence: the outcome in one sentence.
    """

    recording: Recording
    row: int
    inputs: list[InputCheck]
    tolerance: str

    @property
    def passed(self) -> bool | None:
        """True: every input passed. False: one failed. None: none failed, but some were inconclusive."""
        results = [i.passed for i in self.inputs]
        return False if False in results else None if None in results or not results else True

    @property
    def sentence(self) -> str:
        """The outcome in one sentence."""
        name = self.recording.op_name(self.row)
        if self.passed:
            worst = max(i.absolute for i in self.inputs)
            return f"The rule of {name} agrees with central differences in float64: largest error {number_text(worst)} ({self.tolerance})."
        bad = next((i for i in self.inputs if i.passed is False), None)
        if bad is not None:
            return f"The rule of {name} for {bad.name} disagrees with central differences: {bad.why}"
        return next((f"{i.name}: {i.why}" for i in self.inputs if i.passed is None), f"{name} has no input to check.")

    def __repr__(self) -> str:
        lines = [self.sentence]
        for i in self.inputs:
            how = "every element" if i.exact else f"{DIRECTIONS} random directions"
            mark = {True: "agrees", False: "DISAGREES", None: "not told"}[i.passed]
            lines.append(
                f"  {i.name}: {mark}; {how}, largest error {i.absolute:.3g}, relative {i.relative:.3g}{'; ' + i.why if i.why else ''}"
            )
        return "\n".join(lines)


def check_rule(recording: Recording, row: int, nodes: Nodes | None = None) -> RuleCheck:
    """Check the rules of one op against finite differences of its forward. Raises Cannot if the op cannot be called again, or is random."""
    op = recording.ops[row] if 0 <= row < recording.count else None
    if op is None:
        raise Cannot(f"{recording.called(row)} was made by no op, so there is no rule to check." if 0 <= row < recording.count else
                     f"There is no node {row} in this graph; it has {recording.count}.")  # fmt: skip
    inputs = [_wide(x) for x in recorded_inputs(recording, row, nodes)]
    node = (nodes or {}).get(row)
    attrs = _on_the_host(attributes(recording, row, node))
    one = called(recording, row, inputs, attrs)

    def forward(arrays: list) -> numpy.ndarray:
        with unwatched(grad=False):
            result = call_again(op, [Tensor._wrap(x) if hasattr(x, "ndim") else x for x in arrays], attrs)
        results = result if isinstance(result, (tuple, list)) else (result,)
        return host(results[one.result].array)

    if _random(forward, inputs):
        raise Cannot(f"{op.name} draws random numbers: two calls on the same input differ, so finite differences are meaningless.")
    base = forward(inputs)
    coarse = base.dtype not in (numpy.float64, numpy.complex128)
    step, rtol, atol = COARSE if coarse else (STEP, RTOL, ATOL)
    rng = numpy.random.default_rng(0)
    seed = rng.normal(size=base.shape)
    if base.dtype.kind == "c":
        seed = seed + 1j * rng.normal(size=base.shape)
    seed = seed.astype(base.dtype)
    gradients = one.pull(seed.conj())
    found = []
    for slot in one.differentiable():
        x = inputs[slot]
        g = gradients[slot]
        analytic = numpy.zeros(x.shape, x.dtype) if g is None else host(g).conj()
        found.append(_compare(one, forward, inputs, slot, seed, analytic, rng, (step, rtol, atol)))
    text = f"tolerance {_power(rtol)} relative, {_power(atol)} absolute" + (f"; the op computes in {base.dtype.name}" if coarse else "")
    return RuleCheck(recording, row, found, text)


def _wide(x: Any) -> Any:
    """Convert to float64 or complex128; integers, masks and scalars are unchanged."""
    if not hasattr(x, "ndim"):
        return x
    data = host(x)
    return data.astype(numpy.complex128 if data.dtype.kind == "c" else numpy.float64) if data.dtype.kind in "fc" else data


def _on_the_host(x: Any) -> Any:
    """The attributes with their arrays, such as indices, beside the inputs."""
    if isinstance(x, dict):
        return {name: _on_the_host(value) for name, value in x.items()}
    return (
        x.__class__(map(_on_the_host, x)) if x.__class__ in (tuple, list) else host(x) if hasattr(x, "get") and hasattr(x, "dtype") else x
    )


def _random(forward: Any, inputs: list) -> bool:
    """Whether two calls differ. Draws from the engine's generator repeat, as its state is restored; draws from others do not."""
    first = forward(inputs)
    return not numpy.array_equal(first, forward(inputs), equal_nan=first.dtype.kind in "fc")


def _compare(one: One, forward: Any, inputs: list, slot: int, seed: Any, analytic: Any, rng: Any, how: tuple) -> InputCheck:
    step, rtol, atol = how
    x = inputs[slot]
    name = one.names[slot]
    if not numpy.isfinite(x).all():
        return InputCheck(slot, name, None, "the input holds NaN or Inf, and differences of those are none.", worst=[])
    exact = x.size <= FEW
    entries, kinks = [], []
    for index, part, direction in _directions(x, exact, rng, one.op.name in SYMMETRIC):
        h = step * (max(1.0, abs(x[index])) if index is not None else max(1.0, float(numpy.abs(x).max(initial=0))))
        rule = float(numpy.real(numpy.sum(analytic.conj() * direction)))

        def along(size: float, direction: Any = direction) -> float:
            moved = list(inputs)
            moved[slot] = x + size * direction
            with numpy.errstate(all="ignore"):
                return float(numpy.real(numpy.sum(seed.conj() * forward(moved))))

        here = along(0.0)
        left, right = _slopes(along, here, h)
        apart = abs(right - left)
        if apart > atol + rtol * max(abs(left), abs(right)):
            # a kink persists at any scale, unlike curvature, and a distant kink is out of reach of a smaller step
            left, right = _slopes(along, here, h / 8)
        entry = Entry(index, rule, (left + right) / 2, part)
        if not numpy.isfinite([left, right, rule]).all():
            return InputCheck(slot, name, None, f"the forward or the rule is not finite near {_place(index)}.", exact=exact, worst=[entry])
        entries.append(entry)
        if abs(right - left) > max(apart / 2, 100 * (atol + rtol * max(abs(left), abs(right)))):
            kinks.append((entry, left, right))
    scale = max([abs(e.difference) for e in entries] + [abs(e.rule) for e in entries], default=0.0)
    noise = 0.0 if not entries else 1e-15 * float(numpy.abs(seed).sum()) / step
    bad = [e for e in entries if not any(e is k[0] for k in kinks) and e.error > atol + rtol * scale + noise]
    worst = sorted(entries, key=lambda e: -e.error)[:5]
    smooth_errors = [e.error for e in entries if not any(e is k[0] for k in kinks)]
    largest = max(smooth_errors, default=0.0)
    result = InputCheck(slot, name, True, "", largest, largest / scale if scale else 0.0, len(entries), exact, worst)
    if bad:
        e = max(bad, key=lambda e: e.error)
        result.passed = False
        result.why = f"at {_place(e.index)} the rule gives {number_text(e.rule)}, the difference {number_text(e.difference)}."
    elif kinks:
        e, left, right = kinks[0]
        result.passed = None
        count = f" ({len(kinks)} such {'element' if exact else 'direction'}{'s' if len(kinks) > 1 else ''}; the others agree)"
        result.why = (
            f"not differentiable at {_place(e.index)}: the slope is {number_text(left)} on one side and {number_text(right)} on the other; "
            f"the rule chose {number_text(e.rule)}{count}."
        )
    return result


def _slopes(along: Any, here: float, h: float) -> tuple[float, float]:
    """The difference quotients to both sides; their mean is the central one."""
    return (here - along(-h)) / h, (along(h) - here) / h


def _directions(x: numpy.ndarray, exact: bool, rng: Any, symmetric: bool) -> Any:
    """`(index, part, direction)`: each element, with both parts if complex, or a few random directions."""
    if symmetric:
        for index, part, v in _directions(x, exact, rng, False):
            if index is None or index[-2] >= index[-1] and (part == "real" or index[-2] > index[-1]):
                yield index, part, (v + v.swapaxes(-1, -2).conj()) / 2
        return
    if not exact:
        for _ in range(DIRECTIONS):
            v = rng.normal(size=x.shape)
            v = (v + 1j * rng.normal(size=x.shape) if x.dtype.kind == "c" else v).astype(x.dtype)
            yield None, "real", v / numpy.linalg.norm(v)
        return
    for index in numpy.ndindex(x.shape):
        for part, one in (("real", 1.0), ("imaginary", 1j))[: 2 if x.dtype.kind == "c" else 1]:
            v = numpy.zeros_like(x)
            v[index] = one
            yield index, part, v


def _power(x: float) -> str:
    """Format 1e-05 as 1e−5."""
    return f"{x:.0e}".replace("e-0", "e−")


def _place(index: tuple | None) -> str:
    return "a random direction" if index is None else f"element {list(index)}" if index else "the scalar"
