"""The namespace of the array API standard: every function, on every dtype, against NumPy's and against what the specification says."""

from __future__ import annotations

import cmath
import inspect
import itertools
import math
import warnings
from array import array as buffer

import numpy
import pytest

import engine
from engine import array_api as xp
from grouping import grouped

RNG = numpy.random.default_rng(0)
INTS = [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]
KINDS = {"b": ["bool"], "i": INTS, "f": ["float32", "float64"], "c": ["complex64", "complex128"]}
KIND = {name: kind for kind, names in KINDS.items() for name in names}
SHAPES = [(), (1,), (5,), (0,), (2, 3), (3, 0, 2), (2, 1, 3, 2)]
PAIRS = [((), ()), ((4,), ()), ((), (2, 3)), ((2, 1), (1, 3)), ((3,), (2, 3)), ((0,), (1,)), ((2, 0, 3), (3,)), ((1, 2), (3, 1, 1))]


@pytest.fixture(autouse=True)
def numbers_of_its_own():
    """Each test draws the same numbers whichever run before it."""
    global RNG
    RNG = numpy.random.default_rng(0)


def sample(shape, name, low=-4.0, high=4.0):
    """Numbers with ties, halves and zeros among them."""
    kind = KIND[name]
    if kind == "b":
        return RNG.random(shape) < 0.5 if shape else numpy.array(RNG.random() < 0.5)
    if kind == "i":
        return numpy.asarray(RNG.integers(0 if name[0] == "u" else max(low, -4), high, shape), name)
    x = numpy.round(RNG.uniform(low, high, shape) * 4) / 4 if high - low > 4 else RNG.uniform(low, high, shape)
    if kind == "c":
        x = x + 1j * numpy.round(RNG.uniform(low, high, shape) * 4) / 4
    return numpy.asarray(x, name)


def close(got, want, note, exact=False):
    """Type, shape and elements agree; a NaN with a NaN."""
    if isinstance(want, (tuple, list)):
        assert isinstance(got, tuple) and len(got) == len(want), note
        for one, other in zip(got, want, strict=True):
            close(one, other, note, exact)
        return
    want = numpy.asarray(want)
    assert isinstance(got, engine.Tensor) and got.dtype.name == want.dtype.name, f"{note}: {got.dtype}, not {want.dtype}"
    assert tuple(got.shape) == want.shape, f"{note}: {tuple(got.shape)}, not {want.shape}"
    loose = {"float32": 2e-5, "complex64": 2e-5}.get(want.dtype.name, 1e-10)
    numpy.testing.assert_allclose(got.detach().numpy(), want, 0 if exact else loose, 0 if exact else loose, err_msg=note)
    if exact and want.dtype.kind == "f":
        there = ~numpy.isnan(want)
        assert (numpy.signbit(got.numpy()) == numpy.signbit(want))[there].all(), f"{note}: {got.numpy()}, not {want}"


def agree(call, *arrays, exact=False, **names):
    """The call, a text about `xp` and `a`, `b`, ..., gives in the engine what it gives in NumPy, or both refuse."""
    given = dict(zip("abcd", arrays, strict=False))
    note = f"{call} of {', '.join(f'{x.dtype}{list(x.shape)}' for x in arrays)} {names}"
    with numpy.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            want = eval(call, {"xp": numpy, **given, **names})
        except (ValueError, IndexError, TypeError) as error:
            want = error
        tensors = {name: xp.asarray(x) for name, x in given.items()}
        if isinstance(want, Exception):
            with pytest.raises((ValueError, IndexError, TypeError, RuntimeError)):
                pytest.fail(f"{note}: NumPy refuses, {want}; here came {eval(call, {'xp': xp, **tensors, **names})}")
            return
        close(eval(call, {"xp": xp, **tensors, **names}), want, note, exact)


# -- names and signatures, from the specification ------------------------------------------------------------------------------

ONE = """abs acos acosh asin asinh atan atanh bitwise_invert ceil conj cos cosh exp expm1 floor imag isfinite isinf isnan log log1p log2
    log10 logical_not negative positive real reciprocal round sign signbit sin sinh sqrt square tan tanh trunc
    nonzero unique_all unique_counts unique_inverse unique_values matrix_transpose
    linalg.det linalg.eig linalg.eigh linalg.eigvals linalg.eigvalsh linalg.inv linalg.matrix_transpose linalg.slogdet linalg.svdvals"""
TWO = """add atan2 bitwise_and bitwise_left_shift bitwise_or bitwise_right_shift bitwise_xor copysign divide equal floor_divide greater
    greater_equal hypot less less_equal logaddexp logical_and logical_or logical_xor maximum minimum multiply nextafter not_equal pow
    remainder subtract matmul linalg.matmul linalg.outer linalg.solve"""
OTHER = """
    arange(start, /, stop=None, step=1, *, dtype=None, device=None)
    asarray(obj, /, *, dtype=None, device=None, copy=None)
    empty(shape, *, dtype=None, device=None)
    empty_like(x, /, *, dtype=None, device=None)
    eye(n_rows, n_cols=None, /, *, k=0, dtype=None, device=None)
    from_dlpack(x, /, *, device=None, copy=None)
    full(shape, fill_value, *, dtype=None, device=None)
    full_like(x, /, fill_value, *, dtype=None, device=None)
    linspace(start, stop, /, num, *, dtype=None, device=None, endpoint=True)
    meshgrid(*arrays, indexing='xy')
    ones(shape, *, dtype=None, device=None)
    ones_like(x, /, *, dtype=None, device=None)
    tril(x, /, *, k=0)
    triu(x, /, *, k=0)
    zeros(shape, *, dtype=None, device=None)
    zeros_like(x, /, *, dtype=None, device=None)
    astype(x, dtype, /, *, copy=True, device=None)
    can_cast(from_, to, /)
    finfo(type, /)
    iinfo(type, /)
    isdtype(dtype, kind)
    result_type(*arrays_and_dtypes)
    clip(x, /, min=None, max=None)
    take(x, indices, /, *, axis=None)
    take_along_axis(x, indices, /, *, axis=-1)
    broadcast_arrays(*arrays)
    broadcast_shapes(*shapes)
    broadcast_to(x, /, shape)
    concat(arrays, /, *, axis=0)
    expand_dims(x, /, axis)
    flip(x, /, *, axis=None)
    moveaxis(x, source, destination, /)
    permute_dims(x, /, axes)
    repeat(x, repeats, /, *, axis=None)
    reshape(x, /, shape, *, copy=None)
    roll(x, /, shift, *, axis=None)
    squeeze(x, /, axis)
    stack(arrays, /, *, axis=0)
    tile(x, repetitions, /)
    unstack(x, /, *, axis=0)
    argmax(x, /, *, axis=None, keepdims=False)
    argmin(x, /, *, axis=None, keepdims=False)
    count_nonzero(x, /, *, axis=None, keepdims=False)
    searchsorted(x1, x2, /, *, side='left', sorter=None)
    where(condition, x1, x2, /)
    isin(x1, x2, /, *, invert=False)
    argsort(x, /, *, axis=-1, descending=False, stable=True)
    sort(x, /, *, axis=-1, descending=False, stable=True)
    cumulative_prod(x, /, *, axis=None, dtype=None, include_initial=False)
    cumulative_sum(x, /, *, axis=None, dtype=None, include_initial=False)
    max(x, /, *, axis=None, keepdims=False)
    mean(x, /, *, axis=None, keepdims=False)
    min(x, /, *, axis=None, keepdims=False)
    prod(x, /, *, axis=None, dtype=None, keepdims=False)
    std(x, /, *, axis=None, correction=0.0, keepdims=False)
    sum(x, /, *, axis=None, dtype=None, keepdims=False)
    var(x, /, *, axis=None, correction=0.0, keepdims=False)
    all(x, /, *, axis=None, keepdims=False)
    any(x, /, *, axis=None, keepdims=False)
    diff(x, /, *, axis=-1, n=1, prepend=None, append=None)
    tensordot(x1, x2, /, *, axes=2)
    vecdot(x1, x2, /, *, axis=-1)
    linalg.tensordot(x1, x2, /, *, axes=2)
    linalg.vecdot(x1, x2, /, *, axis=-1)
    linalg.cholesky(x, /, *, upper=False)
    linalg.cross(x1, x2, /, *, axis=-1)
    linalg.diagonal(x, /, *, offset=0)
    linalg.matrix_norm(x, /, *, keepdims=False, ord='fro')
    linalg.matrix_power(x, n, /)
    linalg.matrix_rank(x, /, *, rtol=None)
    linalg.pinv(x, /, *, rtol=None)
    linalg.qr(x, /, *, mode='reduced')
    linalg.svd(x, /, *, full_matrices=True)
    linalg.trace(x, /, *, offset=0, dtype=None)
    linalg.vector_norm(x, /, *, axis=None, keepdims=False, ord=2)
    fft.fftfreq(n, /, *, d=1.0, dtype=None, device=None)
    fft.rfftfreq(n, /, *, d=1.0, dtype=None, device=None)
    fft.fftshift(x, /, *, axes=None)
    fft.ifftshift(x, /, *, axes=None)
    __array_namespace_info__()
"""
SIGNATURES = [f"{name}(x, /)" for name in ONE.split()] + [f"{name}(x1, x2, /)" for name in TWO.split()]
SIGNATURES += [f"fft.{name}(x, /, *, n=None, axis=-1, norm='backward')" for name in ["fft", "ifft", "rfft", "irfft", "hfft", "ihfft"]]
SIGNATURES += [f"fft.{name}(x, /, *, s=None, axes=None, norm='backward')" for name in ["fftn", "ifftn", "rfftn", "irfftn"]]
SIGNATURES += [line.strip() for line in OTHER.strip().splitlines()]


