"""Every op, found by looking: adding an op adds its tests. docs/add-an-op.md says what they need to know."""

from __future__ import annotations

import numpy
import pytest
import references
import tables
from tables import LETTER, MAKE, NO_KERNEL, REFUSED, Typed

import cases
import engine
from cases import call, draw, floating, inner, leaves, normal_like, rng_of, smooth
from engine import Tensor
from engine.base import dtypes
from engine.core import tape
from engine.core.op import Elementwise
from workbench.formulas import typeset

PROMOTION, SPECIALS = tables.stored("promotion"), tables.stored("specials")

# -- value -----------------------------------------------------------------------------------------------------------------


@cases.each("value")
def test_value(case):
    reference = references.TABLE.get(case.op.name)
    assert reference is not None, (
        f"{case.op.name} has nothing to be compared with: add an expression in NumPy or SciPy to its family's file in tests/engine/references, "
        "or write the reason why there is none into its exempt['value']"
    )
    xs = draw(case)
    expected = reference(list(xs), **case.attrs) if case.op.variadic else reference(*xs, **case.attrs)
    expected = expected if isinstance(expected, tuple) else (expected,)
    for precision, rtol in ((numpy.float64, 1e-10), (numpy.float32, 2e-5)):
        given = [x.astype(precision) if floating(x) and x.dtype.kind == "f" else x for x in xs]
        with engine.no_grad():
            found = call(case, leaves(given))
        assert len(found) == len(expected)
        for got, want in zip(found, expected, strict=True):
            want = numpy.asarray(want)
            assert got.shape == want.shape
            if want.dtype.kind in "fc":
                assert got.array.dtype.kind == want.dtype.kind
                assert numpy.allclose(got.array, want, rtol=rtol, atol=rtol, equal_nan=True), numpy.abs(got.array - want).max()
            else:
                assert numpy.array_equal(got.array, want)


@cases.each("large", lambda op: issubclass(op, Elementwise), first=True)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_large(case):
    """Kernels that work in blocks give what they give on small pieces, gradients too; nan and infinities are among the elements."""
    rng, xs = rng_of(case), draw(case)
    shape = (67, 611)
    large = [
        rng.uniform(*case.op.domain, shape) if floating(x) and x.dtype.kind == "f" else numpy.asarray(rng.choice(numpy.ravel(x), shape))
        for x in xs
    ]
    for x in large:
        if x.dtype.kind == "f":
            x.flat[rng.integers(x.size, size=40)] = rng.choice([numpy.nan, numpy.inf, -numpy.inf, 0.0], 40)
    for precision in (numpy.float64, numpy.float32):
        given = [x.astype(precision) if x.dtype.kind == "f" else x for x in large]
        inputs, w = leaves(given), rng.normal(size=shape).astype(precision)
        (out,) = call(case, inputs)
        found = gradients([out], inputs, [w]) if smooth(case, (out,)) else []
        for row in (0, 33, 66):
            pieces = leaves([x[row].copy() for x in given])
            (piece,) = call(case, pieces)
            assert numpy.allclose(out.array[row], piece.array, rtol=1e-6, equal_nan=True)
            for g, expected in zip(found, gradients([piece], pieces, [w[row]]) if found else [], strict=True):
                assert (g is None) == (expected is None)
                assert g is None or numpy.allclose(g.array[row], expected.array, rtol=1e-5, atol=1e-6, equal_nan=True)


# -- derivatives -----------------------------------------------------------------------------------------------------------


def weighed(case, ws):
    """The op made into a function from arrays to a number: the inner product of its results with fixed weights."""

    def f(xs):
        with engine.no_grad():
            results = smooth(case, call(case, [engine.tensor(x) if isinstance(x, numpy.ndarray) else x for x in xs]))
        return sum(inner(w, r.array) for w, r in zip(ws, results, strict=True))

    return f


def slope(f, xs, i, t, h=1e-6):
    """The derivative of f along t in its i-th argument, by central difference."""
    at = lambda step: f([numpy.asarray(x + step * t) if j == i else x for j, x in enumerate(xs)])  # noqa: E731
    return (at(h) - at(-h)) / (2 * h)


