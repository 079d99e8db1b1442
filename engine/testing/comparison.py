"""`assert_close` and `assert_allclose`, with PyTorch's tolerances and messages."""

from __future__ import annotations

import cmath
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy

from ..base import dtypes
from ..core.from_data import as_tensor, tensor
from ..core.op import functions
from ..core.tensor import Tensor

# dtype -> (rtol, atol), from the table in `torch.testing.assert_close`'s documentation; integers and bools compare exactly.
TOLERANCES = {
    dtypes.float16: (1e-3, 1e-5),
    dtypes.bfloat16: (1.6e-2, 1e-5),
    dtypes.float32: (1.3e-6, 1e-5),
    dtypes.float64: (1e-7, 1e-7),
    dtypes.complex64: (1.3e-6, 1e-5),
    dtypes.complex128: (1e-7, 1e-7),
}
_OLD = {dtypes.float16: (1e-3, 1e-3), dtypes.float32: (1e-4, 1e-5), dtypes.float64: (1e-5, 1e-8)}  # assert_allclose's


class _Rules:
    """The arguments of `assert_close`: tolerances and flags."""

    def __init__(self, rtol: float | None, atol: float | None, **flags: bool) -> None:
        if (rtol is None) != (atol is None):
            raise ValueError(
                f"Both 'rtol' and 'atol' must be either specified or omitted, but got no {'rtol' if rtol is None else 'atol'}."
            )
        for name, value in (("rtol", rtol), ("atol", atol)):
            if value is not None and value < 0:
                raise RuntimeError(f"{name} must be greater than or equal to zero, but got {value}")
        self.given = None if rtol is None or atol is None else (rtol, atol)
        self.flags = flags

    def tolerances(self, *types: dtypes.dtype) -> tuple[float, float]:
        if self.given is not None:
            return self.given
        found = [TOLERANCES.get(d, (0.0, 0.0)) for d in types]
        return max(r for r, _ in found), max(a for _, a in found)


class _Mismatch(Exception):
    """Two values differ; carries the message."""


def assert_close(
    actual: Any,
    expected: Any,
    *,
    allow_subclasses: bool = True,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = False,
    check_device: bool = True,
    check_dtype: bool = True,
    check_layout: bool = True,
    check_stride: bool = False,
    msg: str | Callable[[str], str] | None = None,
) -> None:
    """Raise AssertionError unless `|actual - expected| <= atol + rtol * |expected|` for all elements.

    Compares tensors, NumPy arrays, Python scalars, None, and sequences and mappings of them; other types raise TypeError. `rtol` and
    `atol` must be given together and default to values for the dtypes. `msg` replaces the message, or is called with it to make a new one.
    """
    rules = _Rules(
        rtol, atol, equal_nan=equal_nan, check_device=check_device, check_dtype=check_dtype, check_stride=check_stride,
        allow_subclasses=allow_subclasses,
    )  # fmt: skip
    told = _first(actual, expected, rules, ())
    if told is not None:
        raise AssertionError(told if msg is None else msg(told) if callable(msg) else msg)


def assert_allclose(
    actual: Any, expected: Any, rtol: float | None = None, atol: float | None = None, equal_nan: bool = True, msg: str = ""
) -> None:
    """Older form of `assert_close` with wider tolerances and no dtype check. Deprecated in PyTorch since 1.12."""
    warnings.warn("`torch.testing.assert_allclose()` is deprecated since 1.12. Please use `torch.testing.assert_close()` instead.",
                  FutureWarning, stacklevel=2)  # fmt: skip
    actual = actual if isinstance(actual, Tensor) else tensor(actual)
    expected = expected if isinstance(expected, Tensor) else tensor(expected, dtype=actual.dtype)
    if rtol is None and atol is None:
        rtol, atol = (max(pair) for pair in zip(*(_OLD.get(x.dtype, (0.0, 0.0)) for x in (actual, expected)), strict=True))
    assert_close(actual, expected, rtol=rtol, atol=atol, equal_nan=equal_nan, check_dtype=False, msg=msg or None)


# -- one pair ------------------------------------------------------------------------------------------------------------


def _first(actual: Any, expected: Any, rules: _Rules, path: tuple) -> str | None:
    """Return the message for the first difference, or None."""
    try:
        if isinstance(actual, Mapping) and isinstance(expected, Mapping):
            missing, more = set(expected) - set(actual), set(actual) - set(expected)
            if missing or more:
                lines = [f"Missing keys in the actual mapping: {sorted(missing)}"] if missing else []
                lines += [f"Additional keys in the actual mapping: {sorted(more)}"] if more else []
                raise _Mismatch("\n".join(["The keys of the mappings do not match:", *lines]))
            pairs = [(actual[k], expected[k], k) for k in _ordered(expected)]
        elif _is_sequence(actual) and _is_sequence(expected):
            if len(actual) != len(expected):
                raise _Mismatch(f"The length of the sequences mismatch: {len(actual)} != {len(expected)}")
            pairs = [(a, e, i) for i, (a, e) in enumerate(zip(actual, expected, strict=True))]
        else:
            _compare(actual, expected, rules)
            return None
    except _Mismatch as found:
        return f"{found}{'' if not path else chr(10) * 2 + 'The failure occurred for item ' + ''.join(f'[{k!r}]' for k in path)}"
    return next((told for a, e, k in pairs if (told := _first(a, e, rules, (*path, k))) is not None), None)


