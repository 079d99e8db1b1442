"""Matrix products and functions based on them: matmul, linear, einsum and others. Decompositions are in `decompose`."""

from __future__ import annotations

import functools
import math
import operator
import string
from functools import partial
from typing import Any

from ..base import dtypes
from ..base.dtypes import BOOL_NP, FROM_NUMPY
from ..base.errors import Refused
from ..core import casting, devices
from ..core.arguments import parsed
from ..core.create import number
from ..core.op import RULES_ONLY, Linear, Op, composite, functions
from ..core.out import into
from ..core.tensor import Tensor
from .front import numbered, refuse_complex_gradients
from .math import scale
from .shape import broadcast_shapes, broadcast_tensors, diagonal, expand, permute, reshape, unsqueeze, wrap_dim

_C_NAMES = {
    "float32": "float", "float64": "double", "float16": "c10::Half", "bfloat16": "c10::BFloat16", "int64": "long long", "int32": "int",
    "int16": "short", "int8": "signed char", "uint8": "unsigned char", "bool": "bool", "complex64": "c10::complex<float>", "complex128": "c10::complex<double>",
}  # fmt: skip


class Product:
    """Base of ops on operands that PyTorch does not promote."""
    types, halves = "same", True

    @classmethod
    def prepare(cls, arrays):
        first = getattr(arrays[0], "dtype", None)
        if first is not None and all(a is None or getattr(a, "dtype", None) is first for a in arrays):
            if first is BOOL_NP: raise Refused("not implemented for bool", NotImplementedError)
            return arrays, devices.common(arrays, cls.name)
        seen = list(dict.fromkeys(FROM_NUMPY[a.dtype].name for a in arrays if hasattr(a, "dtype")))
        if len(seen) > 1:
            raise Refused(f"expected m1 and m2 to have the same dtype, but got: {_C_NAMES.get(seen[0], seen[0])} != {_C_NAMES.get(seen[1], seen[1])}")
        for name, a in zip(cls.inputs, arrays, strict=False):
            if a is not None and not hasattr(a, "dtype") and not cls.variadic:
                raise Refused(f"argument '{name}' must be Tensor, not {type(a).__name__}", TypeError)
        return super().prepare(arrays)  # type: ignore[misc]


class matmul(Product, Linear):
    """Matrix product; 1-d operands are vectors, and leading dimensions broadcast."""
    operator = "matmul"
    samples = (((2, 3), (3, 4)), ((3,), (3,)), ((3,), (3, 4)), ((2, 3), (3,)), ((5, 2, 3), (3, 4)), ((5, 2, 3), (5, 3, 4)), ((2, 1, 2, 3), (5, 3, 2)))
    def forward(xp, input, other): return xp.matmul(input, other)
    def d_input(xp, g, input, other): return left(xp, g, input, other)
    def d_other(xp, g, input, other): return right(xp, g, input, other)
    def why(a, b):
        if not a or not b:
            return f"both arguments to matmul need to be at least 1D, but they are {len(a)}D and {len(b)}D"
        if len(a) == len(b) == 1:
            return f"inconsistent tensor size, expected tensor [{a[0]}] and src [{b[0]}] to have the same number of elements, but got {a[0]} and {b[0]} elements respectively"
        if a[-1] != b[-2 if len(b) > 1 else 0]:
            two = lambda s: "x".join(map(str, (math.prod(s[:-1]), s[-1]) if len(s) != 2 else s))
            return f"mat1 and mat2 shapes cannot be multiplied ({two(a)} and {two(b)}): the inner sizes must agree, {a[-1]} != {b[-2 if len(b) > 1 else 0]}"
        return f"the leading dimensions do not broadcast: {a[:-2]} and {b[:-2]}"


