"""The derivative of every op along a direction beside PyTorch's: at random places, at ties and zeros, and where a nan or infinities are."""

from __future__ import annotations

import re
import sys
import zlib
from pathlib import Path

import numpy
import pytest
import torch
from compare import far
from samples import KNOWN

import engine

sys.path[:0] = [str(Path(__file__).parents[1] / "engine"), str(Path(__file__).parents[1] / "engine" / "expected")]
import make_answers  # noqa: E402

import cases  # noqa: E402

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]
PLACES = ("random", "ties", "zeros", "nan", "inf")
SINGULAR = "Of singular matrices PyTorch's tangent is 0, or there is none, and here it is the cofactors' or refused."
OPEN = "Which of several equal elements is chosen is left open."
UNKNOWN = "PyTorch's function has no derivative, and says so to nobody."
POLES = "At -inf there are poles without end, and at inf a limit; PyTorch's series are nan at both."
LEFT_OUT = {
    **dict.fromkeys(("svd", "eig", "eigh", "qr"), "Vectors have a sign or an angle of their own."),
    "cholesky_inverse": "PyTorch's tangent is not that of finite differences.",
    "binary_cross_entropy": "PyTorch loses the tangents of weights.",
    "binary_cross_entropy_with_logits": "PyTorch loses the tangents of weights.",
}
DIFFERS = {  # op -> the places and dtypes at which its tangent is another one, and why
    "silu": (("complex128",), "PyTorch's tangent is conjugated once too often."),
    "vector_norm": (("inf",), "The order of quotients and powers decides between nan and an infinity."),
    "logcumsumexp": (("nan", "inf"), "PyTorch's tangent takes the largest of all elements for the largest so far."),
    "cumprod": (("nan", "inf"), "PyTorch's tangent divides by each factor, also by one that is not finite."),
    "conv_transpose2d": (("nan",), "PyTorch's kernel of the dtype multiplies a weight that is not finite with what lies beside the image, or does not."),
    "digamma": (("inf",), POLES), "polygamma": (("inf",), POLES), "det": (("zeros",), SINGULAR), "slogdet": (("ties", "zeros"), SINGULAR),
    "svdvals": (("ties",), SINGULAR), "eigvals": (("ties", "zeros"), SINGULAR), "topk": (("ties", "zeros"), OPEN), "kthvalue": (("ties", "zeros"), OPEN),
    **{name: (("float64", "float32"), UNKNOWN) for name in cases.registry if re.match("airy|bessel|modified|scaled|spherical", name)},
}  # fmt: skip


def asked():
    return [op for op in cases.ops() if op.ruled and op.name not in LEFT_OUT and make_answers.function(op) is not None]


def moved(x, place, rng):
    """The numbers of an input with some of them as the place says."""
    flat = x.flatten()
    if flat.size:
        chosen = rng.permutation(flat.size)
        if place == "ties":
            flat = flat.round()
            flat[chosen[: flat.size // 2 + 1]] = flat[chosen[0]]
        elif place == "zeros":
            flat[chosen[: flat.size // 2 + 1]] = 0
        elif place != "random":
            flat[chosen[0]] = {"nan": numpy.nan, "inf": numpy.inf}[place]
            if place == "inf" and flat.size > 2:
                flat[chosen[1]] = -numpy.inf
    return flat.reshape(x.shape)


def drawn(case, place, dtype, rng):
    """Inputs of a call: one of those that are drawn from the op's domain stands at the place."""
    xs = cases.draw(case)
    free = [i for i, spec in enumerate(case.inputs) if isinstance(spec, tuple)]
    at = rng.choice(free) if free else None
    for i in free:
        x = rng.uniform(*case.op.domain, case.inputs[i]) + (
            1j * rng.uniform(*case.op.domain, case.inputs[i]) if dtype == "complex128" else 0
        )
        xs[i] = moved(numpy.asarray(x), place if i == at else "random", rng)
    if case.op.name in ("nll_loss", "cross_entropy") and xs[2] is not None:
        xs[2] = xs[2].astype(numpy.float64)  # weights of classes, written as integers so that they stay constants
    return [x.astype(dtype) if isinstance(x, numpy.ndarray) and x.dtype.kind in "fc" else x for x in xs]


def tangents(library, call, case, xs, rng):
    """What `jvp` gives for the results that are no integers."""
    given = [library.tensor(x) if isinstance(x, numpy.ndarray) else x for x in xs]
    at = [i for i, x in enumerate(xs) if isinstance(x, numpy.ndarray) and x.dtype.kind in "fc"]

    def along(*free):
        inputs = [free[at.index(i)] if i in at else x for i, x in enumerate(given)]
        return tuple(y for y in call(case, inputs) if y.is_floating_point() or y.is_complex())

    ways = tuple(library.tensor(rng.choice([1.0, -0.5, 2.0], xs[i].shape).astype(xs[i].dtype)) for i in at)
    return library.func.jvp(along, tuple(given[i] for i in at), ways)[1]


def unlike(case, place, dtype, seed):
    rng = numpy.random.default_rng(zlib.crc32(f"{case} {place} {dtype} {seed}".encode()))
    xs, state = drawn(case, place, dtype, rng), rng.bit_generator.state
    try:
        theirs = tangents(torch, make_answers.call, case, xs, rng)
    except (RuntimeError, TypeError, ValueError, IndexError):
        return None  # PyTorch has none
    rng.bit_generator.state = state
    ours = tangents(engine, cases.call, case, xs, rng)
    for a, b in zip(theirs, ours, strict=True):
        told = f"dtype {b.dtype}" if KNOWN[a.dtype] is not b.dtype else f"shape {b.shape}" if a.shape != b.shape else far(a, b, 10)
        if told:
            return f"{case} at {place} in {dtype}: {told}"
    return None


@pytest.mark.parametrize("op", asked(), ids=lambda op: op.name)
def test_tangents(op):
    decomposes = op.__module__.endswith(("decompose", "factor", "lapack"))  # LAPACK may search for ever in what is not finite
    wrong = []
    for case in cases.of(op)[:3]:
        for place in PLACES[: 3 if decomposes else 5]:
            for dtype in ("float64", "float32", "complex128") if place != "inf" else ("float64",):
                if not {place, dtype} & {*DIFFERS.get(op.name, ((), ""))[0]}:
                    wrong += [unlike(case, place, dtype, seed) for seed in range(3 if place == "random" else 1)]
    wrong = [told for told in wrong if told]
    assert not wrong, "\n".join(wrong)


def test_reasons_are_sentences():
    for reason in (*LEFT_OUT.values(), *(why for _, why in DIFFERS.values())):
        assert len(reason) > 30 and reason.endswith("."), reason
