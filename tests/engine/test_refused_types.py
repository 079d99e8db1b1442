"""Which error invalid calls of linear algebra, indices, reductions, factories and `out=` meet: PyTorch 2.13's types, by its order of checks."""

from __future__ import annotations

import pytest

import engine as T
from engine.linalg import LinAlgError
from grouping import grouped

f, i, b, h, c = (T.ones(2, dtype=d) for d in (T.float32, T.int64, T.bool, T.float16, T.complex64))
s, m, whole, half, batch = T.tensor(1.0), T.ones(2, 2), T.ones(3, 3, dtype=T.int64), T.ones(3, 3, dtype=T.float16), T.ones(2, 3, 3)
g = T.ones(2, requires_grad=True)
zeros, first, places = T.zeros, T.tensor([0]), T.tensor([0, 1])
pivots = T.ones(3, dtype=T.int32)

REFUSED = {
    # LAPACK has no routine for half precision, and for some factors PyTorch looks for one for integers too
    **dict.fromkeys(("T.linalg.inv(half)", "T.linalg.slogdet(half)", "T.linalg.pinv(half)", "T.linalg.matrix_rank(half)"), RuntimeError),
    **dict.fromkeys(
        ("T.linalg.det(half)", "T.linalg.qr(half)", "T.linalg.svd(half)", "T.linalg.eig(half)", "T.linalg.solve(half, half)"),
        NotImplementedError,
    ),
    **dict.fromkeys(
        ("T.linalg.eigh(whole)", "T.linalg.lu_factor(whole)", "T.cholesky(whole)", "T.geqrf(whole)", "T.linalg.lu(half, pivot=False)"),
        NotImplementedError,
    ),
    **dict.fromkeys(
        ("T.linalg.cholesky(whole)", "T.linalg.inv_ex(whole)", "T.linalg.solve_ex(whole, whole)", "T.linalg.ldl_factor(whole)"),
        RuntimeError,
    ),
    "T.linalg.solve_triangular(whole, whole, upper=True)": NotImplementedError,
    "T.linalg.solve_triangular(whole, i[:, None], upper=True)": RuntimeError,  # shapes first
    "T.linalg.svd(T.ones(3, dtype=T.float16))": RuntimeError,
    "T.linalg.lu_solve(whole, pivots, whole)": RuntimeError,
    "T.linalg.lu_solve(batch[0], pivots.long(), batch[0])": RuntimeError,
    "T.linalg.lu_solve(half, pivots, half)": NotImplementedError,
    "T.linalg.householder_product(m, s)": IndexError,
    "T.linalg.householder_product(m, m)": RuntimeError,
    "T.linalg.vander(b)": RuntimeError,
    "T.linalg.vecdot(f, f.double())": RuntimeError,
    "T.linalg.matrix_norm(m, dim=(0,))": RuntimeError,
    "T.linalg.matrix_norm(m, dim=0)": TypeError,
    "T.pinverse(s)": RuntimeError,
    "T.linalg.svd(T.tensor([[1.0, float('nan')]]))": LinAlgError,
    "T.chain_matmul([m, m])": TypeError,
    "T.cartesian_prod([f, f])": TypeError,
    "T.block_diag([f])": TypeError,
    "T.tensordot(s, s, 1, [2])": RuntimeError,
    "T.tensordot(m, m, [-1], [2])": ValueError,
    "T.addbmm(s, s, s)": IndexError,
    "T.baddbmm(f, f, f)": IndexError,
    "T.ones(1, 3, 3).addbmm(batch, batch)": RuntimeError,
    "T.cross(T.ones(3, dtype=T.bool), T.ones(3, dtype=T.bool))": NotImplementedError,
    "T.mv(s, s)": IndexError,
    "T.addmv(s, s, s)": RuntimeError,
    # a tensor is a number if it is 0-d and does not require grad: a gradient would not reach it
    **dict.fromkeys(
        ("T.add(f, f, alpha=g[0])", "T.sub(f, f, alpha=f[:1])", "f.add_(f, alpha=g[0])", "T.addmm(m, m, m, beta=g[0])"), TypeError
    ),
    **dict.fromkeys(("T.addr(m, f, f, alpha=g[0])", "T.addmv(f, m, f, beta=f[:1])", "T.add(f, f, alpha='1')"), TypeError),
    "T.add(i, i, alpha=s)": RuntimeError,
    **dict.fromkeys(("T.full((2,), g[0])", "T.full_like(f, f[:1])", "f.new_full((2,), f[:1])", "T.scalar_tensor(f[:1])"), TypeError),
    **dict.fromkeys(("T.arange(g[0])", "T.arange(f[:1])", "T.arange(0, 3, f[:1])"), TypeError),
    **dict.fromkeys(("T.ones(2).normal_(0.0, g[0])", "T.ones(2).uniform_(f[:1])", "T.ones(2).exponential_('1')"), TypeError),
    "T.ones(2).bernoulli_(2 * s)": RuntimeError,
    # indices: shapes before dtypes, dtypes before the places that they name
    "f.index_add(0, first[None], f[:1].double())": IndexError,
    "f.index_add(0, T.tensor([5]), f[:1].double())": RuntimeError,
    "f.index_add(0, places, s)": IndexError,
    "f.index_copy(0, places, f[:1])": IndexError,
    "f.index_copy(0, places, s.double())": IndexError,
    "f.index_copy(0, places.float(), f)": RuntimeError,
    "f.index_reduce(0, places, f[:1], 'prod')": RuntimeError,
    "f.index_fill(0, places.float(), 1)": IndexError,
    "f.index_fill(0, first[None], 1)": RuntimeError,
    "f.index_put([first, first], f.double())": IndexError,
    "f.clone().index_put_([first, first], f.double())": IndexError,
    "f.take(places.int())": RuntimeError,
    "f.index_select(0, places.to(T.int8))": RuntimeError,
    "m.index_select(1, T.tensor([9]))": RuntimeError,
    "m.index_select(0, T.tensor([9]))": IndexError,
    "f.scatter_reduce(0, places, s, 'amax')": RuntimeError,
    "f.scatter_reduce(5, places, f, 'sum')": IndexError,
    "f.scatter(5, places, 1.0, reduce='no')": IndexError,
    "(lambda x: x.scatter_add_(5, places, x))(f.clone())": IndexError,
    "(lambda x: x.index_copy_(0, places, x))(f.clone())": RuntimeError,
    "(lambda x: x.put_(places, x))(f.clone())": RuntimeError,
    "(lambda x: x.scatter_reduce_(0, places, x, 'sum'))(f.clone())": RuntimeError,
    "T.take_along_dim(f, places.int(), 0)": RuntimeError,
    "T.repeat_interleave(f)": NotImplementedError,
    "T.repeat_interleave(s)": NotImplementedError,
    "f.repeat_interleave(T.ones(3))": RuntimeError,
    "f.repeat_interleave(f)": NotImplementedError,
    "f.repeat_interleave(2, output_size=3)": RuntimeError,
    "f.narrow(4, 0, -1)": RuntimeError,
    "s.unflatten(0, (1,))": RuntimeError,
    "f.unflatten(3, 2)": TypeError,
    "s.diagonal(dim2=-1)": RuntimeError,
    "f.sum_to_size(-1)": RuntimeError,
    "T.broadcast_shapes(-2, 0)": ValueError,
    "T.broadcast_shapes([2, 0], -2)": RuntimeError,
    "T.stack([f, m], 5)": IndexError,
    # what is not for complex numbers says so in its own way, or has no kernel
    **dict.fromkeys(("T.maximum(c, c)", "T.fmin(c, f)", "T.deg2rad(c)", "T.isneginf(c)", "T.heaviside(c, c)"), RuntimeError),
    **dict.fromkeys(("T.lt(c, f)", "T.lerp(i, i, 2)", "T.addcmul(b, b, b)", "T.bitwise_or(f, 0.5)"), NotImplementedError),
    "T.polygamma(f, f)": TypeError,
    "T.histc(i, min=3, max=1)": RuntimeError,
    "T.kthvalue(b, 9)": RuntimeError,
    "T.histogram(i, m)": RuntimeError,
    "T.histogram(i, 3)": NotImplementedError,
    "T.histogramdd(s, 3)": IndexError,
    "T.histogramdd(i, 3)": RuntimeError,
    "T.nanmean(f, dtype=T.int16)": RuntimeError,
    "T.fft.fftshift(s)": RuntimeError,
    "T.stft(f, 4, pad_mode='no')": NotImplementedError,
    "T.stft(T.ones(2, 3, 4), 4, pad_mode='no')": NotImplementedError,
    "T.arange(-1, 2 + 1j)": RuntimeError,
    "T.hann_window(-1)": RuntimeError,
    "T.hann_window(3, dtype=T.complex64)": NotImplementedError,
    "T.ldexp(3, 3)": TypeError,
    "f.clone().float_power_(2)": RuntimeError,
    "f.clone().cumsum_(0, dtype=T.float64)": RuntimeError,
    "T.abs_(2)": TypeError,
    "T.cov([1])": TypeError,
    "m.transpose(0, [])": TypeError,
    "g.sum(dtype=T.int64)": RuntimeError,
    "T.cumsum(g, 0, dtype=T.int64)": RuntimeError,
    "T.linalg.norm(f, dim=[])": RuntimeError,
    "T.linalg.solve(s, s)": RuntimeError,
    "T.scalar_tensor(300, dtype=T.uint8)": RuntimeError,
    "T.gradient(m, spacing=None, dim=[0, 1])": TypeError,
    "T.as_strided_scatter(f, f, (2,), (1, 1))": RuntimeError,
    "T.as_strided_scatter(f, f, (2,), (1,), -2)": RuntimeError,
    "g.index_put_([f], f)": RuntimeError,
    "f.clone().hypot_(2)": TypeError,
    "f.clone().index_add_(0, places, 1)": TypeError,
    "(lambda x: x.scatter_add_(1, T.zeros(0, 2, dtype=T.int64), x))(zeros(0, 2))": RuntimeError,
    # out=
    "T.sum(f, 0, dtype=T.int64, out=zeros(()))": RuntimeError,
    "T.float_power(f, 2, out=zeros(2))": RuntimeError,
    "T.lcm(g, f, out=zeros(2))": NotImplementedError,
    "T.lcm(f, f, out=g)": RuntimeError,
    "T.signbit(c, out=zeros(2))": NotImplementedError,
    "T.histc(i, out=zeros(100))": RuntimeError,
    "T.median(f, out=zeros(2))": TypeError,
    "T.bitwise_or(1, i, out=zeros(2, dtype=T.int64))": TypeError,
    "T.ones_like(f, out=zeros(2))": TypeError,
    "T.bitwise_not(h, out=zeros(2, dtype=T.bool))": RuntimeError,
    "T.linalg.lu_factor(whole, out=(zeros(3, 3), pivots))": RuntimeError,
    "T.bitwise_xor(f, 1, out=zeros(2, dtype=T.int64))": RuntimeError,
}