class linear(Product, Op):
    """`input @ weight.T + bias` for an input (*, in), a weight (out, in) and a bias (out)."""
    home, inputs, samples = "nn.functional", ("input", "weight", "bias"), (((2, 3), (4, 3), (4,)), ((2, 5, 3), (4, 3), (4,)), ((3,), (4, 3), (4,)))
    method = False
    def forward(xp, input, weight, bias=None): return xp.linear(input, weight, bias)
    def d_input(xp, g, weight): return xp.matmul(g, weight) if weight.ndim > 1 else xp.expand_dims(g, -1) * weight
    def d_weight(xp, g, input): return xp.matmul(xp.matrix_transpose(rows(xp, g)) if g.ndim == input.ndim else xp.reshape(g, (-1,)), rows(xp, input))
    def d_bias(xp, g): return xp.sum(rows(xp, g), axis=0)
    def why(input, weight, bias=()): return f"mat1 and mat2 shapes cannot be multiplied ({math.prod(input[:-1])}x{input[-1] if input else 1} and {'x'.join(map(str, weight[::-1]))})"


class coo_matmul(Linear):
    """Product of a sparse matrix, with `values` at `indices` (2, n) and `rows` rows, and a dense matrix."""
    exempt = {**RULES_ONLY, "low_precision": "Sparse products of half precision are summed in it, element by element, as PyTorch's."}
    home, inputs, types = "", ("values", "other", "indices"), "any"
    examples = ((((4,), (3, 2), [[0, 1, 1, 0], [2, 0, 2, 2]]), {"rows": 2}),)
    def forward(xp, values, other, indices, rows): return xp.coo_matmul(values, other, indices, rows)
    def d_values(xp, g, other, indices): return xp.sum(g[indices[0]] * other[indices[1]], axis=-1)
    def d_other(xp, g, values, indices, shape): return xp.coo_matmul(values, g, xp.flip(indices, 0), shape[0])


class contract(Product, Linear):
    """`einsum` with all subscripts written out, none of them twice in one operand."""
    exempt = RULES_ONLY
    home, variadic, inputs, samples = "", True, ("operands",), (((2, 3), (3, 4)),)
    def forward(xp, operands, equation="ij,jk->ik"): return xp.contract(operands, equation)
    def d_operands(xp, g, operands, equation): return [xp.contract([g, *others], turned) for others, turned in adjoints(operands, equation)]


# -- rules of products -------------------------------------------------------------------------------------------------------


def rows(xp: Any, x: Any) -> Any:
    """Join all leading dimensions: (*, n) becomes (m, n)."""
    return x if x.ndim == 2 else xp.reshape(x, (math.prod(x.shape[:-1]), x.shape[-1]))


def left(xp: Any, g: Any, input: Any, other: Any) -> Any:
    """Gradient of `input` in `input @ other`, before broadcast leading dimensions are summed."""
    if other.ndim == 1:
        return xp.expand_dims(g, -1) * other
    if input.ndim == 1:
        return xp.matmul(xp.expand_dims(g, -2), xp.matrix_transpose(other))[..., 0, :]
    return xp.matmul(g, xp.matrix_transpose(other))


def right(xp: Any, g: Any, input: Any, other: Any) -> Any:
    """Gradient of `other` in `input @ other`, before broadcast leading dimensions are summed."""
    if input.ndim == 1:
        return input * g if other.ndim == 1 else xp.expand_dims(input, -1) * xp.expand_dims(g, -2)
    if other.ndim == 1:
        return xp.matmul(xp.matrix_transpose(input), xp.expand_dims(g, -1))[..., 0]
    if other.ndim == 2 and input.ndim > 2:
        return xp.matmul(xp.matrix_transpose(rows(xp, input)), rows(xp, g))
    return xp.matmul(xp.matrix_transpose(input), g)


def adjoints(operands: Any, equation: str) -> list:
    """For each operand, return the others and the equation of its gradient from the output's gradient and them."""
    terms, out = equation.split("->")
    terms = terms.split(",")
    return [
        ([x for j, x in enumerate(operands) if j != i], ",".join([out, *(t for j, t in enumerate(terms) if j != i)]) + f"->{term}")
        for i, term in enumerate(terms)
    ]  # fmt: skip


# -- einsum ------------------------------------------------------------------------------------------------------------------