def close(a, b, tolerance):
    return abs(a - b) <= tolerance * max(1.0, abs(a), abs(b))


def started(case):
    """Inputs, leaves, results with a gradient, and weights for these."""
    xs, rng = draw(case), rng_of(case)
    inputs = leaves(xs)
    results = smooth(case, call(case, inputs))
    return xs, rng, inputs, results, [normal_like(r.array, rng) for r in results]


def gradients(results, inputs, ws, create_graph=False):
    """One gradient, or None, for each input."""
    live = [(r, engine.tensor(w)) for r, w in zip(results, ws, strict=True) if r.requires_grad]
    wanted = [x for x in inputs if isinstance(x, Tensor) and x.requires_grad]
    if not live or not wanted:
        return [None] * len(inputs)
    outputs, seeds = zip(*live, strict=True)
    found = iter(engine.autograd.grad(outputs, wanted, seeds, create_graph=create_graph, allow_unused=True))
    return [next(found) if isinstance(x, Tensor) and x.requires_grad else None for x in inputs]


@cases.each("reverse")
def test_reverse(case):
    xs, rng, inputs, results, ws = started(case)
    f = weighed(case, ws)
    for i, (x, g) in enumerate(zip(xs, gradients(results, inputs, ws), strict=True)):
        if not floating(x):
            continue
        if g is not None:
            assert g.shape == x.shape and g.array.dtype == x.dtype
        t = normal_like(x, rng)
        found, expected = 0.0 if g is None else inner(g.array, t), slope(f, xs, i, t)
        assert close(found, expected, 1e-6), f"input {i}: backward gives {found}, the slope is {expected}"


@cases.each("forward", lambda op: op.ruled)
def test_forward(case):
    xs, rng, inputs, results, ws = started(case)
    tangents = [normal_like(x, rng) if floating(x) else None for x in xs]
    pulled = sum(inner(g.array, t) for g, t in zip(gradients(results, inputs, ws), tangents, strict=True) if g is not None)
    given = {x.node: t for x, t in zip(inputs, tangents, strict=True) if t is not None}
    pushed = 0.0
    for w, r in zip(ws, smooth(case, call(case, inputs)), strict=True):
        if r.node is not None:
            along = tape.push_forward(r.node, dict(given), numpy)
            assert along is None or numpy.shape(along) == r.shape
            pushed += 0.0 if along is None else inner(w, along)
    assert close(pulled, pushed, 1e-9), f"reverse mode gives {pulled}, forward mode {pushed}"


@cases.each("second", lambda op: op.ruled)
def test_second(case):
    xs, rng, inputs, results, ws = started(case)
    if not any(r.requires_grad for r in results):
        assert not any(x.requires_grad for x in inputs if isinstance(x, Tensor)), "no result depends on the inputs"
        return
    us = [normal_like(x, rng) if floating(x) else None for x in xs]

    def first(inputs):
        """A number made of the first derivative of sum(w * out + out * out / 2): also ops that are linear then have a second one."""
        with engine.enable_grad():
            results = smooth(case, call(case, inputs))
            total = None
            for r, w in zip(results, ws, strict=True):
                if r.requires_grad:
                    real = (r.conj() * (engine.tensor(w) + r * 0.5)).real if r.is_complex() else r * (engine.tensor(w) + r * 0.5)
                    total = real.sum() if total is None else total + real.sum()
            wanted = [x for x in inputs if isinstance(x, Tensor) and x.requires_grad]
            found = iter(engine.autograd.grad(total, wanted, create_graph=True, allow_unused=True))
            value = engine.tensor(0.0, dtype=engine.float64)
            for x, u in zip(inputs, us, strict=True):
                g = next(found) if isinstance(x, Tensor) and x.requires_grad else None
                if g is not None:
                    along = g * engine.tensor(u.conj())
                    value = value + (along.real.sum() if along.is_complex() else along.sum())
        return value

    value = first(inputs)
    wanted = [x for x in inputs if isinstance(x, Tensor) and x.requires_grad]
    found = iter(engine.autograd.grad(value, wanted, allow_unused=True)) if value.requires_grad else iter([None] * len(wanted))
    for i, x in enumerate(xs):
        if floating(x):
            t, g = normal_like(x, rng), next(found)
            expected = slope(lambda moved: first(leaves(moved)).item(), xs, i, t, h=1e-5)
            got = 0.0 if g is None else inner(g.array, t)
            assert close(got, expected, 2e-5), f"input {i}: the second derivative gives {got}, the slope of the first is {expected}"