@grouped("told", SIGNATURES)
def test_signatures_are_the_specifications(told):
    name = told.partition("(")[0]
    function = xp
    for part in name.split("."):
        function = getattr(function, part)
    plain = [p.replace(annotation=inspect.Parameter.empty) for p in inspect.signature(function).parameters.values()]
    assert f"{name}{inspect.Signature(plain)}" == told
    assert function.__doc__ and function.__name__ == name.split(".")[-1]


def test_constants_versions_and_how_the_namespace_is_asked_for():
    assert (xp.e, xp.pi, xp.inf, xp.newaxis) == (math.e, math.pi, math.inf, None) and math.isnan(xp.nan)
    x = engine.ones(2, 3)
    assert x.__array_namespace__() is x.__array_namespace__(api_version="2024.12") is xp
    assert xp.__array_api_version__ == "2025.12"
    with pytest.raises(ValueError, match="not '2019.12'"):
        x.__array_namespace__(api_version="2019.12")
    assert x.to_device("cpu") is x and x.to_device(x.device) is x
    with pytest.raises(ValueError, match="no stream"):
        x.to_device("cpu", stream=1)
    assert xp.sum is not engine.sum and not hasattr(engine, "concatenate_arrays")


def test_a_program_that_does_not_ask_for_the_namespace_does_not_load_it():
    import subprocess
    import sys

    code = "import sys, engine; engine.ones(2).sum(); assert 'engine.array_api' not in sys.modules; engine.array_api.asarray(1)"
    subprocess.run([sys.executable, "-c", code], check=True)


# -- elementwise ---------------------------------------------------------------------------------------------------------------

UNARY = {  # name: kinds that it is specified for, and a range of its domain where that is not the whole line
    "abs": ("ifc",), "acos": ("fc", -0.9, 0.9), "acosh": ("fc", 1.1, 3), "asin": ("fc", -0.9, 0.9), "asinh": ("fc",), "atan": ("fc",),
    "atanh": ("fc", -0.9, 0.9), "bitwise_invert": ("bi",), "ceil": ("if",), "conj": ("c",), "cos": ("fc",), "cosh": ("fc",), "exp": ("fc",),
    "expm1": ("fc",), "floor": ("if",), "imag": ("c",), "isfinite": ("ifc",), "isinf": ("ifc",), "isnan": ("ifc",), "log": ("fc", 0.1, 3),
    "log1p": ("fc", -0.9, 3), "log2": ("fc", 0.1, 3), "log10": ("fc", 0.1, 3), "logical_not": ("b",), "negative": ("ifc",),
    "positive": ("ifc",), "real": ("fc",), "reciprocal": ("fc", 0.5, 2), "round": ("ifc",), "sign": ("ifc",), "signbit": ("f",),
    "sin": ("fc",), "sinh": ("fc",), "sqrt": ("fc", 0, 4), "square": ("ifc",), "tan": ("fc", -1, 1), "tanh": ("fc",), "trunc": ("if",),
}  # fmt: skip
BINARY = {
    "add": "ifc", "atan2": "f", "bitwise_and": "bi", "bitwise_or": "bi", "bitwise_xor": "bi", "copysign": "f", "divide": "fc",
    "equal": "bifc", "greater": "if", "greater_equal": "if", "hypot": "f", "less": "if", "less_equal": "if", "logaddexp": "f",
    "logical_and": "b", "logical_or": "b", "logical_xor": "b", "maximum": "if", "minimum": "if", "multiply": "ifc", "nextafter": "f",
    "not_equal": "bifc", "subtract": "ifc",
}  # fmt: skip


@grouped("name", UNARY)
def test_functions_of_one_array(name):
    kinds, *domain = UNARY[name]
    for d in itertools.chain.from_iterable(KINDS[k] for k in kinds):
        for shape in SHAPES:
            agree(f"xp.{name}(a)", sample(shape, d, *domain))


def promotable(kinds):
    """The pairs of dtypes that the standard promotes, and a mixture of floats and complex numbers."""
    for kind in kinds:
        for one, other in itertools.product(KINDS[kind], repeat=2):
            if not ("uint64" in (one, other) and "int" in (one[:3], other[:3])):
                yield one, other
    if "f" in kinds and "c" in kinds:
        yield from itertools.product(KINDS["f"], KINDS["c"])


@grouped("name", BINARY)
def test_functions_of_two_arrays_or_an_array_and_a_number(name):
    for one, other in promotable(BINARY[name]):
        if name == "nextafter" and one != other:
            continue
        for shape, beside in PAIRS[:4] if one != other else PAIRS:
            y = sample(beside, other)
            agree(f"xp.{name}(a, b)", sample(shape, one), numpy.where(y == 0, y.dtype.type(1), y) if name == "divide" else y)
    for kind in BINARY[name]:
        for d, shape in itertools.product(KINDS[kind], [(), (3,), (0, 2)]):
            number = {"b": True, "i": 3, "f": 1.5, "c": 2 - 1j}[kind]
            x = numpy.asarray(sample(shape, d) + numpy.ones(shape, d), d)  # no 0 below a fraction
            agree(f"xp.{name}(a, n)", x, n=number)
            agree(f"xp.{name}(n, a)", x, n=number)
            if kind in "fc" and name != "nextafter":
                agree(f"xp.{name}(a, 2)", x)


