"""The array interface: a table of the functions that an op's code may call as `xp.<name>`, with their kinds and arguments.

A backend is a namespace with all of them. `cpu.py` and `gpu.py` are filled from this table; `batch/` (vmap) and `meta/` (shapes without
data) dispatch on a function's kind or have a specific rule for it; derivatives of derivatives call the op of that name.
"""

from __future__ import annotations

import re
from importlib import import_module
from typing import Any, NamedTuple

# A row: the function and its arguments, the location of its NumPy version ("numpy" or a file of this folder; on the GPU it is CuPy's
# function or the same file, unless gpu.py defines another), and marks:
#   values  the shape of the result depends on values
#   plain   never differentiated: only called on arrays, so no op needs to have this name
#   sample  vmap calls it once for each sample
#   zeros   on the device "meta" it computes with zeros and the values are dropped
_TABLE = """
make: new arrays, and casts
    arange(start, stop=None, step=1, dtype=None)                     numpy         plain sample zeros
    asarray(x, dtype=None)                                           numpy
    ascontiguousarray(x)                                             numpy
    astype(x, dtype)                                                 cpu
    copy(x)                                                          cpu
    empty(shape, dtype=None)                                         numpy         plain sample
    empty_like(x, dtype=None)                                        numpy         plain
    eye(n, m=None, k=0, dtype=None)                                  numpy         plain sample zeros
    full(shape, value, dtype=None)                                   numpy         plain sample
    full_like(x, value, dtype=None)                                  numpy         plain
    laid_out(x, format)                                              reference     sample
    new_zeros(beside, shape, dtype=None)                             reference
    ones(shape, dtype=None)                                          numpy         plain sample
    ones_like(x, dtype=None)                                         numpy
    zeros(shape, dtype=None)                                         numpy         plain sample
    zeros_like(x, dtype=None)                                        numpy

elementwise: each element of the result depends on one element of each array
    abs(x)                                                           numpy
    add(x, y)                                                        numpy
    airy_ai(x)                                                       polynomials
    airy_ai_slope(x)                                                 polynomials
    angle(x)                                                         elementwise
    arccos(x)                                                        numpy
    arccosh(x)                                                       numpy
    arcsin(x)                                                        numpy
    arcsinh(x)                                                       numpy
    arctan(x)                                                        numpy
    arctan2(x, y)                                                    numpy
    arctanh(x)                                                       numpy
    bessel_j0(x)                                                     special
    bessel_j1(x)                                                     special
    bessel_y0(x)                                                     special
    bessel_y1(x)                                                     special
    bitwise_and(x, y)                                                numpy
    bitwise_or(x, y)                                                 numpy
    bitwise_xor(x, y)                                                numpy
    ceil(x)                                                          numpy
    clip(x, low=None, high=None)                                     elementwise
    conj(x)                                                          elementwise
    copysign(x, y)                                                   numpy
    cos(x)                                                           numpy
    cosh(x)                                                          numpy
    digamma(x)                                                       special
    divide(x, y)                                                     numpy
    entr(x)                                                          special
    equal(x, y)                                                      numpy
    erf(x)                                                           special
    erfc(x)                                                          special
    erfcx(x)                                                         special
    erfinv(x)                                                        special
    exp(x)                                                           numpy
    exp2(x)                                                          numpy
    expm1(x)                                                         numpy
    floor(x)                                                         numpy
    floor_divide(x, y)                                               elementwise
    fmax(x, y)                                                       numpy
    fmin(x, y)                                                       numpy
    fmod(x, y)                                                       elementwise
    frexp(x)                                                         reference
    from_parts(real, imag)                                           elementwise
    gcd(x, y)                                                        elementwise
    gelu(x, approximate='none')                                      elementwise
    gelu_slope(x, approximate='none')                                elementwise
    greater(x, y)                                                    numpy
    greater_equal(x, y)                                              numpy
    hardtanh(x, low, high)                                           elementwise
    hypot(x, y)                                                      numpy
    i0(x)                                                            special
    i0e(x)                                                           special
    i1(x)                                                            special
    i1e(x)                                                           special
    igamma(x, y)                                                     special
    igammac(x, y)                                                    special
    imag(x)                                                          elementwise
    invert(x)                                                        numpy
    isclose(x, y, rtol=1e-05, atol=1e-08, equal_nan=False)           numpy
    isfinite(x)                                                      numpy
    isinf(x)                                                         numpy
    isnan(x)                                                         numpy
    isneginf(x)                                                      numpy
    isposinf(x)                                                      numpy
    isreal(x)                                                        numpy
    lcm(x, y)                                                        elementwise
    ldexp(x, y)                                                      numpy
    left_shift(x, y)                                                 numpy         plain
    lerp(x, end, weight)                                             elementwise
    less(x, y)                                                       numpy
    less_equal(x, y)                                                 numpy
    lgamma(x)                                                        special
    log(x)                                                           numpy
    log10(x)                                                         numpy
    log1p(x)                                                         elementwise
    log2(x)                                                          numpy
    log_ndtr(x)                                                      special
    log_sigmoid(x)                                                   elementwise
    logaddexp(x, y)                                                  elementwise
    logaddexp2(x, y)                                                 numpy
    logical_and(x, y)                                                numpy
    logical_not(x)                                                   numpy
    logical_or(x, y)                                                 numpy
    logical_xor(x, y)                                                numpy
    logit(x, eps=None)                                               elementwise
    maximum(x, y)                                                    numpy
    minimum(x, y)                                                    numpy
    modified_bessel_k0(x)                                            special
    modified_bessel_k1(x)                                            special
    nan_to_num(x, nan=0.0, posinf=None, neginf=None)                 reference
    ndtr(x)                                                          special
    ndtri(x)                                                         special
    nextafter(x, y)                                                  numpy
    not_equal(x, y)                                                  numpy
    polygamma(x, n)                                                  special
    polynomial(x, n, family, order=0)                                polynomials
    power(x, y)                                                      elementwise
    real(x)                                                          numpy
    relu(x)                                                          elementwise
    remainder(x, y)                                                  elementwise
    right_shift(x, y)                                                numpy         plain
    round(x, decimals=0)                                             elementwise
    scaled_modified_bessel_k0(x)                                     special
    scaled_modified_bessel_k1(x)                                     special
    sgn(x)                                                           elementwise
    sigmoid(x)                                                       elementwise
    sign(x)                                                          elementwise
    signbit(x)                                                       numpy
    silu(x)                                                          elementwise
    sin(x)                                                           numpy
    sinc(x)                                                          elementwise
    sinh(x)                                                          numpy
    softplus(x, beta=1.0, threshold=20.0)                            elementwise
    sqrt(x)                                                          numpy
    square(x)                                                        numpy
    subtract(x, y)                                                   numpy
    tan(x)                                                           numpy
    tanh(x)                                                          numpy
    threshold(x, threshold, value)                                   elementwise
    times_i(x)                                                       elementwise
    trunc(x)                                                         numpy
    trunc_divide(x, y)                                               elementwise
    where(condition, x, y)                                           elementwise
    xlog1py(x, y)                                                    special
    xlogy(x, y)                                                      special
    zeta(x, y)                                                       special

reduce: over some dimensions
    all(x, axis=None, keepdims=False)                                reduction
    any(x, axis=None, keepdims=False)                                reduction
    argmax(x, axis=None, keepdims=False)                             reduction
    argmin(x, axis=None, keepdims=False)                             reduction
    count_nonzero(x, axis=None)                                      reduction
    histogram(x, bins, low, high)                                    reduction     plain sample zeros
    log_sum_exp(x)                                                   kernels_loss
    logsumexp(x, axis=None, keepdims=False)                          reduction
    max(x, axis=None, keepdims=False)                                reduction
    mean(x, axis=None, keepdims=False)                               reduction
    median_of_all(x, skip_nan=False)                                 order         sample zeros
    min(x, axis=None, keepdims=False)                                reduction
    prod(x, axis=None, keepdims=False)                               reduction
    std(x, axis=None, correction=0, keepdims=False)                  reduction
    sum(x, axis=None, keepdims=False, dtype=None)                    reduction
    var(x, axis=None, correction=0, keepdims=False)                  reduction
    vector_norm(x, ord=2.0, axis=None, keepdims=False)               reduction

scan: along one dimension, which stays
    cumextreme(x, axis, largest)                                     reduction     plain
    cumprod(x, axis)                                                 reduction
    cumsum(x, axis)                                                  reduction
    log_softmax(x, axis)                                             reduction
    logcumsumexp(x, axis)                                            reduction
    softmax(x, axis)                                                 reduction

move: the same elements elsewhere: views, reorderings, joins, padding
    broadcast_to(x, shape)                                           reference
    concatenate(arrays, axis=0)                                      numpy
    constant_pad(x, pad, value=0)                                    reference     zeros
    diagonal(x, offset=0, dim1=0, dim2=1)                            reference
    expand_dims(x, axis)                                             reference
    flip(x, axis=None)                                               reference
    matrix_transpose(x)                                              reference
    moveaxis(x, source, destination)                                 reference
    put_diagonal(value, shape, offset=0, dim1=0, dim2=1)             reference     zeros
    put_windows(value, shape, dim, size, step)                       reference     zeros
    read_through(x, path)                                            reference
    reshape(x, shape)                                                reference
    restride(x, source, target)                                      reference     sample zeros
    roll(x, shift, axis=None)                                        numpy
    spread_to(x, shape)                                              reduction
    squeeze(x, axis=None)                                            numpy
    stack(arrays, axis=0)                                            numpy
    strided(x, shape, strides, dtype=None)                           reference     plain sample
    strided_view(x, size, stride, offset)                            reference
    swapaxes(x, a, b)                                                reference
    tile(x, reps)                                                    numpy         zeros
    transpose(x, axes)                                               reference
    tril(x, k=0)                                                     numpy
    triu(x, k=0)                                                     numpy
    view(x, shape=None, dtype=None)                                  reference
    view_as_complex(x)                                               reference
    view_as_real(x)                                                  reference
    windows(x, dim, size, step)                                      reference
    write_through(x, value, path)                                    reference

product: products of matrices
    contract(operands, equation)                                     products
    coo_matmul(values, other, indices, rows)                         coo           sample zeros
    linear(x, weight, bias=None)                                     products
    matmul(a, b)                                                     products
    quotients(x)                                                     products      sample zeros
    tensordot(x, y, axes=2)                                          numpy         plain zeros

factor: factors, inverses and transforms of matrices
    cholesky(x, upper=False)                                         products
    cholesky_ex(x, upper=False)                                      factors
    cholesky_inverse(x, upper=False)                                 factors
    cofactor(x)                                                      products
    det(x)                                                           products
    eig(x)                                                           factors
    eigh(x, uplo='L')                                                products
    first_zero(packed, refusal='')                                   factors       plain sample
    fourier(x, dims, scale=1.0)                                      factors       zeros
    fourier_back(x, dims, scale=1.0)                                 factors       zeros
    inv(x)                                                           products
    ldl_factor(x, hermitian=False)                                   factors       plain sample
    ldl_solve(packed, pivots, b, hermitian=False)                    factors       plain sample
    lu_factor(x)                                                     factors
    matrix_exp(x)                                                    factors
    permutation(pivots, m, dtype)                                    factors       plain sample
    pinv(x, rtol=None, hermitian=False, atol=None)                   products      sample zeros
    qr(x, mode='reduced')                                            products
    reflections(x)                                                   factors       plain sample
    slogdet(x)                                                       products
    solve_matrix(a, b, checked=True)                                 products      sample
    solve_triangle(a, b, upper, left=True, unitriangular=False)      factors       sample
    svd(x, full_matrices=True)                                       products

index: elements selected or written by an index
    add_along_axis(x, indices, size, axis)                           indexing      sample zeros
    add_rows(value, index, count, padding_idx=None, scale=False)     indexing      sample
    copied(x, src)                                                   indexing      plain sample
    gather(x, dim, index)                                            indexing      zeros
    index_add(x, dim, index, source, alpha=1)                        indexing      sample zeros
    index_copy(x, dim, index, source)                                indexing      sample zeros
    index_select(x, dim, index)                                      indexing      zeros
    masked_fill(x, mask, value)                                      indexing
    nonzero(x)                                                       numpy         values plain sample
    put(x, index, value, accumulate=False)                           indexing      zeros
    put_zeros(value, shape, index)                                   indexing
    read_rows(weight, index, count, padding_idx=None, scale=False)   indexing      sample
    rows(weight, index)                                              indexing      plain
    scatter(x, dim, index, src)                                      indexing      zeros
    scatter_add(x, dim, index, src)                                  indexing      zeros
    scatter_extreme(x, dim, index, src, reduce)                      indexing      zeros
    scatter_prod(x, dim, index, src)                                 indexing      zeros
    sparse_rows(g, index, count, padding_idx, scale)                 coo           sample zeros
    take(x, index, axis=None)                                        numpy         plain sample zeros
    take_along_axis(x, index, axis=-1)                               numpy         zeros

sort: orders, ranks and counts
    argsort(x, axis=-1, kind=None)                                   numpy         plain
    bincount(x, weights=None, minlength=0)                           numpy         values sample
    count_integers(x, weights=None, least=0)                         reduction     values plain sample
    mode(x, axis)                                                    order         zeros
    ranked(x, axis, positions)                                       order         plain zeros
    search(ordered, values, right=False)                             reduction     plain sample zeros
    searchsorted(x, values, side='left')                             numpy         sample zeros
    sort(x, axis=-1)                                                 numpy
    sorted(x, dim, descending, stable)                               order         plain
    topk(x, k, dim, largest)                                         order         zeros
    unique(x, return_index=False, return_inverse=False, return_counts=False, axis=None, equal_nan=True) numpy         values plain sample

layer: kernels of layers and losses
    adaptive_max(x, size)                                            kernels_pool  zeros
    attention(query, key, value, mask, draws, scale, causal, dropout) kernels_attention sample zeros
    attention_back(g, query, key, value, mask, draws, out, logsumexp, scale, causal, dropout, to_mask=False) kernels_attention sample zeros
    attention_draws(query, key, value, mask, causal, to_mask, source) kernels_attention plain sample zeros
    attention_kept(query, key, draws, dropout)                       kernels_attention plain sample zeros
    avg_pool(x, kernel, stride=None, padding=0, ceil_mode=False, include_pad=True, divisor=None) kernels_pool  zeros
    avg_pool_back(g, size, kernel, stride=None, padding=0, ceil_mode=False, include_pad=True, divisor=None) kernels_pool  zeros
    class_pick(x, target, weight=None, ignore=-100)                  kernels_loss  zeros
    class_spread(g, target, weight, size, ignore=-100)               kernels_loss
    class_weights(target, weight, ignore, dtype)                     kernels_loss  zeros
    col2im(columns, size, kernel, dilation=1, padding=0, stride=1)   kernels_conv  zeros
    convolution(x, weight, stride=1, padding=0, dilation=1, groups=1, bias=None) kernels_conv
    convolution_input(g, weight, size, stride=1, padding=0, dilation=1, groups=1) kernels_conv
    convolution_weight(g, x, size, stride=1, padding=0, dilation=1, groups=1) kernels_conv
    ctc(log_probs, targets, input_lengths, target_lengths, blank)    kernels_loss  sample zeros
    flat_gather(x, index, size, n)                                   kernels_pool  sample zeros
    flat_scatter(g, index, size)                                     kernels_pool  sample zeros
    gru(given, h, weight, bias, reverse)                             kernels_rnn  zeros
    gru_back(g, h0, weight, bias, out, gates, reverse)               kernels_rnn  zeros
    im2col(x, kernel, dilation=1, padding=0, stride=1)               kernels_conv  zeros
    lstm(given, h, c, weight, reverse)                               kernels_lstm  zeros
    lstm_back(g, dc, h0, c0, weight, out, cells, gates, reverse)     kernels_lstm  zeros
    max_pool(x, n, kernel, stride=None, padding=0, dilation=1, ceil_mode=False) kernels_pool  plain zeros
    normalize(x, axes, eps, weight=None, bias=None)                  kernels_norm
    normalize_input(g, x, mean, rstd, axes, weight=None)             kernels_norm
    normalize_weight(g, x, mean, rstd, axes)                         kernels_norm
    resample(x, size, mode, align=False, scales=())                  kernels_pool  zeros
    resample_back(g, size, mode, align=False, scales=())             kernels_pool  zeros
    rnn(given, h, weight, relu, reverse)                             kernels_rnn  zeros
    rnn_back(g, h0, weight, out, relu, reverse)                      kernels_rnn  zeros
    softmax_minus(x, lse, scale, g, target, ignore)                  kernels_loss
    tap_gather(x, taps, kernel, stride=None, padding=0, dilation=1, ceil_mode=False) kernels_pool  zeros
    tap_places(taps, size, kernel, stride=None, padding=0, dilation=1, ceil_mode=False) kernels_pool  plain zeros
    tap_scatter(g, taps, size, kernel, stride=None, padding=0, dilation=1, ceil_mode=False) kernels_pool  zeros
    whole_attention(query, key, value, mask=None, grouped=False)     kernels_attention plain zeros
"""