@composite
def einsum(equation: Any, *operands: Any) -> Tensor:
    """Sums of products in Einstein notation: `einsum("bij,bjk->bik", a, b)`.

    Subscripts are letters or, in PyTorch's other form, lists of integers after each operand. "..." stands for leading dimensions that
    broadcast; a repeated subscript in one operand takes the diagonal. Without "->", subscripts that occur once are kept, in alphabetical
    order.
    """
    if not operands: raise ValueError("einsum(): must specify the equation string and at least one operand, or at least one operand and its subscripts list")
    if isinstance(equation, Tensor):
        equation, operands = _spelled((equation, *operands))
    elif len(operands) == 1 and isinstance(operands[0], (tuple, list)):
        operands = tuple(operands[0])
    if not isinstance(equation, str): raise TypeError(f"einsum(): argument 'equation' (position 1) must be str, not {type(equation).__name__}")
    terms, out = _parsed(equation, tuple(x.ndim for x in operands))
    operands, terms = map(list, zip(*[_without_repeats(x, term) for x, term in zip(operands, terms, strict=True)], strict=True))
    sizes: dict[str, int] = {}
    for i, (x, term) in enumerate(zip(operands, terms, strict=True)):
        for d, letter in enumerate(term):
            n, seen = x.shape[d], sizes.get(letter, 1)
            if n != 1 and seen not in (1, n):
                raise RuntimeError(f"einsum(): subscript {letter} has size {n} for operand {i} which does not broadcast with previously seen size {seen}")
            sizes[letter] = n if seen == 1 else seen
    if len(operands) == 1:  # a view, even if nothing moves
        term = "".join(sorted(terms[0], key=lambda c: (out + terms[0]).index(c)))
        operands[0], terms[0] = permute(operands[0], tuple(terms[0].index(c) for c in term)), term
    for i, (x, term) in enumerate(zip(operands, terms, strict=True)):
        elsewhere = set(out).union(*[t for j, t in enumerate(terms) if j != i])
        lonely = tuple(d for d, letter in enumerate(term) if letter not in elsewhere)
        if lonely:
            x, term = x.sum(lonely), "".join(c for c in term if c in elsewhere)
        if any(n != sizes[letter] for n, letter in zip(x.shape, term, strict=True)):
            x = expand(x, tuple(sizes[letter] for letter in term))
        operands[i], terms[i] = x, term
    if len(operands) > 1 and any(set(term) - set(out) for term in terms):
        return contract(operands, ",".join(terms) + "->" + out)
    # otherwise it is no matrix product: it promotes types, and autocast lets it be
    return functools.reduce(operator.mul, [_spread(x, term, out) for x, term in zip(operands, terms, strict=True)])


def _spread(x: Tensor, term: str, letters: str) -> Tensor:
    """Put the dimensions of `term` in the order of `letters`, and one of size 1 in the place of each letter that it lacks."""
    order = tuple(term.index(c) for c in letters if c in term)
    x = x if order == tuple(range(x.ndim)) else permute(x, order)
    for d, letter in enumerate(letters):
        if letter not in term:
            x = unsqueeze(x, d)
    return x