@grouped("call", REFUSED)
def test_the_error_is_of_pytorchs_type(call):
    with pytest.raises(REFUSED[call]) as caught:
        eval(call, globals())
    assert caught.type is REFUSED[call] and str(caught.value)


def test_matrices_with_infinities_have_no_numbers():
    """LAPACK may not come back from them."""
    x = T.tensor([[-1.578, 0.985, -0.539], [-float("inf"), -0.179, -1.0], [-1.275, -1.42, 2.5]], dtype=T.float64)
    assert T.linalg.pinv(x).isnan().all() and T.linalg.svdvals(T.stack([x, T.eye(3, dtype=T.float64)]))[1].tolist() == [1, 1, 1]


def test_what_has_no_derivative_writes_where_a_gradient_is_required():
    x = T.tensor([2.0, 0.0], requires_grad=True)
    y = x * 2
    assert T.lt(x, 1, out=x) is x and x.tolist() == [0, 1] and x.is_leaf
    assert y.logical_not_().tolist() == [0, 1] and y.requires_grad
    assert T.fft.fftfreq(2, out=T.zeros(2, dtype=T.float64)).dtype is T.float64


def test_old_windows_are_of_any_floating_dtype():
    assert T.hann_window(2, dtype=T.bfloat16).tolist() == [0, 1] and T.kaiser_window(1, dtype=T.complex64).tolist() == [1]
