"""How far an answer is from PyTorch's, in words; None where they agree."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy

TOLERANCE = {"float64": 1e-7, "complex128": 1e-7, "float32": 1e-4, "complex64": 1e-4, "float16": 4e-3, "bfloat16": 3e-2}
STEEPER = 10.0  # what rounding in the values becomes in gradients


def differ(expected: dict, found: dict) -> str | None:
    """What is different, in words, or None. Where PyTorch has no kernel or no formula, any answer is right."""
    if "error" in expected:
        if expected["missing"]:
            return None
        if "error" not in found:
            return f"no {expected['error'][0]} ({expected['message']}), but {found['out']}"
        return wrong_error(expected, found)
    if "error" in found:
        return f"{found['error'][0]}: {found['message']}"
    if told := unlike(expected["out"], found["out"]):
        return told
    for name, value in expected.get("after", {}).items():
        if told := unlike(value, found["after"][name]):
            return f"afterwards {name}: {told}"
    coarse = max([0.0, *tolerances(expected)])  # gradients pass through every tensor on their way
    for part, scale in (("grad", STEEPER), ("second", STEEPER**2)):
        if isinstance(expected.get(part), dict):
            break  # PyTorch has no formula, and nothing to say of what would follow from it
        if told := unlike_gradients(expected.get(part), found.get(part), coarse * scale):
            return f"{part}: {told}"
    if expected["alias"] != found["alias"]:
        return f"a write into the results changes {found['alias']}, not {expected['alias']}"
    return None


def tolerances(told: Any) -> Iterator[float]:
    """How exact each tensor in an answer is."""
    if isinstance(told, list) and told[:1] == ["tensor"]:
        yield TOLERANCE.get(told[1], 0.0)
    elif isinstance(told, (list, dict)):
        for part in told.values() if isinstance(told, dict) else told:
            yield from tolerances(part)


def wrong_error(expected: dict, found: dict) -> str | None:
    """The error must be of PyTorch's class, or of one made from it."""
    if expected["error"][0] not in found["error"]:
        return f"{found['error'][0]} ({found['message']}), not {expected['error'][0]} ({expected['message']})"
    return None


def unlike_gradients(expected: Any, found: Any, tolerance: float) -> str | None:
    if isinstance(found, dict):
        return f"{found['error'][0]}: {found['message']}"
    length = max(len(expected or ()), len(found or ()))
    for n in range(length):
        a, b = (expected or [None] * length)[n], (found or [None] * length)[n]
        if a is None or b is None:
            rest = a if a is not None else b
            if rest is not None and zero(rest[5]) is False:
                return f"of input {n} is {'None' if b is None else 'there'}, PyTorch's is {'None' if a is None else 'not'}"
        elif told := unlike(a, b, tolerance):
            return f"of input {n}: {told}"
    return None


def zero(told: Any) -> bool:
    return not (told["most"] if isinstance(told, dict) else any(told))


def unlike(expected: Any, found: Any, tolerance: float | None = None) -> str | None:
    """The difference between two things told in plain lists; a tensor's dtype says how exact it is, unless told."""
    if isinstance(expected, list) and isinstance(found, list) and expected and found and expected[0] == found[0]:
        kind = expected[0]
        if kind == "tensor":
            for at, what in ((1, "dtype"), (2, "shape"), (3, "strides"), (4, "requires_grad")):
                if expected[at] != found[at] and not (expected[at] == "own" and found[at] == 0):  # contiguous is never wrong
                    return f"{what} {found[at]}, not {expected[at]}"
            return far(expected[5], found[5], TOLERANCE.get(expected[1], 0.0) if tolerance is None else tolerance)
        if kind == "array":
            return f"{found[1:3]}, not {expected[1:3]}" if expected[1:3] != found[1:3] else far(expected[3], found[3], 1e-5)
        if kind in ("float", "complex", "number"):
            return far([e for e in expected[1:] if not isinstance(e, str)], [e for e in found[1:] if not isinstance(e, str)], 1e-5)
        if kind in ("tuple", "list", "dict", "named"):
            if kind == "named" and expected[1] != found[1]:
                return f"fields {found[1]}, not {expected[1]}"
            if len(expected[-1]) != len(found[-1]):
                return f"{len(found[-1])} elements, not {len(expected[-1])}"
            pairs = zip(expected[-1], found[-1], strict=True)
            return next((f"[{n}] {told}" for n, (a, b) in enumerate(pairs) if (told := either(kind, a, b))), None)
    return None if expected == found and type(expected) is type(found) else f"{found!r}, not {expected!r}"


def either(kind: str, a: Any, b: Any) -> str | None:
    return unlike(a[0], b[0]) or unlike(a[1], b[1]) if kind == "dict" else unlike(a, b)


def far(expected: Any, found: Any, tolerance: float) -> str | None:
    """Where numbers are further apart than rounding makes them."""
    if isinstance(expected, dict):
        size = max(1e-2, expected["most"])
        expected, found = [*expected["sums"], *expected["some"]], [*found["sums"], *found["some"]]
    else:
        size = max([1e-2, *(abs(e) for e in expected if numpy.isfinite(e))])
    if len(expected) != len(found):
        return f"{len(found)} numbers, not {len(expected)}"
    for n, (a, b) in enumerate(zip(expected, found, strict=True)):
        if a == b or (a != a and b != b):
            continue
        if not abs(a - b) <= tolerance * size:
            return f"{b} at {n}, not {a}"
    return None