@pytest.mark.parametrize("name", ["floor_divide", "remainder", "pow", "bitwise_left_shift", "bitwise_right_shift"])
def test_functions_of_two_arrays_of_which_the_second_is_not_everything(name):
    for one, other in promotable("ifc" if name == "pow" else "i" if name.startswith("bit") else "if"):
        for shape, beside in PAIRS[:4]:
            y = sample(beside, other)
            y = numpy.where(y == 0, y.dtype.type(1), y) if name in ("floor_divide", "remainder") else y
            x = sample(shape, one)
            if name == "pow":
                x, y = numpy.where(x == 0, x.dtype.type(1), x), abs(y).astype(other) if KIND[other] == "i" else y
            if name.startswith("bit"):
                x, y = abs(x).astype(one), numpy.minimum(abs(y), 3).astype(other)
            agree(f"xp.{name}(a, b)", x, y)
            agree(f"xp.{name}(a, 2)", x)


def test_bounds_of_clip():
    for d in itertools.chain(INTS, KINDS["f"]):
        x = sample((3, 2), d)
        for low, high in ((None, None), (1, None), (None, 2), (1, 2), (0, 1)):
            agree("xp.clip(a, l, h)", x, l=low, h=high)
        agree("xp.clip(a, b, c)", x, numpy.ones(2, d), numpy.full((3, 1), 2, d))
        agree("xp.clip(a, max=b)", x, numpy.asarray(1, d))
        agree("xp.clip(a, b, 2)", x, numpy.ones((), d))
    assert xp.clip(xp.asarray([1, 200], dtype=xp.uint8), -5, 300).tolist() == [1, 200]
    assert xp.isnan(xp.clip(xp.asarray([1.0]), math.nan, 2)).all()


# -- special values ------------------------------------------------------------------------------------------------------------

NAN, INF = math.nan, math.inf
VALUES = [NAN, INF, -INF, 0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, -1.5, 2.0, -2.0, 2.5, 3.0, -3.0, 1e300, -1e-300]
# What the specification lists, where it is not arithmetic that every machine does: function, operands, result.
LISTED = [
    ("abs", -0.0, 0.0), ("acos", 1.0, 0.0), ("acos", 1.5, NAN), ("acosh", 1.0, 0.0), ("acosh", 0.5, NAN), ("acosh", INF, INF),
    ("asin", -0.0, -0.0), ("asinh", -0.0, -0.0), ("asinh", -INF, -INF), ("atan", INF, math.pi / 2), ("atan", -0.0, -0.0),
    ("atanh", 1.0, INF), ("atanh", -1.0, -INF), ("atanh", 2.0, NAN), ("ceil", -0.5, -0.0), ("ceil", -0.0, -0.0), ("cos", INF, NAN),
    ("cosh", -INF, INF), ("exp", -INF, 0.0), ("expm1", -0.0, -0.0), ("expm1", -INF, -1.0), ("floor", -0.0, -0.0), ("log", -0.0, -INF),
    ("log", -1.0, NAN), ("log1p", -1.0, -INF), ("log1p", -0.0, -0.0), ("log2", 0.0, -INF), ("log10", 1.0, 0.0), ("reciprocal", -0.0, -INF),
    ("round", 0.5, 0.0), ("round", 1.5, 2.0), ("round", 2.5, 2.0), ("round", -0.5, -0.0), ("sign", -0.0, 0.0), ("sign", NAN, NAN),
    ("sign", -INF, -1.0), ("sin", -0.0, -0.0), ("sqrt", -0.0, -0.0), ("sqrt", -1.0, NAN), ("tan", INF, NAN), ("tanh", -INF, -1.0),
    ("trunc", -0.5, -0.0), ("square", -INF, INF),
    ("add", INF, -INF, NAN), ("add", -0.0, -0.0, -0.0), ("add", -0.0, 0.0, 0.0), ("atan2", 0.0, -0.0, math.pi), ("atan2", -0.0, 0.0, -0.0),
    ("atan2", INF, -INF, 3 * math.pi / 4), ("atan2", -1.0, -INF, -math.pi), ("atan2", NAN, 1.0, NAN), ("copysign", NAN, -0.0, NAN),
    ("copysign", 3.0, -0.0, -3.0), ("divide", 1.0, -0.0, -INF), ("divide", 0.0, 0.0, NAN), ("divide", -1.0, INF, -0.0),
    ("floor_divide", NAN, 1.0, NAN), ("floor_divide", INF, INF, NAN), ("floor_divide", 0.0, 0.0, NAN), ("floor_divide", -0.0, 2.0, -0.0),
    ("floor_divide", 0.0, -2.0, -0.0), ("floor_divide", 1.0, 0.0, INF), ("floor_divide", 1.0, -0.0, -INF), ("floor_divide", -1.0, 0.0, -INF),
    ("floor_divide", 2.0, INF, 0.0), ("floor_divide", -2.0, -INF, 0.0), ("floor_divide", -3.0, 2.0, -2.0), ("hypot", INF, NAN, INF),
    ("hypot", NAN, -INF, INF), ("hypot", NAN, 1.0, NAN), ("hypot", 1e300, 1e300, math.hypot(1e300, 1e300)), ("hypot", -0.0, -2.0, 2.0),
    ("logaddexp", INF, -INF, INF), ("logaddexp", NAN, INF, NAN), ("logaddexp", -INF, 1.0, 1.0), ("maximum", NAN, 1.0, NAN),
    ("minimum", 1.0, NAN, NAN), ("multiply", INF, 0.0, NAN), ("multiply", -0.0, 2.0, -0.0), ("nextafter", -0.0, 0.0, 0.0),
    ("nextafter", 0.0, -0.0, -0.0), ("nextafter", 0.0, 1.0, 5e-324), ("nextafter", NAN, 1.0, NAN), ("pow", NAN, 0.0, 1.0), ("pow", NAN, -0.0, 1.0),
    ("pow", 2.0, NAN, NAN), ("pow", -1.0, INF, 1.0), ("pow", 0.5, -INF, INF), ("pow", -INF, 3.0, -INF), ("pow", -INF, -3.0, -0.0),
    ("pow", -INF, 0.5, INF), ("pow", -0.0, 3.0, -0.0), ("pow", -0.0, -3.0, -INF), ("pow", -0.0, -0.5, INF), ("pow", -2.0, 0.5, NAN),
    ("remainder", -0.0, 2.0, 0.0), ("remainder", 0.0, -2.0, -0.0), ("remainder", 1.0, 0.0, NAN), ("remainder", INF, 2.0, NAN),
    ("remainder", 2.0, INF, 2.0), ("remainder", 2.0, -INF, -INF), ("remainder", -2.0, INF, INF), ("remainder", -2.0, -INF, -2.0),
    ("remainder", -3.0, 2.0, 1.0), ("remainder", 3.0, -2.0, -1.0),
]  # fmt: skip


@grouped("case", LISTED, ids=str)
def test_special_cases_that_the_specification_lists(case):
    name, *operands, want = case
    for shape in ((), (3,), (40,)):  # alone, in a short row and in one that is long enough for vector instructions
        arrays = [xp.full(shape, x, dtype=xp.float64) for x in operands]
        close(getattr(xp, name)(*arrays), numpy.full(shape, want), str(case), exact=want != math.hypot(1e300, 1e300))


@grouped("name", [n for n, (kinds, *_) in UNARY.items() if "f" in kinds])
def test_special_values_of_one_array(name):
    with numpy.errstate(all="ignore"):
        agree(f"xp.{name}(a)", numpy.array(VALUES))
        want = getattr(numpy, name)(numpy.array(VALUES))
        if want.dtype.kind == "f":  # the sign of zeros too
            got = getattr(xp, name)(xp.asarray(VALUES, dtype=xp.float64)).numpy()
            zero = want == 0
            assert (numpy.signbit(got) == numpy.signbit(want))[zero].all()