@pytest.mark.parametrize("precision", ["float16", "bfloat16"])
@cases.each("low_precision")
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_low_precision(case, precision):
    """float16 and bfloat16 are computed in float32 and rounded once: near float64 on the same numbers, gradients too."""
    d, tolerance = dtypes.BY_NAME[precision], {"float16": 1e-2, "bfloat16": 6e-2}[precision]
    rounded = [x.astype(d.numpy) if floating(x) and x.dtype.kind == "f" else x for x in draw(case)]
    whole = [x.astype(numpy.float64) if isinstance(x, numpy.ndarray) and x.dtype == d.numpy else x for x in rounded]
    inputs, exact = leaves(rounded), leaves(whole)
    for x, y in zip(inputs, exact, strict=True):
        if isinstance(x, Tensor) and y.requires_grad:
            x.requires_grad_()
    try:
        found = call(case, inputs)
    except (RuntimeError, TypeError) as error:
        known = PROMOTION.get(case.op.name)
        if known is not None:
            answers = tables.unpacked(known["answers"], tables.promotion_questions(case, draw(case)))
            assert answers[LETTER[d]] in (REFUSED, NO_KERNEL), error
        else:
            assert case.op.home == "", error  # only rules call it, for ops that refuse these dtypes
        return
    expected = call(case, exact)
    near = lambda a, b: numpy.allclose(a.array.astype(b.array.dtype), b.array, rtol=tolerance, atol=tolerance, equal_nan=True)  # noqa: E731
    for a, b in zip(found, expected, strict=True):
        assert a.shape == b.shape and near(a, b)
    ready = [(a, b) for a, b in zip(smooth(case, found), smooth(case, expected), strict=True) if b.requires_grad]
    ws = [normal_like(b.array, rng_of(case)) for _, b in ready]
    theirs = gradients([b for _, b in ready], exact, ws)
    ours = gradients([a for a, _ in ready], inputs, [w.astype(a.array.dtype) for (a, _), w in zip(ready, ws, strict=True)])
    for x, a, b in zip(inputs, ours, theirs, strict=True):
        assert (a is None) == (b is None)
        assert a is None or (a.dtype is x.dtype and near(a, b))


# -- shapes and layouts ----------------------------------------------------------------------------------------------------

BROADCAST = ((2, 1, 3), (4, 1), (1,), (2, 4, 3), ())  # the shapes that an elementwise op's inputs get, in turn


@cases.each("broadcasting", lambda op: issubclass(op, Elementwise) and len(op.inputs) > 1, first=True)
def test_broadcasting(case):
    op, rng = case.op, rng_of(case)
    xs = [
        numpy.asarray(rng.uniform(*op.domain, BROADCAST[i])) if isinstance(spec, tuple) else draw(case)[i]
        for i, spec in enumerate(case.inputs)
    ]
    for i, spec in enumerate(case.inputs):
        if isinstance(spec, list):
            xs[i] = numpy.asarray(rng.choice(numpy.ravel(spec), BROADCAST[i]))
    shape = numpy.broadcast_shapes(*[x.shape for x in xs if x is not None])
    inputs, whole = leaves(xs), leaves([None if x is None else numpy.broadcast_to(x, shape).copy() for x in xs])
    (out,), (expected,) = call(case, inputs), call(case, whole)
    assert out.shape == shape and numpy.array_equal(out.array, expected.array)
    if not out.requires_grad:
        return
    w = rng.normal(size=shape)
    for x, g, spread in zip(xs, gradients([out], inputs, [w]), gradients([expected], whole, [w]), strict=True):
        if spread is not None:
            lead = spread.ndim - x.ndim
            axes = (*range(lead), *(lead + d for d, n in enumerate(x.shape) if n == 1))
            assert g.shape == x.shape and numpy.allclose(g.array, spread.array.sum(axes).reshape(x.shape))