def _spelled(args: tuple) -> tuple[str, tuple]:
    """Convert the form with lists of integers to letters."""
    letters = string.ascii_uppercase + string.ascii_lowercase
    spell = lambda subs: "".join("..." if s is Ellipsis else letters[s] for s in subs)
    pairs, last = args[: len(args) // 2 * 2], args[-1] if len(args) % 2 else None
    equation = ",".join(spell(s) for s in pairs[1::2])
    return equation + (f"->{spell(last)}" if last is not None else ""), pairs[::2]


@functools.cache
def _parsed(equation: str, ndims: tuple[int, ...]) -> tuple[list[str], str]:
    """Return the subscripts of each operand and of the output, with "..." replaced by letters."""
    text = equation.replace(" ", "")
    given, arrow, out = text.partition("->")
    terms = given.split(",")
    if len(terms) != len(ndims):
        more = "fewer" if len(ndims) < len(terms) else "more"
        raise RuntimeError(f"einsum(): {more} operands were provided than specified in the equation")
    for letter in text.replace("...", "").replace("->", "").replace(",", ""):
        if letter not in string.ascii_letters:
            raise RuntimeError(f"einsum(): invalid subscript given: {letter!r}; subscripts must be in [a-zA-Z]")
    free = [c for c in string.ascii_lowercase + string.ascii_uppercase if c not in text]
    hidden = [n - len(term.replace("...", "")) for term, n in zip(terms, ndims, strict=True)]
    most = max([h for h, term in zip(hidden, terms, strict=True) if "..." in term], default=0)
    dots = "".join(free[:most])
    whole = []
    for i, (term, h, n) in enumerate(zip(terms, hidden, ndims, strict=True)):
        if h < 0 or h and "..." not in term:
            raise RuntimeError(f"einsum(): the number of subscripts in the equation ({n - h}) does not match the number of dimensions ({n}) for operand {i} and no ellipsis was given")
        whole.append(term.replace("...", dots[most - h :] if h else ""))
    if arrow:
        result = out.replace("...", dots)
    else:
        letters = "".join(terms).replace("...", "")
        result = dots + "".join(sorted(c for c in set(letters) if letters.count(c) == 1))
    for c in result:
        if result.count(c) > 1:
            raise RuntimeError(f"einsum(): output subscript {c} appears more than once in the output")
        if not any(c in term for term in whole):
            raise RuntimeError(f"einsum(): output subscript {c} does not appear in the equation for any input operand")
    return whole, result


def _without_repeats(x: Tensor, term: str) -> tuple[Tensor, str]:
    """Take the diagonal of subscripts that occur twice in one operand."""
    for letter in dict.fromkeys(term):
        while term.count(letter) > 1:
            a = term.index(letter)
            b = term.index(letter, a + 1)
            if x.shape[a] != x.shape[b]:
                raise RuntimeError(f"einsum(): subscript {letter} is repeated for operand but the sizes don't match, {x.shape[b]} != {x.shape[a]}")
            x, term = diagonal(x, 0, a, b), term[:a] + term[a + 1 : b] + term[b + 1 :] + letter
    return x, term


@composite
def tensordot(a: Tensor, b: Tensor, dims: Any = 2, out: Any = None) -> Tensor:
    """Sums of products over the last `dims` dimensions of `a` and the first of `b`, or over two lists of dimensions."""
    if isinstance(dims, Tensor):
        dims = dims.tolist()
    if isinstance(dims, int):
        if dims < 0:
            raise RuntimeError(f"tensordot expects dims >= 0, but got dims={dims}")
        if dims > min(a.ndim, b.ndim):
            raise RuntimeError(f"tensordot expects dims < ndim_a or ndim_b, but got dims={dims}")
        dims_a, dims_b = list(range(a.ndim - dims, a.ndim)), list(range(dims))
    else:
        dims_a, dims_b = ([d] if isinstance(d, int) else list(d) for d in dims)
    if len(dims_a) != len(dims_b):
        raise RuntimeError(f"both dimension lists should have same length, got {dims_a} and {dims_b}")
    if out is not None:
        return into(tensordot, (a, b, (dims_a, dims_b)), {"out": out})
    letters = iter(string.ascii_letters)
    in_a, in_b = [next(letters) for _ in range(a.ndim)], [next(letters) for _ in range(b.ndim)]
    for i, j in zip(dims_a, dims_b, strict=True):
        i, j = wrap_dim(i, a.ndim), wrap_dim(j, b.ndim)
        if a.shape[i] != b.shape[j] and 1 not in (a.shape[i], b.shape[j]):
            raise RuntimeError(f"contracted dimensions need to match, but first has size {a.shape[i]} in dim {i} and second has size {b.shape[j]} in dim {j}")
        in_b[j] = in_a[i]
    out = [c for c in in_a if c not in in_b] + [c for c in in_b if c not in in_a]
    run = einsum if out else partial(casting.alone, einsum)  # without remaining dimensions it is a dot product
    return run(f"{''.join(in_a)},{''.join(in_b)}->{''.join(out)}", a, b)


# -- named products ------------------------------------------------------------------------------------------------------------


def size(x: Tensor, dim: int) -> int:
    """Return the size of a dimension. Raises IndexError if it is out of range."""
    return x.shape[wrap_dim(dim, x.ndim)]


def _require(x: Tensor, ndim: int, words: str) -> None:
    if x.ndim != ndim:
        raise RuntimeError(words)


@composite(method=True)
def mm(input: Tensor, mat2: Tensor) -> Tensor:
    """Product of two matrices, without broadcasting."""
    _require(input, 2, "self must be a matrix")
    _require(mat2, 2, "mat2 must be a matrix")
    return matmul(input, mat2)


@composite(method=True)
def bmm(input: Tensor, mat2: Tensor) -> Tensor:
    """Product of two batches of matrices, (b, n, m) and (b, m, p), without broadcasting."""
    _require(input, 3, "batch1 must be a 3D tensor")
    _require(mat2, 3, "batch2 must be a 3D tensor")
    if input.shape[0] != mat2.shape[0] or input.shape[2] != mat2.shape[1]:
        raise RuntimeError(f"Expected size for first two dimensions of batch2 tensor to be: [{input.shape[0]}, {input.shape[2]}] but got: [{mat2.shape[0]}, {mat2.shape[1]}].")
    return matmul(input, mat2)


@composite(method=True)
def mv(input: Tensor, vec: Tensor) -> Tensor:
    """Product of a matrix and a vector."""
    if not input.ndim:
        raise IndexError("Dimension specified as 0 but tensor has no dimensions")
    if input.ndim != 2 or vec.ndim != 1:
        raise RuntimeError(f"vector + matrix @ vector expected, got 1, {input.ndim}, {vec.ndim}")
    if input.shape[1] != vec.shape[0]:
        raise RuntimeError(f"size mismatch, got input ({input.shape[0]}), mat ({input.shape[0]}x{input.shape[1]}), vec ({vec.shape[0]})")
    return matmul(input, vec)


@composite(method=True)
def dot(input: Tensor, tensor: Tensor) -> Tensor:
    """Sum of the products of two vectors of equal length."""
    if input.ndim != 1 or tensor.ndim != 1:
        raise RuntimeError(f"1D tensors expected, but got {input.ndim}D and {tensor.ndim}D tensors")
    return matmul(input, tensor)


@composite(method=True)
def vdot(input: Tensor, other: Tensor) -> Tensor:
    """`dot` with the first vector conjugated."""
    return dot(input.conj() if input.is_complex() else input, other)


@composite(method=True)
def inner(input: Tensor, other: Tensor) -> Tensor:
    """Sums of products over the last dimensions of both; for 0-d tensors, the product."""
    if input.ndim == 0 or other.ndim == 0:
        return input * other
    if input.shape[-1] != other.shape[-1]:
        raise RuntimeError(f"inner() the last dimension must match on both input tensors but got shapes {list(input.shape)} and {list(other.shape)}")
    return tensordot(input, other, ([-1], [-1]))


@composite(method=True, aliases=("ger",))
def outer(input: Tensor, vec2: Tensor) -> Tensor:
    """Outer product of two vectors, (n) and (m): (n, m)."""
    _require(input, 1, f"outer: Expected 1-D argument self, but got {input.ndim}-D")
    _require(vec2, 1, f"outer: Expected 1-D argument vec2, but got {vec2.ndim}-D")
    return unsqueeze(input, 1) * vec2


def _scaled(input: Tensor, product: Tensor, beta: float, alpha: float, by_blas: bool = False) -> Tensor:
    """`beta * input + alpha * product`; BLAS, used in single precision and above, does not read the factors if alpha is 0."""
    result = dtypes.promote(input.dtype, product.dtype)
    beta, alpha = dtypes.fitting(beta, result), dtypes.fitting(alpha, result)
    if alpha == 0 and by_blas and result.itemsize > 2: product = functions["fill"](product, 0)
    elif alpha != 1: product = product * alpha
    if beta == 0:  # as in PyTorch, the input is ignored, nan included, and its gradient is 0
        return product if input.node is None else functions["fill"](input, 0) + product
    return (input if beta == 1 else input * beta) + product


def _alike(input: Tensor, factor: Tensor) -> None:
    """Raise RuntimeError unless the input has the dtype of the product's factors."""
    if input.dtype is not factor.dtype:
        raise RuntimeError(f"self and mat2 must have the same dtype, but got {input.dtype.name} and {factor.dtype.name}")


def _refuse_growth(input: Tensor, shape: tuple[int, ...]) -> None:
    """Raise RuntimeError unless the input broadcasts to the product's shape."""
    if broadcast_shapes(tuple(input.shape), shape) != shape:
        raise RuntimeError(f"expand: the input of shape {list(input.shape)} does not expand to {list(shape)}")


def _older(fn: Any) -> Any:
    """Also accept PyTorch's older order: `addmm(beta, input, alpha, mat1, mat2)`, `x.addmm(beta, alpha, mat1, mat2)`."""

    @functools.wraps(fn)
    def call(*args: Any, **kwargs: Any) -> Tensor:
        if len(args) > 3:
            args, kwargs = numbered(fn.__name__, args, kwargs, ("beta", "alpha"))
        kwargs.update((name, number(kwargs[name], fn.__name__, name)) for name in ("beta", "alpha") if name in kwargs)
        return fn(*args, **kwargs)

    return call


@composite(method=True, in_place=True)
@_older
def addmm(input: Tensor, mat1: Tensor, mat2: Tensor, *, beta: complex = 1, alpha: complex = 1) -> Tensor:
    """`beta * input + alpha * (mat1 @ mat2)`."""
    _alike(input, mat2)
    return _scaled(input, mm(mat1, mat2), beta, alpha, True)


@composite(method=True, in_place=True)
@_older
def addmv(input: Tensor, mat: Tensor, vec: Tensor, *, beta: complex = 1, alpha: complex = 1) -> Tensor:
    """`beta * input + alpha * (mat @ vec)`."""
    if mat.ndim != 2 or vec.ndim != 1:
        raise RuntimeError(f"vector + matrix @ vector expected, got {input.ndim}, {mat.ndim}, {vec.ndim}")
    _alike(input, vec)
    _refuse_growth(input, (size(mat, 0),))
    return _scaled(input, mv(mat, vec), beta, alpha, True)


@composite(method=True, in_place=True)
@_older
def addr(input: Tensor, vec1: Tensor, vec2: Tensor, *, beta: complex = 1, alpha: complex = 1) -> Tensor:
    """`beta * input + alpha * outer(vec1, vec2)`."""
    beta, alpha = scale("addr", beta, "beta", input, vec1, vec2), scale("addr", alpha, "alpha", input, vec1, vec2)
    product = outer(vec1, vec2)
    _refuse_growth(input, tuple(product.shape))
    common = dtypes.promote(input.dtype, dtypes.promote(vec1.dtype, vec2.dtype))  # also if the input is 0-d
    return _scaled(input.to(common), product.to(common), beta, alpha)


@composite(method=True, in_place=True)
@_older
def baddbmm(input: Tensor, batch1: Tensor, batch2: Tensor, *, beta: complex = 1, alpha: complex = 1) -> Tensor:
    """`beta * input + alpha * (batch1 @ batch2)` for batches of matrices."""
    _refuse_growth(input, (size(batch1, 0), size(batch1, 1), size(batch2, 2)))
    _alike(input, batch2)
    return _scaled(input, bmm(batch1, batch2), beta, alpha)


@composite(method=True, in_place=True)
@_older
def addbmm(input: Tensor, batch1: Tensor, batch2: Tensor, *, beta: complex = 1, alpha: complex = 1) -> Tensor:
    """`beta * input + alpha *` the sum over the batch of `batch1 @ batch2`."""
    _refuse_growth(input, (size(batch1, 1), size(batch2, 2)))
    _alike(input, batch2)
    return _scaled(input, bmm(batch1, batch2).sum(0, dtype=batch2.dtype), beta, alpha, True)


@composite(method=True)
def kron(input: Tensor, other: Tensor) -> Tensor:
    """Kronecker product: each element of the first tensor times the whole second."""
    n = max(input.ndim, other.ndim)
    a, b = ((1,) * (n - x.ndim) + tuple(x.shape) for x in (input, other))
    pairs = reshape(input, tuple(s for size in a for s in (size, 1))) * reshape(other, tuple(s for size in b for s in (1, size)))
    return reshape(pairs, tuple(i * j for i, j in zip(a, b, strict=True)))


@composite(method=True)
def cross(input: Tensor, other: Tensor, dim: int | None = None) -> Tensor:
    """Cross product of vectors along a dimension of size 3, by default the first such."""
    if input.ndim != other.ndim:
        raise RuntimeError("linalg.cross: inputs must have the same number of dimensions.")
    if input.dtype is not other.dtype:
        raise RuntimeError(f"linalg.cross: inputs must have one dtype. Got {input.dtype.name} and {other.dtype.name}")
    if dim is None:
        dim = next((d for d, n in enumerate(input.shape) if n == 3), None)
        if dim is None:
            raise RuntimeError("no dimension of size 3 in input")
    if not input.shape[dim] == other.shape[dim] == 3:
        raise RuntimeError(f"linalg.cross: inputs dimension {dim} must have length 3. Got {input.shape[dim]} and {other.shape[dim]}")
    if input.dtype is dtypes.bool_:
        raise NotImplementedError("cross: not implemented for bool")
    input, other = broadcast_tensors(input, other)
    return input.roll(-1, dim) * other.roll(-2, dim) - input.roll(-2, dim) * other.roll(-1, dim)


@composite(home="linalg")
def cross_(input: Tensor, other: Tensor, *, dim: int = -1) -> Tensor:
    """Cross product of vectors along a dimension of size 3."""
    return cross(input, other, dim)


@composite(method=True)
def trace(input: Tensor) -> Tensor:
    """Sum of the diagonal of a matrix."""
    _require(input, 2, f"trace: expected a matrix, but got tensor with dim {input.ndim}")
    if input.dtype is dtypes.bool_:
        raise NotImplementedError("trace: not implemented for bool")
    return diagonal(input).sum()


@composite(home="linalg")
def multi_dot(tensors: Any) -> Tensor:
    """Product of several matrices, from left to right; the first and last may be vectors."""
    if len(tensors) < 2:
        raise RuntimeError(f"multi_dot(): expected at least 2 tensors but got {len(tensors)}")
    for i, x in enumerate(tensors):
        if x.ndim != 2 and not (x.ndim == 1 and i in (0, len(tensors) - 1)):
            raise RuntimeError(f"multi_dot(): tensors must be 2D, the first and last 1D or 2D, but tensor {i} is {x.ndim}D")
    return functools.reduce(matmul, tensors)


@composite(home="nn.functional")
@parsed
def bilinear(input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """`input1 @ weight[k] @ input2 + bias[k]` for inputs (*, n) and (*, m), a weight (out, n, m) and a bias (out): (*, out)."""
    given = (input1, input2, weight) if bias is None else (input1, input2, weight, bias)
    if len({x.dtype for x in given}) > 1:
        raise RuntimeError(f"bilinear(): All tensors must have the same dtype, got {', '.join(x.dtype.name for x in given)}")
    if input1.ndim != input2.ndim or input1.shape[:-1] != input2.shape[:-1]:
        raise RuntimeError(f"bilinear(): input batch dimensions do not match: got {list(input1.shape[:-1])} and {list(input2.shape[:-1])}")
    for d, x in enumerate((input1, input2), 1):
        if x.size(-1) != weight.size(d):
            raise RuntimeError(f"bilinear(): input{d} size does not match weight size: got {x.size(-1)} but expected {weight.size(d)}")
    if bias is not None and bias.size(0) != weight.size(0):
        raise RuntimeError(f"bilinear(): bias size does not match weight size: got {bias.size(0)} but expected {weight.size(0)}")
    refuse_complex_gradients("_trilinear", *given)
    out = einsum("...n,knm,...m->...k", input1, weight, input2)
    return out if bias is None else out + bias


@composite(home="nn.functional")
@parsed
def cosine_similarity(x1: Tensor, x2: Tensor, dim: int = 1, eps: float = 1e-8) -> Tensor:
    """Cosine of the angle between vectors along a dimension; lengths below `eps` count as `eps`."""
    if eps < 0:
        raise RuntimeError(f"eps must be non-negative, got: {eps}")
    if not (common := dtypes.promote(x1.dtype, x2.dtype)).is_floating_point:
        raise RuntimeError(f"expected common dtype to be floating point, yet common dtype is {common.name}")
    x1, x2 = (x if x.is_floating_point() else x.to(common) for x in broadcast_tensors(x1, x2))  # a float tensor keeps its own precision
    lengths = [functions["linalg.vector_norm"](x, 2, dim, True) for x in (x1, x2)]
    first, second = (x / functions["where"](n < eps, n + (eps - n).detach(), n) for x, n in zip((x1, x2), lengths, strict=True))  # clamped, but not its gradient
    return (first * second).sum(dim)