@grouped("name", [n for n, kinds in BINARY.items() if "f" in kinds] + ["pow"])
def test_special_values_of_two_arrays(name):
    one, other = (numpy.array(x) for x in numpy.meshgrid(VALUES, VALUES))  # whole arrays: NumPy's pow of a row and one number differs
    with numpy.errstate(all="ignore"):
        want = getattr(numpy, name)(one, other)
    note = f"{name} of {VALUES}"
    close(getattr(xp, name)(xp.asarray(one), xp.asarray(other)), want, note)
    rows = xp.asarray(VALUES, dtype=xp.float64)
    close(getattr(xp, name)(rows, rows[:, None]), want, note)
    for i, value in enumerate(VALUES):
        close(getattr(xp, name)(rows, value), want[i], f"{note}, {value}")
        close(getattr(xp, name)(value, rows), want[:, i], f"{value}, {note}")


COMPLEX = ["acos", "acosh", "asin", "asinh", "atan", "atanh", "cos", "cosh", "exp", "log", "log10", "sin", "sinh", "sqrt", "tan", "tanh"]
PARTS = [INF, -INF, 0.0, -0.0, 1.0, -1.0, 0.5, -2.0]
HALF = math.pi / 2
NO_NUMBER = [  # of operands that are no numbers in part, what the specification lists
    ("acos", complex(0, NAN), complex(HALF, NAN)), ("acos", complex(NAN, INF), complex(NAN, -INF)), ("acosh", complex(-INF, NAN), complex(INF, NAN)),
    ("acosh", complex(NAN, INF), complex(INF, NAN)), ("asinh", complex(INF, NAN), complex(INF, NAN)), ("atanh", complex(0, NAN), complex(0, NAN)),
    ("atanh", complex(NAN, INF), complex(0, HALF)), ("cosh", complex(INF, NAN), complex(INF, NAN)), ("cosh", complex(NAN, 1), complex(NAN, NAN)),
    ("exp", complex(NAN, 0), complex(NAN, 0)), ("exp", complex(-INF, NAN), complex(0, 0)), ("exp", complex(1, INF), complex(NAN, NAN)),
    ("expm1", complex(NAN, 0), complex(NAN, 0)), ("expm1", complex(-INF, NAN), complex(-1, 0)), ("expm1", complex(INF, 0), complex(INF, 0)),
    ("log", complex(NAN, INF), complex(INF, NAN)), ("log", complex(-INF, NAN), complex(INF, NAN)), ("log", complex(NAN, 1), complex(NAN, NAN)),
    ("log1p", complex(NAN, INF), complex(INF, NAN)), ("log1p", complex(-INF, NAN), complex(INF, NAN)), ("sinh", complex(NAN, 0), complex(NAN, 0)),
    ("sinh", complex(0, NAN), complex(0, NAN)), ("sqrt", complex(NAN, INF), complex(INF, INF)), ("sqrt", complex(INF, NAN), complex(INF, NAN)),
    ("tanh", complex(NAN, 0), complex(NAN, 0)), ("tanh", complex(0, NAN), complex(0, NAN)), ("abs", complex(NAN, INF), INF),
    ("abs", complex(NAN, 0), NAN), ("isinf", complex(NAN, INF), True), ("isnan", complex(NAN, INF), True), ("isfinite", complex(1, NAN), False),
    ("sign", complex(NAN, 1), complex(NAN, NAN)), ("sign", 0j, 0j), ("sign", complex(3, -4), complex(0.6, -0.8)),
    ("round", complex(0.5, -2.5), complex(0, -2)), ("square", 2j, complex(-4, 0)),
]  # fmt: skip


def parts_agree(got, want, zeros, note):
    """Both parts agree; where one is NaN C99 leaves the sign of the other open, and where `zeros` those of zeros count too."""
    got, want = complex(got), complex(want)
    open_signs = math.isnan(want.real) or math.isnan(want.imag)
    for one, other in ((got.real, want.real), (got.imag, want.imag)):
        one, other = (abs(one), abs(other)) if open_signs else (one, other)
        assert math.isnan(one) and math.isnan(other) or math.isclose(one, other, rel_tol=1e-12, abs_tol=1e-15), note
        assert not zeros or other != 0 or math.copysign(1, one) == math.copysign(1, other), note


@grouped("case", NO_NUMBER, ids=str)
def test_complex_numbers_of_which_a_part_is_no_number(case):
    name, z, want = case
    for n in (1, 40):
        got = getattr(xp, name)(xp.full((n,), z, dtype=xp.complex128))
        assert got.dtype is {bool: xp.bool, float: xp.float64, complex: xp.complex128}[type(want)]
        parts_agree(got[-1].item(), want, False, (case, got))


SIGNED = [  # where the specification names the sign of a zero, and what its symmetries make of it
    *(("expm1", complex(a, b), complex(0, b)) for a in (0.0, -0.0) for b in (0.0, -0.0)),
    *(("tanh", complex(sign * INF, b), complex(sign, math.copysign(0, b))) for sign in (1, -1) for b in (2.0, -2.0, 3e153, -0.0, -INF)),
]


@grouped("case", SIGNED, ids=str)
def test_complex_zeros_have_the_sign_that_the_specification_names(case):
    name, z, want = case
    for dtype in (xp.complex64, xp.complex128) if abs(z.imag) < 1e38 else (xp.complex128,):
        parts_agree(getattr(xp, name)(xp.full((3,), z, dtype=dtype))[1].item(), want, True, case)
    x = xp.asarray([0.3 - 0.7j, -1.1 + 0.2j], dtype=xp.complex128).requires_grad_()
    assert engine.autograd.gradcheck(getattr(xp, name), (x,))


@grouped("name", COMPLEX)
def test_special_values_of_complex_numbers(name):
    """As C99 has them, which Python's cmath follows; it raises at poles and where the result is no number."""
    for a, b in itertools.product(PARTS, repeat=2):
        z = complex(a, b)
        try:
            want = getattr(cmath, name)(z)
        except (ValueError, OverflowError):
            continue
        got = getattr(xp, name)(xp.asarray([z] * 5, dtype=xp.complex128))[4].item()
        parts_agree(got, want, math.isfinite(a) and math.isfinite(b), (name, z, got, want))


# -- along axes ----------------------------------------------------------------------------------------------------------------

REDUCTIONS = {
    "all": "bifc",
    "any": "bifc",
    "count_nonzero": "bifc",
    "max": "if",
    "mean": "f",
    "min": "if",
    "prod": "ifc",
    "std": "f",
    "sum": "ifc",
    "var": "f",
}
AXES = [None, 0, -1, (0,), (0, -1), (-1, 0), ()]


@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions(name):
    for d in itertools.chain.from_iterable(KINDS[k] for k in REDUCTIONS[name]):
        for shape in ((), (4,), (2, 3), (0, 3), (2, 3, 2)):
            x = sample(shape, d)
            for axis, keep in itertools.product(AXES, (False, True)):
                empty = name in ("max", "min") and 0 in shape and axis != -1 or name in ("mean", "std", "var") and 0 in shape
                if not empty:  # of no elements there is none that is largest; the mean is NaN, or an error
                    axis = None if not shape or isinstance(axis, tuple) and axis and len(shape) < 2 else axis
                    agree(f"xp.{name}(a, axis=n, keepdims=k)", x, n=axis, k=keep)
            agree(f"xp.{name}(a, axis=7)", x)
    if name in ("sum", "prod"):
        for d, to in [("int8", "int16"), ("int32", "float64"), ("float32", "float64"), ("float32", "complex64"), ("uint8", "uint8")]:
            agree(f"xp.{name}(a, axis=0, dtype=xp.{to})", sample((2, 3), d))
    if name in ("std", "var"):
        for correction in (0, 1, 0.5):
            agree(f"xp.{name}(a, axis=1, correction=c)", sample((3, 4), "float64"), c=correction)