def _is_sequence(x: Any) -> bool:
    return isinstance(x, Sequence) and not isinstance(x, str)


def _ordered(mapping: Mapping) -> Any:
    try:
        return sorted(mapping)
    except TypeError:
        return mapping


def _compare(actual: Any, expected: Any, rules: _Rules) -> None:
    numbers, bools = (int, float, complex, numpy.number), (bool, numpy.bool_)
    if actual is None or expected is None:
        if actual is not expected:
            raise _Mismatch(f"None mismatch: {actual} is not {expected}")
    elif isinstance(actual, bools) and isinstance(expected, bools):
        if bool(actual) is not bool(expected):
            raise _Mismatch(f"Booleans mismatch: {bool(actual)} is not {bool(expected)}")
    elif isinstance(actual, numbers) and isinstance(expected, numbers):
        _numbers(actual, expected, rules)
    elif _tensor_likes(actual, expected, rules):
        _tensors(as_tensor(actual), as_tensor(expected), rules)
    else:
        raise TypeError(f"No comparison pair was able to handle inputs of type {type(actual)} and {type(expected)}.")


def _tensor_likes(actual: Any, expected: Any, rules: _Rules) -> bool:
    if not all(isinstance(x, (Tensor, numpy.ndarray)) for x in (actual, expected)):
        return False
    related = isinstance(actual, type(expected)) or isinstance(expected, type(actual))
    return related if rules.flags["allow_subclasses"] else type(actual) is type(expected)


def _numbers(actual: Any, expected: Any, rules: _Rules) -> None:
    if rules.flags["check_dtype"] and type(actual) is not type(expected):
        raise _Mismatch(f"The (d)types do not match: {type(actual)} != {type(expected)}.")
    kinds = {int: dtypes.int64, float: dtypes.float64, complex: dtypes.complex128}
    types = [kinds.get(type(x)) or dtypes.FROM_NUMPY.get(numpy.asarray(x).dtype, dtypes.float64) for x in (actual, expected)]
    rtol, atol = rules.tolerances(*types)
    actual, expected = (x.item() if isinstance(x, numpy.generic) else x for x in (actual, expected))
    difference = abs(actual - expected)
    if actual == expected or rules.flags["equal_nan"] and cmath.isnan(actual) and cmath.isnan(expected):
        return
    if not (cmath.isfinite(difference) and difference <= atol + rtol * abs(expected)):
        raise _Mismatch(_scalars(actual, expected, rtol, atol))


def _scalars(actual: Any, expected: Any, rtol: float, atol: float) -> str:
    difference = abs(actual - expected)
    relative = float("inf") if expected == 0 else difference / abs(expected)
    exact = rtol == atol == 0
    return "\n".join(
        [
            f"Scalars are not {'equal' if exact else 'close'}!\n",
            f"Expected {expected} but got {actual}.",
            f"Absolute difference: {difference}{'' if exact else f' (up to {atol} allowed)'}",
            f"Relative difference: {relative}{'' if exact else f' (up to {rtol} allowed)'}",
        ]
    )


def _tensors(actual: Tensor, expected: Tensor, rules: _Rules) -> None:
    def same(name: str, a: Any, e: Any) -> None:
        if a != e:
            raise _Mismatch(f"The values for attribute '{name}' do not match: {a} != {e}.")

    same("shape", actual.shape, expected.shape)
    if rules.flags["check_device"]:
        same("device", actual.device, expected.device)
    if rules.flags["check_dtype"]:
        same("dtype", actual.dtype, expected.dtype)
    if rules.flags["check_stride"]:
        same("stride()", actual.stride(), expected.stride())
    rtol, atol = rules.tolerances(actual.dtype, expected.dtype)
    actual, expected = (x.detach().cpu() for x in (actual, expected))
    common = dtypes.promote(actual.dtype, expected.dtype)
    if common.rank <= dtypes.INT:
        common = dtypes.int64 if common is not dtypes.uint64 else common
    values = actual, expected
    actual, expected = actual.to(common), expected.to(common)
    matches = functions["isclose"](actual, expected, rtol=rtol, atol=atol, equal_nan=rules.flags["equal_nan"])
    if bool(matches.all()):
        return
    if actual.ndim == 0:
        raise _Mismatch(_scalars(*(x.item() for x in values), rtol, atol))
    raise _Mismatch(_elements(actual, expected, matches, rtol, atol))


def _elements(actual: Tensor, expected: Tensor, matches: Tensor, rtol: float, atol: float) -> str:
    wrong, exact = int((~matches).sum().item()), rtol == atol == 0
    absolute = (actual - expected).abs().masked_fill(matches, 0)
    relative = ((actual - expected).abs() / expected.abs()).masked_fill(matches, 0)

    def most(x: Tensor, allowed: float) -> str:
        place = int(x.flatten().argmax().item())
        index = tuple(int(i) for i in numpy.unravel_index(place, x.shape))
        return f"{x.flatten()[place].item()} at index {index}{'' if exact else f' (up to {allowed} allowed)'}"

    return "\n".join(
        [
            f"Tensor-likes are not {'equal' if exact else 'close'}!\n",
            f"Mismatched elements: {wrong} / {actual.numel()} ({wrong / actual.numel():.1%})",
            f"Greatest absolute difference: {most(absolute, atol)}",
            f"Greatest relative difference: {most(relative, rtol)}",
        ]
    )
