"""Every op that PyTorch has too, on fresh random input: values, gradients and dtypes, in float64, float32, float16 and bfloat16."""

from __future__ import annotations

import secrets
import sys
from pathlib import Path

import mpmath
import numpy
import pytest
import torch

import engine
from engine.base import dtypes

sys.path[:0] = [str(Path(__file__).parents[1] / "engine"), str(Path(__file__).parents[1] / "engine" / "expected")]
import make_answers  # noqa: E402

import cases  # noqa: E402

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]
SEED = secrets.randbits(32)
# results that are right in more than one way (signs of vectors, elements on the edge of a bin) or hold other numbers by nature
LEFT_OUT = {"svd", "eig", "eigh", "qr", "empty_like", "histc"}
OVERFLOWS = {"matrix_exp"}  # PyTorch's half-precision kernel answers with infinities where float32 has 1.25
COARSE = {"group_norm", "layer_norm", "rms_norm"}  # large terms cancel: PyTorch rounds some of them on the way, the engine none
HALF_READ = {"cholesky_inverse"}  # PyTorch gives a gradient to the triangle that it does not read
PRECISELY = {"airy_ai": mpmath.airyai}  # PyTorch's has five digits in double precision, too
TOLERANCE = {"float64": 2e-8, "float32": 2e-4, "float16": 4e-3, "bfloat16": 3e-2}
asked = [
    pytest.param(case, id=f"{i}-{case}".replace(" ", "-"))
    for op in cases.ops() if make_answers.function(op) is not None and op.name not in LEFT_OUT for i, case in enumerate(cases.of(op))
]  # fmt: skip


def fresh(case, rng):
    """Other numbers of the same kinds and, now and then, ties and zeros of a domain that has them."""
    xs = cases.draw(case)
    for i, spec in enumerate(case.inputs):
        if isinstance(spec, tuple):
            xs[i] = numpy.asarray(rng.uniform(*case.op.domain, spec))
            if rng.random() < 0.3 and case.op.domain[0] <= 0 <= case.op.domain[1]:
                xs[i] = numpy.asarray(numpy.round(xs[i]))
    if case.op.name in ("nll_loss", "cross_entropy") and xs[2] is not None:
        xs[2] = xs[2].astype(numpy.float64)  # weights of classes, written as integers so that they stay constants
    if case.op.name in HALF_READ:
        xs[0] = triangle(case)(xs[0])
    return xs


def triangle(case):
    return numpy.triu if case.attrs.get("upper") else numpy.tril


def ours(case, xs, d):
    inputs = [
        engine.tensor(x.astype(d.numpy) if x.dtype.kind == "f" else x, requires_grad=cases.floating(x))
        if isinstance(x, numpy.ndarray)
        else x
        for x in xs
    ]
    return inputs, cases.call(case, inputs)


def theirs(case, xs, d):
    kind = make_answers.TORCH_DTYPES[d]
    inputs = [
        torch.tensor(x).to(kind if x.dtype.kind == "f" else None or torch.tensor(x).dtype) if isinstance(x, numpy.ndarray) else x
        for x in xs
    ]
    inputs = [x.requires_grad_() if isinstance(x, torch.Tensor) and (x.is_floating_point() or x.is_complex()) else x for x in inputs]
    return inputs, make_answers.call(case, inputs)


def plain(x):
    """As float64 or complex128 on NumPy's side."""
    x = x.detach()
    if isinstance(x, torch.Tensor):
        x = torch.zeros_like(x) if x._is_zerotensor() else x
        return x.resolve_conj().to(torch.complex128 if x.is_complex() else torch.float64).numpy()
    return x.array.astype(numpy.complex128 if x.is_complex() else numpy.float64)


def same(a, b, tolerance):
    return a.shape == b.shape and numpy.allclose(a, b, rtol=tolerance, atol=tolerance, equal_nan=True)


@pytest.mark.parametrize("precision", TOLERANCE)
@pytest.mark.parametrize("case", asked)
def test_as_torch(case, precision):
    print(f"seed {SEED}")  # shown when the test fails
    rng = numpy.random.default_rng([SEED, *str(case).encode()])
    low = precision in ("float16", "bfloat16")
    d, tolerance, xs = dtypes.BY_NAME[precision], TOLERANCE[precision], fresh(case, rng)
    try:
        their_inputs, expected = theirs(case, xs, d)
    except (RuntimeError, NotImplementedError, TypeError) as error:
        if low:
            return  # no CPU kernel there
        raise AssertionError(f"PyTorch refused: {error}") from error
    if any(b.dtype == torch.complex32 for b in expected) or low and case.op.name in OVERFLOWS:
        return  # the engine has no such dtype
    if (precise := PRECISELY.get(case.op.name)) and precision == "float64":
        expected = [torch.tensor([float(precise(x)) for x in xs[0].flat], dtype=torch.float64).reshape(xs[0].shape)]
    inputs, found = ours(case, xs, d)
    for a, b in zip(found, expected, strict=False):
        assert make_answers.TORCH_DTYPES[a.dtype] == b.dtype
        if not (low and len(found) > 1 and a.dtype is engine.int64):  # where ties are many, which of them is found is chance
            assert same(plain(a), plain(b), tolerance)
    live = [(a, b) for a, b in zip(found, expected, strict=False) if b.requires_grad]
    if not live or low and (case.op.name in COARSE or len(found) > 1):
        return
    ws = [numpy.asarray(rng.normal(size=tuple(b.shape))) for _, b in live]
    wanted = [i for i, x in enumerate(xs) if cases.floating(x)]
    try:
        seeds = [torch.tensor(w).to(b.dtype) for (_, b), w in zip(live, ws, strict=True)]
        theirs_ = torch.autograd.grad([b for _, b in live], [their_inputs[i] for i in wanted], seeds, allow_unused=True)
    except (RuntimeError, NotImplementedError) as error:
        assert any(words in str(error) for words in ("not implemented", "not supported", "returned an invalid gradient"))
        return
    seeds = [(a, engine.tensor(w).to(a.dtype)) for (a, _), w in zip(live, ws, strict=True) if a.requires_grad]
    ours_ = [None] * len(wanted)
    if seeds:
        ours_ = engine.autograd.grad([a for a, _ in seeds], [inputs[i] for i in wanted], [w for _, w in seeds], allow_unused=True)
    for i, a, b in zip(wanted, ours_, theirs_, strict=True):
        if b is not None:  # None: PyTorch takes the input for a constant
            b = triangle(case)(plain(b)) if case.op.name in HALF_READ else plain(b)
            assert same(numpy.zeros(xs[i].shape) if a is None else plain(a), b, 4 * tolerance), f"gradient of input {i}"