@pytest.mark.parametrize("name", ["cumulative_sum", "cumulative_prod"])
def test_running_sums_and_products(name):
    for d in itertools.chain(INTS, KINDS["f"], KINDS["c"]):
        for shape, axis in [((4,), None), ((4,), 0), ((2, 3), 0), ((2, 3), -1), ((2, 0, 3), 1), ((2, 3), None), ((3,), 5), ((0,), None)]:
            for initial in (False, True):
                agree(f"xp.{name}(a, axis=n, include_initial=i)", sample(shape, d), n=axis, i=initial)
    agree(f"xp.{name}(a, axis=0, dtype=xp.float64)", sample((3, 2), "int16"))


CALLS = {  # of arrays of these shapes, in every dtype of these kinds
    "xp.argmax(a, axis=n)": ("if", [(3, 4)], [None, 0, -1, 5]),
    "xp.argmin(a, axis=n, keepdims=True)": ("if", [(3, 4)], [None, 0, -1]),
    "xp.argsort(a, axis=n, stable=True)": ("if", [(5,), (3, 4), (0, 2)], [0, -1, 4]),
    "xp.sort(a, axis=n)": ("if", [(5,), (3, 4), (0, 2)], [0, -1, 4]),
    "xp.nonzero(a)": ("bifc", [(5,), (3, 4), (0,), ()], [None]),
    "xp.flip(a, axis=n)": ("bifc", [(), (3,), (2, 3)], [None]),
    "xp.flip(a, axis=n)+0": ("ifc", [(2, 3)], [None, 0, -1, (0, 1), (1, -2), 2]),
    "xp.expand_dims(a, axis=n)": ("if", [(), (2, 3)], [0, -1, (0, 2), (-1, 0), 5, (0, 0)]),
    "xp.squeeze(a, axis=n)": ("if", [(1, 3, 1)], [0, -1, (0, 2), 1, (0, 1), 3]),
    "xp.moveaxis(a, n, 0)": ("if", [(2, 3, 4)], [0, 1, -1, 3]),
    "xp.moveaxis(a, n, (0, 1))": ("if", [(2, 3, 4)], [(0, 2), (-1, 0)]),
    "xp.permute_dims(a, n)": ("if", [(2, 3, 4)], [(0, 1, 2), (2, 0, 1), (-1, 0, 1), (0, 0, 1)]),
    "xp.reshape(a, n)": ("bifc", [(2, 6), (0, 4)], [(-1,), (3, -1), (0, 4), (12,), (5,)]),
    "xp.roll(a, n)": ("bifc", [(), (5,), (2, 3)], [0, 2, -1, 9]),
    "xp.roll(a, n, axis=(0, 1))": ("ifc", [(2, 3)], [1, (1, -1), (5, 7)]),
    "xp.roll(a, 2, axis=n)": ("if", [(2, 3)], [0, -1, 2, (0, 1)]),
    "xp.tile(a, n)": ("bi", [(), (2, 3)], [(), (2,), (2, 2), (1, 3, 1), (0, 1)]),
    "xp.unstack(a, axis=n)": ("bifc", [(2, 3)], [0, -1, 1, 2]),
    "xp.repeat(a, n)": ("bifc", [(), (2, 3), (0,)], [0, 1, 3]),
    "xp.repeat(a, 2, axis=n)": ("if", [(2, 3)], [None, 0, -1, 3]),
    "xp.concat([a, a], axis=n)": ("bifc", [(2, 3), (0, 2)], [None, 0, -1, 2]),
    "xp.stack([a, a], axis=n)": ("bifc", [(), (2, 3)], [0, -1, 4]),
    "xp.broadcast_to(a, n)": ("bifc", [(), (3,), (2, 1)], [(2, 3), (4, 2, 3), (0, 3), (3,), (7,)]),
    "xp.tril(a, k=n)": ("bifc", [(3, 4), (2, 3, 3), (0, 2)], [0, 1, -1, 9]),
    "xp.triu(a, k=n)": ("bifc", [(3, 4), (2, 3, 3)], [0, 1, -1, -9]),
    "xp.diff(a, n=n)": ("if", [(5,), (2, 4)], [0, 1, 2, 6]),
    "xp.diff(a, axis=n, prepend=a, append=a)": ("if", [(2, 4)], [0, -1, 2]),
    "xp.meshgrid(a, a, indexing=n)": ("bifc", [(3,)], ["xy", "ij", "yx"]),
    "xp.meshgrid(a, a, a)": ("f", [(2,)], [None]),
    "xp.full_like(a, n)": ("if", [(), (2, 0), (2, 3)], [0, 1]),
    "xp.zeros_like(a)": ("bifc", [(), (2, 3)], [None]),
    "xp.ones_like(a)": ("bifc", [(), (2, 3)], [None]),
    "xp.astype(a, xp.float64)": ("bif", [(), (2, 3)], [None]),
    "xp.astype(a, xp.int8)": ("bif", [(), (2, 3)], [None]),
    "xp.astype(a, xp.bool)": ("bif", [(), (2, 3)], [None]),
    "xp.linalg.diagonal(a, offset=n)": ("bifc", [(3, 4), (2, 3, 3)], [0, 1, -1]),
    "xp.linalg.trace(a, offset=n)": ("ifc", [(3, 4), (2, 3, 3)], [0, 1, -1]),
    "xp.matrix_transpose(a)": ("bifc", [(2, 3), (2, 0, 3), (3,)], [None]),
    "xp.linalg.matrix_power(a, n)": ("fc", [(3, 3), (2, 3, 3)], [0, 1, 3]),
    "xp.linalg.vector_norm(a, axis=n)": ("fc", [(2, 3)], [None, 0, -1, (0, 1)]),
    "xp.linalg.vector_norm(a, axis=0, ord=n, keepdims=True)": ("fc", [(2, 3)], [0, 1, 2, 3, math.inf, -math.inf, -1, 0.5]),
    "xp.linalg.matrix_norm(a, ord=n)": ("fc", [(3, 4), (2, 3, 3)], ["fro", "nuc", 1, -1, 2, -2, math.inf, -math.inf]),
    "xp.linalg.matrix_norm(a, keepdims=True)": ("fc", [(2, 3, 3)], [None]),
    "xp.linalg.matrix_rank(a, rtol=n)": ("fc", [(3, 4), (2, 3, 3)], [None, 0.5]),
    "xp.linalg.pinv(a, rtol=n)": ("fc", [(3, 4), (2, 4, 2)], [None, 0.3]),
    "xp.linalg.svdvals(a)": ("fc", [(3, 4), (2, 3, 3)], [None]),
    "xp.linalg.det(a)": ("fc", [(3, 3), (2, 2, 2)], [None]),
    "xp.linalg.slogdet(a)": ("fc", [(3, 3), (2, 2, 2)], [None]),
    "xp.linalg.inv(a + 9 * xp.eye(3, dtype=a.dtype))": ("fc", [(3, 3), (2, 3, 3)], [None]),
    "xp.linalg.eigvalsh(a + xp.conj(xp.matrix_transpose(a)))": ("fc", [(3, 3), (2, 3, 3)], [None]),
    "xp.linalg.cholesky(a @ xp.conj(xp.matrix_transpose(a)) + xp.eye(3, dtype=a.dtype), upper=n)": ("fc", [(3, 4)], [False, True]),
    "xp.fft.fft(a, n=n)": ("fc", [(5,), (2, 4)], [None, 3, 7]),
    "xp.fft.ifft(a, axis=n, norm='ortho')": ("c", [(2, 4)], [0, -1]),
    "xp.fft.rfft(a, n=n, norm='forward')": ("f", [(5,), (2, 4)], [None, 3, 7]),
    "xp.fft.irfft(a, n=n)": ("c", [(5,), (2, 4)], [None, 3, 8]),
    "xp.fft.hfft(a, n=n)": ("c", [(5,), (2, 4)], [None, 6]),
    "xp.fft.ihfft(a, n=n)": ("f", [(5,), (2, 4)], [None, 6]),
    "xp.fft.fftn(a, s=(2, 5), axes=n)": ("c", [(2, 4), (3, 2, 4)], [(0, 1), (-1, 0)]),
    "xp.fft.fftn(a, axes=n, norm='ortho')": ("c", [(2, 4)], [(0, 1), (-1,)]),
    "xp.fft.irfftn(a, axes=n, norm='forward')": ("c", [(2, 4)], [(0, 1), (-1,)]),
    "xp.fft.ifftn(a, axes=n)": ("c", [(2, 4), (3, 2, 4)], [None, (0, 1), (-1,)]),
    "xp.fft.rfftn(a, axes=n)": ("f", [(2, 4), (3, 2, 4)], [None, (0, 1), (-1,)]),
    "xp.fft.irfftn(a, axes=n)": ("c", [(2, 4), (3, 2, 4)], [None, (0, 1), (-1,)]),
    "xp.fft.fftshift(a, axes=n)": ("fc", [(5,), (2, 4)], [None, 0, (0,)]),
    "xp.fft.ifftshift(a, axes=n)": ("fc", [(5,), (2, 4)], [None, 0, (0,)]),
}