class Primitive(NamedTuple):
    """A row of the table."""

    name: str
    kind: str  # "make", "elementwise", "reduce", "scan", "move", "product", "factor", "index", "sort", "layer"
    parameters: dict[str, str]  # name -> default value as text; "" for a required one
    home: str
    marks: frozenset[str]


def _rows() -> dict[str, Primitive]:
    found, kind = {}, ""
    for line in filter(None, _TABLE.splitlines()):
        if not line.startswith(" "):
            kind = line.partition(":")[0]
            continue
        name, arguments, home, *marks = re.fullmatch(r" +(\w+)\((.*)\) +(\w+) *(.*)", line).groups()  # type: ignore[union-attr]
        parameters = dict(part.partition("=")[::2] for part in arguments.split(", "))
        found[name] = Primitive(name, kind, parameters, home, frozenset(marks[0].split()))
    return found


PRIMITIVES = _rows()


def of_kind(*kinds: str) -> list[str]:
    """Return the names of all primitives of these kinds."""
    return [name for name, one in PRIMITIVES.items() if one.kind in kinds]


def fill(namespace: dict[str, Any], library: Any) -> None:
    """Add every primitive that the namespace does not define; `library` is the array library, NumPy or CuPy."""
    for name, one in PRIMITIVES.items():
        if name not in namespace:
            home = library if one.home == "numpy" else import_module(f"{__package__}.{one.home}")
            namespace[name] = getattr(home, name)
