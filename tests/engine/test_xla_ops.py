"""Ops on traced arrays, as `engine.compile` runs them through XLA: what they give, and what they refuse, against the eager engine.

XLA compiles many calls as one program, without optimization: one by one they would take minutes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy
import pytest

import cases
import engine
from engine import Tensor
from engine.backends.primitives import PRIMITIVES
from engine.core import devices

jax = pytest.importorskip("jax")

from engine.backends.xla import Traced, TraceError, raw, space  # noqa: E402
from engine.backends.xla.namespace import REFUSED  # noqa: E402

FAST = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}
FAMILIES = sorted({cases.family(op) for op in cases.ops() if cases.of(op)})
OPS_REFUSED = {  # op -> the primitive that has no form, or why not
    "bincount": "count_integers", "polynomial": "int()",
    **{name: name for name in (
        "airy_ai", "airy_ai_slope", "bessel_j0", "bessel_j1", "bessel_y0", "bessel_y1", "cholesky_ex", "modified_bessel_k0",
        "modified_bessel_k1", "scaled_modified_bessel_k0", "scaled_modified_bessel_k1")},
}  # fmt: skip


@pytest.fixture(autouse=True)
def traced_arrays(monkeypatch):
    monkeypatch.setattr(devices, "traced_array", devices.traced_array)  # both are put back, or neither: a later step would not be traced
    monkeypatch.setattr(devices, "mixed", True)
    devices.tracing()


def together(calls: list[Callable], given: list, run: bool = True) -> list:
    """Trace the calls, each with its own tensors, as one program; return the arrays of each, or its TraceError. Without `run`, shapes."""
    refused = {}

    def program(given: list) -> list:
        found = []
        for i, (call, arrays) in enumerate(zip(calls, given, strict=True)):
            try:
                found.append([raw(x) for x in call(*[Tensor._wrap(Traced(a)) for a in arrays])])
            except TraceError as error:
                refused[i] = error
                found.append(None)
        return found

    with jax.enable_x64(True), jax.default_matmul_precision("float32"):
        found = jax.jit(program).lower(given).compile(FAST)(given) if run else jax.eval_shape(program, given)
    return [refused.get(i, f) for i, f in enumerate(found)]


def alike(a: Any, b: Any) -> bool:
    """Whether two results have the same shape, dtype and values, also nan, infinity and, exactly, integers."""
    a, b = numpy.asarray(a), numpy.asarray(b)
    if (a.shape, a.dtype) != (b.shape, b.dtype):
        return False
    if a.dtype.kind in "biu":
        return numpy.array_equal(a, b)
    exact = a.dtype in (numpy.float64, numpy.complex128)
    a, b = (x.astype(complex if x.dtype.kind == "c" else float) for x in (a, b))
    return numpy.allclose(a, b, rtol=1e-9 if exact else 1e-5, atol=1e-11 if exact else 1e-6, equal_nan=True)


def step(case: cases.Case, spread: list) -> Callable:
    """Run an op, and its rules backward; `spread` are the inputs, in which the tensors given replace the arrays."""

    def call(*tensors: Tensor) -> list:
        rest = iter(tensors)
        inputs = [next(rest) if isinstance(x, numpy.ndarray) else x for x in spread]
        attrs = {k: next(rest) if isinstance(v, Tensor) else v for k, v in case.attrs.items()}
        leaves = [x.requires_grad_() for x in inputs if isinstance(x, Tensor) and (x.is_floating_point() or x.is_complex())]
        results = cases.call(case._replace(attrs=attrs), inputs)
        arrays = [r.array for r in results if isinstance(r, Tensor)]
        if len(arrays) == len(results) and (smooth := [r for r in cases.smooth(case, results) if r.node is not None]):
            engine.autograd.backward(smooth, [engine.ones_like(r) for r in smooth])
            arrays += [leaf.grad.array for leaf in leaves if leaf.grad is not None]
        return arrays

    return call


def told(case: cases.Case, inputs: list) -> tuple[Callable, list]:
    return step(case, inputs), [x for x in inputs if isinstance(x, numpy.ndarray)] + [
        v.numpy() for v in case.attrs.values() if isinstance(v, Tensor)
    ]


@pytest.mark.parametrize("family", FAMILIES)
def test_the_first_example_of_each_op(family):
    """Forward and backward, in float64 as far as the example has it."""
    chosen = [cases.of(op)[0] for op in cases.ops() if cases.family(op) == family and cases.of(op)]
    calls, given = zip(*[told(case, cases.draw(case)) for case in chosen], strict=True)
    wrong = []
    for case, call, arrays, found in zip(chosen, calls, given, together(list(calls), list(given)), strict=True):
        name = case.op.name
        if isinstance(found, TraceError):
            if name not in OPS_REFUSED or OPS_REFUSED[name] not in str(found) or not str(found).startswith("compile: "):
                wrong.append(f"{case}: {found}")
            continue
        wanted = call(*[engine.tensor(a) for a in arrays])
        if name in OPS_REFUSED or len(wanted) != len(found) or not all(map(alike, wanted, found)):
            wrong.append(f"{case}: {wanted} {found}")
    assert not wrong


@pytest.mark.parametrize("family", FAMILIES)
def test_the_other_examples_trace(family):
    """In float32; what is compared is the shapes and the dtypes."""
    some = [op for op in cases.ops() if cases.family(op) == family and op.name not in OPS_REFUSED]
    chosen = [
        case for op in some for case in cases.of(op)[1:] if case.inputs[2:] != ([2, 1, 3, 1],)
    ]  # weights of integers, which no user has
    narrow = {"d": "float32", "D": "complex64"}
    draws = [
        [x.astype(narrow.get(x.dtype.char, x.dtype)) if isinstance(x, numpy.ndarray) else x for x in cases.draw(case)] for case in chosen
    ]
    calls, given = (
        [step(case, inputs) for case, inputs in zip(chosen, draws, strict=True)],
        [told(c, i)[1] for c, i in zip(chosen, draws, strict=True)],
    )
    wrong = []
    for case, call, arrays, found in zip(chosen, calls, given, together(calls, given, run=False), strict=True):
        wanted = call(*[engine.tensor(a) for a in arrays])
        if isinstance(found, TraceError) or [(a.shape, a.dtype) for a in wanted] != [(a.shape, a.dtype) for a in found]:
            wrong.append(f"{case}: {wanted} {found}")
    assert not wrong


def test_every_primitive_has_a_form_or_a_reason():
    assert set(REFUSED) <= set(PRIMITIVES)
    for name in PRIMITIVES:
        if name in REFUSED:
            with pytest.raises(TraceError, match=f"{name} has no form for XLA: "):
                getattr(space, name)
        else:
            assert callable(getattr(space, name)), name


# -- values at the edge ----------------------------------------------------------------------------------------------------------

nan, inf = numpy.nan, numpy.inf
VALUES = {
    "x": numpy.array([[nan, -0.0, 2.5, -inf], [0.0, 1.5, -2.5, inf], [-1.5, 0.5, nan, 3.0]], "float32"),
    "y": numpy.array([[1.0, nan, -2.0, 0.0], [-0.0, 0.5, 2.0, -inf], [2.0, -3.0, nan, 0.5]], "float32"),
    "i": numpy.array([[2**31 - 1, -(2**31), 0, 7], [-7, 5, 3, -1], [9, -9, 1, 2]], "int32"),
    "j": numpy.array([[2, -1, 3, -2], [3, -3, 2, 5], [-4, 4, 7, -7]], "int32"),
    "l": numpy.array([2**63 - 1, -(2**63), 0, 7], "int64"),
    "u": numpy.array([0, 1, 200, 255], "uint8"),
    "m": numpy.array([[True, False, True, False]] * 3),
    "s": numpy.array(2.5, "float32"),
    "e": numpy.zeros((0, 3), "float32"),
    "c": numpy.array([1 + 2j, -0.0 + 1j, complex(nan, 1), 3 - 4j], "complex64"),
    "n": numpy.array([0, 2, -1]),
    "k": numpy.array([[0, 3, 1], [2, 2, 0]]),
    "o": numpy.array([3.0, 1.0, 3.0, 1.0, nan, 2.0], "float32"),
    "t": numpy.array([1.0, 2.0, 2.0, 3.0], "float32"),
}
# fmt: off
EDGES = [
    # ties, nan and signs
    "torch.maximum(x, y)", "torch.minimum(x, y)", "torch.fmax(x, y)", "x.clamp(-1, 1)", "x.clamp(y, y + 1)", "x.sign()", "x.relu()", "c.sgn()", "x.angle()",
    "F.max_pool2d(x[None], 2, return_indices=True)", "F.max_pool1d(o[None], 3, 1, 1, return_indices=True)", "F.max_pool1d(t[None] * 0 - inf, 3, 1, 1, return_indices=True)",
    "x.sort(1)", "x.sort(1, descending=True)", "o.sort(stable=True)", "o.topk(3)", "o.topk(2, largest=False)[0]", "x.median(1)", "x.nanmedian(1)", "o.mode()", "x.mode(1)",
    "x.kthvalue(2, 1)", "x.argmax(1)", "x.argmin(1)", "t.argmax()", "x.max(1)", "x.amin((0, 1))", "x.cummax(1)", "t.cummin(0)", "x.logsumexp((0, 1))", "x.nansum(1)",
    "torch.searchsorted(t, o)", "torch.bucketize(o, t, right=True)", "torch.histc(t, 3)", "torch.atan2(x, y)", "torch.xlogy(x, y)", "torch.heaviside(x, y)", "torch.lerp(x, y, s)",
    # integers: overflow, division, powers, sums
    "i * 3", "l + 1", "-l", "l.abs()", "u + 100", "-u", "i << 1", "i >> 1", "i.cumsum(0)", "i.prod(1)", "u.sum()", "m.sum(0)", "u.any()", "i // j", "i % j", "torch.fmod(i, j)",
    "torch.div(i, j, rounding_mode='trunc')", "i / j", "j ** 2", "j ** j", "m ** m", "torch.gcd(i, j)", "torch.lcm(j, j + 1)", "i.round()", "~m", "i.masked_fill(m, 7)",
    # floats: signs of remainders, rounding, powers, casts
    "x // y", "x % y", "torch.fmod(x, y)", "torch.div(x, y, rounding_mode='trunc')", "x.round()", "(x * 10.55).round(decimals=1)", "x ** 0.5", "x ** -0.5", "x ** 3", "x ** y",
    "2 ** x", "x.to(torch.bool)", "(t * -1.7).to(torch.int8)", "c.to(torch.float32)", "c.log1p()", "c ** 0.5", "c.std()", "x.nan_to_num()", "torch.lgamma(x)", "torch.logit(x)",
    # numbers, nothing, axes
    "s.sum(0)", "s.max(0)", "s.sort()", "s.cumsum(0)", "s.softmax(0)", "s.logsumexp(0)", "s.topk(1)", "s.mode(0)", "e.sum(0)", "e.mean(0)", "e.prod()", "e.sort(0)", "e.softmax(1)",
    "e.T @ e", "e.var(0)", "x.sum((0, -1), keepdim=True)", "x.mean((-1,), keepdim=True)", "t.var(correction=0)", "t.norm(inf)",
    # indices
    "x[n]", "x[n, n]", "x[:, n]", "x[n[:, None], n]", "x[torch.tensor([True, False, True])]", "x[1:, None, ::2]", "x.gather(1, k)", "x.scatter(1, k, y)", "x.scatter_add(1, k, y)",
    "t.scatter_reduce(0, k[1] + 1, t * 3, 'amax')", "t.scatter_reduce(0, k[1], t * 3, 'mean', include_self=False)", "x.index_select(1, k[0])", "x.index_add(1, k[0], y[:, :3], alpha=2)",
    "x.index_copy(1, k[0], y[:, :3])", "t.take(k[0])", "x.put(k, y[:2, :3], accumulate=True)", "F.one_hot(k, 4)", "F.embedding(k, y.T, padding_idx=2)", "torch.where(m, x, 0.0)",
    "F.cross_entropy(t[None], torch.tensor([-100]), reduction='sum')", "F.nll_loss(t.expand(3, 4), k[0], weight=t)", "F.binary_cross_entropy(t / 4, t / 5)",
    # low precision, and dtypes that meet
    "(t.bfloat16() / 3).exp()", "t.bfloat16().sum()", "t.half().softmax(0)", "t.bfloat16() @ t.bfloat16()", "t.bfloat16().cumsum(0)", "F.layer_norm(t.half(), (4,))",
    "x.bfloat16().max(1)", "t.bfloat16() + t", "t.half() + i[0]", "(t.half() * 30000).sum()", "u + 1.5", "i + x", "t.double() + s", "t.double().view(torch.float32)",
    "l.view(torch.int8)", "torch.view_as_real(c)", "F.scaled_dot_product_attention(t[None], t[None], t[None], is_causal=True)",
]
# fmt: on


def evaluated(expression: str) -> Callable:
    def call(*tensors: Tensor) -> list:
        found = eval(expression, {**dict(zip(VALUES, tensors, strict=True)), "torch": engine, "F": engine.nn.functional, "inf": inf})
        return [x.array for x in (found if isinstance(found, tuple) else (found,))]

    return call


def as_eager(calls: list[Callable], names: list[str], values: dict) -> None:
    wrong = []
    for call, name, found in zip(calls, names, together(calls, [list(values.values())] * len(calls)), strict=True):
        wanted = call(*[engine.tensor(v) for v in values.values()])
        if isinstance(found, TraceError) or not all(map(alike, wanted, found)):
            wrong.append(f"{name}: {wanted} {found}")
    assert not wrong


@pytest.mark.parametrize("start", range(0, len(EDGES), 30))
def test_edges(start):
    chosen = EDGES[start : start + 30]
    as_eager([evaluated(e) for e in chosen], chosen, VALUES)


# -- writes through views --------------------------------------------------------------------------------------------------------

MEMORY = {
    "x": numpy.random.default_rng(0).uniform(-1, 2, (3, 4)).astype("float32"),
    "y": numpy.random.default_rng(1).uniform(-1, 2, (3, 4)).astype("float32"),
    "c": numpy.array([1 + 2j, -1 + 1j, 2j, 3 - 4j], "complex64"),
    "i": numpy.arange(12, dtype="int32").reshape(3, 4) * 7 - 9,
    "m": numpy.array([[True, False, False, True]] * 3),
    "n": numpy.array([2, 0, 1]),
}
# fmt: off
WRITES = [
    "x[1:, ::2].add_(1)", "x[..., 1].mul_(3)", "x.t()[1].sub_(2)", "x.reshape(4, 3)[1:3].neg_()", "x.view(-1)[2:9:3].copy_(torch.arange(3.))",
    "x.unsqueeze(1).squeeze().transpose(0, 1)[2].mul_(2)", "x.diagonal(1).add_(1)", "x.t().diagonal(-1).mul_(2)", "x.unfold(1, 2, 2).mul_(2)", "x.as_strided((2, 2), (5, 1), 1).add_(4)",
    "x.split(2, 1)[1].add_(1)", "x.unbind(1)[3].add_(1)", "x.movedim(0, 1)[0].add_(1)", "x.view(torch.int32)[0].fill_(0)", "x.view(torch.float64).mul_(2)", "x.view(torch.uint8)[0, :4].fill_(0)",
    "torch.view_as_complex(x.view(3, 2, 2)).mul_(1j)", "torch.view_as_real(c)[..., 0].fill_(3)", "c.imag[1:].mul_(2)", "c.real[::2].copy_(x[0, :2])", "c.view(torch.float32)[::2].neg_()",
    "x[1, 2] = 5", "x[[0, 2], 1] = torch.tensor([4., 5.])", "x[:, n[:2]] = x[:, :2]", "x.t()[n] = 0", "x[m] = 0", "x[m[:, 0]] = torch.arange(4.)", "x[torch.tensor([True, False, True])] += 1",
    "x[1].masked_fill_(m[0], 3)", "x.t().index_fill_(0, n, 1)", "x.scatter_(1, n[:, None], 3)", "x[0].index_put_((n,), x[1, :3], accumulate=True)", "x[0].copy_(x[1])", "x.fill_diagonal_(3)",
    "x[1:, 1:] -= x[1:, :1].clone()", "x.T[1:, 0] *= 2", "torch.mul(x[0], 2, out=x[1])", "i[1:].floor_divide_(2)", "i.view(torch.int64).add_(1)", "m.view(torch.uint8)[0].fill_(1)",
    "v = x[1:]; x.mul_(2); v[0].add_(1); x[2, 3] = 0; v.neg_()", "v = x.t(); w = v[1:3]; x.add_(1); w.mul_(2); v.add_(1)",
]
DIFFERENTIATED = [
    "z[1:].mul_(y[1:])", "z.t()[1].copy_(y[:, 0])", "z[n] = y * 2", "z[m] = 0", "z.diagonal().mul_(3)", "z.view(2, 6)[:, 2].exp_()", "z.reshape(-1)[3:7].add_(y[0])", "z.unfold(1, 2, 2).mul_(2)",
    "z.as_strided((2, 2), (5, 1), 1).mul_(4)", "z = x.as_strided((3, 4), (1, 2), 1)", "z = torch.where(m, x, y) + x.masked_fill(m, 0)", "z = x.sort(1)[0] + x.max(1, True)[0] + torch.maximum(x, x)",
]
# fmt: on


def written(code: str) -> Callable:
    def call(*tensors: Tensor) -> list:
        names = {**dict(zip(MEMORY, (t.clone() for t in tensors), strict=True)), "torch": engine}
        exec(code, names)
        return [names[name].array for name in ("x", "c", "i", "m")]

    return call


def differentiated(code: str) -> Callable:
    def call(*tensors: Tensor) -> list:
        names = {**dict(zip(MEMORY, tensors, strict=True)), "torch": engine}
        x, y = names["x"].requires_grad_(), names["y"].requires_grad_()
        names["z"] = x * 1
        exec(code, names)
        (names["z"] ** 2 * (y + 1)).sum().backward()
        return [x.grad.array, y.grad.array]

    return call


def test_writes_through_views():
    as_eager([*map(written, WRITES), *map(differentiated, DIFFERENTIATED)], [*WRITES, *DIFFERENTIATED], MEMORY)


# -- what cannot be ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "code, message",
    [
        ("x[m]", r"x\[mask\], which has as many elements as the mask has True, needs the value .*; use where\(\)"),
        ("x[m] = torch.arange(6.)", r"x\[mask\] = values, one for each True of the mask, needs the value"),
        ("x.nonzero()", r"nonzero has no form for XLA: the shape of the result depends on the values; use where\(\)"),
        ("torch.unique(n)", "unique has no form for XLA: the shape of the result depends on the values"),
        ("torch.bincount(n)", "count_integers has no form for XLA: the shape"),
        ("x.sum().item()", r"\.item\(\) needs the value of a tensor"),
        ("bool(x.sum() > 0)", "a decision .* needs the value of a tensor"),
        ("torch.as_tensor([x[0, 0]])", "needs the value of a tensor"),
    ],
)
def test_refusals(code, message):
    (found,) = together([written(code)], [list(MEMORY.values())], run=False)
    assert isinstance(found, TraceError)
    with pytest.raises(TraceError, match=message):
        raise found


def test_out_of_range_an_index_reads_nan_and_writes_nothing():
    codes = [
        "x = x[n + 2]",
        "x = x[:, n + 3]",
        "x = x.gather(0, n[None] - 1)",
        "x = x.index_select(0, n + 2)",
        "x.index_add_(0, n - 1, x.clone())",
    ]
    read, columns, gathered, selected, added = (f[0] for f in together([*map(written, codes)], [list(MEMORY.values())] * len(codes)))
    x = MEMORY["x"]
    missing = numpy.full_like(x[0], nan)
    numpy.testing.assert_array_equal(read, [missing, x[2], missing])
    numpy.testing.assert_array_equal(columns, numpy.stack([missing[:3], x[:, 3], missing[:3]], 1))
    numpy.testing.assert_array_equal(gathered, [[x[1, 0], nan, x[0, 2]]])
    numpy.testing.assert_array_equal(selected, [missing, x[2], missing])
    numpy.testing.assert_allclose(added, [x[0] + x[2], x[1] + x[0], x[2]])