@grouped("call", CALLS)
def test_calls(call):
    kinds, shapes, options = CALLS[call]
    for d in itertools.chain.from_iterable(KINDS[k] for k in kinds):
        for shape, option in itertools.product(shapes, options):
            agree(call, sample(shape, d), n=option)


PAIRED = {  # of two arrays of these shapes
    "xp.matmul(a, b)": (
        "ifc",
        [((3,), (3,)), ((2, 3), (3,)), ((3,), (3, 2)), ((2, 3), (3, 4)), ((5, 2, 3), (3, 2)), ((2, 1, 2, 3), (4, 3, 2))],
    ),
    "xp.linalg.matmul(a, b)": ("ifc", [((2, 0), (0, 3)), ((2, 3), (2, 3)), ((), (3,))]),
    "xp.tensordot(a, b, axes=1)": ("ifc", [((2, 3), (3, 4))]),
    "xp.tensordot(a, b, axes=0)": ("ifc", [((2,), (3,)), ((), (2,))]),
    "xp.tensordot(a, b)": ("ifc", [((4, 2, 3), (2, 3))]),
    "xp.tensordot(a, b, axes=((0, 1), (1, 0)))": ("ifc", [((2, 3, 4), (3, 2))]),
    "xp.vecdot(a, b)": ("ifc", [((3,), (3,)), ((2, 3), (3,)), ((2, 0), (2, 0)), ((4, 1, 3), (2, 3)), ((3,), (4,)), ((3,), (1,))]),
    "xp.vecdot(a, b, axis=-2)": ("ifc", [((3, 2), (3, 2)), ((3, 1), (5, 3, 4))]),
    "xp.linalg.outer(a, b)": ("ifc", [((3,), (4,)), ((0,), (2,))]),
    "xp.linalg.cross(a, b)": ("ifc", [((3,), (3,)), ((2, 3), (2, 3)), ((4,), (4,)), ((3,), (2, 3)), ((4, 1, 3), (2, 3)), ((2, 3), (1,))]),
    "xp.linalg.cross(a, b, axis=0)": ("ifc", [((3, 2), (3, 2))]),
    "xp.linalg.cross(a, b, axis=-2)": ("f", [((3, 1), (2, 3, 4))]),
    "xp.linalg.solve(a + 9 * xp.eye(3, dtype=a.dtype), b)": (
        "fc",
        [((3, 3), (3,)), ((3, 3), (3, 2)), ((2, 3, 3), (3,)), ((2, 3, 3), (3, 3)), ((3, 3, 3), (3, 3)), ((2, 3, 3), (2, 3, 1))],
    ),
    "xp.where(a > 0, a, b)": ("if", PAIRS),
    "xp.where(a > 0, a, 1)": ("if", PAIRS[:2]),
    "xp.isin(a, b, invert=True)": ("if", [((4,), (3,)), ((2, 3), (0,)), ((), (2, 2))]),
    "xp.broadcast_arrays(a, b)": ("bifc", [*PAIRS, ((2,), (3,))]),
    "xp.concat([a, b, a])": ("bifc", [((2, 3), (1, 3)), ((2,), (0,)), ((2, 3), (0,)), ((), ())]),
    "xp.stack([a, b], axis=1)": ("bifc", [((2, 3), (2, 3))]),
    "xp.searchsorted(xp.sort(a), b)": ("if", [((5,), (3,)), ((4,), (2, 3)), ((0,), (2,)), ((3,), ())]),
    "xp.searchsorted(a, b, side='right', sorter=xp.argsort(a))": ("if", [((5,), (3,)), ((4,), (2, 3))]),
    "xp.clip(a, max=b)": ("if", [((2, 3), (3,))]),
}


@grouped("call", PAIRED)
def test_calls_with_two_arrays(call):
    kinds, shapes = PAIRED[call]
    for one, other in promotable(kinds):
        if one == other or not ("clip" in call or one == "bool"):
            for shape, beside in shapes if one == other else shapes[:1]:
                x, y = sample(shape, one), sample(beside, other)
                agree(call, x, y) if one != "float64" or other != "complex64" or "concat" not in call else None


def test_factors_put_the_matrix_together_again():
    for d, shape in itertools.product([*KINDS["f"], *KINDS["c"]], [(3, 3), (4, 3), (2, 3, 4), (2, 0, 3)]):
        x = xp.asarray(sample(shape, d))
        loose = 1e-4 if d in ("float32", "complex64") else 1e-10
        for full in (False, True):
            found = xp.linalg.svd(x, full_matrices=full)
            size = found.S.shape[-1]
            back = found.U[..., :size] * found.S[..., None, :].to(x.dtype) @ found.Vh[..., :size, :]
            assert back.shape == x.shape and not back.numel() or xp.max(xp.abs(back - x)) < loose
            assert found._fields == ("U", "S", "Vh") and (found.U.shape[-1] == shape[-2]) >= full and found.S.dtype is xp.real(x).dtype
        for mode in ("reduced", "complete"):
            found = xp.linalg.qr(x, mode=mode)
            assert found._fields == ("Q", "R") and (not x.numel() or xp.max(xp.abs(found.Q @ found.R - x)) < loose)
        if shape[-1] == shape[-2]:
            whole = xp.linalg.eigh(x + xp.conj(xp.matrix_transpose(x)))
            vectors = whole.eigenvectors * whole.eigenvalues[..., None, :].to(x.dtype) @ xp.conj(xp.matrix_transpose(whole.eigenvectors))
            assert xp.max(xp.abs(vectors - x - xp.conj(xp.matrix_transpose(x)))) < loose * 10
            whole, wide = xp.linalg.eig(x), xp.astype(x, xp.complex128)
            assert whole.eigenvalues.dtype is xp.result_type(x.dtype, xp.complex64)
            pairs = wide @ xp.astype(whole.eigenvectors, xp.complex128) - whole.eigenvectors * whole.eigenvalues[..., None, :]
            assert xp.max(xp.abs(pairs)) < loose * 10
            near = xp.min(xp.abs(xp.linalg.eigvals(x)[:, None] - whole.eigenvalues[None, :]), axis=1)
            assert xp.max(near) < loose * 10
    with pytest.raises(ValueError, match="mode must be"):
        xp.linalg.qr(xp.ones((2, 2)), mode="r")