def strided(x):
    """The same values in memory that is neither contiguous nor in order."""
    wide = numpy.zeros((*x.shape[:-1], 2 * x.shape[-1]), x.dtype) if x.ndim else x
    if x.ndim:
        wide[..., ::-2] = x
    return wide[..., ::-2] if x.ndim else x


@pytest.mark.parametrize("layout", ["transposed", "strided"])
@cases.each("noncontiguous")
def test_noncontiguous(case, layout):
    xs = draw(case)
    place = (lambda x: x.copy(order="F")) if layout == "transposed" else strided
    inputs, odd = leaves(xs), [Tensor._wrap(place(x)) if isinstance(x, numpy.ndarray) else x for x in xs]
    for x, array in zip(odd, xs, strict=True):
        if floating(array):
            x.requires_grad_()
    expected, found = call(case, inputs), call(case, odd)
    for a, b in zip(found, expected, strict=True):
        assert a.shape == b.shape and a.dtype is b.dtype
        assert numpy.allclose(a.array, b.array, rtol=1e-12, atol=1e-14, equal_nan=True)
    ws = [normal_like(r.array, rng_of(case)) for r in smooth(case, expected)]
    for a, b in zip(gradients(smooth(case, found), odd, ws), gradients(smooth(case, expected), inputs, ws), strict=True):
        assert (a is None) == (b is None)
        assert a is None or numpy.allclose(a.array, b.array, rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("layout", ["rows", "transposed"])
@cases.each("meta")
def test_meta(case, layout):
    """Without memory the results, and the gradients, have the shapes, dtypes and strides that they have in memory."""
    xs = [x.copy(order="F") if layout == "transposed" and isinstance(x, numpy.ndarray) else x for x in draw(case)]
    inputs = [Tensor._wrap(x).requires_grad_(floating(x)) if isinstance(x, numpy.ndarray) else x for x in xs]
    places = [x.detach().to("meta").requires_grad_(x.requires_grad) if isinstance(x, Tensor) else x for x in inputs]
    if "device" in case.op.params:
        case = case._replace(attrs={**case.attrs, "device": "meta", "source": "meta"})
    try:
        expected = call(case, inputs)
    except RuntimeError as error:  # a view that these strides do not allow
        with pytest.raises(type(error)):
            call(case, places)
        return
    found = call(case, places)
    told = lambda x: (x.dtype, x.shape, [s for s, n in zip(x.stride(), x.shape, strict=True) if n > 1])  # noqa: E731
    assert all(x.is_meta for x in found) and [*map(told, found)] == [*map(told, expected)]
    seeds = [[numpy.ones(x.shape, x.array.dtype) for x in smooth(case, expected)], [x.detach() for x in smooth(case, found)]]
    wanted, came = gradients(smooth(case, expected), inputs, seeds[0]), gradients(smooth(case, found), places, seeds[1])
    assert [told(g)[:2] if g is not None else None for g in came] == [told(g)[:2] if g is not None else None for g in wanted]
    assert all(g is None or g.is_meta for g in came)


ZERO_SIZE = tables.stored("zero_size")


@cases.each("zero_size")
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_zero_size(case):
    answers = ZERO_SIZE.get(case.op.name, {}).get(case.key)
    assert answers is not None, f"PyTorch's answers for {case} are not stored: {MAKE} {case.op.name}"
    for size, emptied in tables.zero_sizes(case).items():
        inputs = leaves(draw(emptied))
        if answers[size] is None:
            with pytest.raises((RuntimeError, IndexError, ValueError)):
                call(emptied, inputs)
            continue
        results = call(emptied, inputs)
        assert [list(r.shape) for r in results] == answers[size], f"with {size} set to 0"
        ready = smooth(case, results)
        for x, g in zip(inputs, gradients(ready, inputs, [numpy.ones(r.shape, r.array.dtype) for r in ready]), strict=True):
            assert g is None or g.shape == x.shape


# -- promotion, special values ---------------------------------------------------------------------------------------------


def letters(case, inputs):
    """The letters of the results' dtypes, or "-" for a refusal."""
    inputs = [
        engine.tensor(x.values.astype(x.dtype.numpy)) if isinstance(x, Typed) else engine.tensor(x) if isinstance(x, numpy.ndarray) else x
        for x in inputs
    ]
    try:
        return "".join(LETTER[r.dtype] for r in call(case, inputs))
    except (RuntimeError, TypeError, IndexError, ValueError):
        return REFUSED


@cases.each("promotion", first=True)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_promotion(case):
    """The dtype of the result, or that there is none, for all dtypes: complex32, which the engine does not have, is left out."""
    expected = PROMOTION.get(case.op.name)
    assert expected is not None and expected["key"] == case.key, f"PyTorch's answers for {case} are not stored: {MAKE} {case.op.name}"
    questions = tables.promotion_questions(case, draw(case))
    wrong = {}
    for key, want in tables.unpacked(expected["answers"], questions).items():
        if want != NO_KERNEL and (found := letters(case, questions[key])) != want:
            wrong[key] = f"{found}, not {want}"
    assert wrong == {}


@cases.each("specials", tables.has_specials, first=True)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_specials(case):
    """Values at infinities, both zeros, nan and ties as PyTorch has them; gradients, too, where all inputs are finite."""
    expected = SPECIALS.get(case.op.name)
    assert expected is not None and expected["key"] == case.key, f"PyTorch's answers for {case} are not stored: {MAKE} {case.op.name}"
    xs = tables.special_inputs(case)
    inputs = leaves(xs)
    (out,) = call(case, inputs)
    assert numpy.allclose(out.array, expected["value"], rtol=1e-9, atol=1e-12, equal_nan=True)
    finite, largest = numpy.isfinite(xs).all(0), 1e30  # PyTorch's slopes of some special functions are only large where they are infinite
    for g, want in zip(gradients([out], inputs, [numpy.ones(out.shape)]), expected.get("grads", [None] * len(xs)), strict=True):
        found = numpy.clip(numpy.zeros(out.shape) if g is None else g.array, -largest, largest)
        want = numpy.clip(numpy.zeros(out.shape) if want is None else want, -largest, largest)
        wrong = finite & ~numpy.isclose(found, want, rtol=1e-6, atol=1e-12, equal_nan=True)
        assert not wrong.any(), f"gradients {found[wrong]}, not {numpy.array(want)[wrong]}, at {numpy.array(xs)[:, wrong]}"


# -- what was overwritten ----------------------------------------------------------------------------------------------------

OVERWRITTEN = tables.stored("overwritten")
# Ops that refuse where PyTorch does not, which keeps something else that it has computed on the way.
STRICTER = {
    "tanhshrink": "PyTorch keeps tanh(x)", "ndtr": "PyTorch keeps x / sqrt(2)", "l1_loss": "PyTorch keeps the difference",
    "cross_entropy": "PyTorch keeps a second array of the scores' size, their logarithmic softmax",
    "matmul": "PyTorch keeps a copy where it folds dimensions into one", "rms_norm": "PyTorch keeps the normalized input",
    "qr": "the same rule serves forward mode, which starts from the input", "eigh": "as qr", "eigvalsh": "as qr", "svd": "as qr",
    "svdvals": "as qr", "eig": "as qr", "eigvals": "as qr",
}  # fmt: skip


@cases.each("overwritten", lambda op: op.ruled and not op.variadic)
def test_overwritten(case):
    """After an input or a result was set to 0, backward() refuses, or gives the gradients as if it had not been; and gives them where
    PyTorch does.
    """
    xs = draw(case)
    answers = OVERWRITTEN.get(case.op.name, {}).get(case.key)
    if case.op.name not in OVERWRITTEN:  # PyTorch has no function of this name: right or refused
        answers = [tables.SPOILED * len([*xs, *case.op.outputs])] * len(tables.asking(xs))
    assert answers is not None, f"PyTorch's answers for {case} are not stored: {MAKE} {case.op.name}"

    def gradients_after(asking, place):
        sources = [engine.tensor(x, requires_grad=i in asking) if isinstance(x, numpy.ndarray) else x for i, x in enumerate(xs)]
        inputs = [x * 1 if floating(x_) else x for x, x_ in zip(sources, xs, strict=True)]
        results = call(case, inputs)
        live = [r for r in results if r.requires_grad]
        target = None if place is None else [*inputs, *results][place]
        if isinstance(target, Tensor) and (target.is_floating_point() or target.is_complex()):
            with engine.no_grad():
                target.zero_()
        engine.autograd.backward(live, [engine.ones_like(r) for r in live])
        return [sources[i].grad for i in asking]

    for asking, letters in zip(tables.asking(xs), answers, strict=True):
        for place, letter in enumerate(letters):
            if letter == tables.NOT_ASKED:
                continue
            try:
                found = gradients_after(asking, place)
            except RuntimeError as error:
                assert "modified by an inplace operation" in str(error)
                assert letter == tables.SPOILED or case.op.name in STRICTER, f"{case}: {asking}, {place}"
                continue
            for got, want in zip(found, gradients_after(asking, None), strict=True):
                numpy.testing.assert_array_equal(got, want, err_msg=f"{case}: {asking}, {place}")


# -- words -----------------------------------------------------------------------------------------------------------------


def operand(tensor, name=""):
    if isinstance(tensor, Tensor):
        return typeset.Operand(name, tuple(tensor.shape), tensor.detach().numpy(), id(tensor))
    return None if tensor is None else typeset.Operand(name, (), tensor, None, number=True)


@cases.each("typesetting", first=True)
def test_typesetting(case):
    """The formula of the op and of each of its rules, written from the code itself where an op is elementwise, at all three depths."""
    inputs = leaves(draw(case))
    results = call(case, inputs)
    out, inputs = results[0], [*inputs, *[None] * (0 if case.op.variadic else len(case.op.inputs) - len(inputs))]
    operands = [operand(x) for x in inputs]
    formula = typeset.forward(case.op, case.attrs, operands, operand(out))
    assert typeset.as_text(formula.symbols) and typeset.as_text(formula.shapes)
    seeds = [numpy.ones(r.shape, r.array.dtype) for r in smooth(case, results)]
    for i, g in enumerate(gradients(smooth(case, results), inputs, seeds)):
        if g is not None:
            rule = typeset.backward(case.op, case.attrs, operands, operand(out), i, numpy.ones(out.shape), g.array)
            text = typeset.as_text(rule.symbols)
            assert text and typeset.as_text(rule.shapes)
            if issubclass(case.op, Elementwise):
                assert "\u2202" not in text, f"the rule for input {i} cannot be run on symbols: {text}"


@cases.each_op()
def test_docstring(op):
    assert op.__doc__, f"{op.name} has no docstring"
    first = op.__doc__.strip().split("\n\n")[0].replace("\n", " ")
    assert first.endswith(".") and len(first.split()) >= 3, f"{op.name}: the docstring begins with one sentence, not {first!r}"


TESTS = {name.removeprefix("test_") for name in globals() if name.startswith("test_")}


@cases.each_op(lambda op: bool(op.exempt))
def test_exemptions_have_reasons(op):
    for test, reason in op.exempt.items():
        assert test in TESTS - {"docstring", "typesetting"}, f"{op.name} is exempt from {test!r}, which is no test here"
        assert len(reason) >= 20 and reason.endswith(".") and " " in reason, f"{op.name}, {test}: {reason!r} is not a reason"


@cases.each_op()
def test_calls_are_declared(op):
    declared = cases.of(op)
    assert declared, f"{op.name} has no samples"
    for case in declared:
        assert op.variadic or len(case.inputs) <= len(op.inputs), f"{case}: more inputs than {op.inputs}"
        missing = op.required - set(op.inputs) - set(case.attrs)
        assert not missing, f"{op.name} needs {sorted(missing)}: declare examples = (((2, 3),), {{...}}), ... as docs/add-an-op.md says"