# -- order, sets, indices ------------------------------------------------------------------------------------------------------


def test_sorting_downwards_keeps_the_order_of_equal_elements():
    for d in [*INTS, *KINDS["f"], "bool"]:
        x = sample((3, 40), d)
        by_value = sorted(range(40), key=lambda i: -float(x[1, i]))  # Python's sort is stable
        assert xp.argsort(xp.asarray(x), descending=True)[1].tolist() == by_value
        assert xp.sort(xp.asarray(x), descending=True)[1].tolist() == x[1][by_value].tolist()
    close(xp.sort(xp.asarray([NAN, 1.0, -INF, INF, NAN])), numpy.array([-INF, 1, INF, NAN, NAN], "float32"), "NaN last")


def test_sets():
    for d in itertools.chain.from_iterable(KINDS.values()):
        for shape in ((), (0,), (7,), (3, 5), (2, 0)):
            x = sample(shape, d)
            for call in ("unique_counts", "unique_inverse", "unique_all"):
                agree(f"xp.{call}(a)", x)
            close(xp.unique_values(xp.asarray(x)), numpy.unique_counts(x).values, f"{d} {shape}")  # NumPy's own may be unsorted
    found = xp.unique_all(xp.asarray([NAN, 0.0, 1.0, -0.0, NAN], dtype=xp.float64))
    assert found._fields == ("values", "indices", "inverse_indices", "counts")
    assert found.values.tolist()[:2] == [0.0, 1.0] and found.counts.tolist() == [2, 1, 1, 1]  # each NaN is one of its own
    assert found.indices.tolist() == [1, 2, 0, 4] and found.inverse_indices.tolist() == [2, 0, 1, 0, 3]
    assert xp.unique_counts(xp.asarray([1 + NAN * 1j, 1 + 2j, 1 + NAN * 1j, 1 + 2j])).counts.tolist() == [2, 1, 1]


def test_elements_by_index():
    for d in itertools.chain.from_iterable(KINDS.values()):
        x = sample((3, 4), d)
        for kind in INTS:
            rows = numpy.array([2, 0, 0], kind)
            agree("xp.take(a, b, axis=0)", x, rows)
            agree("xp.take_along_axis(a, b, axis=0)", x, numpy.array([[2, 0, 1, 1]], kind))
        agree("xp.take(a, b, axis=-1)", x, numpy.array([-1, 0, -4]))
        agree("xp.take(a, b)", x[0], numpy.array([], "int64"))
        agree("xp.take_along_axis(a, b, axis=-1)", x, numpy.array([[-1, 0], [1, 1], [2, -4]]))
        agree("a[1, ...], a[:, -1], a[None, 1:3], a[..., ::2], a[a != 0], a[b, 1]", x, numpy.array([0, 2]))
    with pytest.raises(ValueError, match="needs an axis"):
        xp.take(xp.ones((2, 2)), xp.asarray([0]))
    assert xp.where(xp.asarray([True, False]), 1, 2).tolist() == [1, 2]
    agree("xp.repeat(a, b)", numpy.arange(3.0), numpy.array([0, 2, 1], "int16"))
    agree("xp.repeat(a, b, axis=1)", numpy.ones((2, 3)), numpy.array([2], "uint8"))


# -- making arrays, dtypes -----------------------------------------------------------------------------------------------------


def test_ranges():
    for d in [*INTS, *KINDS["f"]]:
        for numbers in ((5,), (1, 6), (1, 9, 2), (0, 0), (3, 1), (4, 0, -2), (0, 5, -1)):
            if "u" not in d or min(numbers) >= 0:
                agree(f"xp.arange(*n, dtype=xp.{d})", n=numbers)
        agree(f"xp.arange(0.0, 2.0, 0.5, dtype=xp.{d})") if d in KINDS["f"] else None
    assert xp.arange(3).dtype is xp.int64 and xp.arange(0, 1, 0.25).tolist() == [0, 0.25, 0.5, 0.75]
    assert xp.arange(3.0).dtype is xp.float32 and xp.arange(5, 1.0).dtype is xp.float32
    with pytest.raises(ValueError, match="step must not be 0"):
        xp.arange(0, 3, 0)
    for d in [*KINDS["f"], *KINDS["c"]]:
        for numbers, ends in itertools.product([(0, 1, 5), (1, 0, 4), (-2.5, 3, 1), (0, 1, 0), (2, 2, 3)], (True, False)):
            agree(f"xp.linspace(*n, dtype=xp.{d}, endpoint=e)", n=numbers, e=ends)
    assert xp.linspace(0, 1j, 3).dtype is xp.complex64 and xp.linspace(0, 1, 3).dtype is xp.float32


def test_arrays_of_one_number_and_unit_matrices():
    for d in itertools.chain.from_iterable(KINDS.values()):
        for shape in (3, (), (2, 0), (2, 3)):
            agree(f"xp.zeros(n, dtype=xp.{d}), xp.ones(n, dtype=xp.{d}), xp.full(n, 1, dtype=xp.{d})", n=shape)
            assert xp.empty(shape, dtype=getattr(xp, d)).dtype.name == d
        for sizes, k in itertools.product([(3,), (2, 4), (4, 2), (0, 3)], (0, 1, -2, 9)):
            agree(f"xp.eye(*n, k=k, dtype=xp.{d})", n=sizes, k=k)
        assert xp.empty_like(xp.ones((2, 3)), dtype=getattr(xp, d)).dtype.name == d
    assert not xp.any(xp.eye(2, 3, k=2**70)) and not xp.any(xp.eye(2, 3, k=-(2**63) - 1))
    made = [xp.full(2, True), xp.full(2, 1), xp.full(2, 1.0), xp.full(2, 1j), xp.zeros(2), xp.eye(2)]
    assert [x.dtype.name for x in made] == ["bool", "int64", "float32", "complex64", "float32", "float32"]


def test_asarray():
    for data, want in [
        (True, "bool"),
        ([1, 2], "int64"),
        ([[1.0], [2]], "float32"),
        (1j, "complex64"),
        ([], "float32"),
        ([True, 2], "int64"),
    ]:
        assert xp.asarray(data).dtype.name == want
    x = engine.ones(2, 3, requires_grad=True)
    assert xp.asarray(x) is x and xp.asarray(x, copy=False) is x and xp.asarray(x, dtype=xp.float32) is x
    assert xp.asarray(x, copy=True) is not x and xp.asarray(x, dtype=xp.float64).requires_grad
    there = numpy.zeros(3)
    xp.asarray(there)[0] = 7
    xp.asarray(there, copy=False)[1] = 8
    xp.asarray(there, copy=True)[2] = 9
    assert there.tolist() == [7, 8, 0]
    numbers = buffer("d", [1, 2])
    assert xp.asarray(numbers).dtype is xp.float64 and xp.asarray(memoryview(b"ab")).tolist() == [97, 98]
    xp.asarray(numbers)[0] = 5
    assert numbers[0] == 5
    backwards, swapped = numpy.arange(3)[::-1], numpy.array([1.5, 2], ">f4")
    assert xp.asarray(backwards).tolist() == [2, 1, 0] and xp.asarray(swapped).dtype is xp.float32 and xp.asarray(swapped)[0] == 1.5
    for refused in ([1], 1.0, b"ab", backwards, swapped):
        with pytest.raises(ValueError, match="copy=False forbids"):
            xp.asarray(refused, copy=False)
    with pytest.raises(ValueError, match="copy=False forbids"):
        xp.asarray(x, dtype=xp.int64, copy=False)


def test_promotion_looks_at_types_alone():
    for kinds in ("b", "i", "fc"):
        names = [name for kind in kinds for name in KINDS[kind]]
        for one, other in itertools.product(names, repeat=2):
            a, b = getattr(xp, one), getattr(xp, other)
            if "uint64" in (one, other) and "int" in (one[:3], other[:3]):
                with pytest.raises(TypeError, match="no integer type holds all of"):
                    xp.result_type(a, b)
                assert not xp.can_cast(a, b)
                continue
            want = numpy.result_type(one, other).name
            assert xp.result_type(a, b).name == xp.result_type(xp.ones((), dtype=a), xp.ones((2, 2), dtype=b)).name == want
            assert xp.can_cast(a, b) == numpy.can_cast(one, other) and xp.can_cast(xp.ones(2, dtype=a), b) == (want == other)
    assert xp.result_type(xp.int8, 300) is xp.int8 and xp.result_type(1.0, xp.float64, 2) is xp.float64
    assert xp.result_type(xp.float64, 1j) is xp.complex128 and xp.result_type(xp.bool, True) is xp.bool
    assert (xp.ones(2, dtype=xp.float32) * xp.ones((), dtype=xp.float64)).dtype is xp.float32  # the operators are PyTorch's
    for wrong in ((), (1, 2.0)):
        with pytest.raises(ValueError, match="at least one array or dtype"):
            xp.result_type(*wrong)
    for wrong in ((1, 2), ([1], xp.ones(1)), ("a", xp.ones(1)), (xp.ones(1), numpy.ones(1))):
        with pytest.raises(TypeError, match="expected arrays, and Python numbers beside at least one"):
            xp.add(*wrong)
    with pytest.raises(TypeError, match="abs: expected an array, got float"):
        xp.abs(-1.0)


def test_kinds_and_limits_of_dtypes():
    words = ["bool", "signed integer", "unsigned integer", "integral", "real floating", "complex floating", "numeric"]
    for name, word in itertools.product(KIND, words):
        assert xp.isdtype(getattr(xp, name), word) == numpy.isdtype(numpy.dtype(name), word)
    assert xp.isdtype(xp.int8, ("bool", xp.int8)) and not xp.isdtype(xp.int8, (xp.int16, "real floating")) and xp.isdtype(xp.bool, xp.bool)
    with pytest.raises(ValueError, match="'float'"):
        xp.isdtype(xp.int8, "float")
    for name in [*KINDS["f"], *KINDS["c"]]:
        got, want = xp.finfo(getattr(xp, name)), numpy.finfo(name)
        assert (got.bits, got.eps, got.max, got.min, got.smallest_normal) == (want.bits, want.eps, want.max, want.min, want.smallest_normal)
        assert got.dtype.name == want.dtype.name and got == xp.finfo(xp.ones(1, dtype=getattr(xp, name)))
    for name in INTS:
        got, want = xp.iinfo(getattr(xp, name)), numpy.iinfo(name)
        assert (got.bits, got.max, got.min, got.dtype.name) == (want.bits, want.max, want.min, name)
    for refused in (lambda: xp.finfo(xp.int8), lambda: xp.iinfo(xp.float32), lambda: xp.finfo("float32"), lambda: xp.iinfo(3)):
        with pytest.raises(TypeError):
            refused()
    x = xp.ones(2)
    assert xp.astype(x, xp.float32, copy=False) is x and xp.astype(x, xp.float32) is not x
    assert xp.astype(x, xp.int8, device="cpu").dtype is xp.int8


def test_what_the_namespace_tells_of_itself():
    info = xp.__array_namespace_info__()
    assert info.capabilities() == {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 64}
    assert xp.ones((1,) * 64).ndim == 64 and info.default_device() in info.devices() and str(info.devices()[0]) == "cpu"
    assert info.default_dtypes() == {
        "real floating": xp.float32, "complex floating": xp.complex64, "integral": xp.int64, "indexing": xp.int64
    }  # fmt: skip
    told = numpy.__array_namespace_info__()
    for kind in (None, "bool", "integral", "signed integer", "numeric", ("bool", "real floating"), ()):
        assert {name: d.name for name, d in info.dtypes(kind=kind).items()} == {name: name for name in told.dtypes(kind=kind)}
    for device in info.devices():
        assert xp.ones(1, device=device).device == device
    with pytest.raises(ValueError, match="expected a kind"):
        info.dtypes(kind="float")


# -- memory and gradients ------------------------------------------------------------------------------------------------------


def test_memory_is_shared_or_copied_as_asked():
    x = xp.arange(6)
    assert xp.reshape(x, (2, 3), copy=False).data_ptr() == xp.reshape(x, (2, 3)).data_ptr() == x.data_ptr()
    assert xp.reshape(x, (2, 3), copy=True).data_ptr() != x.data_ptr()
    with pytest.raises(ValueError, match="copy=False forbids"):
        xp.reshape(xp.matrix_transpose(xp.reshape(x, (2, 3))), (6,), copy=False)
    there = numpy.arange(3.0)
    assert xp.from_dlpack(there).data_ptr() == there.ctypes.data and xp.from_dlpack(there, copy=True).data_ptr() != there.ctypes.data
    assert numpy.from_dlpack(x)[5] == 5 and x.__dlpack_device__() == (1, 0)
    assert xp.from_dlpack(xp.ones(2), device=xp.ones(2).device).tolist() == [1, 1]
    assert x.__dlpack__(stream=-1, max_version=(1, 0), dl_device=(1, 0), copy=True) is not None
    assert all(isinstance(number, kind) for number, kind in [(complex(xp.ones(())), complex), (xp.arange(3)[2].__index__(), int)])
    assert xp.broadcast_shapes() == () and xp.broadcast_shapes((2, 1), (3,)) == (2, 3)
    with pytest.raises(ValueError):
        xp.broadcast_shapes((2,), (3,))
    with pytest.raises(ValueError, match="does not broadcast"):
        xp.broadcast_to(xp.ones((2, 3)), (3,))


def test_gradients_flow_through_the_namespace():
    def program(x):
        centred = xp.subtract(x, xp.mean(x, axis=0, keepdims=True))
        spread = xp.std(centred, axis=0, correction=1)
        parts = xp.concat([xp.divide(centred, spread), xp.flip(x, axis=1)], axis=0)
        kept = xp.where(xp.greater(parts, 0), parts, xp.multiply(0.1, parts))
        return xp.sum(xp.take(xp.cumulative_sum(xp.clip(kept, -2, 2), axis=0), xp.asarray([0, -1]), axis=0)) + xp.linalg.trace(
            xp.matmul(xp.matrix_transpose(x), x)
        )

    x = xp.asarray(RNG.uniform(-1, 1, (4, 3)), dtype=xp.float64).requires_grad_()
    assert engine.autograd.gradcheck(program, (x,))


def test_a_program_for_any_library_runs_here():
    def softmax(x, axis):
        names = x.__array_namespace__(api_version="2024.12")
        e = names.exp(x - names.max(x, axis=axis, keepdims=True))
        return e / names.sum(e, axis=axis, keepdims=True)

    x = sample((3, 5), "float64")
    numpy.testing.assert_allclose(softmax(xp.asarray(x), -1).numpy(), softmax(x, -1), 1e-12)


def test_subclasses_are_heard():
    class Counted(engine.Tensor):
        heard = []

        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            cls.heard.append(func.__name__)
            return super().__torch_function__(func, types, args, kwargs)

    x = engine.ones(3).as_subclass(Counted)
    for found, name in [(xp.add(x, 1), "add"), (xp.exp(x), "exp"), (xp.sum(x, axis=0), "sum"), (xp.fft.fft(x), "fft_fft")]:
        assert type(found) is Counted and name in Counted.heard
